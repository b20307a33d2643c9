"""What is in the files of a log directory, of Apache Kafka or of Ottla, read without a broker (`dump`).

command.py has the options and the exit code, files.py knows which kind a file is by its name. A module per kind:
batches.py and segments.py (.log, snapshots of the metadata log), indexes.py (.index, .timeindex), producers.py
(.txnindex, .snapshot), small_files.py (checkpoints, properties). directories.py sums up a log, and a directory of
logs. decoders.py says what the records of Kafka's own topics mean, by the schemas that schemas.py reads. lines.py is
what all of them hand out.

Files are opened for reading only, and no lock is taken: a broker may be writing to them. Memory stays bounded
whatever the bytes of a file say.
"""
