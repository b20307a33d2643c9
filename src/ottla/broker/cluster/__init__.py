"""The cluster and its nodes: what starts together, and what a test does to it.

cluster.py is the cluster on a loop, blocking.py the same with a thread of its own, node.py puts a broker together
from its parts and is its life, seeding.py writes and reads records without a client, releases.py plays older
releases of Kafka. This room is on top: no other imports it.
"""
