"""Coordinators: the broker that leads a partition of an internal topic decides about the keys in that partition.

internal_topics.py has those topics and the partition of a key, producer_ids.py the ids of idempotent producers. The
coordinators of groups and of transactions come here, each in a package of its own. They share one mechanism: the
state of a key is records of the replicated topic, which a new leader loads before it serves the key.
"""
