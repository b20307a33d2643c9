"""`df.write.format("ottla")`: through Spark, with its own conversions, workers and errors."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import WriterCommitMessage

from ottla.broker import Cluster
from ottla.broker.server.faults import error
from ottla.spark.sink.errors import SinkColumnError
from ottla.spark.sink.sent_rows import Sent, SentRows
from ottla.spark.sink.writers import KafkaBatchWriter
from tests.spark.sinks import numbered, schema_of, sink_options, values

Save = Callable[..., None]


@pytest.fixture
def save(kafka: Cluster) -> Save:
    def save(df: DataFrame, mode: str = "append", **options: str) -> None:
        writer = df.write.format("ottla").option("kafka.bootstrap.servers", kafka.bootstrap).mode(mode)
        writer.options(**options).save()

    return save


def test_strings_and_bytes_are_written_by_all_tasks(kafka: Cluster, spark: SparkSession, save: Save) -> None:
    df = spark.range(0, 1000, numPartitions=3)
    save(
        df.selectExpr("cast(id as string) as key", "cast(cast(id as string) as binary) as value"),
        topic="orders",
    )
    stored = [(record.key, record.value) for record in kafka.dump("orders")]
    assert sorted(stored) == sorted((value, value) for value in numbered(1000))


def test_rows_have_topic_partition_and_headers_of_their_own(
    kafka: Cluster, spark: SparkSession, save: Save
) -> None:
    kafka.create_topic("b", 2)
    schema = "topic string, partition int, value string, headers array<struct<key: string, value: binary>>, more int"
    rows: list[Any] = [
        ("a", None, "1", [("h", b"x"), ("h", None)], 1),
        ("b", 1, "2", None, 2),
        ("a", 0, None, [], 3),
    ]
    save(spark.createDataFrame(rows, schema).coalesce(1))
    assert [(record.value, record.headers) for record in kafka.dump("a")] == [
        (b"1", [("h", b"x"), ("h", None)]),
        (None, []),
    ]
    assert values(kafka, "b", 1) == [b"2"]


def test_rows_have_the_time_of_sending_whatever_their_columns_say(
    kafka: Cluster, spark: SparkSession, save: Save
) -> None:
    save(spark.sql("select 'v' as value, timestamp '2001-01-01' as timestamp"), topic="orders")
    (record,) = kafka.dump("orders")
    assert record.timestamp > 1_700_000_000_000


def test_no_rows_need_no_kafka_at_least_once(spark: SparkSession) -> None:
    empty = spark.range(0).selectExpr("cast(id as string) as value")
    options = {"kafka.bootstrap.servers": "localhost:1", "topic": "t", "ottla.delivery": "at-least-once"}
    empty.write.format("ottla").options(**options).mode("append").save()


@pytest.mark.parametrize(
    ("query", "options", "message"),
    [
        (
            "select 1 as value",
            {"topic": "t"},
            "value attribute unsupported type int. value must be a(n) string",
        ),
        ("select 'k' as key", {"topic": "t"}, "Required attribute 'value' not found"),
        ("select 'v' as value", {}, "topic option required when no 'topic' attribute is present"),
    ],
)
def test_wrong_columns_are_an_error_on_the_driver(
    spark: SparkSession, save: Save, query: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(AnalysisException) as raised:
        save(spark.sql(query), **options)
    assert message in str(raised.value)


def test_overwrite_is_refused(spark: SparkSession, save: Save) -> None:
    with pytest.raises(AnalysisException, match="Save mode Overwrite not allowed for Kafka"):
        save(spark.sql("select 'v' as value"), mode="overwrite", topic="orders")


@pytest.mark.kafka_cluster(topics={"orders": 1})
def test_a_send_that_fails_fails_the_job_with_kafkas_reason(
    kafka: Cluster, spark: SparkSession, save: Save
) -> None:
    kafka.faults.add("Produce", topic="orders", action=error("TOPIC_AUTHORIZATION_FAILED"))
    with pytest.raises(
        Exception, match=r"rows could not be written to topic orders.*TOPIC_AUTHORIZATION_FAILED"
    ):
        save(spark.range(10).selectExpr("cast(id as string) as value"), topic="orders")
    assert values(kafka, "orders") == []


def test_wrong_columns_make_no_writer() -> None:
    with pytest.raises(SinkColumnError):
        KafkaBatchWriter(sink_options("localhost:1", "orders"), schema_of("key"))


def test_the_driver_logs_what_all_tasks_have_written(caplog: pytest.LogCaptureFixture) -> None:
    writer = KafkaBatchWriter(sink_options("localhost:1", "orders"), schema_of("value"))
    messages: list[WriterCommitMessage | None] = [
        SentRows({"a": Sent(2, 20), "b": Sent(1, 10)}),
        SentRows({"a": Sent(3, 30)}),
        None,
    ]
    with caplog.at_level(logging.INFO, "ottla.spark"):
        writer.commit(messages)
        writer.abort(messages)
    assert [record.getMessage() for record in caplog.records] == [
        "wrote 6 rows (60 bytes) to a, b",
        "a job that wrote 6 rows (60 bytes) to a, b has failed; what it wrote stays",
    ]
