"""Writing: `df.write` and `df.writeStream`.

| file | subject |
| --- | --- |
| writers.py | what Spark calls, on the driver and in tasks |
| foreach_batch.py | `Sink`, for foreachBatch |
| columns.py | which columns make a record, and of which types |
| typed_value.py | which columns make its value, where they are encoded |
| row_sender.py | in a task: rows to Kafka, and their receipts |
| recover.py | what a query that is gone has left, for programs |
| sent_rows.py | what the driver gets to know of a task |
| transactional.py | the steps of the exactly-once protocol, as writers call them |
| stable_rows.py | whether tasks have the same rows when a micro-batch runs again |
| query_id.py, task_numbers.py | which query, micro-batch and task this is |
| exactly_once/ | the protocol itself, without Spark |
"""
