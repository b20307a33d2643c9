"""A table is read as it is when its tasks run."""

from __future__ import annotations

import pickle

import ottla
from ottla.broker import Cluster
from ottla.spark.options.connector import TABLE, SourceOptions
from ottla.spark.source.table_reader import KafkaTableReader
from tests.spark.reading import source_schema


def reader(kafka: Cluster, **options: str) -> KafkaTableReader:
    given = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": "t", TABLE: "true", **options}
    parsed = SourceOptions.parse(given, streaming=False)
    assert parsed.is_table
    return KafkaTableReader(parsed, source_schema(parsed))


def rows(table: KafkaTableReader, tasks: list[bytes]) -> list[tuple[int, bytes]]:
    """What all tasks read, by partition; each is unpickled anew, as for every micro-batch."""
    batches = [batch for task in tasks for batch in table.read(pickle.loads(task))]
    return sorted(
        (row["partition"], row["value"])
        for batch in batches
        for row in batch.select(["partition", "value"]).to_pylist()
    )


def test_tasks_find_what_has_come_since_they_were_planned_also_in_new_partitions(kafka: Cluster) -> None:
    kafka.create_topic("t", 2)
    kafka.seed("t", [b"a"])
    table = reader(kafka)
    tasks = [pickle.dumps(task) for task in table.partitions()]
    assert rows(table, tasks) == [(0, b"a")]
    kafka.seed("t", [b"b"], partition=1)
    with ottla.Client(kafka.bootstrap) as client:
        client.admin.create_partitions("t", 3)
    kafka.seed("t", [b"c"], partition=2)
    assert rows(table, tasks) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_each_partition_is_read_by_one_of_several_tasks(kafka: Cluster) -> None:
    kafka.create_topic("t", 3)
    for partition in range(3):
        kafka.seed("t", [b"%d" % partition], partition=partition)
    table = reader(kafka, minPartitions="2", targetPartitions="2")
    tasks = [pickle.dumps(task) for task in table.partitions()]
    assert len(tasks) == 2
    assert rows(table, tasks) == [(0, b"0"), (1, b"1"), (2, b"2")]
