"""`writeStream.format("ottla")` and foreachBatch in Spark: every row once, for readers of committed records.

Drivers and workers that are killed are in tests/spark/crashes; single steps, without Spark, in tests/spark/sink.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import ottla.spark
from ottla.broker import Cluster
from tests.interop.confluent import committed_values

_WITHIN_S = 600
Run = Callable[..., None]
pytestmark = pytest.mark.kafka_cluster(topics={"copies": 2})


@pytest.fixture
def lines(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """A stream of the lines of all files in `tmp_path / "in"`, a task for each file."""
    (tmp_path / "in").mkdir()
    return spark.readStream.text(str(tmp_path / "in"))


@pytest.fixture
def run(kafka: Cluster, tmp_path: Path) -> Run:
    """Runs a query on everything that there is, from where the last one ended."""

    def run(
        df: DataFrame,
        mode: str = "append",
        sink: Callable[[DataFrame, int], None] | None = None,
        **options: Any,
    ) -> None:
        writer = df.writeStream.outputMode(mode).trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        if sink is None:
            writer = writer.format("ottla").option("kafka.bootstrap.servers", kafka.bootstrap)
            writer = writer.option("topic", "copies").options(**options)
        else:
            writer = writer.foreachBatch(sink)
        query = writer.start()
        try:
            assert query.awaitTermination(_WITHIN_S), "the query did not end"
        finally:
            query.stop()

    return run


def written(kafka: Cluster) -> list[bytes]:
    return sorted(committed_values(kafka.bootstrap, "copies"))


def put(folder: Path, name: str, *lines: str) -> None:
    (folder / "in" / name).write_text("".join(f"{line}\n" for line in lines))


def test_a_stream_is_written_once_over_restarts(
    kafka: Cluster, lines: DataFrame, run: Run, tmp_path: Path
) -> None:
    put(tmp_path, "1.txt", "a", "b")
    put(tmp_path, "2.txt", "c")
    run(lines)
    put(tmp_path, "3.txt", "d")
    run(lines)
    assert written(kafka) == [b"a", b"b", b"c", b"d"]


def test_a_batch_that_spark_does_not_know_to_be_committed_is_not_written_again(
    kafka: Cluster, lines: DataFrame, run: Run, tmp_path: Path
) -> None:
    put(tmp_path, "1.txt", "a", "b")
    put(tmp_path, "2.txt", "c")
    run(lines)
    forget_the_last_commit(tmp_path)
    run(lines)
    put(tmp_path, "3.txt", "d")
    run(lines)
    assert written(kafka) == [b"a", b"b", b"c", b"d"]


def test_the_complete_result_of_every_batch_is_written_once(
    kafka: Cluster, lines: DataFrame, run: Run, tmp_path: Path
) -> None:
    counts = lines.groupBy("value").count().selectExpr("concat(value, count) as value")
    put(tmp_path, "1.txt", "a", "a", "b")
    run(counts, mode="complete")
    put(tmp_path, "2.txt", "a")
    run(counts, mode="complete")
    assert written(kafka) == [b"a2", b"a3", b"b1", b"b1"]


def test_changed_totals_are_written_once_by_a_sink_in_foreach_batch(
    kafka: Cluster, lines: DataFrame, run: Run, tmp_path: Path
) -> None:
    totals = lines.groupBy("value").count().selectExpr("concat(value, count) as value")
    put(tmp_path, "1.txt", "a", "a", "b")
    run(totals, mode="update", sink=sink(kafka))
    forget_the_last_commit(tmp_path)
    run(totals, mode="update", sink=sink(kafka))
    put(tmp_path, "2.txt", "a")
    run(totals, mode="update", sink=sink(kafka))
    assert written(kafka) == [b"a2", b"a3", b"b1"]


def test_what_a_function_makes_of_a_batch_is_written_in_two_parts_by_two_sinks(
    kafka: Cluster, lines: DataFrame, run: Run, tmp_path: Path
) -> None:
    one, other = sink(kafka, "one"), sink(kafka, "other")
    put(tmp_path, "1.txt", "a", "b", "a")

    def twice_through_one(batch: DataFrame, batch_id: int) -> None:
        one(batch.where("value = 'a'"), batch_id)
        one(batch.where("value = 'b'"), batch_id)

    def once_through_each(batch: DataFrame, batch_id: int) -> None:
        one(batch.where("value = 'a'"), batch_id)
        other(batch.where("value = 'b'").groupBy("value").count().select("value"), batch_id)

    with pytest.raises(StreamingQueryException, match="already written through the sink one"):
        run(lines, sink=twice_through_one)
    run(lines, sink=once_through_each)
    assert written(kafka) == [b"a", b"a", b"b"]


def test_a_batch_of_no_partitions_at_all_writes_nothing(
    kafka: Cluster, spark: SparkSession, lines: DataFrame, run: Run, tmp_path: Path
) -> None:
    def write_nothing(batch: DataFrame, batch_id: int) -> None:
        sink(kafka)(batch.sparkSession.createDataFrame([], "value string"), batch_id)

    put(tmp_path, "1.txt", "a")
    run(lines, sink=write_nothing)
    assert written(kafka) == []


def test_a_new_query_with_the_sink_id_of_another_is_refused(
    kafka: Cluster, lines: DataFrame, run: Run, tmp_path: Path
) -> None:
    put(tmp_path, "1.txt", "a")
    run(lines, **{"ottla.sink.id": "mine"})
    with pytest.raises(StreamingQueryException, match="sink 'mine' was used by query"):
        run(lines, **{"ottla.sink.id": "mine", "checkpointLocation": str(tmp_path / "another")})
    assert written(kafka) == [b"a"]


def test_speculation_is_refused(
    kafka: Cluster, spark: SparkSession, lines: DataFrame, run: Run, tmp_path: Path
) -> None:
    put(tmp_path, "1.txt", "a")
    # What tasks of a session with this setting are told; it cannot be set in one that runs.
    spark.sparkContext.setLocalProperty("spark.speculation", "true")
    try:
        with pytest.raises(StreamingQueryException, match=r"Set spark\.speculation to false"):
            run(lines)
        run(lines, **{"ottla.delivery": "at-least-once"})
    finally:
        spark.sparkContext.setLocalProperty("spark.speculation", None)  # type: ignore[arg-type]
    assert written(kafka) == [b"a"]


def test_a_query_whose_tasks_have_rows_by_chance_is_refused_in_a_session_that_was_registered(
    kafka: Cluster, spark: SparkSession, lines: DataFrame, run: Run, tmp_path: Path
) -> None:
    put(tmp_path, "1.txt", "a")
    ottla.spark.register(spark)
    by_chance = lines.where("rand() < 2")
    with pytest.raises(StreamingQueryException, match=r"depend on chance: Filter by \(rand\("):
        run(by_chance)
    run(by_chance, **{"ottla.delivery": "at-least-once"})
    assert written(kafka) == [b"a"]


def test_a_batch_that_foreach_batch_draws_by_chance_is_refused(
    kafka: Cluster, lines: DataFrame, run: Run, tmp_path: Path
) -> None:
    put(tmp_path, "1.txt", "a")
    once = sink(kafka)
    with pytest.raises(StreamingQueryException, match="a sample of the rows"):
        run(lines, sink=lambda batch, batch_id: once(batch.sample(0.5), batch_id))
    assert written(kafka) == []


def test_a_query_whose_checkpoint_the_sink_is_not_told_is_asked_for_a_sink_id(
    kafka: Cluster, spark: SparkSession, lines: DataFrame, tmp_path: Path
) -> None:
    put(tmp_path, "1.txt", "a")
    options = {"kafka.bootstrap.servers": kafka.bootstrap, "topic": "copies"}
    name = "spark.sql.streaming.checkpointLocation"
    spark.conf.set(name, str(tmp_path / "checkpoints"))
    try:
        writer = (
            lines.writeStream.format("ottla").options(**options).queryName("told").trigger(availableNow=True)
        )
        with pytest.raises(
            StreamingQueryException, match=r"checkpointLocation as an option.*ottla\.sink\.id"
        ):
            writer.start().awaitTermination(_WITHIN_S)
        assert writer.option("ottla.sink.id", "told").start().awaitTermination(_WITHIN_S)
    finally:
        spark.conf.unset(name)
    assert written(kafka) == [b"a"]


def sink(kafka: Cluster, sink_id: str | None = None) -> ottla.spark.Sink:
    return ottla.spark.Sink(
        {"kafka.bootstrap.servers": kafka.bootstrap, "topic": "copies", "ottla.sink.id": sink_id}
    )


def forget_the_last_commit(folder: Path) -> None:
    """As a crash between the sink's commit and Spark's own log leaves it."""
    commits = folder / "checkpoint" / "commits"
    last = max(int(path.name) for path in commits.glob("[0-9]*"))
    for name in (str(last), f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)
