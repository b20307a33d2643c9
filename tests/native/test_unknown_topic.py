"""Records of a topic that is not known yet: held, and then released into their partitions or given up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla._native.accumulator import Accumulator
from ottla._native.deliveries import Delivery
from ottla._native.record_buffer import BufferFull
from ottla._native.unknown_topic import UnknownTopicBuffer
from ottla.client.partitioners import murmur2_partition
from ottla.errors import NoSuchPartitionError
from tests.native.accumulator_support import accumulator, sealed
from tests.native.appender_support import all_values_of, appender, partitioner_of, until_full, values_of
from tests.native.encode_support import NOW, decoded


def test_records_are_released_in_order_with_all_that_they_have() -> None:
    records = accumulator()
    held = UnknownTopicBuffer(records, "orders")
    held.append(b"key", b"1", [("h", b"x"), ("n", None)], 2, NOW + 5)
    held.append(None, b"2", None, 2)
    held.append(b"key", None, {}, 2)
    assert held.release(appender(records)) == (0, None)
    (batch,) = sealed(records.drain("orders", 2, force=True))
    first, second, third = decoded(batch).records
    assert (first.key, first.value, first.headers) == (b"key", b"1", (("h", b"x"), ("n", None)))
    assert (first.timestamp, second.timestamp) == (NOW + 5, NOW)
    assert (second.key, second.value, second.headers) == (None, b"2", ())
    assert (third.key, third.value) == (b"key", None)


def test_receipts_lead_to_where_the_records_are_then() -> None:
    records = accumulator(300)
    held = UnknownTopicBuffer(records, "orders")
    receipts = [held.append(b"key %d" % number, b"v" * 50) for number in range(40)]
    assert {receipt.partition for receipt in receipts} == {-1}
    assert repr(receipts[0]) == "<Delivery to orders: under way>"
    held.release(appender(records))
    expected = [murmur2_partition(b"key %d" % number, 10) for number in range(40)]
    assert [receipt.partition for receipt in receipts] == expected
    assert not any(receipt.done() for receipt in receipts)
    for buffer in records.buffers():
        offset = 0
        for batch in buffer.drain(force=True):
            batch.complete(offset)
            offset += batch.count
    assert all(receipt.done() for receipt in receipts)
    for partition in set(expected):
        offsets = [receipt.offset for receipt in receipts if receipt.partition == partition]
        assert offsets == list(range(len(offsets)))


def test_the_time_of_a_record_is_when_it_was_held() -> None:
    ticks = iter([5, 7, 9])
    records = accumulator(clock=lambda: next(ticks))
    held = UnknownTopicBuffer(records, "orders")
    receipts = [held.append(None, b"v"), held.append(None, b"v")]
    held.release(appender(records))
    assert [receipt.timestamp for receipt in receipts] == [5, 7]


def test_what_the_caller_changes_later_is_not_sent() -> None:
    records = accumulator()
    held = UnknownTopicBuffer(records, "orders")
    key, value, header = bytearray(b"key"), bytearray(b"value"), bytearray(b"header")
    held.append(key, value, [("h", header)], 0)
    key[:], value[:], header[:] = b"yek", b"eulav", b"redaeh"
    held.release(appender(records))
    (batch,) = sealed(records.drain("orders", 0, force=True))
    (record,) = decoded(batch).records
    assert (record.key, record.value, record.headers) == (b"key", b"value", (("h", b"header"),))


def test_who_asked_about_a_held_record_is_told_in_order() -> None:
    records = accumulator()
    held = UnknownTopicBuffer(records, "orders")
    first, second = held.append(None, b"1", None, 4), held.append(None, b"2", None, 4)
    told: list[tuple[str, int]] = []
    second.add_done_callback(lambda done: told.append(("a", done.offset)))
    first.add_done_callback(lambda done: told.append(("b", done.offset)))
    held.release(appender(records))
    second.add_done_callback(lambda done: told.append(("c", done.offset)))
    (batch,) = records.drain("orders", 4, force=True)
    assert told == []
    batch.complete(10)
    assert told == [("a", 11), ("b", 10), ("c", 11)]


def test_a_held_record_can_be_awaited_before_and_after_its_release() -> None:
    async def main() -> None:
        records = accumulator()
        held = UnknownTopicBuffer(records, "orders")
        receipts = [held.append(None, b"v", None, 0) for _ in range(2)]
        tasks = [asyncio.ensure_future(wait(receipts[0]))]
        await asyncio.sleep(0)
        held.release(appender(records))
        tasks.append(asyncio.ensure_future(wait(receipts[1])))
        await asyncio.sleep(0)
        records.drain("orders", 0, force=True)[0].complete(7)
        assert [await task for task in tasks] == receipts
        assert [receipt.offset for receipt in receipts] == [7, 8]

    async def wait(delivery: Delivery) -> Delivery:
        return await delivery

    asyncio.run(main())


def test_who_waits_for_a_held_record_urges_its_topic_and_then_its_partition() -> None:
    urged: list[tuple[str, int]] = []
    records = accumulator(
        unlinger=lambda topic, partition: urged.append((topic, partition)),
        wait=lambda delivery, timeout: None,
    )
    held = UnknownTopicBuffer(records, "orders")
    receipt = held.append(None, b"v", None, 6)
    with pytest.raises(TimeoutError, match="the record for orders was not delivered"):
        receipt.result(0)
    assert urged == [("orders", -1)]
    held.release(appender(records))
    assert urged == [("orders", -1), ("orders", 6)]


def test_nobody_is_urged_while_nobody_waits() -> None:
    urged: list[int] = []
    records = accumulator(unlinger=lambda topic, partition: urged.append(partition))
    held = UnknownTopicBuffer(records, "orders")
    held.append(None, b"v")
    held.release(appender(records))
    assert urged == []


def test_a_record_that_cannot_be_placed_fails_alone() -> None:
    records = accumulator(300)

    def partitioner(topic: str, key: bytes | None, value: bytes | None, partitions: int) -> int:
        return int(value or b"0")

    held = UnknownTopicBuffer(records, "orders")
    receipts = [held.append(None, value) for value in (b"1", b"2", b"none", b"1", b"99")]
    named = held.append(None, b"3", None, 10)
    told: list[BaseException | None] = []
    receipts[2].add_done_callback(lambda done: told.append(done.error))
    failed, first = held.release(appender(records, partitioner_of(partitioner)))
    assert (failed, first) == (3, receipts[2].error)
    assert [receipt.done() for receipt in receipts] == [False, False, True, False, True]
    assert isinstance(receipts[2].error, ValueError)
    assert isinstance(named.error, NoSuchPartitionError)
    assert told == [receipts[2].error]
    assert records.used_records == 3
    assert values_of(records) == {1: [b"1", b"1"], 2: [b"2"]}
    assert records.used_records == records.used_bytes == 0


def test_giving_up_fails_all_and_gives_back_the_room() -> None:
    records = accumulator()
    held = UnknownTopicBuffer(records, "orders")
    receipts = [held.append(None, b"v") for _ in range(3)]
    told: list[Delivery] = []
    receipts[1].add_done_callback(told.append)
    error = TimeoutError("the topic is not known")
    assert held.fail(error) == 3
    assert [receipt.error for receipt in receipts] == [error] * 3
    assert [receipt.error for receipt in told] == [error]
    assert (records.used_records, records.used_bytes, held.records, held.bytes) == (0, 0, 0, 0)


def test_who_comes_too_late_shares_the_fate_of_the_others() -> None:
    records = accumulator()
    failed, released = UnknownTopicBuffer(records, "orders"), UnknownTopicBuffer(records, "orders")
    error = TimeoutError("the topic is not known")
    failed.fail(error)
    assert failed.append(None, b"v").error is error
    released.release(appender(records))
    late = released.append(b"key", b"v", [("h", b"1")])
    assert late.partition == murmur2_partition(b"key", 10)
    assert values_of(records) == {late.partition: [b"v"]}


def test_records_are_released_or_given_up_once() -> None:
    records = accumulator()
    held = UnknownTopicBuffer(records, "orders")
    held.release(appender(records))
    with pytest.raises(RuntimeError, match="waiting for orders have been released or have failed before"):
        held.release(appender(records))
    with pytest.raises(RuntimeError, match="have been released"):
        held.fail(ValueError())


def test_held_records_count_against_the_bounds() -> None:
    records = accumulator(500, 1000)
    held = UnknownTopicBuffer(records, "orders")
    assert until_full(lambda: held.append(None, b"v" * 100)) == 5
    with pytest.raises(BufferFull, match="needed for a record to orders") as full:
        held.append(None, b"v" * 100)
    assert full.value.limit == "bytes"
    assert (held.records, records.used_records) == (5, 5)
    assert held.bytes == records.used_bytes
    few = accumulator(500, max_records=2)
    held = UnknownTopicBuffer(few, "orders")
    held.append(None, b"v")
    few.append("others", 0, None, b"v")
    with pytest.raises(BufferFull, match="at most 2 may") as full:
        held.append(None, b"v")
    assert full.value.limit == "records"


def test_there_is_room_for_what_was_held_even_if_there_is_none() -> None:
    records = Accumulator(batch_size=500, max_bytes=1000, max_records=5)
    held = UnknownTopicBuffer(records, "orders")
    receipts = [held.append(None, b"v" * 100, None, number) for number in range(5)]
    held.release(appender(records))
    assert not any(receipt.done() for receipt in receipts)
    assert records.used_records == 5
    with pytest.raises(BufferFull):
        records.append("orders", 0, None, b"v")
    assert len(all_values_of(records)) == 5
    assert records.used_bytes == records.used_records == 0


def test_what_was_held_is_released_after_the_end_of_appending() -> None:
    records = accumulator()
    held = UnknownTopicBuffer(records, "orders")
    held.append(None, b"before")
    records.close(ValueError("closed"))
    with pytest.raises(ValueError, match="closed"):
        held.append(None, b"after")
    held.release(appender(records))
    assert all_values_of(records) == [b"before"]


def test_records_that_are_dropped_take_no_room() -> None:
    records = accumulator()
    held = UnknownTopicBuffer(records, "orders")
    receipt = held.append(None, b"v")
    del held
    assert (records.used_bytes, records.used_records) == (0, 0)
    assert not receipt.done()


def test_since_when_records_are_held_is_known() -> None:
    ticks = iter([1.5, 2.5])
    held = UnknownTopicBuffer(accumulator(monotonic=lambda: next(ticks)), "orders")
    assert held.opened_at is None
    held.append(None, b"v")
    held.append(None, b"v")
    assert held.opened_at == 1.5


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((None, "text"), TypeError, "value must be bytes-like or None, not str"),
        ((None, b"v", [("h", 5)]), TypeError, r"headers\[0\]"),
        ((None, b"v", None, "0"), TypeError, "partition must be an int or None, not str"),
        ((None, b"v", None, -1), ValueError, "partition must be from 0 on, not -1"),
        ((None, b"v", None, None, -1), ValueError, "timestamp must be from 0 on"),
        ((None, b"v" * 2000), ValueError, "more than max_request_size="),
    ],
)
def test_arguments_are_checked_when_they_are_given(
    arguments: tuple[Any, ...], error: type[Exception], message: str
) -> None:
    records = accumulator(max_record_size=1000)
    held = UnknownTopicBuffer(records, "orders")
    with pytest.raises(error, match=message):
        held.append(*arguments)
    assert (held.records, records.used_records, records.used_bytes) == (0, 0, 0)
