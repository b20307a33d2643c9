"""Transactions as records of the transaction topic: the state of an id, the shard, the markers, and who asks."""
