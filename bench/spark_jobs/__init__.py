"""The Spark sessions that are measured: each in a process of its own, doing the same jobs with its own connector.

`python -m bench.spark_jobs --master MASTER [--jars PATHS] [--conf NAME=VALUE]` reads jobs from standard input, one
JSON object per line, and reports what each took. A session has either the JVM connector's jars or this connector, as
a job of a user has.
"""
