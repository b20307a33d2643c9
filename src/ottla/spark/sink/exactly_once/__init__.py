"""The exactly-once sink as a protocol: prepared transactions, one decision, markers. Nothing here knows Spark.

Every task writes its rows in a transaction of its own and leaves it open. When all tasks of a batch are done, the
driver writes one record, the decision, with the list of their transactions; from then on they will be committed, by
this driver or by the next one. Rows and the marker of their batch are one transaction, so that a batch that is run
again finds what it has written.

| file | subject |
| --- | --- |
| names.py | transactional ids, control topic and partitions of a sink |
| values.py | what travels from driver to tasks and back |
| control_records.py | decisions and markers, as bytes |
| control_topic.py | the topic that holds them: made, grown, read from its end |
| driver.py | before the tasks of a batch, and after them |
| task.py | one attempt of a task |
| endings.py | many transactions ended side by side |
| sweep.py | transactions that dead attempts have left open |
| recovery.py | what a query that is gone has left: look, finish, abort, forget |
| leases.py | names for batch writes, from a bounded pool |
| errors.py | what can go wrong, for users |

All of it are coroutines on an `AsyncClient` that has a transactional id: a program that blocks calls them with
`Client.run`, and the simulation runs them as they are.
"""
