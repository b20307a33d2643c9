"""The controller: the one that decides about brokers, topics and partitions, and writes the metadata log.

state.py is its surface: events in, decisions out. The modules beside it each decide about one subject and change
nothing; none of them does any input or output, or knows what time it is.
"""
