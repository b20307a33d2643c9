"""Producing, in the order of a record's journey.

producer        takes records, and puts the rest together
record_path     interceptors and serializers, where there are any; columns and tables for whole tables
topic           one topic: held until it is known, then its partitions and its partitioner
recbuf          one partition: batches in order, with their sequence numbers
schedule        when there is something to send
sink            one broker: requests out, answers in
answers         what an error code means for a batch
outcomes        what became of batches: receipts, flush, memory
"""
