"""Jobs for a Spark that is more than one process: a program of its own, `python -m tests.spark.deployment.jobs`.

A process has one Spark for its whole life, and in that of the tests it is the fixture's. The last line that is
written holds the outcomes, in JSON; an error of Spark is an outcome too. Functions for workers are defined here, in
`__main__`, and so travel by value: executors know nothing of these tests.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import ottla.spark
from ottla.spark import Pipeline, TopicSink, TopicSource

Outcome = dict[str, object]


def read(spark: SparkSession, bootstrap: str, folder: str) -> Outcome:
    return {"rows": orders(spark, bootstrap).count()}


def register_and_read(spark: SparkSession, bootstrap: str, folder: str) -> Outcome:
    """For a Python that Spark's discovery does not look into, or that lacks the package."""
    ottla.spark.register(spark)
    return read(spark, bootstrap, folder)


def copy(spark: SparkSession, bootstrap: str, folder: str) -> Outcome:
    """Batch and stream, in and out."""
    rows = orders(spark, bootstrap)
    write(rows, bootstrap, "copied")
    stream = spark.readStream.format("ottla").options(**source(bootstrap)).load()
    target = {"kafka.bootstrap.servers": bootstrap, "topic": "streamed", "checkpointLocation": folder}
    query = stream.writeStream.format("ottla").options(**target).trigger(availableNow=True).start()
    query.awaitTermination()
    return {"rows": rows.count()}


def copy_as_kafka(spark: SparkSession, bootstrap: str, folder: str) -> Outcome:
    """A job of the JVM connector, not a word of it changed."""
    ottla.spark.replace_kafka(spark)
    rows = spark.read.format("kafka").options(**source(bootstrap)).load()
    rows.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("topic", "replaced").save()
    return {"rows": rows.count()}


def run_pipeline(spark: SparkSession, bootstrap: str, folder: str) -> Outcome:
    """One sink as a stream, one in update mode; stopped when all is done."""
    pipeline = Pipeline(
        "piping",
        kafka={"bootstrap.servers": bootstrap},
        sources={"orders": TopicSource(topics=("orders",))},
        transform="SELECT value, count(*) AS n FROM orders GROUP BY value",
        sinks={
            "piped": TopicSink(topic="piped", format="bytes", output="update"),
            "counted": TopicSink(topic="counted", columns=("n",), output="complete"),
        },
        checkpoint=folder,
    )
    rows: dict[str, int] = {}
    running = pipeline.start(spark)
    while len(rows) < len(pipeline.sinks) and not running.wait(0.1):
        for batch in running.progress():
            rows[batch.sink] = batch.rows_out
    running.stop()
    return {"rows": rows["piped"]}


def lose_an_executor(spark: SparkSession, bootstrap: str, folder: str) -> Outcome:
    """The first attempt at partition 0 ends in the middle of its rows, with the executor around it."""

    def kill_the_first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            if context.partitionId() == 0 and context.attemptNumber() == 0:
                # A worker is the child of a daemon, which is the child of the executor's JVM.
                with open(f"/proc/{os.getppid()}/stat") as stat:
                    os.kill(int(stat.read().rpartition(")")[2].split()[1]), signal.SIGKILL)
            attempts = pa.array([context.attemptNumber()] * batch.num_rows, pa.int32())
            yield pa.record_batch([batch.column(0), attempts], names=["value", "attempt"])

    rows = orders(spark, bootstrap).select("value").mapInArrow(kill_the_first, "value binary, attempt int")
    found = rows.collect()
    return {
        "values": sorted(row.value.decode() for row in found),
        "attempts": sorted({row.attempt for row in found}),
    }


JOBS: Mapping[str, Callable[[SparkSession, str, str], Outcome]] = {
    job.__name__: job
    for job in (read, register_and_read, copy, copy_as_kafka, run_pipeline, lose_an_executor)
}


def source(bootstrap: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": bootstrap, "subscribe": "orders", "startingOffsets": "earliest"}


def orders(spark: SparkSession, bootstrap: str) -> DataFrame:
    return spark.read.format("ottla").options(**source(bootstrap)).load()


def write(rows: DataFrame, bootstrap: str, topic: str) -> None:
    target = {"kafka.bootstrap.servers": bootstrap, "topic": topic}
    rows.write.format("ottla").options(**target).mode("append").save()


def session(master: str, settings: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder
    if master.startswith("sc://"):
        return builder.remote(master).getOrCreate()
    builder = builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("master")
    parser.add_argument("bootstrap")
    parser.add_argument("folder", help="for checkpoints")
    parser.add_argument("jobs", nargs="+", choices=sorted(JOBS))
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE")
    arguments = parser.parse_args()
    spark = session(arguments.master, dict(setting.split("=", 1) for setting in arguments.conf))
    outcomes: dict[str, Outcome] = {}
    for name in arguments.jobs:
        try:
            outcomes[name] = JOBS[name](spark, arguments.bootstrap, f"{arguments.folder}/{name}")
        except (PySparkException, Py4JJavaError) as error:  # a source that is not found is an error of Java's
            outcomes[name] = {"error": str(error)}
    sys.stdout.write(json.dumps(outcomes) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
