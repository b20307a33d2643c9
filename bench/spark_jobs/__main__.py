"""The process of one session; see the package."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

from bench.spark_jobs import work
from bench.spark_jobs.job import Job
from bench.spark_jobs.memory import InMemory

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # The JVM connector keeps its consumers and what they have fetched for five minutes, of batch jobs in vain: after
    # some reads of 200 partitions with large fetches, 4g were not enough for it. A stream needs them much sooner.
    "spark.driver.memory": "4g",
    "spark.kafka.consumer.cache.timeout": "5s",
    "spark.kafka.consumer.cache.evictorThreadRunInterval": "1s",
    "spark.kafka.consumer.fetchedData.cache.timeout": "5s",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "1s",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
    "spark.log.level": "ERROR",
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.spark_jobs", description=__doc__)
    parser.add_argument("--master", required=True)
    parser.add_argument("--jars", help="of the JVM connector, separated by commas")
    parser.add_argument("--python", help="of Spark's workers, which then find nothing else on their path")
    parser.add_argument(
        "--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark"
    )
    options = parser.parse_args()
    # Spark and its JVM may write to standard output, which is for the results.
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if options.python:
        # Spark's JVM, which starts the workers, gets the environment of this process.
        os.environ |= {"PYSPARK_PYTHON": options.python, "PYTHONPATH": os.getcwd()}
    spark = _session(options.master, options.jars, dict(given.split("=", 1) for given in options.conf))
    spark.dataSource.register(InMemory)
    for line in sys.stdin:
        measured = work.run(spark, Job(**json.loads(line)))
        print(json.dumps(dataclasses.asdict(measured)), file=results, flush=True)
    spark.stop()


def _session(master: str, jars: str | None, settings: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder.master(master).appName("bench")
    for name, value in {**_SETTINGS, **settings}.items():
        builder = builder.config(name, value)
    if jars:
        builder = builder.config("spark.jars", jars)
    return builder.getOrCreate()


if __name__ == "__main__":
    main()
