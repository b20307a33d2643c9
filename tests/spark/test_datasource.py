"""The source in Spark itself: found without registration, with the columns, rows and refusals that it should have."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrameReader, SparkSession

import ottla
from ottla.broker import Cluster

pytestmark = pytest.mark.kafka_cluster(topics={"orders": 2})


def reader(spark: SparkSession, kafka: Cluster, **options: Any) -> DataFrameReader:
    given = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": "orders", **options}
    return spark.read.format("ottla").options(**given)


def test_all_rows_of_all_partitions_come_without_registration(spark: SparkSession, kafka: Cluster) -> None:
    kafka.seed("orders", [(b"k", b"%d" % number, [("h", b"1")]) for number in range(50)], partition=0)
    kafka.seed("orders", [b"%d" % number for number in range(50, 100)], partition=1)
    frame = reader(spark, kafka, includeHeaders="true").load()
    assert [f"{field.name} {field.dataType.simpleString()}" for field in frame.schema] == [
        "key binary",
        "value binary",
        "topic string",
        "partition int",
        "offset bigint",
        "timestamp timestamp",
        "timestampType int",
        "headers array<struct<key:string,value:binary>>",
    ]
    rows = frame.orderBy("partition", "offset").collect()
    assert [int(row.value) for row in rows] == list(range(100))
    assert [row.offset for row in rows] == [*range(50), *range(50)]
    assert {(row.topic, row.timestampType) for row in rows} == {("orders", 0)}
    assert [(header.key, bytes(header.value)) for header in rows[0].headers] == [("h", b"1")]
    assert rows[99].headers is None
    assert rows[99].key is None
    assert frame.count() == 100


def test_a_narrower_schema_reads_those_columns_only(spark: SparkSession, kafka: Cluster) -> None:
    kafka.seed("orders", [(b"k", b"v")])
    frame = reader(spark, kafka).schema("value binary, partition int").load()
    assert [tuple(row) for row in frame.collect()] == [(b"v", 0)]


def test_a_column_that_does_not_exist_is_refused_with_those_that_do(
    spark: SparkSession, kafka: Cluster
) -> None:
    with pytest.raises(PySparkException, match="column total bigint, but what can be read is: key binary"):
        reader(spark, kafka).schema("total bigint").load().count()


def test_values_come_as_columns(spark: SparkSession, kafka: Cluster) -> None:
    kafka.seed("orders", [b'{"id": 1, "name": "a"}', b"{", b'{"id": 2}'])
    options = {"value.format": "json", "value.schema": "id bigint, name string", "value.malformed": "drop"}
    frame = reader(spark, kafka, **options).load()
    assert [(row.id, row.name, row.offset) for row in frame.collect()] == [(1, "a", 0), (2, None, 2)]


def test_values_of_avro_come_as_columns_of_every_kind(spark: SparkSession, kafka: Cluster) -> None:
    schema = """{"type": "record", "name": "R", "fields": [
        {"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]},
        {"name": "nothing", "type": "null"}, {"name": "u", "type": ["int", "string"]},
        {"name": "m", "type": {"type": "map", "values": "int"}},
        {"name": "nulls", "type": {"type": "array", "items": "null"}},
        {"name": "empty", "type": {"type": "record", "name": "E", "fields": []}}]}"""
    value = b"\0\0\0\0\7" + b"\x02" + b"\x02\x02a" + b"\x02\x02b" + b"\x02\x02k\x04\0" + b"\x04\0"
    kafka.seed("orders", [value, b"\0\0\0\0\x08" + value[5:], value[:-1], value + b"!", (None, None)])
    options = {
        "value.format": "avro",
        "value.schema": schema,
        "value.schema.id": "7",
        "value.malformed": "column",
    }
    frame = reader(spark, kafka, **options).load()
    rows = {row.offset: row for row in frame.collect()}
    assert rows[0][1:8] == (1, "a", None, (None, "b"), {"k": 2}, [None, None], ())
    assert [row["_malformed"] is None for _, row in sorted(rows.items())] == [True, False, False, False, True]
    assert rows[4].id is None
    chosen = reader(spark, kafka, **options).schema("m map<string,int>, offset bigint").load()
    assert sorted(chosen.where("m IS NOT NULL").collect()) == [({"k": 2}, 0)]


def test_a_limit_leaves_the_rest_unread_and_the_worker_usable(spark: SparkSession, kafka: Cluster) -> None:
    kafka.seed("orders", [b"x" * 1000] * 3000)
    frame = reader(spark, kafka, **{"kafka.max.partition.fetch.bytes": "100000"}).load()
    assert len(frame.limit(10).collect()) == 10
    assert frame.count() == 3000


def test_loss_fails_the_query_with_a_text_that_names_the_option(spark: SparkSession, kafka: Cluster) -> None:
    kafka.seed("orders", [b"1"] * 10)
    with ottla.Client(kafka.bootstrap) as client:
        client.admin.delete_records({ottla.TopicPartition("orders", 0): 5})
    start = '{"orders": {"0": 2, "1": 0}}'
    with pytest.raises(PySparkException, match="failOnDataLoss"):
        reader(spark, kafka, startingOffsets=start).load().count()


def test_options_that_are_missing_are_named(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match=r"kafka\.bootstrap\.servers"):
        spark.read.format("ottla").option("subscribe", "orders").load().count()
