"""A query whose driver is killed in the middle of a micro-batch: it runs again as it was planned, and no row is lost.

What the tasks do is in `noted_stream`. A sink that fails instead is in test_packed_tasks.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import count, countDistinct
from pyspark.sql.functions import max as largest

import ottla
from ottla.broker import Cluster
from tests.interop import supervise
from tests.interop.waiting import eventually
from tests.spark import noted_stream
from tests.spark.deployment.processes import environment
from tests.spark.noted_stream import Note

PARTITIONS, RECORDS = 12, 10_000
BATCH = 60_000
"""Offsets of a micro-batch: three tasks are worth it."""
MORE_PARTITIONS, MORE_RECORDS = 20, 500
KILLED = 1
"""The batch after one that was committed."""


def test_a_batch_of_a_killed_driver_runs_again_as_it_was_planned(
    spark: SparkSession, kafka: Cluster, tmp_path: Path
) -> None:
    kafka.create_topic("t", PARTITIONS)
    seed(kafka, range(PARTITIONS), RECORDS)
    source = {
        "kafka.bootstrap.servers": kafka.bootstrap,
        "subscribe": "t",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(BATCH),
    }
    run_and_kill(tmp_path, {**source, "targetPartitions": "3"})
    assert (tmp_path / "checkpoint" / "offsets" / str(KILLED)).exists()
    assert {path.name for path in (tmp_path / "checkpoint" / "commits").glob("[0-9]*")} == {"0"}

    with ottla.Client(kafka.bootstrap) as client:
        client.admin.create_partitions("t", MORE_PARTITIONS)
    seed(kafka, range(MORE_PARTITIONS), MORE_RECORDS)
    changed = {"targetPartitions": "2", "minPartitions": "7", "maxRecordsPerPartition": "4000"}
    query = noted_stream.start(spark, tmp_path, "restarted", {**source, **changed})
    assert query.awaitTermination(600), "the query did not end"

    before, again = (noted_stream.notes(tmp_path, run, KILLED) for run in ("killed", "restarted"))
    assert again == {task: planned(task) for task in range(3)}
    assert {task: before[task] for task in (0, 1)} == {task: again[task] for task in (0, 1)}
    assert is_part(before[2], again[2])
    assert noted_stream.notes(tmp_path, "restarted", 0) == {}
    assert len(noted_stream.notes(tmp_path, "restarted", KILLED + 1)) == 7
    check_rows(spark, tmp_path / "rows")


def seed(kafka: Cluster, partitions: range, records: int) -> None:
    for partition in partitions:
        kafka.seed("t", [b"%d" % number for number in range(records)], partition=partition)


def run_and_kill(folder: Path, source: Mapping[str, str]) -> None:
    """Kills driver and executor when two tasks of the batch have ended, and the third has some of its rows."""
    options = [f"{name}={value}" for name, value in source.items()]
    command = [sys.executable, "-m", noted_stream.__name__, str(folder), str(KILLED), "2", *options]
    with (folder / "log").open("wb") as log:
        driver = supervise.Supervised(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment()
        )
        try:
            eventually(
                lambda: driver.poll() is not None or len(noted_stream.notes(folder, "killed", KILLED)) == 3,
                "the notes of three tasks",
                within=600,
            )
            assert driver.poll() is None, (folder / "log").read_text()[-5000:]
            driver.kill()
            driver.wait(60)
        finally:
            driver.close()


def planned(task: int) -> Note:
    """Neighbours go together, and of each the batch has what its predecessor left."""
    first = task * PARTITIONS // 3
    ends = (BATCH // PARTITIONS, 2 * BATCH // PARTITIONS)
    return {partition: [[*ends]] for partition in range(first, first + PARTITIONS // 3)}


def is_part(part: Note, whole: Note) -> bool:
    """Whether all that was read of the partitions is the beginning of what there is, and not all of it."""
    return part != whole and all(
        len(ranges) == 1 and ranges[0][0] == whole[partition][0][0] and ranges[0][1] <= whole[partition][0][1]
        for partition, ranges in part.items()
    )


def check_rows(spark: SparkSession, folder: Path) -> None:
    """Every record once, although the killed driver has left files."""
    rows = spark.read.parquet(str(folder))
    assert len(rows.inputFiles()) < len(list(folder.glob("part-*")))
    found = rows.groupBy("partition").agg(count("offset"), countDistinct("offset"), largest("offset"))
    expected = {number: MORE_RECORDS + RECORDS * (number < PARTITIONS) for number in range(MORE_PARTITIONS)}
    assert sorted(tuple(row) for row in found.collect()) == [
        (number, records, records, records - 1) for number, records in expected.items()
    ]
