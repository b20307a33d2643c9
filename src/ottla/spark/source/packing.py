"""Split: which ranges each task reads. Small ranges are read together, as every task of a Python source costs time.

Ranges are cut first, as `ranges` does for minPartitions and maxRecordsPerPartition, and then stand in a row, in the
order of topics, partitions and offsets; each task reads a run of neighbours. Of all ways to cut the row into so many
runs, the one with the smallest largest run is taken.

How many tasks there are: as many as targetPartitions says, but none for which there are too few offsets to be worth
it, and twice as many, or three times, where each would otherwise have so many that its own cost no longer counts: a
multiple, as that many run at a time. minPartitions is a promise, and maxRecordsPerPartition is one for tasks too.

Pure: a function of the ranges and the fields of `Split`. In a stream these are stored with each batch (`checkpoint`),
so that a batch that is run again is split as it was.

Invariant: tasks have every offset of the ranges once; what one task has of a partition is one range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from pyspark.sql.datasource import InputPartition

from ottla.spark.source.ranges import OffsetRange, split

if TYPE_CHECKING:
    from ottla.spark.options.connector import SourceOptions

TaskRanges: TypeAlias = tuple[OffsetRange, ...]
"""What one task reads, in the order of topics and partitions; none is empty, no partition is there twice."""

LEAST_OFFSETS: Final = 20_000
"""What a task is to have, on average, before there is a second one: with less, of records of 100 bytes, a second one
takes as long as it saves, although a core is free for it."""
MOST_OFFSETS: Final = 4_000_000
"""What a task has, on average, when its own cost no longer matters, and no more are put together. That cost is some
65 ms of the second that so many records of 100 bytes take, and a task that fails is read anew as a whole."""


class RangePartition(InputPartition):
    """A task as Spark knows it."""

    def __init__(self, ranges: TaskRanges) -> None:
        super().__init__(ranges)
        self.ranges = ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """All that decides how ranges become tasks."""

    target_partitions: int | None = None
    """How many tasks there are to be; None: every range has its own."""
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    least_offsets: int = LEAST_OFFSETS
    most_offsets: int = MOST_OFFSETS

    @classmethod
    def of(cls, options: SourceOptions) -> Self:
        return cls(
            target_partitions=options.target_partitions,
            min_partitions=options.min_partitions,
            max_records_per_partition=options.max_records_per_partition,
        )

    def tasks(self, ranges: Sequence[OffsetRange]) -> list[TaskRanges]:
        """What each task reads of the ranges, of which each partition has at most one; some may be empty.

        >>> ranges = [OffsetRange("t", partition, 0, 10) for partition in range(3)]
        >>> [len(task) for task in Split(target_partitions=2, least_offsets=10).tasks(ranges)]
        [2, 1]
        """
        pieces = split(
            sorted(ranges),
            min_partitions=self.min_partitions,
            max_records_per_partition=self.max_records_per_partition,
        )
        if self.target_partitions is None or not pieces:
            return [(piece,) for piece in pieces]
        sizes = [piece.size for piece in pieces]
        runs = _runs(sizes, self._count(sizes, self.target_partitions), self.max_records_per_partition)
        return [_joined(pieces[first:behind]) for first, behind in runs]

    def _count(self, sizes: Sequence[int], target: int) -> int:
        total = sum(sizes)
        worth = max(1, min(target, total // self.least_offsets))
        times = -(-total // (worth * self.most_offsets))
        return min(max(worth * times, self.min_partitions or 1), len(sizes))


def _runs(sizes: Sequence[int], count: int, most: int | None) -> list[tuple[int, int]]:
    """The row in `count` runs, or in more if one would be above `most`: the first of each, and behind its last."""
    limit = _smallest_limit(sizes, count)
    if most is not None and most < limit:
        limit = max(most, max(sizes))
        count = max(count, _runs_within(sizes, limit))
    runs: list[tuple[int, int]] = []
    first = filled = 0
    for index, size in enumerate(sizes):
        # Also where there would be nothing left for the runs behind: each has a piece at least.
        is_needed_behind = len(sizes) - index < count - len(runs)
        if index > first and (filled + size > limit or is_needed_behind):
            runs.append((first, index))
            first, filled = index, 0
        filled += size
    return [*runs, (first, len(sizes))]


def _smallest_limit(sizes: Sequence[int], count: int) -> int:
    """The size of the largest of `count` runs, where they are cut best."""
    low, high = max(max(sizes), -(-sum(sizes) // count)), sum(sizes)
    while low < high:
        middle = (low + high) // 2
        if _runs_within(sizes, middle) <= count:
            high = middle
        else:
            low = middle + 1
    return low


def _runs_within(sizes: Sequence[int], limit: int) -> int:
    """How many runs it takes if none is above the limit, which no single size is."""
    count, filled = 1, 0
    for size in sizes:
        if filled + size > limit:
            count, filled = count + 1, 0
        filled += size
    return count


def _joined(pieces: Sequence[OffsetRange]) -> TaskRanges:
    """Pieces of one partition that follow each other are one range again."""
    joined: list[OffsetRange] = []
    for piece in pieces:
        if joined and joined[-1].topic_partition == piece.topic_partition:
            piece = OffsetRange(piece.topic, piece.partition, joined.pop().start, piece.end)
        joined.append(piece)
    return tuple(joined)
