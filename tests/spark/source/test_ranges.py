"""Ranges are cut as the JVM connector cuts them: the ranges below come from KafkaOffsetRangeCalculator 4.2.0."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.source.ranges import OffsetRange, split

Triple = tuple[int, int, int]

_FAR = 10**12

KNOWN: list[tuple[list[Triple], int | None, int | None, list[Triple]]] = [
    ([(0, 1000, 1002)], 1, 1, [(0, 1000, 1001), (0, 1001, 1002)]),
    ([(0, 5, 15)], 3, 1_000_000, [(0, 5, 8), (0, 8, 11), (0, 11, 15)]),
    ([(0, _FAR, _FAR), (1, 9, 9), (2, 0, 1000)], 3, None, [(2, 0, 333), (2, 333, 666), (2, 666, 1000)]),
    ([(0, 5, 12)], 16, None, [(0, at, at + 1) for at in range(5, 12)]),
    ([(0, _FAR, _FAR + 2)], 7, None, [(0, _FAR, _FAR + 1), (0, _FAR + 1, _FAR + 2)]),
    ([(0, 0, 2), (1, 0, 2)], 3, 10, [(0, 0, 1), (0, 1, 2), (1, 0, 1), (1, 1, 2)]),
    ([(0, 1000, 2000)], 4, 1000, [(0, 1000, 1250), (0, 1250, 1500), (0, 1500, 1750), (0, 1750, 2000)]),
    ([(0, 0, 50), (1, 0, 100), (2, 0, 1)], 1, None, [(0, 0, 50), (1, 0, 100), (2, 0, 1)]),
    ([(0, 0, 50)], 3, None, [(0, 0, 16), (0, 16, 33), (0, 33, 50)]),
    ([(0, 1000, 1003)], 2, 33, [(0, 1000, 1001), (0, 1001, 1003)]),
    ([(0, 1000, 1099), (1, 0, 100)], 4, None, [(0, 1000, 1049), (0, 1049, 1099), (1, 0, 50), (1, 50, 100)]),
    ([(0, 1000, 1010)], 4, None, [(0, 1000, 1002), (0, 1002, 1004), (0, 1004, 1007), (0, 1007, 1010)]),
    # A small range stays whole, and the large one gets the tasks that are left.
    ([(0, 5, 15), (1, 0, 2), (2, 0, 0)], 4, 10**6, [(0, 5, 8), (0, 8, 11), (0, 11, 15), (1, 0, 2)]),
    (
        [(0, 1000, 1002), (1, 0, 1000)],
        7,
        1000,
        [
            (0, 1000, 1002),
            (1, 0, 166),
            (1, 166, 332),
            (1, 332, 499),
            (1, 499, 666),
            (1, 666, 833),
            (1, 833, 1000),
        ],
    ),
    # Pieces of a partition that was cut by size are cut by share all together or not at all.
    ([(0, 1000, 1007), (1, 1000, 1000)], 5, 3, [(0, 1000, 1002), (0, 1002, 1004), (0, 1004, 1007)]),
    (
        [(0, 1000, 2000), (1, 0, 3), (2, 0, 12345), (3, 0, 99)],
        3,
        4482,
        [(0, 1000, 2000), (1, 0, 3), (2, 0, 4115), (2, 4115, 8230), (2, 8230, 12345), (3, 0, 99)],
    ),
    (
        [(0, 0, 10), (1, 0, 10**9)],
        None,
        333_333_333,
        [(0, 0, 10), *((1, at, at + 250_000_000) for at in range(0, 10**9, 250_000_000))],
    ),
    ([(0, 1000, 997)], None, 2, []),
    ([(0, 5, 5)], 16, 33, []),
    ([], 16, 33, []),
]


def _ranges(triples: list[Triple]) -> list[OffsetRange]:
    return [OffsetRange("t", *triple) for triple in triples]


@pytest.mark.parametrize(("ranges", "least", "most", "expected"), KNOWN)
def test_ranges_are_cut_as_the_jvm_connector_cuts_them(
    ranges: list[Triple], least: int | None, most: int | None, expected: list[Triple]
) -> None:
    cut = split(_ranges(ranges), min_partitions=least, max_records_per_partition=most)
    assert cut == _ranges(expected)


_spans = st.lists(
    st.tuples(st.integers(0, 2**40), st.integers(-5, 3000)).map(lambda pair: (pair[0], pair[0] + pair[1])),
    max_size=6,
)
_limits = st.none() | st.integers(1, 40)


@given(_spans, _limits, _limits)
def test_the_pieces_cover_every_range_without_gap_or_overlap(
    bounds: list[tuple[int, int]], least: int | None, most: int | None
) -> None:
    ranges = [OffsetRange("t", partition, *pair) for partition, pair in enumerate(bounds)]
    pieces = split(ranges, min_partitions=least, max_records_per_partition=most)
    assert all(piece.size > 0 for piece in pieces)
    for whole in ranges:
        mine = [piece for piece in pieces if piece.partition == whole.partition]
        assert sum(piece.size for piece in mine) == max(whole.size, 0)
        assert [piece.start for piece in mine] == [whole.start, *(piece.end for piece in mine[:-1])][
            : len(mine)
        ]
    if most is not None:
        assert all(piece.size <= most for piece in pieces)
