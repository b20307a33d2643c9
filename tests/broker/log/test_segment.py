"""One segment: when it is full, how its batches are found, and what is left of it when it is cut."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla._native.record_batch import read_header
from ottla.broker.log.config import LogConfig
from ottla.broker.log.fs import FileSystem, MemoryFileSystem
from ottla.broker.log.segment import Segment, TimestampedOffset
from tests.broker.log.support import DIRECTORY, NOW, make_batch, patched

CONFIG = LogConfig(index_interval_bytes=200)
BASE = 100


def segment(
    fs: FileSystem | None = None, config: LogConfig = CONFIG, now_ms: int = NOW, base: int = BASE
) -> Segment:
    return Segment(fs or MemoryFileSystem(), DIRECTORY, base, config, now_ms)


def add(to: Segment, count: int = 1, *, timestamp: int = NOW, value: bytes = b"value", gap: int = 0) -> int:
    """Appends a batch; its size."""
    data = patched(make_batch(count, timestamp=timestamp, value=value), ">q", 0, to.next_offset + gap)
    to.append(data, [read_header(data)], NOW)
    return len(data)


def rolls(
    of: Segment, size: int, *, timestamp: int = NOW, last_offset: int = BASE, now_ms: int = NOW
) -> bool:
    batch = read_header(patched(make_batch(timestamp=timestamp), ">q", 0, last_offset))
    return of.should_roll(size, batch, now_ms)


def test_an_empty_segment_takes_anything_that_it_can_number() -> None:
    empty = segment(config=LogConfig(segment_bytes=10, segment_ms=1, segment_index_bytes=4))
    assert not rolls(empty, 1000, timestamp=NOW + 10**9, now_ms=NOW + 10**9)
    assert not rolls(empty, 1000, last_offset=BASE + 2**31 - 1)
    assert rolls(empty, 1000, last_offset=BASE + 2**31)


def test_a_segment_rolls_before_it_is_too_large() -> None:
    full = segment(config=LogConfig(segment_bytes=1000))
    size = add(full)
    assert not rolls(full, 1000 - size)
    assert rolls(full, 1001 - size)


def test_a_segment_rolls_by_the_times_of_its_records() -> None:
    old = segment(config=LogConfig(segment_ms=500))
    add(old, timestamp=NOW)
    add(old, timestamp=NOW + 300)
    assert not rolls(old, 1, timestamp=NOW + 500, now_ms=NOW + 10**6)
    assert rolls(old, 1, timestamp=NOW + 501)


def test_a_segment_without_times_rolls_by_the_clock() -> None:
    old = segment(config=LogConfig(segment_ms=500))
    add(old, timestamp=-1)
    assert not rolls(old, 1, timestamp=NOW + 10**6, now_ms=NOW + 500)
    assert rolls(old, 1, timestamp=-1, now_ms=NOW + 501)


def test_a_reopened_segment_knows_when_it_began(fs: FileSystem) -> None:
    add(segment(fs), timestamp=NOW)
    again = segment(fs, LogConfig(segment_ms=500))
    again.load()
    assert not rolls(again, 1, timestamp=NOW + 500)
    assert rolls(again, 1, timestamp=NOW + 501)


def test_segments_do_not_roll_all_at_once() -> None:
    config = LogConfig(segment_ms=1000, segment_jitter_ms=400)
    waited = []
    for base in range(40):
        made = segment(config=config, base=base)
        add(made)
        waited.append(next(ms for ms in range(2000) if rolls(made, 1, timestamp=NOW + ms, last_offset=base)))
    assert min(waited) > 600
    assert max(waited) <= 1001
    assert len(set(waited)) > 10


def test_a_segment_rolls_when_an_index_is_full() -> None:
    config = replace(CONFIG, segment_index_bytes=24)
    full = segment(config=config)
    while not rolls(full, 1, last_offset=full.next_offset):
        add(full)
    assert len(full._times) == 1
    growing = segment(config=config)
    while not rolls(growing, 1, timestamp=-1, last_offset=growing.next_offset):
        add(growing, timestamp=-1)
    assert len(growing._offsets) == 3


def test_an_entry_is_written_once_per_interval() -> None:
    indexed = segment()
    sizes = [add(indexed) for _ in range(20)]
    entries = len(indexed._offsets)
    assert entries == 19 // (200 // sizes[0] + 1)


def filled(fs: FileSystem | None = None) -> Segment:
    """Batches of 1 to 40 records, with gaps of 2 behind each."""
    made = segment(fs)
    for count in range(1, 41):
        add(made, count, timestamp=NOW + count, gap=2)
    return made


def test_a_batch_is_found_by_any_of_its_offsets_and_by_those_before_it() -> None:
    made = filled()
    expected = list(made.headers(0))
    for offset in range(BASE, made.next_offset):
        place = made.locate(offset)
        assert place is not None
        assert (place.position, place.base_offset) == next(
            (position, batch.base_offset) for position, batch in expected if batch.last_offset >= offset
        )
    assert made.locate(made.next_offset) is None


def test_a_span_ends_with_the_last_batch_that_fits() -> None:
    made = filled()
    batches = list(made.headers(0))
    for start, (position, first) in enumerate(batches):
        for position_of_last, last in batches[start:]:
            end = position_of_last + last.size
            for more in (0, 60):
                found = made.batches_from(first.base_offset, end - position + more, made.next_offset, False)
                assert found is not None
                assert (found.start, found.end, found.next_offset) == (position, end, last.next_offset)
                assert found.is_cut == (end < made.size)


def test_a_span_ends_before_the_upper_offset() -> None:
    made = filled()
    batches = [batch for _, batch in made.headers(0)]
    for upper in (batches[7].base_offset, batches[7].base_offset - 1, batches[7].last_offset):
        found = made.batches_from(BASE, 10**6, upper, False)
        assert found is not None
        assert (found.end, found.is_cut) == (made.locate(batches[7].base_offset).position, False)  # type: ignore[union-attr]
        assert found.next_offset == min(upper, batches[7].base_offset)
    assert made.batches_from(BASE, 10**6, batches[0].base_offset, True) is None
    assert made.batches_from(made.next_offset, 10**6, made.next_offset, True) is None


def test_the_first_batch_is_had_whole_or_not_at_all() -> None:
    made = filled()
    first = made.locate(BASE)
    assert first is not None
    assert made.batches_from(BASE, first.size - 1, made.next_offset, True) == (
        *(0, first.size, first.last_offset + 1, True),
    )
    assert made.batches_from(BASE, first.size - 1, made.next_offset, False) == (0, 0, BASE, True)


def test_the_largest_timestamp_and_its_record_are_known() -> None:
    made = segment()
    assert (made.max_timestamp, made.largest_timestamp, made.latest_record()) == (-1, NOW, None)
    for late in (5, 9, 9, 3):
        add(made, 2, timestamp=NOW + late)
    assert made.max_timestamp == made.largest_timestamp == NOW + 9
    assert made.latest_record() == TimestampedOffset(NOW + 9, BASE + 2, -1)


def test_a_record_is_found_by_its_time() -> None:
    made = filled()
    bases = [batch.base_offset for _, batch in made.headers(0)]
    for count in range(1, 41):
        found = made.offset_for_timestamp(NOW + count, 0)
        assert found == (NOW + count, bases[count - 1], -1)
    assert made.offset_for_timestamp(0, 0) == (NOW + 1, bases[0], -1)
    assert made.offset_for_timestamp(NOW + 41, 0) is None
    assert made.offset_for_timestamp(NOW + 3, bases[9] + 4) == (NOW + 10, bases[9] + 4, -1)


@pytest.mark.parametrize("keep", [0, 1, 7, 39, 40])
def test_a_cut_segment_is_as_if_it_had_never_been_longer(keep: int) -> None:
    made, expected = filled(), segment()
    for count in range(1, keep + 1):
        add(expected, count, timestamp=NOW + count, gap=2)
    made.truncate_to(expected.next_offset)
    assert (made.size, made.next_offset) == (expected.size, expected.next_offset)
    assert made.max_timestamp == expected.max_timestamp
    assert made.latest_record() == expected.latest_record()
    assert (len(made._offsets), len(made._times)) == (len(expected._offsets), len(expected._times))
    add(made, 3, timestamp=NOW + 50)
    assert made.offset_for_timestamp(NOW + 50, 0) == (NOW + 50, expected.next_offset, -1)


def test_indexes_that_are_missing_are_built_from_the_batches(fs: FileSystem) -> None:
    made = filled(fs)
    made.seal()
    entries = (len(made._offsets), len(made._times))
    for name in fs.list(DIRECTORY):
        if not name.endswith(".log"):
            fs.remove(f"{DIRECTORY}/{name}")
    again = segment(fs)
    again.load()
    again.complete_index(made.next_offset)
    assert (len(again._offsets), len(again._times)) == entries
    assert again.latest_record() == made.latest_record()


def test_indexes_that_fit_are_kept(fs: FileSystem) -> None:
    made = filled(fs)
    made.seal()
    again = segment(fs)
    again.load()
    assert (again.max_timestamp, len(again._offsets)) == (made.max_timestamp, len(made._offsets))
    again.complete_index(made.next_offset + 5)
    assert again.next_offset == made.next_offset + 5


def test_a_boundary_is_between_two_batches() -> None:
    made = segment()
    sizes = [add(made, count) for count in (3, 2, 4)]
    found = {offset: made.boundary(offset) for offset in range(BASE, BASE + 12)}
    assert {offset: position for offset, position in found.items() if position is not None} == {
        BASE: 0,
        BASE + 3: sizes[0],
        BASE + 5: sizes[0] + sizes[1],
        BASE + 9: sum(sizes),
    }


def test_what_was_read_is_still_there_when_the_segment_is_gone(fs: FileSystem) -> None:
    made = filled(fs)
    made.seal()
    (first, *_) = made.read(0, 100)
    kept = bytes(first)
    made.remove()
    assert fs.list(DIRECTORY) == []
    assert first == kept
