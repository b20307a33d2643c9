"""Sparse indexes: Kafka's entries in the file, searches on what they say."""

from __future__ import annotations

import struct

import pytest

from ottla.broker.log.fs import FileSystem
from ottla.broker.log.index import CorruptIndexError, OffsetIndex, TimeIndex

PATH = "orders-0/00000000000000000100.index"


def offset_index(fs: FileSystem) -> OffsetIndex:
    return OffsetIndex(fs, PATH, 100)


def time_index(fs: FileSystem) -> TimeIndex:
    return TimeIndex(fs, PATH, 100)


def raw(fs: FileSystem) -> bytes:
    file = fs.open(PATH)
    return b"".join(file.read(0, file.size))


def test_an_index_without_entries_has_no_file(fs: FileSystem) -> None:
    index = offset_index(fs)
    index.load(0)
    assert index.lookup(100) == index.last_start_before(7) == index.last_position == 0
    assert not fs.exists(PATH)


def test_offsets_and_positions_are_kafkas_pairs_of_four_bytes(fs: FileSystem) -> None:
    index = offset_index(fs)
    index.append(109, 5000)
    index.append(130, 9500)
    assert raw(fs) == struct.pack(">IIII", 9, 5000, 30, 9500)


@pytest.mark.parametrize(
    ("offset", "position"), [(5, 0), (100, 0), (108, 0), (109, 5000), (129, 5000), (130, 9500), (2**62, 9500)]
)
def test_a_lookup_finds_the_last_batch_that_ends_no_later(fs: FileSystem, offset: int, position: int) -> None:
    index = offset_index(fs)
    index.append(109, 5000)
    index.append(130, 9500)
    assert index.lookup(offset) == position


@pytest.mark.parametrize(
    ("position", "start"), [(0, 0), (4999, 0), (5000, 5000), (9499, 5000), (2**40, 9500)]
)
def test_a_position_leads_to_the_batch_before_it(fs: FileSystem, position: int, start: int) -> None:
    index = offset_index(fs)
    index.append(109, 5000)
    index.append(130, 9500)
    assert index.last_start_before(position) == start


@pytest.mark.parametrize(
    ("position", "offset"), [(0, 109), (5000, 109), (5001, 130), (9500, 130), (9501, None), (2**33, None)]
)
def test_a_position_leads_to_the_first_entry_behind_it(
    fs: FileSystem, position: int, offset: int | None
) -> None:
    index = offset_index(fs)
    index.append(109, 5000)
    index.append(130, 9500)
    assert index.first_offset_at(position) == offset


def test_an_index_comes_back_from_its_file(fs: FileSystem) -> None:
    index = offset_index(fs)
    index.append(109, 5000)
    index.append(130, 9500)
    index.flush()
    index.close()
    again = offset_index(fs)
    again.load(10_000)
    assert (len(again), again.lookup(120), again.last_position) == (2, 5000, 9500)


def test_a_torn_entry_is_cut_off(fs: FileSystem) -> None:
    fs.open(PATH).append(struct.pack(">II", 9, 5000) + b"\0\0\0")
    index = offset_index(fs)
    index.load(10_000)
    assert len(index) == 1
    assert len(raw(fs)) == 8


@pytest.mark.parametrize(
    "entries",
    [(9, 10_000), (9, 5000, 9, 6000), (9, 5000, 10, 5000), (9, 5000, 8, 6000), (2**31, 5000)],
    ids=[
        "behind the log",
        "the same offset",
        "the same position",
        "back in offsets",
        "more than a relative offset",
    ],
)
def test_an_index_of_another_log_is_recognized(fs: FileSystem, entries: tuple[int, ...]) -> None:
    fs.open(PATH).append(struct.pack(f">{len(entries)}I", *entries))
    with pytest.raises(CorruptIndexError):
        offset_index(fs).load(10_000)


def test_a_cut_forgets_the_batches_behind_it(fs: FileSystem) -> None:
    index = offset_index(fs)
    index.append(109, 5000)
    index.append(130, 9500)
    index.truncate_to(9500)
    assert (len(index), len(raw(fs))) == (1, 8)
    index.truncate_to(0)
    assert (len(index), len(raw(fs))) == (0, 0)


def test_an_index_is_full_at_its_size(fs: FileSystem) -> None:
    index = offset_index(fs)
    assert not index.is_full(16)
    index.append(109, 5000)
    index.append(110, 6000)
    assert index.is_full(16)
    assert index.is_full(23)
    assert not index.is_full(24)


def test_times_are_kafkas_entries_of_twelve_bytes(fs: FileSystem) -> None:
    index = time_index(fs)
    index.append(1_700_000_000_000, 109)
    assert raw(fs) == struct.pack(">qI", 1_700_000_000_000, 9)
    assert index.last == (1_700_000_000_000, 109)


def test_only_a_larger_time_is_an_entry(fs: FileSystem) -> None:
    index = time_index(fs)
    for timestamp in (-1, 50, 50, 40, 60):
        index.append(timestamp, 100 + timestamp)
    assert (len(index), index.last) == (2, (60, 160))


@pytest.mark.parametrize(("timestamp", "offset"), [(0, 100), (50, 100), (51, 105), (60, 105), (61, 112)])
def test_a_time_leads_to_an_offset_before_which_all_is_older(
    fs: FileSystem, timestamp: int, offset: int
) -> None:
    index = time_index(fs)
    index.append(50, 105)
    index.append(60, 112)
    assert index.lookup(timestamp) == offset


def test_times_come_back_from_their_file(fs: FileSystem) -> None:
    index = time_index(fs)
    index.append(50, 105)
    index.append(60, 112)
    index.flush()
    index.close()
    again = time_index(fs)
    again.load()
    assert again.last == (60, 112)
    again.truncate_to(112)
    assert again.last == (50, 105)
    again.truncate_to(0)
    assert len(again) == 0
    assert raw(fs) == b""


@pytest.mark.parametrize("entries", [(60, 5, 60, 6), (60, 5, 70, 4), (60, 2**31)])
def test_times_that_go_back_are_recognized(fs: FileSystem, entries: tuple[int, ...]) -> None:
    fs.open(PATH).append(
        b"".join(struct.pack(">qI", *entries[at : at + 2]) for at in range(0, len(entries), 2))
    )
    with pytest.raises(CorruptIndexError):
        time_index(fs).load()


def test_a_time_index_keeps_room_for_the_last_entry(fs: FileSystem) -> None:
    index = time_index(fs)
    assert not index.is_full(24)
    index.append(50, 105)
    assert index.is_full(24)
