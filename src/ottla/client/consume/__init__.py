"""Consuming, in the order of a record's journey.

source          one broker: fetches, with a fetch_session; fetch_answers judges what comes
cursor          one partition: where its next fetch begins, and what is known of it
session         all sources and cursors of a consumer; offset_lookup finds where to begin, assignment what to read
fetched         records of one partition, still as bytes
fetch_queue     from the loop to whoever reads
reader          decodes, and keeps positions; deserialized for keys and values that are no bytes
consumer        what the user holds
"""
