"""Streams as Spark runs them: crashes, checkpoints, limits and new partitions, through the real engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import ottla
from ottla.broker import Cluster

Batches = dict[int, list[tuple[int, int]]]
"""Partition and offset of each row, by batch."""


class Sink:
    """Keeps what it gets; before a batch that is to fail, raises."""

    def __init__(self, fails_in: int | None = None) -> None:
        self.batches: Batches = {}
        self._fails_in = fails_in

    def __call__(self, frame: DataFrame, batch: int) -> None:
        if batch == self._fails_in:
            raise RuntimeError("the sink is down")
        rows = frame.select("partition", "offset").collect()
        self.batches[batch] = sorted((row.partition, row.offset) for row in rows)

    @property
    def rows(self) -> list[tuple[int, int]]:
        return sorted(row for rows in self.batches.values() for row in rows)


StartQuery = Callable[..., StreamingQuery]


@pytest.fixture
def start(spark: SparkSession, kafka: Cluster, tmp_path: Path) -> StartQuery:
    """Starts a query on topic t, with the checkpoint of this test."""

    def start(sink: Sink, trigger: dict[str, Any] | None = None, **options: str) -> StreamingQuery:
        given = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": "t", **options}
        frame = spark.readStream.format("ottla").options(**given).load()
        writer = frame.writeStream.foreachBatch(sink).option(
            "checkpointLocation", str(tmp_path / "checkpoint")
        )
        return writer.trigger(**(trigger or {"availableNow": True})).start()

    return start


def _finish(query: StreamingQuery) -> None:
    assert query.awaitTermination(600), "the query did not end"


def test_a_crash_in_the_first_batch_loses_nothing(kafka: Cluster, start: StartQuery) -> None:
    kafka.create_topic("t", 1)
    kafka.seed("t", [b"before"])
    query = start(Sink(fails_in=0))
    with pytest.raises(StreamingQueryException, match="the sink is down"):
        _finish(query)
    kafka.seed("t", [b"1", b"2"])
    sink = Sink()
    _finish(start(sink))
    # The default start is "latest": what came after the first start is read, although nothing was ever finished.
    assert sink.rows == [(0, 1), (0, 2)]


def test_a_restarted_query_goes_on_where_it_was_and_reads_nothing_twice(
    kafka: Cluster, start: StartQuery
) -> None:
    kafka.create_topic("t", 2)
    kafka.seed("t", [b"0"] * 6)
    kafka.seed("t", [b"0"] * 2, partition=1)
    failing, sink = Sink(fails_in=1), Sink()
    query = start(failing, startingOffsets="earliest", maxOffsetsPerTrigger="4")
    with pytest.raises(StreamingQueryException, match="the sink is down"):
        _finish(query)
    _finish(start(sink, startingOffsets="earliest", maxOffsetsPerTrigger="4"))
    assert failing.batches == {0: [(0, 0), (0, 1), (0, 2), (1, 0)]}
    assert sink.batches == {1: [(0, 3), (0, 4), (0, 5), (1, 1)]}


def test_a_checkpoint_of_the_jvm_connector_is_taken_over(
    kafka: Cluster, start: StartQuery, tmp_path: Path
) -> None:
    kafka.create_topic("t", 2)
    kafka.seed("t", [b"0"] * 6)
    _finish(start(Sink(), startingOffsets="earliest"))
    _as_the_jvm_connector_writes(tmp_path / "checkpoint", {0: '{"t":{"0":4,"1":0}}'})
    sink = Sink()
    _finish(start(sink, startingOffsets="earliest"))
    assert sink.rows == [(0, 4), (0, 5)]


def test_a_first_batch_that_the_jvm_connector_left_unfinished_is_read_from_its_start(
    kafka: Cluster, start: StartQuery, tmp_path: Path
) -> None:
    kafka.create_topic("t", 1)
    kafka.seed("t", [b"0"] * 6)
    query = start(Sink(fails_in=0), startingOffsets="earliest")
    with pytest.raises(StreamingQueryException, match="the sink is down"):
        _finish(query)
    _as_the_jvm_connector_writes(tmp_path / "checkpoint", {0: '{"t":{"0":4}}'})
    unknown = start(Sink())
    with pytest.raises(StreamingQueryException, match="sources/0/0"):
        _finish(unknown)
    sink = Sink()
    _finish(start(sink, startingOffsets='{"t":{"0":1}}'))
    assert sink.batches == {0: [(0, 1), (0, 2), (0, 3)], 1: [(0, 4), (0, 5)]}


def _as_the_jvm_connector_writes(checkpoint: Path, offsets: dict[int, str]) -> None:
    for batch, offset in offsets.items():
        path = checkpoint / "offsets" / str(batch)
        version, metadata, *_ = path.read_text().splitlines()
        path.write_text("\n".join([version, metadata, offset]))
        (path.parent / f".{batch}.crc").unlink(missing_ok=True)


def test_available_now_reads_in_limited_batches_to_the_end(kafka: Cluster, start: StartQuery) -> None:
    kafka.create_topic("t", 2)
    kafka.seed("t", [b"0"] * 30)
    kafka.seed("t", [b"0"] * 10, partition=1)
    sink = Sink()
    query = start(sink, startingOffsets="earliest", maxOffsetsPerTrigger="20")
    _finish(query)
    assert {batch: len(rows) for batch, rows in sink.batches.items()} == {0: 20, 1: 20}
    assert sink.rows == [(0, at) for at in range(30)] + [(1, at) for at in range(10)]
    latest = json.loads(query.recentProgress[0]["sources"][0]["latestOffset"])
    assert latest == {"t": {"0": 30, "1": 10}}


def test_once_reads_everything_in_one_batch(kafka: Cluster, start: StartQuery) -> None:
    kafka.create_topic("t", 1)
    kafka.seed("t", [b"0"] * 30)
    sink = Sink()
    _finish(start(sink, {"once": True}, startingOffsets="earliest", maxOffsetsPerTrigger="20"))
    assert {batch: len(rows) for batch, rows in sink.batches.items()} == {0: 30}


def test_partitions_that_are_added_while_a_query_runs_are_read_from_their_first_record(
    kafka: Cluster, start: StartQuery
) -> None:
    kafka.create_topic("t", 1)
    kafka.seed("t", [b"0"] * 3)
    sink = Sink()
    query = start(sink, {"processingTime": "0 seconds"}, startingOffsets="earliest")
    try:
        query.processAllAvailable()
        assert sink.rows == [(0, 0), (0, 1), (0, 2)]
        with ottla.Client(kafka.bootstrap) as client:
            client.admin.create_partitions("t", 2)
        kafka.seed("t", [b"0"], partition=1)
        _until(query, sink, (1, 0))
        # A response of Kafka after the call, not a remembered one: nothing that was there is left out.
        kafka.seed("t", [b"0"])
        query.processAllAvailable()
        assert sink.rows == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]
    finally:
        query.stop()


def _until(query: StreamingQuery, sink: Sink, row: tuple[int, int]) -> None:
    """New partitions are looked for twice a second."""
    for _ in range(1000):
        query.processAllAvailable()
        if row in sink.rows:
            return
    raise AssertionError(f"{row} was not read")
