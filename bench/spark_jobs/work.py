"""The jobs, in the words of a user: the same program for each connector, but for its name.

Nothing is measured that the other side does not do as well: a read takes all of Kafka's columns, JSON gives the
same typed columns and no others, a write gets the same rows from `spark.range`.
"""

from __future__ import annotations

import tempfile
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr, from_json
from pyspark.sql.streaming.query import StreamingQuery

import ottla
from bench.clients.job import DEADLINE, values
from bench.clients.job import Job as Values
from bench.spark_jobs.job import JSON_COLUMNS, ROWS_A_MICRO_BATCH, Job, Measured


def run(spark: SparkSession, job: Job) -> Measured:
    if job.case == "stream":
        return _stream(spark, job)
    rows = 0
    started = time.perf_counter()
    if job.case == "write":
        _write(spark, job)
    elif job.case == "count":
        rows = _read(spark, job).count()
    elif job.case == "count_json":
        rows = _read(spark, job).where("id >= 0 AND note IS NOT NULL").count()
    else:
        _read(spark, job).write.format("noop").mode("overwrite").save()
    return Measured(wall=time.perf_counter() - started, rows=rows)


def _read(spark: SparkSession, job: Job) -> DataFrame:
    reader = spark.read.format(job.connector).options(**_where(job), subscribe=job.topic)
    if job.connector == "memory":
        return reader.options(rows=job.rows, partitions=job.partitions, size=job.size).load()
    if job.case not in ("json", "count_json"):
        return reader.load()
    if job.connector == "ottla":
        return reader.option("value.format", "json").schema(JSON_COLUMNS).load()
    parsed = from_json(col("value").cast("string"), JSON_COLUMNS).alias("parsed")
    return reader.load().select(parsed).select("parsed.*")


def _write(spark: SparkSession, job: Job) -> None:
    value = expr(f"lpad(cast(id AS string), {job.size}, '0')").alias("value")
    rows = spark.range(0, job.rows, 1, job.partitions).select(value)
    options = {**_where(job), "topic": job.topic, "kafka.compression.type": job.codec}
    rows.write.format(job.connector).options(**options).mode("append").save()


def _where(job: Job) -> dict[str, str]:
    return {"kafka.bootstrap.servers": job.bootstrap}


def _stream(spark: SparkSession, job: Job) -> Measured:
    """A few rows, and as soon as they are through, the next few: each time a micro-batch of its own."""
    passed: list[float] = []
    with tempfile.TemporaryDirectory() as checkpoint, ottla.Client(job.bootstrap) as client:
        _produce(client, job)
        query = _start(spark, job, checkpoint)
        try:
            first = _time_until(query, ROWS_A_MICRO_BATCH)
            for number in range(2, job.batches + 1):
                _produce(client, job)
                passed.append(_time_until(query, number * ROWS_A_MICRO_BATCH))
        finally:
            query.stop()
        return Measured(wall=first, batches=_durations(query)[1:], passed=passed)


def _start(spark: SparkSession, job: Job, checkpoint: str) -> StreamingQuery:
    where = _where(job)
    source = spark.readStream.format(job.connector).options(**where, subscribe=job.topic)
    rows = source.option("startingOffsets", "earliest").load().select("key", "value")
    sink = rows.writeStream.format(job.connector).options(**where, topic=job.sink)
    return sink.option("checkpointLocation", checkpoint).start()


def _produce(client: ottla.Client, job: Job) -> None:
    some = values(Values("", job.topic, ROWS_A_MICRO_BATCH, job.size))
    for number in range(ROWS_A_MICRO_BATCH):
        client.produce(job.topic, some[number % len(some)])
    client.flush()


def _time_until(query: StreamingQuery, rows: int) -> float:
    """Until so many rows have passed: a progress is reported when its micro-batch is committed."""
    started = time.perf_counter()
    while sum(progress.numInputRows for progress in query.recentProgress) < rows:
        error = query.exception()
        if error is not None:
            raise error
        if time.perf_counter() > started + DEADLINE:
            raise TimeoutError(f"{rows} rows were not through after {DEADLINE:.0f} s")
        time.sleep(0.005)
    return time.perf_counter() - started


def _durations(query: StreamingQuery) -> list[float]:
    filled = (progress for progress in query.recentProgress if progress.numInputRows)
    return [progress.durationMs["triggerExecution"] / 1000 for progress in filled]
