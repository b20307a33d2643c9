"""Spark once, for `make test`: a table is written and read back. All other jobs are in `make test-spark`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.broker import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.kafka_cluster(topics={"orders": 2})
def test_a_table_is_written_and_read_back(spark: SparkSession, kafka: Cluster) -> None:
    servers = {"kafka.bootstrap.servers": kafka.bootstrap}
    table = spark.range(0, 20, numPartitions=1).selectExpr(
        "cast(id as string) as key", "cast(id as string) as value"
    )
    table.write.format("ottla").options(**servers, topic="orders").mode("append").save()
    read = spark.read.format("ottla").options(**servers, subscribe="orders").load()
    found = read.selectExpr("cast(value as string)").collect()
    assert sorted(int(row.value) for row in found) == list(range(20))
