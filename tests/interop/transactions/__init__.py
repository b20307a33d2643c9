"""Transactions, one request at a time, on the embedded cluster and on Apache Kafka: what one answers, the other does.

A scenario is played through plain requests, so that no client corrects or repeats anything. TV1 and TV2 are the
levels of the feature transaction.version (KIP-890).
"""
