"""Consuming, in the order of a record's journey.

source              one broker: its loop fetches, with a fetch_session
cursor              one partition: where its next fetch begins, what is known of it, and what a response brought
partition_records   records of one partition, still as bytes
fetch_queue         from the loop to the reader
reader              decodes, and keeps positions; deserialized for keys and values that are no bytes
iterators           what a program iterates over
consumer            what the user holds

session             all sources and cursors of a consumer; offset_lookup finds where to begin, assignment what to read
purging             leaving topics for good
errors              what to do about error codes, and the errors of a consumer
"""
