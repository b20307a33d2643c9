"""One topic, many threads: nothing is lost, and what a thread sends to a partition stays in its order."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from ottla._native.appender import TopicAppender
from ottla._native.deliveries import Delivery
from ottla._native.unknown_topic import UnknownTopicBuffer
from ottla.client.partitioners import Load, TopicPartitioner
from tests.client.partitioners.support import idle
from tests.native.accumulator_support import accumulator
from tests.native.appender_support import appender, partitioner_of, values_of
from tests.native.test_accumulator_threads import run

THREADS = 6
PER_THREAD = 2000


@pytest.fixture(autouse=True)
def switching_often() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def assert_all_in_order(found: list[bytes]) -> None:
    """Of one partition, thread by thread."""
    by_thread: dict[bytes, list[int]] = {}
    for value in found:
        name, _, number = value.partition(b":")
        by_thread.setdefault(name, []).append(int(number))
    for numbers in by_thread.values():
        assert numbers == sorted(numbers)


@pytest.mark.parametrize("option", ["default", "hash", "round_robin", "least_backup"])
@pytest.mark.parametrize("key", [None, b"key"])
def test_no_record_is_lost_or_overtaken(option: Any, key: bytes | None) -> None:
    records = accumulator(500)
    topic = appender(records, partitioner_of(option, batch_size=500), load=7)

    def work(name: int) -> None:
        for number in range(PER_THREAD):
            topic.append(key, b"%d:%d" % (name, number))

    run(*(partial(work, name) for name in range(THREADS)))
    found = values_of(records)
    for values in found.values():
        assert_all_in_order(values)
    assert sorted(value for values in found.values() for value in values) == sorted(
        b"%d:%d" % (name, number) for name in range(THREADS) for number in range(PER_THREAD)
    )


def test_a_partitioner_is_never_asked_by_two_at_once() -> None:
    class Exclusive(TopicPartitioner):
        inside = 0

        def choose(self, key: bytes | None, value: bytes | None, size: int, load: Load) -> int:
            self.inside += 1
            assert self.inside == 1
            partition = sum(range(20)) % load.partitions  # long enough for another thread to come
            self.inside -= 1
            return partition

        def on_new_batch(self, partition: int) -> bool:
            assert self.inside == 0
            return True

    topic = appender(partitioner=Exclusive())
    run(*[lambda: [topic.append(None, b"v" * 200) for _ in range(500)]] * 4)


def test_news_of_the_topic_may_come_at_any_time() -> None:
    records = accumulator(500)
    topic = appender(records, partitioner_of("default", batch_size=500), load=8)

    def work() -> None:
        for number in range(PER_THREAD):
            topic.append(b"%d" % number if number % 2 else None, b"v")

    def tell() -> None:
        for number in range(300):
            topic.update(idle(8 + number % 9))

    run(work, work, tell)
    assert sum(map(len, values_of(records).values())) == 2 * PER_THREAD


def test_records_that_were_held_come_before_those_that_were_not() -> None:
    for _ in range(20):
        records = accumulator(500)
        held = UnknownTopicBuffer(records, "orders")
        topic: TopicAppender = appender(records, load=1)
        receipts: list[Delivery] = []

        def work(name: int, held: UnknownTopicBuffer = held, receipts: list[Delivery] = receipts) -> None:
            receipts.extend([held.append(None, b"%d:%d" % (name, number)) for number in range(100)])

        run(partial(work, 0), partial(work, 1), partial(held.release, topic))
        assert not any(receipt.done() for receipt in receipts)
        found = values_of(records)
        assert_all_in_order(found[0])
        assert len(found[0]) == 200
        assert all(receipt.done() and receipt.partition == 0 for receipt in receipts)
        assert records.used_records == records.used_bytes == 0


def test_everyone_who_asks_about_a_held_record_is_told_once() -> None:
    for _ in range(20):
        records = accumulator(500)
        held = UnknownTopicBuffer(records, "orders")
        topic = appender(records, load=3)
        receipts = [held.append(None, b"%d" % number) for number in range(50)]
        told: list[Delivery] = []

        def ask(receipts: list[Delivery] = receipts, told: list[Delivery] = told) -> None:
            for receipt in receipts:
                receipt.add_done_callback(told.append)

        def move(
            held: UnknownTopicBuffer = held, topic: TopicAppender = topic, records: Any = records
        ) -> None:
            held.release(topic)
            values_of(records)

        run(ask, ask, move)
        assert len(told) == 100
