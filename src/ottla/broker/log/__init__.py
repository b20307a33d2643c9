"""The log of one partition: segments on a volume, and what a leader knows of the producers that write to them.

log.py is the surface; segment.py and index.py are its files, batch.py the header of a batch as numbers, validation.py
and rewrite.py what happens to a batch before it is appended, producers.py, transactions.py and snapshots.py the state
of producers, epochs.py and checkpoints.py small files beside the segments, retention.py what is deleted, recovery.py
how a log is opened, reading.py what a fetch gets of it, flushing.py what of it is on the disk. cleaner.py decides
what is compacted, compaction.py and swap.py do it. log_dir.py has the logs of one directory of a node, fs/ volumes.
"""
