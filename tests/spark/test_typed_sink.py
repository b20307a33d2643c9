"""Typed columns out of Spark: what is read as columns goes out as JSON, in every way there is to write.

Which columns make the value is tested in tests/spark/sink/test_typed_value, what JSON looks like in tests/native and
against Spark's own in tests/spark/values.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import ottla.spark
from ottla.broker import Cluster
from tests.interop import nodes
from tests.interop.confluent import committed_values, produce

_WITHIN_S = 600
Read = Callable[[], DataFrame]
pytestmark = pytest.mark.kafka_cluster(topics={"orders": 2, "copies": 2})
ORDERS = [
    b'{"id":1, "customer":"\\u00e9", "at":"2026-05-01T12:00:00Z"}',
    b"not JSON",
    b'{"id":"x"}',
    b'{"id":2}',
]
COPIES = [
    b'{"id":"x"}',
    '{"id":1,"customer":"é","at":"2026-05-01T12:00:00.000Z"}'.encode(),
    b'{"id":2}',
    b"not JSON",
]


@pytest.fixture
def both(kafka: Cluster) -> dict[str, str]:
    """One set of options for the source and the sink."""
    return {
        "kafka.bootstrap.servers": kafka.bootstrap,
        "value.format": "json",
        "value.schema": "id bigint, customer string, at timestamp",
        "value.malformed": "column",
    }


@pytest.fixture
def orders(kafka: Cluster, spark: SparkSession, both: dict[str, str]) -> DataFrame:
    """A stream of typed orders, of which two are malformed."""
    produce(kafka.bootstrap, "orders", ORDERS)
    stream = spark.readStream.format("ottla").options(**both, subscribe="orders", startingOffsets="earliest")
    return stream.load().select("key", "id", "customer", "at", "_malformed")


def run(writer: Any, checkpoint: Path) -> None:
    query = writer.trigger(availableNow=True).option("checkpointLocation", str(checkpoint)).start()
    try:
        assert query.awaitTermination(_WITHIN_S), "the query did not end"
    finally:
        query.stop()


def copies(kafka: Cluster) -> list[bytes]:
    return sorted(committed_values(kafka.bootstrap, "copies"))


def test_a_stream_of_columns_goes_out_as_json_and_malformed_values_as_they_came(
    kafka: Cluster, orders: DataFrame, both: dict[str, str], tmp_path: Path
) -> None:
    writer = orders.writeStream.format("ottla").options(**both, topic="copies")
    run(writer, tmp_path)
    run(writer, tmp_path)
    assert copies(kafka) == sorted(COPIES)


def test_a_stream_of_columns_goes_out_as_avro_framed_for_a_registry(
    kafka: Cluster, orders: DataFrame, tmp_path: Path
) -> None:
    schema = """{"type": "record", "name": "order", "fields": [
        {"name": "id", "type": "long"}, {"name": "customer", "type": ["null", "string"]}]}"""
    options = {"kafka.bootstrap.servers": kafka.bootstrap, "value.format": "avro", "value.schema": schema}
    rows = orders.select("id", "customer", "_malformed")
    run(
        rows.writeStream.format("ottla").options(**options, **{"value.schema.id": "1"}, topic="copies"),
        tmp_path,
    )
    frame = b"\0\0\0\0\1"
    assert copies(kafka) == sorted(
        [frame + b"\x02\x02\x04" + "é".encode(), frame + b"\x04\x00", b"not JSON", b'{"id":"x"}']
    )


def test_columns_go_out_through_a_sink_in_foreach_batch_and_nulls_are_tombstones(
    kafka: Cluster, orders: DataFrame, both: dict[str, str], tmp_path: Path
) -> None:
    sink = ottla.spark.Sink({**both, "topic": "copies"})
    totals = orders.where("_malformed IS NULL").groupBy("customer").count()
    removed = totals.selectExpr(
        "customer AS key", "IF(customer IS NULL, NULL, struct(count, ARRAY(customer) AS of)) AS value"
    )
    run(removed.writeStream.outputMode("update").foreachBatch(sink), tmp_path)
    nodes.wait_until_marked(kafka.bootstrap)
    written = {record.key: record.value for record in kafka.dump("copies") if not record.is_control}
    assert written == {None: None, "é".encode(): '{"count":1,"of":["é"]}'.encode()}


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_columns_go_out_of_a_batch_and_what_cannot_is_refused_on_the_driver(
    kafka: Cluster, spark: SparkSession, delivery: str
) -> None:
    def save(query: str) -> None:
        writer = spark.sql(query).write.format("ottla").option("kafka.bootstrap.servers", kafka.bootstrap)
        options = {"topic": "copies", "value.format": "json", "ottla.delivery": delivery}
        writer.options(**options).mode("append").save()

    with pytest.raises(
        AnalysisException, match=r"took\.of\[\] is of type interval day, .* cast it to string"
    ):
        save("SELECT 1 AS id, struct(array(INTERVAL '1' DAY) AS of) AS took")
    save("SELECT id, double(id) AS half, decimal(id) AS whole, map('a', id) AS map FROM range(2)")
    assert copies(kafka) == [
        b'{"id":0,"half":0.0,"whole":0,"map":{"a":0}}',
        b'{"id":1,"half":1.0,"whole":1,"map":{"a":1}}',
    ]
