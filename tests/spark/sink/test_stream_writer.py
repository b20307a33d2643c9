"""`df.writeStream.format("ottla")`: rows, columns and restarts. Exactly once is in test_exactly_once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import WriterCommitMessage

from ottla.broker import Cluster
from ottla.spark.sink.errors import SinkColumnError
from ottla.spark.sink.sent_rows import Sent, SentRows
from ottla.spark.sink.writers import KafkaStreamWriter
from tests.spark.sinks import schema_of, sink_options, values

_WITHIN_S = 600

Run = Callable[..., None]


@pytest.fixture
def lines(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """A stream of the lines of all files in `tmp_path / "in"`."""
    (tmp_path / "in").mkdir()
    return spark.readStream.text(str(tmp_path / "in"))


@pytest.fixture
def run(kafka: Cluster, tmp_path: Path) -> Run:
    """Runs a query on everything that there is, from where the last one ended."""

    def run(df: DataFrame, mode: str = "append", **options: str) -> None:
        writer = df.writeStream.format("ottla").outputMode(mode).trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).options(**options)
        query = writer.option("kafka.bootstrap.servers", kafka.bootstrap).start()
        try:
            assert query.awaitTermination(_WITHIN_S)
        finally:
            query.stop()

    return run


def test_a_restart_goes_on_behind_what_was_written(
    kafka: Cluster, lines: DataFrame, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "in" / "1.txt").write_text("a\nb\n")
    run(lines, topic="lines")
    (tmp_path / "in" / "2.txt").write_text("c\n")
    run(lines, topic="lines")
    run(lines, topic="lines")
    assert values(kafka, "lines") == [b"a", b"b", b"c"]


@pytest.mark.kafka_cluster(config={"auto.create.topics.enable": "false"})
def test_rows_of_a_micro_batch_that_failed_are_written_by_the_next_run(
    kafka: Cluster, lines: DataFrame, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "in" / "1.txt").write_text("a\nb\n")
    with pytest.raises(StreamingQueryException, match="cannot be sent to lines"):
        run(lines, topic="lines")
    kafka.create_topic("lines")
    run(lines, topic="lines")
    assert values(kafka, "lines") == [b"a", b"b"]


def test_rows_name_their_topics_and_keys(kafka: Cluster, lines: DataFrame, run: Run, tmp_path: Path) -> None:
    (tmp_path / "in" / "1.txt").write_text("a\nb\na\n")
    run(lines.selectExpr("concat('of-', value) as topic", "value as key", "value"))
    assert [(record.key, record.value) for record in kafka.dump("of-a")] == [(b"a", b"a"), (b"a", b"a")]
    assert values(kafka, "of-b") == [b"b"]


def test_the_complete_result_may_be_written_again_and_again(
    kafka: Cluster, lines: DataFrame, run: Run, tmp_path: Path
) -> None:
    counts = lines.groupBy("value").count().selectExpr("value as key", "cast(count as string) as value")
    (tmp_path / "in" / "1.txt").write_text("a\na\n")
    run(counts, mode="complete", topic="counts")
    (tmp_path / "in" / "2.txt").write_text("a\n")
    run(counts, mode="complete", topic="counts")
    assert values(kafka, "counts") == [b"2", b"3"]


def test_wrong_columns_end_the_query_before_any_row_is_sent(
    kafka: Cluster, lines: DataFrame, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "in" / "1.txt").write_text("a\n")
    with pytest.raises(StreamingQueryException, match="Required attribute 'value' not found"):
        run(lines.selectExpr("value as key"), topic="lines")
    with pytest.raises(ValueError, match="lines"):
        kafka.dump("lines")


def test_wrong_columns_make_no_writer() -> None:
    with pytest.raises(SinkColumnError):
        KafkaStreamWriter(sink_options("localhost:1", "orders"), schema_of("key"))


def test_the_driver_logs_what_a_micro_batch_has_written(caplog: pytest.LogCaptureFixture) -> None:
    writer = KafkaStreamWriter(sink_options("localhost:1", "orders"), schema_of("value"))
    messages: list[WriterCommitMessage | None] = [SentRows({"orders": Sent(2, 20)}), SentRows({})]
    with caplog.at_level(logging.INFO, "ottla.spark"):
        writer.commit(messages, 7)
        writer.abort(messages, 8)
    assert [record.getMessage() for record in caplog.records] == [
        "micro-batch 7 wrote 2 rows (20 bytes) to orders",
        "micro-batch 8 wrote 2 rows (20 bytes) to orders and has failed; what it wrote stays",
    ]
