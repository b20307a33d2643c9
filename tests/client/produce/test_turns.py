"""The column `partition` of rows that take turns."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import pytest

from ottla.client.produce.turns import in_turn

arrow = pytest.importorskip("pyarrow")


def as_list(count: int) -> Sequence[int]:
    return list(range(10, 10 + count))


def as_buffer(count: int) -> Sequence[int]:
    return array("i", as_list(count))


@pytest.mark.parametrize("turns", [as_list, as_buffer])
def test_rows_without_a_partition_get_theirs(turns: object) -> None:
    table = arrow.table({"value": [b"a", b"b", b"c"]})
    assert in_turn(table, turns).column("partition").to_pylist() == [10, 11, 12]  # type: ignore[arg-type]


@pytest.mark.parametrize("turns", [as_list, as_buffer])
def test_rows_with_a_partition_keep_it_and_take_no_turn(turns: object) -> None:
    table = arrow.table(
        {"value": [b"a", b"b", b"c"], "partition": arrow.chunked_array([[None, 3], [None]], arrow.int32())}
    )
    assert in_turn(table, turns).column("partition").to_pylist() == [10, 3, 11]  # type: ignore[arg-type]


def test_where_all_rows_name_their_partition_nobody_is_asked() -> None:
    table = arrow.table({"value": [b"a"], "partition": arrow.array([3], arrow.int64())})
    assert in_turn(table, lambda _: pytest.fail("asked")).column("partition").to_pylist() == [3]
