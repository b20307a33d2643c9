"""register(spark) where Spark has found the source by itself; where it has not, see deployment/."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import DataFrame, SparkSession

import ottla.spark
from ottla.broker import Cluster


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
