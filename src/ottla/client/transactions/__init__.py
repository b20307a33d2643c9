"""Transactions: records and offsets that are seen together or not at all (KIP-98, KIP-360, KIP-447, KIP-890).

    machine        the state of the transactional producer: every move of it, without I/O
    error_table    what an error code means, which depends on the request that it answers
    identities     what the sinks see of it: who the producer is, and whether a partition may be sent to
    marker_pause   how long that waits for the markers of the last transaction
    calls          one request to a coordinator, until its outcome is known
    manager        initialize, begin, add, send offsets, end: all of that put together, on the loop
    ending         the end of a transaction: its batches, then EndTxn
    transaction    what a program holds in its hands
    prepared       a transaction as a value, which another process ends
    session        consume, process and produce in one transaction

One client with a transactional id is one transactional producer, with one transaction at a time. Who coordinates it,
and which of the two ways a partition gets into a transaction, is found out: with transaction.version 2 the leader of
the partition tells the coordinator, and the epoch grows with every end; below, the client says it beforehand.

Nothing here knows how batches are made and sent (client/produce), or how a group assigns partitions (client/group).
"""
