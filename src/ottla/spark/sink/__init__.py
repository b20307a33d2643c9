"""Writing: `df.write` and `df.writeStream`.

| file | subject |
| --- | --- |
| writers.py | what Spark calls, on the driver and in tasks |
| columns.py | which columns make a record, and of which types |
| row_sender.py | in a task: rows to Kafka, and their receipts |
| recover.py | what a query that is gone has left, for programs |
| sent_rows.py | what the driver gets to know of a task |
"""
