"""The jobs, in the words of a user: the same program for each connector, but for its name and its options.

Nothing is measured that the other side does not do as well: a read takes all of Kafka's columns, JSON and Avro give
the same typed columns and no others, a write gets the same rows from `spark.range`, a sum is over the same groups.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.functions import col, count, expr, from_json, lit
from pyspark.sql.functions import sum as total
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

import ottla
from bench.clients.job import DEADLINE, values
from bench.clients.job import Job as Values
from bench.spark_jobs.job import AVRO_SCHEMA, JSON_COLUMNS, ROWS_A_MICRO_BATCH, Job, Measured

_SPACED = "3 seconds"


def run(spark: SparkSession, job: Job) -> Measured:
    if job.case == "stream":
        return _stream(spark, job)
    if job.case == "sink":
        return _stream_of_numbers(spark, job)
    started = time.perf_counter()
    rows, amount = _run(spark, job)
    return Measured(wall=time.perf_counter() - started, rows=rows, total=amount)


def _run(spark: SparkSession, job: Job) -> tuple[int, float]:
    """The rows and the total, where the job is to tell them."""
    if job.case == "write":
        _write(spark, job)
    elif job.case == "count":
        return _read(spark, job).count(), 0.0
    elif job.case in ("count_json", "count_avro"):
        rows = _read_json(spark, job) if job.case == "count_json" else _read_avro(spark, job)
        return rows.where("id >= 0 AND note IS NOT NULL").count(), 0.0
    elif job.case == "sum":
        groups = _read_json(spark, job).groupBy("customer")
        found = groups.agg(count(lit(1)).alias("rows"), total("amount").alias("amount")).collect()
        return sum(group["rows"] for group in found), sum(group["amount"] for group in found)
    else:
        read = {"json": _read_json, "avro": _read_avro}.get(job.case, _read)
        rows = read(spark, job)
        rows.write.format("noop").mode("overwrite").save()
    return 0, 0.0


def _read(spark: SparkSession, job: Job) -> DataFrame:
    return spark.read.format(job.connector).options(**_source(job)).load()


def _read_json(spark: SparkSession, job: Job) -> DataFrame:
    if job.connector == "ottla":
        reader = spark.read.format(job.connector).options(**_source(job))
        return reader.option("value.format", "json").schema(JSON_COLUMNS).load()
    parsed = from_json(col("value").cast("string"), JSON_COLUMNS).alias("parsed")
    return _read(spark, job).select(parsed).select("parsed.*")


def _read_avro(spark: SparkSession, job: Job) -> DataFrame:
    if job.connector == "ottla":
        reader = spark.read.format(job.connector).options(**_source(job)).option("value.format", "avro")
        return reader.option("value.schema", AVRO_SCHEMA).schema(JSON_COLUMNS).load()
    return _read(spark, job).select(from_avro("value", AVRO_SCHEMA).alias("parsed")).select("parsed.*")


def _write(spark: SparkSession, job: Job) -> None:
    value = expr(f"lpad(cast(id AS string), {job.size}, '0')").alias("value")
    rows = spark.range(0, job.rows, 1, job.partitions).select(value)
    rows.write.format(job.connector).options(**_sink(job, job.topic)).mode("append").save()


def _source(job: Job) -> dict[str, str]:
    if job.connector == "in_memory":
        return {"rows": str(job.rows), "tasks": str(job.partitions), "size": str(job.size), **job.options}
    return {"kafka.bootstrap.servers": job.bootstrap, "subscribe": job.topic, **job.options}


def _sink(job: Job, topic: str) -> dict[str, str]:
    if job.connector == "in_memory":
        return {"rows": str(job.rows), **job.options}
    where = {"kafka.bootstrap.servers": job.bootstrap, "topic": topic}
    return {**where, "kafka.compression.type": job.codec, **job.options}


def _stream(spark: SparkSession, job: Job) -> Measured:
    """A few rows, and as soon as they are through, the next few: each time a micro-batch of its own.

    Rows in memory follow one another by themselves.
    """
    passed: list[float] = []
    with tempfile.TemporaryDirectory() as checkpoint, ottla.Client(job.bootstrap) as client:
        _produce(client, job)
        started = time.perf_counter()
        query = _start(spark, job, checkpoint)
        try:
            _wait_until(query, ROWS_A_MICRO_BATCH)
            first = time.perf_counter() - started
            for number in range(2, job.batches + 1):
                _produce(client, job)
                stored = time.perf_counter()
                _wait_until(query, number * ROWS_A_MICRO_BATCH)
                passed.append(time.perf_counter() - stored)
        finally:
            query.stop()
        return Measured(wall=first, batches=_durations(query), passed=passed)


def _start(spark: SparkSession, job: Job, checkpoint: str) -> StreamingQuery:
    source, sink = _source(job), _sink(job, job.sink)
    if job.connector == "in_memory":
        source |= {"rows": str(job.batches * ROWS_A_MICRO_BATCH), "batch": str(ROWS_A_MICRO_BATCH)}
    stream = spark.readStream.format(job.connector).options(**source).option("startingOffsets", "earliest")
    writer = stream.load().select("key", "value").writeStream.format(job.connector).options(**sink)
    return writer.option("checkpointLocation", checkpoint).start()


def _stream_of_numbers(spark: SparkSession, job: Job) -> Measured:
    """Numbers that Spark makes, the same for every connector, and each time a micro-batch begins, the next ones."""
    with tempfile.TemporaryDirectory() as own:
        checkpoint = job.checkpoint or own
        begun = _batches_begun(Path(checkpoint))
        value = expr(f"lpad(cast(value AS string), {job.size}, '0')").alias("value")
        started = time.perf_counter()
        numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", job.rows)
        rows = numbers.option("numPartitions", job.partitions).load().select(value)
        writer = rows.writeStream.format(job.connector).options(**_sink(job, job.sink))
        writer = writer.option("checkpointLocation", checkpoint)
        query = (writer.trigger(processingTime=_SPACED) if job.spaced else writer).start()
        try:
            _wait_for(query, lambda: len(_new(query, begun)) >= 1, "the first micro-batch was")
            first = time.perf_counter() - started
            _wait_for(
                query, lambda: len(_new(query, begun)) >= job.batches, f"{job.batches} micro-batches were"
            )
        finally:
            query.stop()
        return Measured(wall=first, batches=[_duration(each) for each in _new(query, begun)])


def _batches_begun(checkpoint: Path) -> int:
    """How many micro-batches an earlier run has begun, committed or not."""
    return 1 + max((int(path.name) for path in (checkpoint / "offsets").glob("[0-9]*")), default=-1)


def _new(query: StreamingQuery, begun: int) -> list[StreamingQueryProgress]:
    return [each for each in query.recentProgress if each.numInputRows and each.batchId >= begun]


def _produce(client: ottla.Client, job: Job) -> None:
    if job.connector == "in_memory":
        return
    some = values(Values("", job.topic, ROWS_A_MICRO_BATCH, job.size))
    for number in range(ROWS_A_MICRO_BATCH):
        client.produce(job.topic, some[number % len(some)])
    client.flush()


def _wait_until(query: StreamingQuery, rows: int) -> None:
    """Until so many rows have passed: a progress is reported when its micro-batch is committed."""
    _wait_for(
        query,
        lambda: sum(progress.numInputRows for progress in query.recentProgress) >= rows,
        f"{rows} rows were",
    )


def _wait_for(query: StreamingQuery, is_through: Callable[[], bool], what: str) -> None:
    end = time.perf_counter() + DEADLINE
    while not is_through():
        error = query.exception()
        if error is not None:
            raise error
        if time.perf_counter() > end:
            raise TimeoutError(f"{what} not through after {DEADLINE:.0f} s")
        time.sleep(0.005)


def _durations(query: StreamingQuery) -> list[float]:
    return [_duration(progress) for progress in query.recentProgress if progress.numInputRows]


def _duration(progress: StreamingQueryProgress) -> float:
    return progress.durationMs["triggerExecution"] / 1000
