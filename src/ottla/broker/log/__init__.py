"""The log of one partition: segments on a volume, and what a leader knows of the producers that write to them.

log.py is the surface; segment.py and index.py are its files, batch.py the header of a batch as numbers, validation.py
and rewrite.py what happens to a batch before it is appended, producers.py, transactions.py and snapshots.py the state
of producers, epochs.py and checkpoints.py small files beside the segments, retention.py what is deleted, recovery.py
how a log is opened, volume.py who has it open, fs.py the file system. Compaction belongs here, too.
"""
