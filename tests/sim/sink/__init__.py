"""A trial of the exactly-once sink: its shipped protocol under the nemesis, and Spark as a model of the environment.

| file | subject |
| --- | --- |
| processes.py | processes that may be killed, or stand still, before and after every step |
| jobs.py | the tasks of a batch, in attempts that fail, are given up and live on |
| queries.py | the checkpoint of a stream, its drivers one after the other or at once, and who recovers the sink |
| batch_writes.py | batch writes at once, by names of one pool |
| checks.py | what holds whatever happens |
| settings.py | what is drawn beside the faults |
| trial.py | one run of all of it, from a seed |

It is not in `ottla.sim`, which knows neither Spark nor the sink.
"""
