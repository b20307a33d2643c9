"""Which jobs do not move over by one word alone, as the guide lists them: Spark refuses these to sources in Python.

What `replace_kafka` does about them is in test_replace, what moves over is in the tests of readers and writers, and
the same jobs beside the JVM connector are in tests/interop/spark.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException, UnsupportedOperationException

from ottla.broker import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


@pytest.fixture
def servers(kafka: Cluster) -> dict[str, str]:
    kafka.create_topic("orders", 1)
    kafka.create_topic("copies", 1)
    kafka.seed("orders", [b"a", b"b", b"a"])
    return {"kafka.bootstrap.servers": kafka.bootstrap}


def copying(spark: SparkSession, servers: dict[str, str], checkpoint: Path) -> DataStreamWriter:
    source = {**servers, "subscribe": "orders", "startingOffsets": "earliest"}
    sink = {**servers, "topic": "copies", "checkpointLocation": str(checkpoint)}
    orders = spark.readStream.format("ottla").options(**source).load()
    return orders.select("value").writeStream.format("ottla").options(**sink)


def in_sql(options: dict[str, str]) -> str:
    return ", ".join(f"`{name}` {json.dumps(value)}" for name, value in options.items())


@pytest.mark.parametrize("mode", [None, "error", "errorifexists"])
def test_a_batch_without_append_mode_is_refused_with_the_advice_to_append(
    spark: SparkSession, servers: dict[str, str], kafka: Cluster, mode: str | None
) -> None:
    writer = spark.sql("SELECT 'a' AS value").write.format("ottla").options(topic="copies", **servers)
    with pytest.raises(AnalysisException, match='Please use either the "Append"'):
        writer.save(mode=mode)
    assert list(kafka.dump("copies")) == []


def test_a_stream_in_update_mode_is_refused(
    spark: SparkSession, servers: dict[str, str], kafka: Cluster, tmp_path: Path
) -> None:
    query = copying(spark, servers, tmp_path).outputMode("update").trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException, match="does not support Update mode"):
        query.awaitTermination(600)
    assert list(kafka.dump("copies")) == []


def test_continuous_processing_is_refused(
    spark: SparkSession, servers: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedOperationException, match="continuous"):
        copying(spark, servers, tmp_path).trigger(continuous="1 second").start()


def test_a_temporary_view_of_sql_is_read(spark: SparkSession, servers: dict[str, str]) -> None:
    options = in_sql({**servers, "subscribe": "orders"})
    spark.sql(f"CREATE TEMPORARY VIEW orders_in_kafka USING ottla OPTIONS ({options})")
    try:
        rows = spark.sql("SELECT value FROM orders_in_kafka").collect()
        assert [bytes(row.value) for row in rows] == [b"a", b"b", b"a"]
    finally:
        spark.sql("DROP VIEW orders_in_kafka")


def test_a_table_of_sql_is_not_read_as_spark_keeps_its_options_to_itself(
    spark: SparkSession, servers: dict[str, str]
) -> None:
    options = in_sql({**servers, "subscribe": "orders"})
    spark.sql(f"CREATE TABLE orders_table USING ottla OPTIONS ({options})")
    try:
        with pytest.raises(AnalysisException, match="subscribe, subscribePattern, assign"):
            spark.sql("SELECT * FROM orders_table").collect()
    finally:
        spark.sql("DROP TABLE orders_table")
