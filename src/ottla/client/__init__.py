"""The client: what produces and consumes, in the order of a record's journey.

So far it holds the first stop of a record that is produced: the choice of its partition (partitioners).
"""
