"""The replicas of a node: what each may serve as leader or follower, and the requests that wait for them.

replica_manager.py has the replicas of a node and everything that changes them, partition.py the rules of one replica,
delayed.py the requests that wait for partitions, routing.py where clients are sent instead. In-sync replicas and the
high watermark over them belong into partition.py; fetchers, which pull from leaders, into a module beside it.
"""
