"""Reading: `spark.read` and `spark.readStream`.

| file | subject |
| --- | --- |
| batch_reader.py, stream_reader.py | what Spark calls, on the driver and in tasks |
| offset_reader.py | offsets of a query, as brokers know them |
| partition_discovery.py | which partitions there are of a query's topics |
| micro_batches.py | how much one micro-batch takes, and its ranges |
| ranges.py | OffsetRange, and how large ranges are cut |
| packing.py | Split: which ranges each task reads |
| checkpoint.py | offsets as Spark stores them |
| data_loss.py | `failOnDataLoss`: what counts as lost, and what the user reads of it |
| schema.py | Kafka's columns, and the schema that a user gives |
| range_reader.py | in a task: its ranges to Arrow batches |
| arrow_batches.py | in a task: records to Arrow with Spark's schema |
"""
