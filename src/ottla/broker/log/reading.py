"""Reading from a log, over the borders of its segments: batches, records by their time, aborted transactions.

Functions over the segments of one log, the oldest first. Which offsets a reader may see is decided elsewhere (log.py,
replication/partition.py).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from ottla.broker.log.segment import Segment, TimestampedOffset
from ottla.broker.log.transactions import aborted_between


@dataclass(slots=True)
class Slice:
    """Whole batches; the first may begin below the offset of the request."""

    parts: list[memoryview]
    size: int
    next_offset: int
    """Where to read on."""
    is_cut: bool = False
    """Whether more might have been read, but not in so few bytes."""


def number_of(segments: Sequence[Segment], offset: int) -> int:
    """Of the segment that has `offset`, if any has."""
    if segments[-1].base_offset <= offset:
        return len(segments) - 1  # most readers are near the end
    return max(bisect_right(segments, offset, key=_base_offset) - 1, 0)


def read(
    segments: Sequence[Segment], offset: int, max_bytes: int, upper_offset: int, at_least_one: bool
) -> Slice:
    """Batches from the one with `offset` on, of no more than `max_bytes`, all below `upper_offset`."""
    parts: list[memoryview] = []
    size = 0
    for segment in segments[number_of(segments, offset) :]:
        if offset >= upper_offset:
            break
        found = segment.batches_from(offset, max_bytes - size, upper_offset, at_least_one and not size)
        if found is None:
            continue
        parts += segment.read(found.start, found.end)
        size += found.end - found.start
        offset = found.next_offset
        if found.is_cut:
            break
    return Slice(parts, size, offset)


def fetch(
    segments: Sequence[Segment], offset: int, max_bytes: int, upper_offset: int, at_least_one: bool
) -> Slice:
    """The same in the form of a Fetch response: from one segment, and `max_bytes` to the last byte."""
    for segment in segments[number_of(segments, offset) :]:
        found = segment.bytes_from(offset, max_bytes, upper_offset, at_least_one)
        if found is not None:
            size = found.end - found.start
            parts = segment.read(found.start, found.end) if size else []
            return Slice(parts, size, found.next_offset, found.is_cut)
    return Slice([], 0, offset)


def aborted(segments: Sequence[Segment], start: int, end: int) -> list[tuple[int, int]]:
    """(producer id, first offset) of the aborted transactions that concern a reader of [start, end)."""
    concerned = segments[number_of(segments, start) :]
    return aborted_between((segment.aborted for segment in concerned), start, end)


def aborted_in_fetch(segments: Sequence[Segment], offset: int, size: int) -> list[tuple[int, int]]:
    """The same for a reader who has got that many bytes from `offset` on.

    As in Kafka the index says how far they reach, which is sparse: what is named may begin behind the bytes.
    """
    first = number_of(segments, offset)
    for number, segment in enumerate(segments[first:], first):
        found = segment.locate(offset)
        if found is not None:
            following = [each.base_offset for each in segments[number + 1 : number + 2]]
            bound = segment.bound_behind(found, size)
            if bound is None:
                bound = following[0] if following else segments[-1].next_offset
            return aborted(segments, offset, bound)
    return []


def offset_for_timestamp(
    segments: Sequence[Segment], timestamp: int, log_start_offset: int
) -> TimestampedOffset | None:
    """The first record that is not older than `timestamp`.

    As in Kafka only the first segment with such a record is searched, even if it lies before the log's start.
    """
    for segment in segments:
        if segment.largest_timestamp >= timestamp:
            return segment.offset_for_timestamp(timestamp, log_start_offset)
    return None


def latest_record(segments: Sequence[Segment]) -> TimestampedOffset | None:
    """The record with the largest timestamp (KIP-734)."""
    return max(segments, key=_max_timestamp).latest_record()


def _max_timestamp(segment: Segment) -> int:
    return segment.max_timestamp


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
