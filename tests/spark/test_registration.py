"""register(spark) where Spark has found the source by itself; where it has not, see deployment/."""

from __future__ import annotations

from pyspark.sql import SparkSession

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
