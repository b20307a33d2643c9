"""Several partitions in one task, as Spark runs it: how many tasks, all rows, and order within a partition."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import monotonically_increasing_id, spark_partition_id

import ottla
from ottla.broker import Cluster

PARTITIONS, RECORDS = 64, 1000

Tasks = list[list[tuple[int, int]]]
"""For each task, partition and offset of its rows in the order in which it has read them."""


@pytest.fixture
def source(kafka: Cluster) -> dict[str, str]:
    kafka.create_topic("t", PARTITIONS)
    for partition in range(PARTITIONS):
        kafka.seed("t", [b"%d" % number for number in range(RECORDS)], partition=partition)
    return {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": "t"}


def tasks_of(frame: DataFrame) -> Tasks:
    numbered = frame.select(
        spark_partition_id().alias("task"), monotonically_increasing_id().alias("row"), "partition", "offset"
    )
    tasks: dict[int, list[tuple[int, int]]] = {}
    for row in sorted(numbered.collect(), key=lambda row: row.row):
        tasks.setdefault(row.task, []).append((row.partition, row.offset))
    return [tasks[task] for task in sorted(tasks)]


def check_order(tasks: Tasks) -> None:
    """Every record once; and a task has the records of a partition in their order."""
    rows = [row for task in tasks for row in task]
    assert sorted(rows) == [(partition, at) for partition in range(PARTITIONS) for at in range(RECORDS)]
    for task in tasks:
        for partition in {partition for partition, _ in task}:
            offsets = [offset for each, offset in task if each == partition]
            assert offsets == sorted(offsets)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"targetPartitions": "3"}, 3),
        ({"targetPartitions": "1"}, 1),
        ({"targetPartitions": "1", "minPartitions": "5"}, 5),
        ({"targetPartitions": "1", "maxRecordsPerPartition": "4000"}, 16),
        ({"targetPartitions": "off"}, PARTITIONS),
    ],
)
def test_many_partitions_are_read_in_few_tasks(
    spark: SparkSession, source: dict[str, str], options: dict[str, str], expected: int
) -> None:
    tasks = tasks_of(spark.read.format("ottla").options(**source, **options).load())
    assert len(tasks) == expected
    check_order(tasks)
    assert max(map(len, tasks)) <= PARTITIONS * RECORDS / expected + RECORDS


class Sink:
    """Keeps the tasks of each batch; a batch that is to fail raises when it has been read."""

    def __init__(self, fails_in: int | None = None) -> None:
        self.batches: dict[int, Tasks] = {}
        self._fails_in = fails_in

    def __call__(self, frame: DataFrame, batch: int) -> None:
        self.batches[batch] = tasks_of(frame)
        if batch == self._fails_in:
            raise RuntimeError("the sink is down")


Run = Callable[..., None]


@pytest.fixture
def run(spark: SparkSession, source: dict[str, str], tmp_path: Path) -> Run:
    """Runs a query to its end, with the checkpoint of this test."""

    def run(sink: Sink, **options: str) -> None:
        given: dict[str, Any] = {**source, "startingOffsets": "earliest", **options}
        writer = spark.readStream.format("ottla").options(**given).load().writeStream.foreachBatch(sink)
        checkpoint = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        assert checkpoint.trigger(availableNow=True).start().awaitTermination(600), "the query did not end"

    return run


def test_a_batch_that_runs_again_has_the_same_tasks_whatever_has_changed(kafka: Cluster, run: Run) -> None:
    before, after = Sink(fails_in=0), Sink()
    with pytest.raises(StreamingQueryException, match="the sink is down"):
        run(before, targetPartitions="3")
    assert len(before.batches[0]) == 3
    check_order(before.batches[0])
    with ottla.Client(kafka.bootstrap) as client:
        client.admin.create_partitions("t", PARTITIONS + 6)
    kafka.seed("t", [b"new"] * 10, partition=PARTITIONS)
    run(after, targetPartitions="2", minPartitions="9", maxRecordsPerPartition="700")
    assert after.batches[0] == before.batches[0]
    assert sorted(row for task in after.batches[1] for row in task) == [
        (PARTITIONS, offset) for offset in range(10)
    ]


def test_a_checkpoint_goes_from_packing_to_none_and_back(kafka: Cluster, run: Run, tmp_path: Path) -> None:
    def stored(batch: int) -> dict[str, Any]:
        lines = (tmp_path / "checkpoint" / "offsets" / str(batch)).read_text().splitlines()
        offset: dict[str, Any] = json.loads(lines[-1])
        return offset

    sinks = []
    for batch, target in enumerate(("3", "off", "2")):
        sinks.append(Sink())
        run(sinks[-1], targetPartitions=target)
        assert (":plan" in stored(batch)) == (target != "off")
        for partition in range(4):
            kafka.seed("t", [b"more"] * 5, partition=partition)
    assert [len(sink.batches[number]) for number, sink in enumerate(sinks)] == [3, 4, 1]
    assert stored(1) == {
        "t": {str(number): RECORDS + (5 if number < 4 else 0) for number in range(PARTITIONS)}
    }
