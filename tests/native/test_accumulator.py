"""The accumulator: records in, batches out, byte for byte the oracle's, and never more memory than allowed."""

from __future__ import annotations

import gc
import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla._native.accumulator import Accumulator
from ottla._native.record_buffer import BufferFull
from ottla.errors import RecordTooLargeError
from tests.native.accumulator_support import accumulator, everything, sealed
from tests.native.encode_support import (
    NOW,
    Row,
    decoded,
    everything_given_back,
    expected_batches,
    oracle_bytes,
    values,
)
from tests.records.peers import PEERS, Peer

optional_bytes = st.none() | st.binary(max_size=40)
row_lists = st.lists(
    st.builds(
        Row,
        value=optional_bytes,
        key=optional_bytes,
        headers=st.none()
        | st.lists(st.tuples(st.text(st.characters(codec="utf-8")), optional_bytes), max_size=3).map(tuple),
        timestamp=st.none() | st.integers(min_value=0, max_value=2**62),
    ),
    max_size=40,
)


# What comes out


@settings(deadline=None)
@given(rows=row_lists, batch_size=st.integers(min_value=62, max_value=600))
def test_the_bytes_are_those_of_the_oracle(rows: list[Row], batch_size: int) -> None:
    records = accumulator(batch_size)
    for row in rows:
        records.append("orders", 0, row.key, row.value, row.headers, row.timestamp)
    assert [bytes(batch) for batch in everything(records)] == [
        batch.data for batch in expected_batches(rows, partitions=1, batch_size=batch_size)
    ]


@settings(deadline=None)
@given(rows=row_lists)
@pytest.mark.parametrize("peer", PEERS, ids=str)
def test_other_clients_read_every_batch(peer: Peer, rows: list[Row]) -> None:
    records = accumulator(400)
    for row in rows:
        records.append("orders", 0, row.key, row.value, row.headers, row.timestamp)
    for batch in everything(records):
        assert peer.decode(bytes(batch)) == [record.plain for record in decoded(batch).records]


@pytest.mark.parametrize("size", [0, 63, 64, 4000, 8191, 8192, 100_000, 2**21])
def test_records_of_any_size_come_out_whole(size: int) -> None:
    records = accumulator()
    rows = [Row(bytes(size), b"k" * (size // 2)), Row(b"small"), Row(bytes(size))]
    for row in rows:
        records.append("orders", 0, row.key, row.value)
    assert [bytes(batch) for batch in everything(records)] == [
        batch.data for batch in expected_batches(rows, partitions=1, batch_size=16_384)
    ]


def test_a_large_batch_grows_without_losing_anything() -> None:
    records = accumulator(batch_size=2**20)
    rows = [Row(b"%d" % i * 50) for i in range(2000)]
    for row in rows:
        records.append("orders", 0, row.key, row.value)
    (batch,) = everything(records)
    assert bytes(batch) == oracle_bytes(rows)


def test_a_batch_knows_where_it_goes_and_when_it_was_opened() -> None:
    records = accumulator(monotonic=lambda: 12.5)
    records.append("orders", 7, None, b"x")
    (batch,) = records.drain("orders", 7, force=True)
    assert (batch.topic, batch.partition, batch.count, batch.opened_at) == ("orders", 7, 1, 12.5)
    assert not batch.sealed


# When what leaves


def test_full_batches_leave_in_order_and_the_open_one_only_by_force() -> None:
    records = accumulator(200)
    for i in range(30):
        records.append("orders", 0, None, b"%02d" % i * 10)
    full = sealed(records.drain("orders", 0))
    assert all(batch.size <= 200 for batch in full)
    rest = sealed(records.drain("orders", 0, force=True))
    assert len(full) > 1
    assert len(rest) == 1
    assert values([*full, *rest]) == [b"%02d" % i * 10 for i in range(30)]
    assert records.drain("orders", 0, force=True) == []


def test_a_drain_of_limited_size_takes_what_fits_but_at_least_one() -> None:
    records = accumulator(200)
    for i in range(30):
        records.append("orders", 0, None, b"%02d" % i * 10)
    taken = []
    while batches := sealed(records.drain("orders", 0, max_bytes=400, force=True)):
        assert sum(batch.size for batch in batches) <= 400
        taken += batches
    assert values(taken) == [b"%02d" % i * 10 for i in range(30)]
    records.append("orders", 0, None, bytes(1000))
    assert len(records.drain("orders", 0, max_bytes=1, force=True)) == 1


def test_partitions_are_kept_apart() -> None:
    records = accumulator()
    for topic, partition, value in [("a", 0, b"1"), ("b", 0, b"2"), ("a", 1, b"3"), ("a", 0, b"4")]:
        records.append(topic, partition, None, value)
    assert values(sealed(records.drain("a", 0, force=True))) == [b"1", b"4"]
    assert values(sealed(records.drain("b", 0, force=True))) == [b"2"]
    assert values(sealed(records.drain("a", 1, force=True))) == [b"3"]
    assert [(buffer.topic, buffer.partition) for buffer in records.buffers()] == [
        ("a", 0),
        ("a", 1),
        ("b", 0),
    ]


def test_a_buffer_is_the_same_by_whatever_way() -> None:
    records = accumulator()
    buffer = records.buffer("orders", 3)
    assert records.buffer("orders", 3) is buffer
    buffer.append(b"k", b"1")
    records.append("orders", 3, b"k", b"2")
    assert values(sealed(buffer.drain(force=True))) == [b"1", b"2"]


def test_the_buffers_know_how_much_waits() -> None:
    records = accumulator(200)
    buffer = records.buffer("orders", 0)
    assert (buffer.records, buffer.bytes, buffer.full_batches, buffer.opened_at) == (0, 0, 0, None)
    for _ in range(10):
        buffer.append(None, bytes(50))
    records.append("orders", 1, None, b"x")
    assert (buffer.records, records.records) == (10, 11)
    assert buffer.full_batches == 4
    sizes = [batch.raw_size for batch in buffer.drain()]
    assert buffer.full_batches == 0
    assert buffer.records == 2
    before = records.bytes
    (last,) = buffer.drain(force=True)
    assert records.bytes == before - last.raw_size
    assert buffer.bytes == buffer.records == 0
    assert len(sizes) == 4
    assert "0 records" in repr(buffer)


def test_the_owner_is_woken_when_there_is_something_new_to_do() -> None:
    woken: list[tuple[int, bool]] = []
    records = accumulator(200, wake=lambda buffer, full: woken.append((buffer.partition, full)))
    records.append("orders", 0, None, bytes(50))
    assert woken == [(0, False)]  # it was empty
    records.append("orders", 0, None, bytes(50))
    assert len(woken) == 1
    records.append("orders", 1, None, bytes(50))
    assert woken[1:] == [(1, False)]
    records.append("orders", 0, None, bytes(50))
    assert woken[2:] == [(0, True)]  # the third one did not fit any more
    records.drain("orders", 0)
    records.append("orders", 0, None, b"")
    assert len(woken) == 3  # one was left, so it was not empty
    records.drain("orders", 0, force=True)
    records.append("orders", 0, None, b"")
    assert woken[3:] == [(0, False)]


def test_a_batch_without_any_room_left_is_full_at_once() -> None:
    woken: list[bool] = []
    rows = [Row(b"first"), Row(b"second")]
    records = accumulator(len(oracle_bytes(rows)), wake=lambda buffer, full: woken.append(full))
    for row in rows:
        records.append("orders", 0, None, row.value)
    assert woken == [False, True]
    assert [batch.count for batch in records.drain("orders", 0)] == [2]
    records.append("orders", 0, None, bytes(1000))
    assert woken == [False, True, True]


def test_an_owner_that_raises_does_not_disturb_who_appends(monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", lambda unraisable: raised.append(unraisable.exc_value))
    records = accumulator(wake=lambda buffer, full: 1 // 0)
    assert records.append("orders", 0, None, b"v").index == 0
    assert [type(error) for error in raised] == [ZeroDivisionError]
    assert records.records == 1


def test_buffers_are_ready_when_full_or_when_they_have_waited() -> None:
    now = 100.0
    records = accumulator(200, monotonic=lambda: now)
    assert records.ready(now, 5) == ([], None)
    full, waiting, late = (records.buffer("orders", i) for i in range(3))
    waiting.append(None, b"x")
    now = 101.0
    late.append(None, b"x")
    for _ in range(3):
        full.append(None, bytes(50))
    assert records.ready(101.0, 5) == ([full], 105.0)
    assert records.ready(105.0, 5) == ([full, waiting], 106.0)
    assert records.ready(106.0, 5) == ([full, waiting, late], None)
    assert records.ready(101.0, 0) == ([full, waiting, late], None)
    waiting.drain(force=True)
    assert records.ready(105.5, 5) == ([full], 106.0)


# Memory


def append_until_full(records: Accumulator, size: int) -> int:
    """How many records of this size there is memory for."""
    for count in itertools.count():
        try:
            records.append("orders", 0, None, bytes(size))
        except BufferFull:
            return count
    raise AssertionError("never full")


def test_no_more_memory_is_used_than_allowed() -> None:
    records = accumulator(batch_size=4096, max_bytes=16_384)
    count = append_until_full(records, 100)
    assert records.used_bytes <= records.max_bytes == 16_384
    assert records.records == count > 100
    batches = sealed(records.drain("orders", 0, force=True))
    assert sum(batch.count for batch in batches) == count
    with pytest.raises(BufferFull, match=r"of 16384 bytes are in use, and .* to orders-0$"):
        records.append("orders", 0, None, bytes(100))  # they have left, but are still there
    batches[0].complete(0)
    records.append("orders", 0, None, bytes(100))


def test_who_waits_for_memory_may_catch_a_buffer_error() -> None:
    assert issubclass(BufferFull, BufferError)


@pytest.mark.parametrize("way", ["completed", "dropped"])
def test_memory_is_free_again_when_a_batch_is_completed_or_dropped(way: str) -> None:
    records = accumulator()
    records.append("orders", 0, None, b"v")
    assert records.used_bytes == 4096
    (batch,) = records.drain("orders", 0, force=True)
    assert records.used_bytes == 4096
    if way == "completed":
        batch.complete(0)
        assert records.used_bytes == 0
    del batch
    assert records.used_bytes == 0


def test_the_owner_is_woken_when_a_batch_is_full_and_there_is_no_memory_for_the_next() -> None:
    woken: list[bool] = []
    records = accumulator(batch_size=4096, max_bytes=4096, wake=lambda buffer, full: woken.append(full))
    assert append_until_full(records, 1000) == 3
    assert woken == [False, True]
    assert [batch.count for batch in records.drain("orders", 0)] == [3]


def test_a_record_that_never_fits_is_refused_for_good() -> None:
    records = accumulator(batch_size=4096, max_bytes=8192)
    with pytest.raises(RecordTooLargeError, match="more than buffer_memory=8192 ever allows") as refused:
        records.append("orders", 0, None, bytes(8192))
    assert refused.value.limit == "buffer_memory"
    assert refused.value.size > 8192
    records.append("orders", 0, None, bytes(8000))
    (batch,) = everything(records)
    assert batch.count == 1
    assert records.used_bytes <= 8192


def test_idle_partitions_take_little_memory() -> None:
    records = accumulator(batch_size=2**20, max_bytes=2**30)
    for partition in range(100):
        records.append("orders", partition, None, b"v")
    assert records.used_bytes == 100 * 4096


def test_a_batch_that_cannot_grow_says_so_and_stays_as_it_is() -> None:
    records = accumulator(batch_size=2**16, max_bytes=2**16)
    for partition in range(15):
        records.append("orders", partition, None, b"v")
    records.append("orders", 1, None, bytes(3000))
    with pytest.raises(BufferFull):
        records.append("orders", 1, None, bytes(9000))  # there are 4 KiB left
    assert values(sealed(records.drain("orders", 1, force=True))) == [b"v", bytes(3000)]
    records.append("orders", 1, None, bytes(5000))


def test_the_memory_goes_back_to_the_pool() -> None:
    with everything_given_back():
        records = accumulator(batch_size=8192)
        for i in range(500):
            records.append("orders", i % 3, b"key", b"%d" % i * 10)
        batches = sealed(records.drain("orders", 0, force=True))
        kept = batches[0]
        data = bytes(kept)
        del batches
        records.append("orders", 0, None, bytes(5000))
        assert bytes(kept) == data
        kept.complete(0)
        assert bytes(kept) == data
        del kept, records  # with records still in it


def test_a_long_queue_that_nobody_drains_is_freed() -> None:
    with everything_given_back():
        records = accumulator(batch_size=62, max_bytes=2**30)
        for _ in range(20_000):
            records.append("orders", 0, None, b"")
        assert records.buffer("orders", 0).full_batches == 20_000
        del records


# Receipts


def test_receipts_tell_what_became_of_their_records() -> None:
    records = accumulator(200)
    receipts = [records.append("orders", 0, None, bytes(50), None, NOW + i) for i in range(5)]
    assert [receipt.index for receipt in receipts] == [0, 1, 0, 1, 0]
    first, second, third = records.drain("orders", 0, force=True)
    first.complete(100)
    second.complete(error=TimeoutError("late"))
    assert [receipt.done() for receipt in receipts] == [True, True, True, True, False]
    assert [receipt.offset for receipt in receipts] == [100, 101, -1, -1, -1]
    assert [type(receipt.error) for receipt in receipts[2:]] == [TimeoutError, TimeoutError, type(None)]
    third.complete(500, log_append_time=NOW + 77)
    assert [receipt.timestamp for receipt in receipts] == [NOW, NOW + 1, NOW + 2, NOW + 3, NOW + 77]
    assert (receipts[4].topic, receipts[4].partition, receipts[4].offset) == ("orders", 0, 500)


def test_callbacks_may_be_asked_for_before_the_batch_has_left() -> None:
    records = accumulator()
    told: list[int] = []
    for _ in range(3):
        records.append("orders", 0, None, b"v").add_done_callback(lambda done: told.append(done.offset))
    (batch,) = records.drain("orders", 0, force=True)
    batch.complete(40)
    assert told == [40, 41, 42]


def test_receipts_do_not_keep_memory_and_may_outlive_everything() -> None:
    with everything_given_back():
        records = accumulator()
        receipts = [records.append("orders", 0, None, b"v") for _ in range(1000)]
        for batch in records.drain("orders", 0, force=True):
            batch.complete(7)
        del records, batch
    gc.collect()
    assert [receipt.offset for receipt in receipts] == list(range(7, 1007))


def test_names_that_are_equal_share_a_buffer() -> None:
    """Buffers are found again by the identity of the topic's name first: another object of the same name must do."""
    accumulator = Accumulator(batch_size=10_000, max_bytes=1 << 20)
    for turn in range(50):
        for partition in (0, 16, 32, 2**31 - 1):  # these share a place among the buffers used last
            accumulator.append("".join(["or", "ders"]), partition, None, b"%d" % turn)
            accumulator.append("orders", partition, None, b"%d" % turn)
    for partition in (0, 16, 32, 2**31 - 1):
        (batch,) = accumulator.drain("orders", partition, force=True)
        assert (batch.partition, batch.count) == (partition, 100)
    for wrong in (-1, 2**31, 2**100):
        with pytest.raises(ValueError, match="partition must be"):
            accumulator.append("orders", wrong, None, b"")
    with pytest.raises(TypeError, match="partition must be an int"):
        accumulator.append("orders", "0", None, b"")  # type: ignore[arg-type]
