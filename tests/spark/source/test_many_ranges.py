"""A task with many ranges: each is read whole, once and in order, whatever becomes of the others."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow as pa
import pytest

import ottla
from ottla.broker import Cluster, TopicSpec, delay
from ottla.client.topic_partition import TopicPartition
from ottla.errors import ApiTimeoutError, CorruptBatchError, DataLossError
from ottla.spark.options.connector import SourceOptions
from ottla.spark.source import range_reader
from ottla.spark.source.range_reader import read_ranges
from ottla.spark.source.ranges import OffsetRange
from ottla.spark.source.schema import SourceColumns
from ottla.wire.batches import ControlType, PlainRecord, encode_batch
from tests.broker.log.support import append_marker
from tests.spark.reading import TOPIC, append, damage, options, source_schema

PARTITIONS, RECORDS = 20, 50

pytestmark = pytest.mark.kafka_cluster(topics={TOPIC: PARTITIONS})

Read = dict[tuple[str, int], list[int]]
"""Offsets, in the order in which they came, by topic and partition."""


@pytest.fixture(autouse=True)
def looks_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_reader, "_LOOK_AFTER", 0.1)


def seed(kafka: Cluster, topic: str = TOPIC, size: int = 10, partitions: int = PARTITIONS) -> None:
    for partition in range(partitions):
        kafka.seed(topic, [b"%d " % partition + b"x" * size] * RECORDS, partition=partition)


def whole(topic: str = TOPIC, partitions: int = PARTITIONS) -> list[OffsetRange]:
    return [OffsetRange(topic, partition, 0, RECORDS) for partition in range(partitions)]


def batches(ranges: list[OffsetRange], parsed: SourceOptions) -> Iterator[pa.RecordBatch]:
    return read_ranges(ranges, parsed, SourceColumns.of(source_schema(parsed), parsed))


def read(found: Iterator[pa.RecordBatch] | list[pa.RecordBatch]) -> Read:
    seen: Read = {}
    for batch in found:
        for row in batch.select(["topic", "partition", "offset"]).to_pylist():
            seen.setdefault((row["topic"], row["partition"]), []).append(row["offset"])
    return seen


def all_of(ranges: list[OffsetRange]) -> Read:
    return {(one.topic, one.partition): list(range(one.start, one.end)) for one in ranges}


def delete_before(kafka: Cluster, before: dict[int, int]) -> None:
    with ottla.Client(kafka.bootstrap) as client:
        client.admin.delete_records({TopicPartition(TOPIC, each): at for each, at in before.items()})


def test_ranges_of_many_partitions_come_in_one_batch_from_few_requests(kafka: Cluster) -> None:
    seed(kafka)
    ranges = [OffsetRange(TOPIC, partition, partition, 30 + partition) for partition in range(PARTITIONS)]
    fetches = kafka.faults.add(api="Fetch", when="response", action=delay(0.0))
    lookups = kafka.faults.add(api="ListOffsets", when="response", action=delay(0.0))
    (batch,) = batches(ranges, options(kafka))
    assert read([batch]) == all_of(ranges)
    # One for all partitions, and one that ends the broker's fetch session.
    assert fetches.hits <= 3
    assert lookups.hits == 0


def test_batches_are_put_together_up_to_their_bounds(kafka: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    seed(kafka)
    monkeypatch.setattr(range_reader, "MOST_ROWS", 120)
    found = list(batches(whole(), options(kafka)))
    assert [batch.num_rows for batch in found] == [100] * (PARTITIONS * RECORDS // 100)
    assert read(found) == all_of(whole())


@pytest.mark.kafka_cluster(topics={TOPIC: PARTITIONS}, brokers=3)
def test_leaders_that_move_in_the_middle_change_nothing(
    kafka: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed(kafka, size=20_000)
    monkeypatch.setattr(range_reader, "MOST_ROWS", RECORDS)
    reading = batches(whole(), options(kafka, kafka_fetch_max_bytes="1000000"))
    found = [next(reading)]
    for partition in range(PARTITIONS):
        kafka.move_leader(TOPIC, partition, kafka.leader(TOPIC, partition) % 3 + 1)
    found.extend(reading)
    assert read(found) == all_of(whole())


# Loss


def test_records_deleted_from_one_partition_are_an_error_that_names_it(kafka: Cluster) -> None:
    seed(kafka)
    delete_before(kafka, {7: 20})
    with pytest.raises(DataLossError, match=r"offsets 0 to 50 of orders-7.*20 to 50.*failOnDataLoss"):
        list(batches(whole(), options(kafka)))


def test_records_deleted_from_one_partition_leave_the_others_whole(
    kafka: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    seed(kafka)
    delete_before(kafka, {7: 20})
    with caplog.at_level(logging.WARNING, "ottla.spark"):
        found = read(batches(whole(), options(kafka, failOnDataLoss="false")))
    assert found == {**all_of(whole()), (TOPIC, 7): list(range(20, RECORDS))}
    assert "orders-7" in caplog.text
    assert "orders-6" not in caplog.text


def test_records_deleted_from_all_partitions_take_one_look_at_their_logs(kafka: Cluster) -> None:
    seed(kafka)
    delete_before(kafka, dict.fromkeys(range(PARTITIONS), 20))
    lookups = kafka.faults.add(api="ListOffsets", when="response", action=delay(0.0))
    found = read(batches(whole(), options(kafka, failOnDataLoss="false")))
    assert found == {(TOPIC, partition): list(range(20, RECORDS)) for partition in range(PARTITIONS)}
    # Two of the task, and those with which the consumer explains itself.
    assert lookups.hits <= 6


def test_ranges_that_go_beyond_their_logs_end_with_them(kafka: Cluster) -> None:
    seed(kafka)
    ranges = [
        OffsetRange(TOPIC, partition, 0, RECORDS + 5 * (partition % 2)) for partition in range(PARTITIONS)
    ]
    with pytest.raises(DataLossError, match=r"orders-1: cannot read from offset 50 on"):
        list(batches(ranges, options(kafka)))
    assert read(batches(ranges, options(kafka, failOnDataLoss="false"))) == all_of(whole())


def test_a_partition_that_its_topic_does_not_have_leaves_the_others_whole(kafka: Cluster) -> None:
    seed(kafka)
    ranges = [*whole(), OffsetRange(TOPIC, PARTITIONS, 0, 10)]
    with pytest.raises(DataLossError, match=f"orders-{PARTITIONS}: cannot read"):
        list(batches(ranges, options(kafka)))
    assert read(batches(ranges, options(kafka, failOnDataLoss="false"))) == all_of(whole())


@pytest.mark.kafka_cluster(topics={TOPIC: 4, "short": 2})
def test_a_topic_that_is_deleted_in_the_middle_leaves_the_others_whole(
    kafka: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_reader, "MOST_ROWS", RECORDS)
    ranges = [*whole(partitions=4), *whole("short", partitions=2)]
    seed(kafka, partitions=4, size=20_000)
    seed(kafka, "short", partitions=2, size=20_000)
    slow = options(kafka, failOnDataLoss="false", kafka_fetch_max_bytes="100000")
    reading = batches(ranges, slow)
    found = [next(reading)]
    kafka.delete_topic("short")
    found.extend(reading)
    seen = read(found)
    assert {tp: offsets for tp, offsets in seen.items() if tp[0] == TOPIC} == all_of(whole(partitions=4))
    for partition in range(2):
        offsets = seen.get(("short", partition), [])
        assert offsets == list(range(len(offsets))), "what came of it is its beginning, once"


@pytest.mark.kafka_cluster(topics={TOPIC: 4})
def test_of_a_topic_that_is_created_anew_in_the_middle_nothing_is_taken_for_the_old_one(
    kafka: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_reader, "MOST_ROWS", RECORDS)
    seed(kafka, partitions=4, size=20_000)
    parsed = options(kafka, failOnDataLoss="false", kafka_fetch_max_bytes="100000")
    reading = batches(whole(partitions=4), parsed)
    found = [next(reading)]
    kafka.delete_topic(TOPIC)
    kafka.create_topic(TOPIC, 4)
    for partition in range(4):
        kafka.seed(TOPIC, [b"new"] * RECORDS, partition=partition)
    found.extend(reading)
    values = pa.Table.from_batches(found).column("value").to_pylist()
    assert b"new" not in values


# Other faults


@pytest.mark.kafka_cluster(topics={TOPIC: TopicSpec(partitions=3)})
def test_an_open_transaction_in_one_partition_does_not_hold_back_the_others(kafka: Cluster) -> None:
    record: PlainRecord = (0, 0, None, b"held back", [])
    append(
        kafka, encode_batch([record], transactional=True, producer_id=7, producer_epoch=0, base_sequence=0)
    )
    for partition in (1, 2):
        kafka.seed(TOPIC, [b"1"] * RECORDS, partition=partition)
    ranges = [OffsetRange(TOPIC, 0, 0, 1), *whole(partitions=3)[1:]]
    committed = options(kafka, kafka_isolation_level="read_committed")
    reading = batches(ranges, committed)
    assert read([next(reading)]) == all_of(ranges[1:])
    kafka.call(lambda: append_marker(kafka._cluster.partition(TOPIC).log, ControlType.COMMIT, 7))
    kafka.call(lambda: kafka._cluster.partition(TOPIC).commit(0))
    kafka.seed(TOPIC, [b"behind the marker, so that it is seen"])
    assert read(reading) == {(TOPIC, 0): [0]}


@pytest.mark.kafka_cluster(topics={TOPIC: TopicSpec(partitions=3)})
def test_silence_is_an_error_that_names_a_range_that_was_not_read(kafka: Cluster) -> None:
    record: PlainRecord = (0, 0, None, b"held back", [])
    append(
        kafka, encode_batch([record], transactional=True, producer_id=7, producer_epoch=0, base_sequence=0)
    )
    for partition in (1, 2):
        kafka.seed(TOPIC, [b"1"] * RECORDS, partition=partition)
    ranges = [OffsetRange(TOPIC, 0, 0, 1), *whole(partitions=3)[1:]]
    quick = {"kafka_isolation_level": "read_committed", "kafkaConsumer.pollTimeoutMs": "300"}
    with pytest.raises(ApiTimeoutError, match=r"0 to 1 of orders-0.*open transaction.*pollTimeoutMs"):
        list(batches(ranges, options(kafka, **quick)))


def test_a_damaged_batch_is_an_error_that_says_where_it_lies(kafka: Cluster) -> None:
    seed(kafka)
    damage(kafka, 0)
    with pytest.raises(CorruptBatchError, match=r"orders, partition 0.*offset 0.*startingOffsets"):
        list(batches(whole(), options(kafka)))
