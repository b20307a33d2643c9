"""Buffers are let go by topic: only empty ones, all of them or none, and nobody appends to one unnoticed."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ottla._native.accumulator import Accumulator
from ottla._native.record_buffer import BufferRetired
from ottla._native.unknown_topic import UnknownTopicBuffer
from tests.client.partitioners.support import idle
from tests.native.accumulator_support import accumulator
from tests.native.appender_support import all_values_of, appender


def test_a_topic_that_is_forgotten_gets_other_buffers() -> None:
    records = accumulator(1000)
    buffers = [records.buffer("orders", number) for number in range(20)]
    kept = records.buffer("bills", 0)
    assert records.forget("orders")
    assert records.buffers() == [kept]
    assert all(records.buffer("orders", number) is not buffers[number] for number in range(20))
    assert records.buffer("bills", 0) is kept
    assert records.forget("never seen")


def test_the_buffers_that_were_used_last_are_not_found_any_more() -> None:
    records = accumulator(1000)
    topic = "orders"
    for _ in range(3):
        # The same name each time, by which the last ones are known.
        records.append(topic, 0, None, b"1")
        for batch in records.drain(topic, 0, force=True):
            batch.complete(0)
        assert records.forget(topic)
        gc.collect()
    records.append(topic, 0, None, b"2")
    assert all_values_of(records) == [b"2"]


def test_with_records_in_one_buffer_all_of_them_stay() -> None:
    records = accumulator(1000)
    buffers = [records.buffer("orders", number) for number in range(3)]
    buffers[2].append(None, b"1")
    assert not records.forget("orders")
    assert records.buffers() == buffers
    for buffer in buffers:
        buffer.append(None, b"2")
    assert sorted(all_values_of(records)) == [b"1", b"2", b"2", b"2"]


def test_who_appends_to_a_buffer_that_was_let_go_is_told_and_nothing_is_charged() -> None:
    records = accumulator(1000)
    topic = appender(records, load=2)
    buffer = records.buffer("orders", 0)
    # A batch that was opened, and its record taken out.
    buffer.append(None, b"1")
    for batch in buffer.drain(force=True):
        batch.complete(0)
    assert records.forget("orders")
    for partition in (0, 1, None):
        with pytest.raises(BufferRetired):
            topic.append(None, b"2", None, partition)
    with pytest.raises(BufferRetired):
        buffer.append(b"key", b"2")
    assert (records.used_records, records.used_bytes) == (0, 0)


def test_held_records_are_let_go_only_when_there_are_none() -> None:
    records = accumulator(1000)
    held = UnknownTopicBuffer(records, "orders")
    delivery = held.append(None, b"1")
    assert not held.retire()
    held.release(appender(records, load=idle(1)))
    assert delivery.partition == 0
    empty = UnknownTopicBuffer(records, "bills")
    assert empty.retire()
    with pytest.raises(BufferRetired):
        empty.append(None, b"1")


def test_threads_append_while_a_topic_is_forgotten_and_no_record_is_lost() -> None:
    records = Accumulator(batch_size=500, max_bytes=1 << 24)
    ended = threading.Event()
    drained: list[int] = []

    def append() -> int:
        buffer = records.buffer("orders", 0)
        done = 0
        while done < 3000:
            try:
                buffer.append(None, b"%d" % done)
                done += 1
            except BufferRetired:
                buffer = records.buffer("orders", 0)
        return done

    def take() -> None:
        for batch in records.drain("orders", 0, force=True):
            drained.append(batch.count)
            batch.complete(0)

    def forget() -> None:
        while not ended.is_set():
            take()
            records.forget("orders")

    with ThreadPoolExecutor(4) as threads:
        forgetting = threads.submit(forget)
        appended = sum(done.result() for done in [threads.submit(append) for _ in range(3)])
        ended.set()
        forgetting.result()
    take()
    assert sum(drained) == appended == 9000
    assert records.used_records == 0
