"""Tables of whatever kind as columns and as rows, and several of them one by one."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from ottla import _extras
from ottla.client.produce.tables import (
    as_arrow,
    check_partitions,
    is_several,
    named_columns,
    rows_of,
    with_round_robin_column,
)
from ottla.errors import MissingExtraError

arrow = pytest.importorskip("pyarrow")
polars = pytest.importorskip("polars")


def table_of(count: int) -> Any:
    return arrow.table({"value": arrow.array([b"%03d" % number for number in range(count)], arrow.binary())})


class OnlyCapsules:
    """Exports Arrow, and can do nothing else."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    ("table", "several"),
    [
        (table_of(1), False),
        (table_of(1).to_batches()[0], False),
        (table_of(1)["value"], False),
        (polars.from_arrow(table_of(1)), False),
        (polars.from_arrow(table_of(1))["value"], False),
        (polars.from_arrow(table_of(1)).lazy(), False),
        (OnlyCapsules(table_of(1)), False),
        ({"value": table_of(1)["value"]}, False),
        (b"bytes", False),
        ([table_of(1)], True),
        ((table_of(1),), True),
        (iter([table_of(1)]), True),
        (table_of(1).to_reader(), True),
        (deque([table_of(1)]), True),
    ],
)
def test_what_gives_tables_one_by_one_is_known_from_what_is_one(table: Any, several: bool) -> None:
    assert is_several(table) is several


def test_what_only_exports_arrow_becomes_a_table_of_pyarrow() -> None:
    assert as_arrow(OnlyCapsules(table_of(10))).equals(table_of(10))
    assert as_arrow(polars.DataFrame({"name": ["1", "2"]})["name"]).column_names == ["value"]
    assert as_arrow({"name": [b"1"]}).to_pydict() == {"value": [b"1"]}


def test_what_exports_arrow_is_not_touched_and_needs_no_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    def require(*_: object, **__: object) -> Any:
        raise MissingExtraError("pyarrow is not installed")

    monkeypatch.setattr(_extras, "require", require)
    for table in (OnlyCapsules(table_of(1)), table_of(1), polars.from_arrow(table_of(1))):
        assert named_columns(table) is table
    with pytest.raises(MissingExtraError):
        named_columns({"value": [b"1"]})


def test_a_negative_partition_is_found_with_its_row() -> None:
    check_partitions(table_of(3))
    check_partitions(arrow.table({"value": [b"1", b"2"], "partition": [None, 0]}))
    with pytest.raises(ValueError, match="row 2 is for partition -7"):
        check_partitions(arrow.table({"value": [b"1"] * 3, "partition": [None, 0, -7]}))


def test_a_single_column_is_the_value_whatever_its_name() -> None:
    column = arrow.array([b"1"], arrow.binary())
    assert list(named_columns(arrow.table({"name": column}))) == ["value"]
    assert list(named_columns(polars.DataFrame({"name": [b"1"]}))) == ["value"]
    assert list(named_columns(column)) == ["value"]
    two = arrow.table({"key": column, "value": column})
    assert named_columns(two) is two


def test_a_row_is_a_record_with_all_its_columns() -> None:
    moment = datetime(2024, 5, 6, tzinfo=UTC)
    table = arrow.table(
        {
            "value": ["text"],
            "key": arrow.array([b"k"], arrow.binary()),
            "partition": [3],
            "timestamp": arrow.array([moment], arrow.timestamp("us", "UTC")),
            "headers": arrow.array([[("h", b"1"), ("n", None)]], arrow.map_(arrow.string(), arrow.binary())),
        }
    )
    (record,) = rows_of(table)
    assert (record.value, record.key, record.partition) == (b"text", b"k", 3)
    assert record.timestamp == int(moment.timestamp() * 1000)
    assert record.headers == [("h", b"1"), ("n", None)]


# The column `partition` of rows that take turns


def as_list(count: int) -> Sequence[int]:
    return list(range(10, 10 + count))


def as_buffer(count: int) -> Sequence[int]:
    return array("i", as_list(count))


@pytest.mark.parametrize("turns", [as_list, as_buffer])
def test_rows_without_a_partition_get_theirs(turns: object) -> None:
    table = arrow.table({"value": [b"a", b"b", b"c"]})
    assert with_round_robin_column(table, turns).column("partition").to_pylist() == [10, 11, 12]  # type: ignore[arg-type]


@pytest.mark.parametrize("turns", [as_list, as_buffer])
def test_rows_with_a_partition_keep_it_and_take_no_turn(turns: object) -> None:
    table = arrow.table(
        {"value": [b"a", b"b", b"c"], "partition": arrow.chunked_array([[None, 3], [None]], arrow.int32())}
    )
    assert with_round_robin_column(table, turns).column("partition").to_pylist() == [10, 3, 11]  # type: ignore[arg-type]


def test_where_all_rows_name_their_partition_the_partitioner_is_not_called() -> None:
    table = arrow.table({"value": [b"a"], "partition": arrow.array([3], arrow.int64())})
    assert with_round_robin_column(table, lambda _: pytest.fail("called")).column(
        "partition"
    ).to_pylist() == [3]


@pytest.mark.parametrize(
    "table", [{"value": "abc"}, {"value": b"abc"}, {"key": ["x", "y", "z"], "value": "abc"}, {"any": "abc"}]
)
def test_text_in_place_of_a_column_is_refused_by_name(table: Any) -> None:
    name = list(table)[-1]
    with pytest.raises(TypeError, match=f"the column '{name}' is (str|bytes), .* produce\\(\\), and pyarrow"):
        named_columns(table)
