"""Tasks have every offset once, neighbours together, and about as much to do as each other."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.source.packing import LEAST_OFFSETS, MOST_OFFSETS, Split, TaskRanges
from ottla.spark.source.ranges import OffsetRange, split

_sizes = st.lists(st.integers(0, 100_000) | st.integers(0, 20), max_size=60)
_splits = st.builds(
    Split,
    target_partitions=st.integers(1, 40),
    min_partitions=st.none() | st.integers(1, 80),
    max_records_per_partition=st.none() | st.integers(500, 100_000),
    least_offsets=st.integers(1, 50_000),
    most_offsets=st.integers(50_000, 1_000_000),
)


def _ranges(sizes: list[int], topics: int = 2) -> list[OffsetRange]:
    """Of partitions of some topics, each from an offset of its own."""
    return [
        OffsetRange(f"t{number % topics}", number // topics, number * 7, number * 7 + size)
        for number, size in enumerate(sizes)
    ]


def _size(task: TaskRanges) -> int:
    return sum(one.size for one in task)


def _tasks(sizes: list[int], **fields: Any) -> list[list[int]]:
    """The sizes of what each task reads, where one offset is enough for a task."""
    fields = {"least_offsets": 1, **fields}
    return [[one.size for one in task] for task in Split(**fields).tasks(_ranges(sizes, topics=1))]


@given(_sizes, _splits)
def test_tasks_cover_every_range_once_and_in_order(sizes: list[int], plan: Split) -> None:
    ranges = _ranges(sizes)
    read = [one for task in plan.tasks(ranges) for one in task]
    assert read == sorted(read), "partitions in their order, and pieces of one in that of their offsets"
    for whole in ranges:
        pieces = [one for one in read if one.topic_partition == whole.topic_partition]
        assert all(left.end == right.start for left, right in pairwise(pieces))
        assert (pieces[0].start, pieces[-1].end) == (whole.start, whole.end) if whole.size else not pieces


@given(_sizes, _splits)
def test_a_task_reads_something_and_each_of_its_partitions_as_one_range(
    sizes: list[int], plan: Split
) -> None:
    for task in plan.tasks(_ranges(sizes)):
        assert task
        assert all(one.size > 0 for one in task)
        assert len({one.topic_partition for one in task}) == len(task)


@given(_sizes, _splits, st.randoms())
def test_the_split_does_not_depend_on_the_order_in_which_ranges_were_found(
    sizes: list[int], plan: Split, random: Any
) -> None:
    shuffled = _ranges(sizes)
    random.shuffle(shuffled)
    assert plan.tasks(shuffled) == plan.tasks(_ranges(sizes))


@given(_sizes, _splits)
def test_no_task_has_more_than_a_fair_share_and_one_piece(sizes: list[int], plan: Split) -> None:
    ranges = _ranges(sizes)
    tasks = plan.tasks(ranges)
    pieces = split(
        sorted(ranges),
        min_partitions=plan.min_partitions,
        max_records_per_partition=plan.max_records_per_partition,
    )
    largest = max((piece.size for piece in pieces), default=0)
    for task in tasks:
        assert _size(task) <= sum(sizes) / len(tasks) + largest


@given(_sizes, _splits)
def test_the_number_of_tasks_is_what_the_options_promise(sizes: list[int], plan: Split) -> None:
    tasks = plan.tasks(_ranges(sizes))
    unpacked = split(
        sorted(_ranges(sizes)),
        min_partitions=plan.min_partitions,
        max_records_per_partition=plan.max_records_per_partition,
    )
    assert len(tasks) >= min(plan.min_partitions or 0, len(unpacked))
    if plan.max_records_per_partition is not None:
        assert all(_size(task) <= plan.max_records_per_partition for task in tasks)
    else:
        most = (plan.target_partitions or 1) + sum(sizes) // plan.most_offsets
        assert len(tasks) <= max(most, plan.min_partitions or 1)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=8), st.integers(1, 4))
def test_no_other_cut_of_the_row_has_a_smaller_largest_task(sizes: list[int], target: int) -> None:
    tasks = _tasks(sizes, target_partitions=target)
    count = min(target, len(sizes))
    assert len(tasks) == count
    best = min(
        max(sum(sizes[first:behind]) for first, behind in pairwise((0, *cuts, len(sizes))))
        for cuts in combinations(range(1, len(sizes)), count - 1)
    )
    assert max(map(sum, tasks)) == best


@given(_sizes)
def test_without_a_target_every_range_has_a_task_of_its_own(sizes: list[int]) -> None:
    ranges = _ranges(sizes)
    assert Split().tasks(ranges) == [(one,) for one in sorted(ranges) if one.size]


@pytest.mark.parametrize(
    ("sizes", "fields", "expected"),
    [
        ([10] * 4, {"target_partitions": 2}, [[10, 10], [10, 10]]),
        ([10] * 4, {"target_partitions": 8}, [[10], [10], [10], [10]]),
        ([100, 1, 1, 1], {"target_partitions": 2}, [[100], [1, 1, 1]]),
        ([1, 1, 1, 100], {"target_partitions": 2}, [[1, 1, 1], [100]]),
        ([10, 0, 10], {"target_partitions": 1}, [[10, 10]]),
        ([10] * 4, {"target_partitions": 1, "min_partitions": 3}, [[10, 10], [10], [10]]),
        ([10], {"target_partitions": 1, "min_partitions": 2}, [[5], [5]]),
        ([10, 4], {"target_partitions": 1, "max_records_per_partition": 6}, [[5], [5], [4]]),
        ([3, 3, 3, 3], {"target_partitions": 1, "max_records_per_partition": 6}, [[3, 3], [3, 3]]),
        ([10] * 4, {"target_partitions": 4, "least_offsets": 20}, [[10, 10], [10, 10]]),
        ([10] * 4, {"target_partitions": 4, "least_offsets": 41}, [[10, 10, 10, 10]]),
        ([10] * 4, {"target_partitions": 1, "most_offsets": 10}, [[10], [10], [10], [10]]),
        ([10] * 4, {"target_partitions": 2, "most_offsets": 20}, [[10, 10], [10, 10]]),
        # Two run at a time: a third task would be alone.
        ([10] * 6, {"target_partitions": 2, "most_offsets": 20}, [[10, 10], [10, 10], [10], [10]]),
        ([], {"target_partitions": 3}, []),
    ],
)
def test_tasks_are_as_the_fields_say(
    sizes: list[int], fields: dict[str, int], expected: list[list[int]]
) -> None:
    assert _tasks(sizes, **fields) == expected


def test_pieces_of_one_partition_are_one_range_again_where_a_task_reads_them_together() -> None:
    """For five tasks each partition is cut in three, which is one piece too many."""
    ranges = [OffsetRange("t", 0, 0, 4), OffsetRange("t", 1, 0, 4)]
    assert split(ranges, min_partitions=5, max_records_per_partition=None)[:2] == [
        OffsetRange("t", 0, 0, 1),
        OffsetRange("t", 0, 1, 2),
    ]
    tasks = Split(target_partitions=1, min_partitions=5).tasks(ranges)
    assert len(tasks) == 5
    assert tasks[0] == (OffsetRange("t", 0, 0, 2),)


def test_a_few_rows_in_many_partitions_are_one_task() -> None:
    assert len(Split(target_partitions=8).tasks(_ranges([2] * 64))) == 1


def test_large_partitions_stay_as_they_are() -> None:
    """A target that is too low for a cluster, or a constant, must not make few tasks of a lot of data."""
    ranges = _ranges([MOST_OFFSETS] * 50)
    assert Split(target_partitions=2).tasks(ranges) == [(one,) for one in sorted(ranges)]
    four = _ranges([100 * LEAST_OFFSETS] * 4)
    assert Split(target_partitions=8).tasks(four) == [(one,) for one in sorted(four)]
