"""The scan of a segment: the same batches and index entries however its bytes are cut into pieces.

That what it tells of is enough to know every producer again: tests/broker/log/test_recovery.py.
"""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla._native.segment_scan import SegmentScan
from ottla.wire.batches import ControlType, PlainRecord, encode_batch, end_transaction_marker

NOW = 1_700_000_000_000
BASE = 100
INTERVAL = 150


def batch_at(
    offset: int, count: int = 1, *, epoch: int = 0, producer: int = -1, value: bytes = b"v"
) -> bytes:
    records: list[PlainRecord] = [(n, NOW + offset, None, value, []) for n in range(count)]
    sequence = -1 if producer < 0 else offset
    batch = bytearray(
        encode_batch(records, producer_id=producer, producer_epoch=min(producer, 0), base_sequence=sequence)
    )
    struct.pack_into(">q", batch, 0, offset)
    struct.pack_into(">i", batch, 12, epoch)
    return bytes(batch)


def segment(count: int = 12) -> bytes:
    return b"".join(batch_at(BASE + 2 * n, 2, epoch=n // 5, producer=7) for n in range(count))


def scan_of(data: bytes, *cuts: int) -> tuple[SegmentScan, list[tuple[int, int]], bytes, bytes]:
    scan = SegmentScan(len(data), BASE, INTERVAL, -1)
    told: list[tuple[int, int]] = []
    offsets = times = b""
    for start, end in pairwise([0, *sorted(cuts), len(data)]):
        batches, more_offsets, more_times = scan.feed(data[start:end])
        told += [(position, batch.base_offset) for position, batch in batches]
        offsets, times = offsets + more_offsets, times + more_times
    return scan, told, offsets, times


def known(scan: SegmentScan) -> tuple[int, ...]:
    return (
        *(scan.position, scan.next_offset, scan.first_timestamp, scan.unindexed),
        *(scan.max_timestamp, scan.max_timestamp_offset),
    )


@given(cuts=st.lists(st.integers(0, len(segment()))))
def test_where_the_pieces_are_cut_makes_no_difference(cuts: list[int]) -> None:
    data = segment()
    expected, told, *entries = scan_of(data)
    scan, told_in_pieces, *entries_in_pieces = scan_of(data, *cuts)
    assert (known(scan), entries_in_pieces) == (known(expected), entries)
    assert set(told) <= set(told_in_pieces)
    assert told_in_pieces == sorted(told_in_pieces)


def test_every_interval_has_its_entries() -> None:
    data = segment()
    size = len(data) // 12
    scan, _, offsets, times = scan_of(data)
    every = INTERVAL // size + 1
    indexed = range(every, 12, every)
    assert list(struct.iter_unpack(">II", offsets)) == [(2 * n + 1, n * size) for n in indexed]
    assert list(struct.iter_unpack(">qI", times)) == [(NOW + BASE + 2 * n, 2 * n + 1) for n in indexed]
    assert known(scan)[:3] == (len(data), BASE + 24, NOW + BASE)
    assert (scan.max_timestamp, scan.max_timestamp_offset) == (NOW + BASE + 22, BASE + 23)


def test_the_first_and_the_last_batches_of_a_producer_are_told_and_those_that_begin_an_epoch() -> None:
    _, told, _, _ = scan_of(segment(20))
    assert [(offset - BASE) // 2 for _, offset in told] == [0, 5, 10, 15, 16, 17, 18, 19]


def test_markers_are_told_and_what_follows_them() -> None:
    marker = end_transaction_marker(
        ControlType.COMMIT, producer_id=7, producer_epoch=0, timestamp=NOW, coordinator_epoch=0
    )
    between = struct.pack(">q", BASE + 3) + marker[8:]
    before = [batch_at(BASE + n, producer=7) for n in range(3)]
    behind = [batch_at(BASE + n, producer=7) for n in range(4, 20)]
    _, told, _, _ = scan_of(b"".join([*before, between, *behind]))
    assert [offset - BASE for _, offset in told] == [0, 3, 4, 15, 16, 17, 18, 19]


def test_without_producers_only_epochs_are_told() -> None:
    _, told, _, _ = scan_of(b"".join(batch_at(BASE + n, epoch=n // 4) for n in range(8)))
    assert [offset - BASE for _, offset in told] == [0, 4]


@given(at=st.integers(0, len(segment()) - 1), cuts=st.lists(st.integers(0, len(segment())), max_size=3))
def test_a_byte_that_is_damaged_ends_the_scan_with_the_batch_before(at: int, cuts: list[int]) -> None:
    data = bytearray(segment())
    size = len(data) // 12
    # The epoch of a leader is not part of the checksum, nor are offsets, of which any that grow will do.
    if at % size < 16:
        return
    data[at] ^= 0xFF
    scan, _, _, _ = scan_of(bytes(data), *cuts)
    assert scan.is_damaged
    assert (scan.position, scan.next_offset) == (at // size * size, BASE + at // size * 2)


@pytest.mark.parametrize(
    ("layout", "at", "value"),
    [(">q", 0, BASE - 1), (">q", 0, BASE + 2**31), (">q", 0, 2**63 - 1), (">i", 8, -1), (">i", 8, 2**31 - 1)],
)
def test_offsets_and_lengths_that_cannot_be_end_the_scan(layout: str, at: int, value: int) -> None:
    data = bytearray(batch_at(BASE))
    struct.pack_into(layout, data, at, value)
    scan, told, *_ = scan_of(bytes(data))
    assert (scan.is_damaged, scan.position, told) == (True, 0, [])


def test_a_torn_batch_does_not_count() -> None:
    data = segment(3)
    for end in range(len(data)):
        scan, *_ = scan_of(data[:end])
        assert scan.position == end // (len(data) // 3) * (len(data) // 3)


def test_batches_of_many_producers_are_told_in_their_order() -> None:
    data = b"".join(batch_at(BASE + n, producer=n % 300) for n in range(900))
    _, told, _, _ = scan_of(data)
    assert [offset - BASE for _, offset in told] == list(range(900))


def test_the_buffer_is_given_back_and_what_is_none_is_refused() -> None:
    data = bytearray(batch_at(BASE))
    scan = SegmentScan(len(data), BASE, INTERVAL, -1)
    scan.feed(data)
    data.append(0)  # raises BufferError while somebody holds the buffer
    with pytest.raises(TypeError, match=r"^data must be a bytes-like object, not str$"):
        scan.feed("text")  # type: ignore[arg-type]
