"""The whole of Ottla on one machine: `make demo`, or `python -m demo`.

Orders flow into a cluster of three brokers; two pipelines of Spark enrich and sum them, exactly once, while a worker
of Spark and a broker are killed; in the end another project's client counts what went in and what came out.

| | what it is | with |
| --- | --- | --- |
| cluster.py | a process: the brokers | ottla.broker.Cluster |
| producer.py | a process: places the orders | ottla.Client |
| job.py | a process: runs the pipelines, and kills a worker when it is told | ottla.spark.Pipeline |
| enrich.toml, revenue.toml | the pipelines | |
| worker_kill.py, spark_tasks.py | the end of a worker in a task, and what Spark says of its tasks | /proc |
| `__main__`.py | the demo's own process: starts the others, and goes through the phases | |
| children.py | processes, and what they say | |
| conductor.py | what is killed, and when | |
| frame.py | all that is known at one moment | |
| revenue.py | reads the revenue, for the screen | ottla.Client |
| screen.py, view.py | show a frame: on a terminal, and in lines | rich |
| check.py | the proof | confluent-kafka |
| orders.py | the shop | |
"""
