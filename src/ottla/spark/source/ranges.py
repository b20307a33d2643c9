"""OffsetRange, and how large ranges are cut.

Pure: a function of ranges and two options, with the same result as the JVM connector's range calculator, so that a
job that moves over keeps its pieces. Where ranges begin and end is decided elsewhere, and so is which task reads a
piece (`packing`).

Invariant: the pieces of a range follow each other without a gap, cover it, and none is empty.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ottla.client.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """The records of one partition from `start` up to, and without, `end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets it has; records may be fewer, after compaction or transactions."""
        return self.end - self.start

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def split(
    ranges: Sequence[OffsetRange],
    *,
    min_partitions: int | None,
    max_records_per_partition: int | None,
) -> list[OffsetRange]:
    """The ranges in pieces: none above `max_records_per_partition`, and about `min_partitions` of them or more.

    >>> split([OffsetRange("t", 0, 0, 10)], min_partitions=2, max_records_per_partition=None)
    [OffsetRange(topic='t', partition=0, start=0, end=5), OffsetRange(topic='t', partition=0, start=5, end=10)]
    """
    pieces = [one for one in ranges if one.size > 0]
    if max_records_per_partition is not None:
        pieces = _cut_by_size(pieces, max_records_per_partition)
    if min_partitions is not None and min_partitions > len(pieces):
        pieces = _cut_by_share(pieces, min_partitions)
    return pieces


def _cut_by_size(ranges: Iterable[OffsetRange], most: int) -> list[OffsetRange]:
    # A quotient of floats, as the JVM connector's: both must round alike.
    return [piece for one in ranges for piece in _cut(one, math.ceil(one.size / most))]


def _cut_by_share(ranges: Sequence[OffsetRange], count: int) -> list[OffsetRange]:
    """Large ranges are cut in proportion to their size.

    Small ones stay whole and are left out of the calculation, else they would take shares that stay unused.
    """
    total = sum(one.size for one in ranges)
    whole = [one for one in ranges if _share(one.size, total, count) == 1]
    # By partition, not by range: after a cut by size, one small last piece keeps all pieces of its partition whole.
    whole_partitions = {one.topic_partition for one in whole}
    left = total - sum(one.size for one in whole)
    left_count = max(count - len(whole), 1)
    return [
        piece
        for one in ranges
        for piece in _cut(
            one, 1 if one.topic_partition in whole_partitions else _share(one.size, left, left_count)
        )
    ]


def _share(size: int, total: int, count: int) -> int:
    # Half rounds up, as in Java; Python's round() goes to the even number.
    return max(math.floor(size / total * count + 0.5), 1)


def _cut(one: OffsetRange, count: int) -> list[OffsetRange]:
    """Equal pieces; what is left over makes the last ones larger."""
    pieces = []
    start, remaining = one.start, one.size
    for index in range(min(count, one.size)):
        size = remaining // (min(count, one.size) - index)
        pieces.append(OffsetRange(one.topic, one.partition, start, start + size))
        start += size
        remaining -= size
    return pieces
