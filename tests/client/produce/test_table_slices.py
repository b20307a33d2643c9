"""Tables in slices and in rows, whoever made them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ottla import _extras
from ottla.client.produce.table_slices import named_columns, rows_of, slices
from ottla.errors import MissingExtraError

arrow = pytest.importorskip("pyarrow")
polars = pytest.importorskip("polars")


def values_of(table: Any) -> list[bytes]:
    column: list[bytes] = arrow.table(named_columns(table))["value"].to_pylist()
    return column


def table_of(count: int) -> Any:
    return arrow.table({"value": arrow.array([b"%03d" % number for number in range(count)], arrow.binary())})


@pytest.mark.parametrize(
    "make", [lambda table: table, polars.from_arrow, lambda table: {"value": table["value"]}]
)
def test_slices_have_every_row_once_in_order_and_not_more_than_asked_for(make: Any) -> None:
    whole = table_of(100)
    parts = list(slices(make(whole), whole.nbytes // 7))
    assert len(parts) >= 7
    assert all(again for _, again in parts)
    assert [value for part, _ in parts for value in values_of(part)] == whole["value"].to_pylist()


def test_rows_bound_slices_too_and_a_row_is_the_smallest() -> None:
    whole = table_of(10)
    assert [part.num_rows for part, _ in slices(whole, 1 << 20, 4)] == [4, 4, 2]
    assert [part.num_rows for part, _ in slices(whole, 1, 4)] == [1] * 10


def test_rows_that_hardly_take_memory_are_many_all_the_same() -> None:
    assert len(list(slices(polars.DataFrame({"value": [b""] * 1000}), 4000))) >= 4


def test_an_empty_table_has_no_slices() -> None:
    assert list(slices(table_of(0), 100)) == []


class OnlyCapsules:
    """Exports Arrow, and can do nothing else."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def test_what_cannot_be_cut_becomes_a_table_that_can() -> None:
    parts = list(slices(OnlyCapsules(table_of(10)), 1 << 20, 4))
    assert [part.num_rows for part, _ in parts] == [4, 4, 2]


def test_without_pyarrow_what_cannot_be_cut_comes_as_it_is_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def require(*_: object, **__: object) -> Any:
        raise MissingExtraError("pyarrow is not installed")

    monkeypatch.setattr(_extras, "require", require)
    table = OnlyCapsules(table_of(10))
    assert list(slices(table, 1, 1)) == [(table, False)]


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
