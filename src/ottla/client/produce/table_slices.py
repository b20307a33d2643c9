"""A table in slices, whoever made it: what exports Arrow and can be cut, is; what cannot becomes a pyarrow.Table.

Also the rows of a table one by one, for those who need records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ottla import _extras
from ottla.errors import MissingExtraError
from ottla.hooks import ProducerRecord

_LEAST_ROW: Final = 16
"""What a row counts for, at the least: a short value takes more as a record than in its column."""


def named_columns(table: Any) -> Any:
    """The table, or for a single column of any name that column as `value`."""
    if isinstance(table, Mapping):
        return table
    names = getattr(table, "column_names", None) or getattr(table, "columns", None)
    if isinstance(names, list) and len(names) == 1 and names[0] != "value":
        return {"value": table[names[0]]}
    kind = getattr(table, "type", None)
    if names is None and kind is not None and not str(kind).startswith("struct"):
        return {"value": table}
    return table


def has_column(table: Any, name: str) -> bool:
    """As far as a slice of a table tells: pyarrow's have `column_names`, those of polars `columns`."""
    names = getattr(table, "column_names", None) or getattr(table, "columns", None)
    return isinstance(names, list) and name in names


def slices(table: Any, most_bytes: int, most_rows: int | None = None) -> Iterator[tuple[Any, bool]]:
    """Slices of about so many bytes and at most so many rows, and whether they can be read more than once.

    What can neither be cut nor made into a pyarrow.Table comes as it is, at once.
    """
    whole = _sliceable(table)
    if whole is None:
        yield table, False
        return
    rows = _rows(whole)
    size = max(_bytes(whole), rows * _LEAST_ROW)
    step = rows if size <= most_bytes else rows * most_bytes // size
    step = max(1, step if most_rows is None else min(step, most_rows))
    for first in range(0, rows, step):
        yield whole.slice(first, step), True


def rows_of(table: Any) -> Iterator[ProducerRecord]:
    """Each row as a record; needs pyarrow."""
    arrow = _extras.require("pyarrow", extra="columns", purpose="producing a table row by row")
    columns = named_columns(table)
    whole = arrow.table(dict(columns)) if isinstance(columns, Mapping) else arrow.table(columns)
    place = whole.schema.get_field_index("timestamp")
    if place >= 0 and arrow.types.is_timestamp(whole.schema.field(place).type):
        milliseconds = whole.column(place).cast(arrow.timestamp("ms", whole.schema.field(place).type.tz))
        whole = whole.set_column(place, "timestamp", milliseconds.cast(arrow.int64()))
    for batch in whole.to_batches(max_chunksize=1024):
        for row in batch.to_pylist():
            yield ProducerRecord(
                topic="",
                value=_bytes_of(row["value"]),
                key=_bytes_of(row.get("key")),
                headers=[_header(each) for each in row.get("headers") or ()],
                partition=row.get("partition"),
                timestamp=row.get("timestamp"),
            )


def _header(header: Any) -> tuple[str, bytes | None]:
    """A struct of key and value, or an entry of a map."""
    key, value = (header["key"], header["value"]) if isinstance(header, dict) else header
    return key, _bytes_of(value)


def _bytes_of(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def _sliceable(table: Any) -> Any:
    columns = named_columns(table)
    if not isinstance(columns, Mapping) and hasattr(columns, "slice"):
        return columns
    try:
        arrow = _extras.require("pyarrow", extra="columns", purpose="producing a table")
    except MissingExtraError:
        return None
    return arrow.table(dict(columns)) if isinstance(columns, Mapping) else arrow.table(columns)


def _rows(table: Any) -> int:
    rows = getattr(table, "num_rows", None)
    return len(table) if rows is None else int(rows)


def _bytes(table: Any) -> int:
    """As far as it says: pyarrow has `nbytes`, polars `estimated_size()`."""
    if hasattr(table, "nbytes"):
        return int(table.nbytes)
    if hasattr(table, "estimated_size"):
        return int(table.estimated_size())
    return 0
