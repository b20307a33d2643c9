"""register(spark) where Spark has found the source by itself; where it has not, see deployment/."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import DataFrame, SparkSession

import ottla.spark
from ottla.broker import Cluster
from ottla.spark.source import packing


def test_registering_what_was_found_is_harmless_also_twice(spark: SparkSession, kafka: Cluster) -> None:
    kafka.create_topic("orders")
    kafka.seed("orders", [b"2 apples"])
    for _ in range(2):
        ottla.spark.register(spark)
    source = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": "orders"}
    assert [row.value for row in spark.read.format("ottla").options(**source).load().collect()] == [
        b"2 apples"
    ]


def test_a_thread_that_has_registered_may_write_batches(spark: SparkSession, kafka: Cluster) -> None:
    kafka.create_topic("orders")
    rows = spark.createDataFrame([("2 apples",)], "value string")

    def save(rows: DataFrame) -> None:
        ottla.spark.register(spark)
        sink = {"kafka.bootstrap.servers": kafka.bootstrap, "topic": "orders"}
        rows.write.format("ottla").options(**sink).mode("append").save()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(save, rows).result()
    assert [record.value for record in kafka.dump("orders")] == [b"2 apples"]


@pytest.fixture
def rows(kafka: Cluster) -> dict[str, str]:
    """As many in each of six partitions as are enough for a task."""
    kafka.create_topic("orders", 6)
    for partition in range(6):
        kafka.seed("orders", [b""] * packing.LEAST_OFFSETS, partition=partition)
    return {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": "orders"}


def test_a_session_that_was_registered_has_as_many_tasks_as_it_runs_at_a_time(
    spark: SparkSession, rows: dict[str, str]
) -> None:
    ottla.spark.register(spark)
    assert spark.sparkContext.defaultParallelism == 2

    def count(session: SparkSession, **options: str) -> int:
        reader = session.read.option("targetPartitions", "4") if options else session.read
        return reader.format("ottla").options(**rows).load().rdd.getNumPartitions()

    assert count(spark) == 2
    assert count(spark, targetPartitions="4") == 4, "also if the option was given before the format"
    assert count(spark.newSession()) == 6, "another session has the default, which is more than there are"
