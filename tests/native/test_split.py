"""Batches that a broker finds too large: split in two, and nobody who waits for a record notices."""

from __future__ import annotations

import asyncio
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla._native.accumulator import Accumulator
from ottla._native.deliveries import Delivery
from ottla._native.encode import encode_columns
from ottla._native.outgoing import EncodedBatch
from tests.native.accumulator_support import accumulator
from tests.native.encode_support import NOW, decoded, everything_given_back

record_lists = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=9),
        st.none() | st.binary(max_size=300),
        st.integers(0, 2**62) | st.integers(NOW, NOW + 200),
        st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2),
    ),
    min_size=2,
    max_size=60,
)


def batch_of(count: int, records: Accumulator | None = None) -> tuple[EncodedBatch, list[Delivery]]:
    records = records or accumulator(2**20)
    receipts = [records.append("orders", 3, b"k%d" % i, b"v" * 50, None, NOW + i) for i in range(count)]
    (batch,) = records.drain("orders", 3, force=True)
    return batch, receipts


@settings(deadline=None)
@given(rows=record_lists)
def test_the_halves_have_the_records_of_the_whole(
    rows: list[tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]],
) -> None:
    records = accumulator(2**20)
    receipts = [records.append("orders", 0, key, value, headers, time) for key, value, time, headers in rows]
    (batch,) = records.drain("orders", 0, force=True)
    batch.seal()
    whole = decoded(batch).records
    halves = batch.split()
    found = []
    for half in halves:
        half.seal()
        read = decoded(half)  # checks the checksum
        assert read.base_timestamp == half.base_timestamp == read.records[0].timestamp
        assert half.max_timestamp == max(record.timestamp for record in read.records)
        assert [record.offset for record in read.records] == list(range(half.count))
        found += [(record.key, record.value, record.timestamp, record.headers) for record in read.records]
    assert found == [(record.key, record.value, record.timestamp, record.headers) for record in whole]
    halves[0].complete(100)
    halves[1].complete(1000)
    first = halves[0].count
    assert [receipt.offset for receipt in receipts] == [
        100 + i if i < first else 1000 + i - first for i in range(len(rows))
    ]


def test_the_halves_are_halves_in_bytes() -> None:
    records = accumulator(2**20)
    for size in [10] * 90 + [900]:
        records.append("orders", 0, None, b"v" * size)
    (batch,) = records.drain("orders", 0, force=True)
    first, second = batch.split()
    assert abs(first.raw_size - second.raw_size) < 1000
    assert first.count > 70


def test_a_large_first_or_last_record_leaves_no_half_empty() -> None:
    for values in ([b"v" * 900, b"v"], [b"v", b"v" * 900]):
        records = accumulator(2**20)
        for value in values:
            records.append("orders", 0, None, value)
        (batch,) = records.drain("orders", 0, force=True)
        assert [half.count for half in batch.split()] == [1, 1]


def test_each_record_is_done_with_its_own_half() -> None:
    batch, receipts = batch_of(10)
    first, second = batch.split()
    second.complete(error=TimeoutError("too late"))
    assert [receipt.done() for receipt in receipts] == [False] * first.count + [True] * second.count
    assert [receipt.index for receipt in receipts] == [*range(first.count), *range(second.count)]
    first.complete(5, log_append_time=NOW + 99)
    assert {receipt.timestamp for receipt in receipts[: first.count]} == {NOW + 99}
    assert all(isinstance(receipt.error, TimeoutError) for receipt in receipts[first.count :])
    assert {receipt.error for receipt in receipts[: first.count]} == {None}


def test_halves_may_be_split_on_and_on() -> None:
    batch, receipts = batch_of(64)
    random, parts = Random(7), [batch]
    while any(part.count > 1 for part in parts):
        which = random.choice([i for i, part in enumerate(parts) if part.count > 1])
        parts[which : which + 1] = parts[which].split()
    assert [part.count for part in parts] == [1] * 64
    for number, part in enumerate(parts):
        part.complete(1000 - number)
    assert [receipt.offset for receipt in receipts] == [1000 - number for number in range(64)]


def test_callbacks_go_with_their_records_in_order() -> None:
    batch, receipts = batch_of(4)
    told: list[tuple[str, int]] = []
    for name, which in (("a", 3), ("b", 0), ("c", 3), ("d", 1)):
        receipts[which].add_done_callback(lambda done, name=name: told.append((name, done.offset)))  # type: ignore[misc]
    first, second = batch.split()
    assert (first.count, second.count) == (2, 2)
    receipts[2].add_done_callback(lambda done: told.append(("late", done.offset)))
    second.complete(20)
    assert told == [("a", 21), ("c", 21), ("late", 20)]
    first.complete(10)
    assert told[3:] == [("b", 10), ("d", 11)]


def test_who_waits_for_the_batch_hears_of_both_halves() -> None:
    batch, _ = batch_of(5)
    told: list[EncodedBatch] = []
    batch.add_done_callback(told.append)
    first, second = batch.split()
    with pytest.raises(RuntimeError, match="ask its halves"):
        batch.add_done_callback(told.append)
    second.complete(20)
    first.complete(10)
    assert told == [second, first]
    first.add_done_callback(told.append)
    assert told[2:] == [first]


def test_a_record_may_be_awaited_across_the_split() -> None:
    async def wait(delivery: Delivery) -> int:
        return (await delivery).offset

    async def main() -> None:
        batch, receipts = batch_of(4)
        tasks = [asyncio.ensure_future(wait(receipt)) for receipt in receipts]
        await asyncio.sleep(0)
        first, second = batch.split()
        second.complete(20)
        first.complete(10)
        assert [await task for task in tasks] == [10, 11, 20, 21]

    asyncio.run(main())


def test_a_batch_that_was_split_is_of_no_use_any_more() -> None:
    batch, receipts = batch_of(4)
    halves = batch.split()
    with pytest.raises(RuntimeError, match="the records have gone elsewhere"):
        batch.complete(5)
    with pytest.raises(RuntimeError, match="was split before"):
        batch.split()
    assert not batch.completed
    assert not any(receipt.done() for receipt in receipts)
    assert batch.delivery(3).partition == 3
    assert [half.producer_id for half in halves] == [-1, -1]
    assert not any(half.sealed for half in halves)


def test_a_batch_that_is_completed_or_has_one_record_is_not_split() -> None:
    batch, _ = batch_of(1)
    with pytest.raises(ValueError, match="a batch of one record cannot be split"):
        batch.split()
    batch, receipts = batch_of(2)
    batch.complete(5)
    with pytest.raises(RuntimeError, match="completed or was split before"):
        batch.split()
    assert [receipt.offset for receipt in receipts] == [5, 6]


def test_the_halves_take_over_what_was_charged() -> None:
    records = accumulator(2**20)
    with everything_given_back():
        batch, receipts = batch_of(9, records)
        before = records.used_bytes
        first, second = batch.split()
        assert (records.used_bytes, records.used_records) == (before, 9)
        del batch
        assert (records.used_bytes, records.used_records) == (before, 9)
        first.complete(0)
        assert records.used_records == second.count
        del first, second
        assert (records.used_bytes, records.used_records) == (0, 0)
    assert receipts[0].done()


def test_the_bytes_that_are_still_being_sent_stay() -> None:
    batch, _ = batch_of(9)
    batch.seal()
    view = memoryview(batch)
    sent = bytes(view)
    for half in batch.split():
        half.set_producer(1, 0, 0)
        half.seal()
    del batch
    assert bytes(view) == sent


def test_the_halves_know_their_rows() -> None:
    (batch,) = encode_columns(
        {"value": pa.array([b"%d" % i for i in range(7)])},
        partitions=1,
        batch_size=1000,
        now=NOW,
        unkeyed_partition=0,
        rows=True,
        topic="orders",
    )
    first, second = batch.split()
    assert [*first.rows, *second.rows] == list(range(7))
    assert second.row_of(0) == first.count
    assert [half.topic for half in (first, second)] == ["orders", "orders"]
