"""A program of Spark that is killed: it copies files into a topic, and is started again with the same checkpoint.

    python -m tests.spark.crashes.program JOB MASTER BOOTSTRAP FOLDER [--tasks N] [--option NAME=VALUE]...

Lines of the files in FOLDER/in are the rows; each file is a task, unless the program is told how many. It ends when
everything that is there is written. The job `batch_write` has no checkpoint: every run of it writes all rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

import ottla.spark

TOPIC = "copies"
_CONF = {
    # It lives for seconds: what the second compiler would make faster never pays for it.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "512m",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "WARN",
}

Options = Mapping[str, str]


def append(rows: DataFrame, folder: str, options: Options) -> None:
    _stream(rows, folder, options, "append")


def complete(rows: DataFrame, folder: str, options: Options) -> None:
    _stream(_counts(rows), folder, options, "complete")


def update(rows: DataFrame, folder: str, options: Options) -> None:
    """In foreachBatch, as Spark refuses update mode to sinks in Python."""
    writer = _counts(rows).writeStream.outputMode("update").foreachBatch(ottla.spark.Sink(options))
    _finish(writer.option("checkpointLocation", f"{folder}/checkpoint"))


def for_each_batch(rows: DataFrame, folder: str, options: Options) -> None:
    writer = rows.writeStream.foreachBatch(ottla.spark.Sink(options))
    _finish(writer.option("checkpointLocation", f"{folder}/checkpoint"))


def retried(rows: DataFrame, folder: str, options: Options) -> None:
    """The first attempt of every task fails behind its last row."""

    def fail_once(batches: Iterator[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        yield from batches
        if context is not None and context.attemptNumber() == 0:
            raise RuntimeError("the first attempt fails")

    _stream(rows.mapInArrow(fail_once, "value string"), folder, options, "append")


def batch_write(rows: DataFrame, folder: str, options: Options) -> None:
    rows.write.format("ottla").options(**options).mode("append").save()


JOBS: Mapping[str, Callable[[DataFrame, str, Options], None]] = {
    job.__name__: job for job in (append, complete, update, for_each_batch, retried, batch_write)
}


def _counts(rows: DataFrame) -> DataFrame:
    return rows.groupBy("value").count().selectExpr("concat(value, '=', count) as value")


def _stream(rows: DataFrame, folder: str, options: Options, mode: str) -> None:
    writer = rows.writeStream.format("ottla").options(**options).outputMode(mode)
    _finish(writer.option("checkpointLocation", f"{folder}/checkpoint"))


def _finish(writer: Any) -> None:
    writer.trigger(availableNow=True).start().awaitTermination()


def session(master: str) -> SparkSession:
    builder = SparkSession.builder.master(master)
    for name, value in _CONF.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("job", choices=sorted(JOBS))
    parser.add_argument("master")
    parser.add_argument("bootstrap")
    parser.add_argument("folder")
    parser.add_argument("--tasks", type=int)
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE")
    arguments = parser.parse_args()
    spark = session(arguments.master)
    if arguments.job == batch_write.__name__:
        rows = spark.read.text(f"{arguments.folder}/in")
    else:
        rows = spark.readStream.option("maxFilesPerTrigger", "2").text(f"{arguments.folder}/in")
    if arguments.tasks is not None:
        rows = rows.repartition(arguments.tasks, "value")
    options = {"kafka.bootstrap.servers": arguments.bootstrap, "topic": TOPIC}
    options |= dict(option.split("=", 1) for option in arguments.option)
    JOBS[arguments.job](rows, arguments.folder, options)


if __name__ == "__main__":
    main()
