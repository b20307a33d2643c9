"""The way of a record into the buffers of its topic: the native way is that of the partitioner, only quicker."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla._native.accumulator import Accumulator
from ottla._native.appender import TopicAppender
from ottla._native.record_buffer import BufferFull
from ottla.client.partitioners import DefaultPartitioner, Load, TopicPartitioner, murmur2_partition
from ottla.errors import NoSuchPartitionError
from tests.client.partitioners.support import FixedLoad, idle
from tests.native.accumulator_support import accumulator
from tests.native.appender_support import (
    BATCH_SIZE,
    Asked,
    all_values_of,
    appender,
    partitioner_of,
    until_full,
    values_of,
)
from tests.native.encode_support import NOW

NATIVE = [
    "default",
    "hash",
    "least_backup",
    DefaultPartitioner(ignore_keys=True),
    DefaultPartitioner(adaptive=False),
]
sizes = st.lists(st.tuples(st.none() | st.binary(max_size=3), st.integers(0, 1500)), max_size=150)


@pytest.mark.parametrize("option", NATIVE, ids=repr)
@settings(deadline=None, max_examples=40)
@given(rows=sizes, sends=st.sets(st.integers(0, 149)), seed=st.integers(0, 9))
def test_natively_records_go_where_the_partitioner_sends_them(
    option: Any, rows: list[tuple[bytes | None, int]], sends: set[int], seed: int
) -> None:
    ways: list[list[int]] = []
    for partitioner in (partitioner_of(option, seed), Asked(partitioner_of(option, seed))):
        records = accumulator(BATCH_SIZE)
        topic = appender(records, partitioner)
        ways.append([])
        for number, (key, size) in enumerate(rows):
            partition = topic.append(key, b"v" * size).partition
            ways[-1].append(partition)
            if number in sends:
                records.drain("orders", partition, force=True)
    assert ways[0] == ways[1]


def test_a_key_goes_where_kafkas_own_client_sends_it() -> None:
    topic = appender(load=17)
    for number in range(200):
        key = b"key %d" % number
        for given_key in (key, bytearray(key), memoryview(key)):
            assert topic.append(given_key, b"v").partition == murmur2_partition(key, 17)
    assert topic.append(b"", b"v").partition == murmur2_partition(b"", 17)


def test_records_without_a_key_stay_together_batch_by_batch() -> None:
    records = accumulator(BATCH_SIZE)
    topic = appender(records, partitioner_of(DefaultPartitioner(adaptive=False)), load=1000)
    for _ in range(500):
        topic.append(None, b"v" * 90)
    batches = [buffer.full_batches + (buffer.opened_at is not None) for buffer in records.buffers()]
    assert sum(batches) == -(-500 // ((BATCH_SIZE - 61) // (90 + 9)))


def test_a_record_goes_to_the_partition_it_names_and_nobody_is_asked() -> None:
    asked = Asked(partitioner_of("manual"))
    topic = appender(partitioner=asked)
    assert [topic.append(b"k", b"v", None, number).partition for number in (0, 9, 3)] == [0, 9, 3]
    assert (asked.chosen, asked.new_batches) == ([], [])


@pytest.mark.parametrize("partition", [-1, 10, 2**31, 2**70])
def test_a_partition_that_is_not_known_is_refused(partition: int) -> None:
    with pytest.raises(NoSuchPartitionError, match=f"no partition {partition} of topic 'orders', .* 0 to 9"):
        appender().append(None, b"v", None, partition)
    assert issubclass(NoSuchPartitionError, ValueError)


def test_a_partition_is_an_int() -> None:
    with pytest.raises(TypeError, match="partition must be an int or None, not str"):
        appender().append(None, b"v", None, "3")  # type: ignore[arg-type]


def test_headers_and_timestamps_come_along() -> None:
    records = accumulator(BATCH_SIZE)
    delivery = appender(records).append(b"k", b"v", [("h", b"1")], 4, NOW + 5)
    assert (delivery.topic, delivery.partition, delivery.timestamp) == ("orders", 4, NOW + 5)
    (batch,) = records.drain("orders", 4, force=True)
    assert batch.base_timestamp == NOW + 5


def test_a_partitioner_in_python_is_given_bytes_and_their_size_in_the_batch() -> None:
    asked = Asked(partitioner_of("round_robin"))
    records = accumulator(BATCH_SIZE)
    appender(records, asked).append(bytearray(b"key"), memoryview(b"value"), {"h": b"1"})
    ((key, value, size, partition),) = asked.chosen
    assert (type(key), key, type(value), value) == (bytes, b"key", bytes, b"value")
    (batch,) = records.drain("orders", partition, force=True)
    assert size == batch.raw_size - 61


def test_a_record_that_would_open_a_batch_is_offered_twice_and_never_again() -> None:
    asked = Asked(partitioner_of("hash"))
    topic = appender(partitioner=asked)
    first = topic.append(None, b"v")
    assert [again for _, again in asked.new_batches] == [True]
    assert len(asked.chosen) == 2
    assert first.partition == asked.chosen[1][3] != asked.chosen[0][3]
    assert topic.append(None, b"v").partition == first.partition
    assert (len(asked.chosen), len(asked.new_batches)) == (3, 1)


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (10, NoSuchPartitionError, "no partition 10"),
        (-1, NoSuchPartitionError, "no partition -1"),
        ("1", TypeError, "not str"),
    ],
)
def test_a_partitioner_that_answers_nonsense_is_told_so(
    answer: Any, error: type[Exception], message: str
) -> None:
    class Nonsense(TopicPartitioner):
        def choose(self, key: bytes | None, value: bytes | None, size: int, load: Load) -> int:
            return answer  # type: ignore[no-any-return]

    records = accumulator(BATCH_SIZE)
    with pytest.raises(error, match=message):
        appender(records, Nonsense()).append(None, b"v")
    assert records.records == records.used_records == 0


def test_what_a_partitioner_raises_is_raised_and_the_next_record_is_taken() -> None:
    records = accumulator(BATCH_SIZE)
    topic = appender(records, partitioner_of(lambda topic, key, value, partitions: 7 // len(value or b"")))
    with pytest.raises(ZeroDivisionError):
        topic.append(None, b"")
    assert topic.append(None, b"seven77").partition == 1


def test_a_partitioner_that_overrides_a_native_one_is_asked() -> None:
    native = type(partitioner_of("hash"))

    class Elsewhere(native):  # type: ignore[valid-type, misc]
        __slots__ = ()

        def choose(self, key: bytes | None, value: bytes | None, size: int, load: Load) -> int:
            return 5

    topic = appender(partitioner=Elsewhere(partitioner_of("hash").sticky))  # type: ignore[attr-defined]
    assert {topic.append(key, b"v").partition for key in (None, b"a", b"b")} == {5}


def test_a_partitioner_may_append_itself() -> None:
    def twice(topic: str, key: bytes | None, value: bytes | None, partitions: int) -> int:
        if key is None:
            orders.append(b"copy", value)
            return 0
        return 1

    records = accumulator(BATCH_SIZE)
    orders: TopicAppender = appender(records, partitioner_of(twice))
    orders.append(None, b"v")
    assert values_of(records) == {1: [b"v"], 0: [b"v"]}


def test_leaders_that_change_are_heard_of_with_the_next_update() -> None:
    load = idle(10)
    topic = appender(load=load)
    first = topic.append(None, b"v").partition
    others = tuple(number for number in range(10) if number != first)
    topic.update(FixedLoad(10, others))
    assert topic.append(None, b"v").partition in others


def test_partitions_that_are_added_are_used() -> None:
    topic = appender(load=1)
    assert topic.append(b"key", b"v", None, 0).partition == 0
    topic.update(idle(30))
    assert topic.partitions == 30
    assert topic.append(b"key", b"v").partition == murmur2_partition(b"key", 30)
    assert topic.append(None, b"v", None, 29).partition == 29


def test_a_topic_that_has_become_smaller_has_no_records_beyond() -> None:
    topic = appender(load=30)
    for number in range(30):
        topic.append(None, b"v", None, number)
    topic.update(idle(2))
    assert {topic.append(None, b"v" * 500).partition for _ in range(50)} == {0, 1}
    assert {topic.append(b"%d" % number, b"v").partition for number in range(50)} == {0, 1}


def test_a_topic_has_partitions() -> None:
    with pytest.raises(ValueError, match="topic 'orders' must have at least one partition, not 0"):
        appender(load=FixedLoad(0))


def test_a_record_that_is_too_large_ends_no_run() -> None:
    records = Accumulator(batch_size=BATCH_SIZE, max_bytes=2**20, max_record_size=2000)
    topic = appender(records, partitioner_of("hash"), load=1000)
    first = topic.append(None, b"v").partition
    with pytest.raises(ValueError, match="more than max_request_size="):
        topic.append(None, b"v" * 5000)
    assert topic.append(None, b"v").partition == first


def test_without_room_nothing_is_appended_and_later_it_is() -> None:
    records = Accumulator(batch_size=200, max_bytes=600)
    topic = appender(records, partitioner_of("default", batch_size=200), load=2)
    count = until_full(lambda: topic.append(None, b"v" * 60))
    with pytest.raises(BufferFull, match="bytes are in use"):
        topic.append(None, b"v" * 60)
    assert records.records == count > 0
    assert len(all_values_of(records)) == count
    topic.append(None, b"last")
    assert all_values_of(records) == [b"last"]


def test_a_topic_that_becomes_smaller_while_a_choice_is_made_does_not_disturb_it() -> None:
    class Shrinking(TopicPartitioner):
        def choose(self, key: bytes | None, value: bytes | None, size: int, load: Load) -> int:
            topic.update(idle(8))
            return load.partitions - 1

        def on_new_batch(self, partition: int) -> bool:
            return False

    records = accumulator(500)
    topic = appender(records, Shrinking(), load=16)
    topic.append(None, b"1")
    topic.append(None, b"2")
    assert values_of(records) == {15: [b"1"], 7: [b"2"]}
