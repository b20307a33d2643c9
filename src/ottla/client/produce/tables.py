"""What a program may hand over as a table: one that exports Arrow, or several that come one after the other.

Which library made it does not matter (pyarrow, polars, pandas, duckdb), and nothing here copies rows, except where an
interceptor needs records, or pyarrow has to change columns. What is no table is refused by name, with what to do
instead.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ottla import _extras
from ottla.hooks import ProducerRecord

_SCALARS = (bytes, bytearray, memoryview, str)


def is_several(table: Any) -> bool:
    """Whether it gives tables one by one: a generator, a reader of batches, a list; also an asynchronous one."""
    if hasattr(table, "__next__") or hasattr(table, "__aiter__"):
        return True
    if (
        _exports(table)
        or isinstance(table, (Mapping, *_SCALARS))
        or _is_lazy(table)
        or _is_of(table, "pandas")
    ):
        return False
    return isinstance(table, Iterable)


async def each_table(tables: Any) -> AsyncGenerator[Any, None]:
    """What `is_several`, one by one."""
    if hasattr(tables, "__aiter__"):
        async for table in tables:
            yield table
    else:
        for table in tables:
            yield table


def named_columns(table: Any) -> Any:
    """The table as what the encoder takes; a single column of any name is `value`.

    TypeError: it is no table, and what to do.
    """
    _refuse(table)
    if _is_of(table, "pandas"):
        table = _without_index(table)
    if isinstance(table, Mapping):
        _refuse_text(table)
        if len(table) == 1:
            table = {"value": next(iter(table.values()))}
        if all(_exports(column) for column in table.values()):
            return table
        arrow = _extras.require(
            "pyarrow", extra="columns", purpose="producing columns that are no Arrow arrays"
        )
        return _gathered(arrow, table)
    names = getattr(table, "column_names", None) or getattr(table, "columns", None)
    if isinstance(names, list) and len(names) == 1 and names[0] != "value":
        return {"value": table[names[0]]}
    kind = getattr(table, "type", None) or getattr(table, "dtype", None)
    if names is None and kind is not None and not str(kind).lower().startswith("struct"):
        return {"value": table}
    return table


def as_arrow(table: Any) -> Any:
    """The same as a pyarrow.Table."""
    arrow = _extras.require("pyarrow", extra="columns", purpose="producing such a table")
    columns = named_columns(table)
    return _gathered(arrow, columns) if isinstance(columns, Mapping) else arrow.table(columns)


def _gathered(arrow: Any, columns: Mapping[str, Any]) -> Any:
    return arrow.table(
        {
            name: arrow.chunked_array(column) if hasattr(column, "__arrow_c_stream__") else column
            for name, column in columns.items()
        }
    )


def rows_of(table: Any) -> Iterator[ProducerRecord]:
    """Each row of a pyarrow.Table as a record."""
    arrow = _extras.require("pyarrow", extra="columns", purpose="producing a table row by row")
    place = table.schema.get_field_index("timestamp")
    if place >= 0 and arrow.types.is_timestamp(table.schema.field(place).type):
        milliseconds = table.column(place).cast(arrow.timestamp("ms", table.schema.field(place).type.tz))
        table = table.set_column(place, "timestamp", milliseconds.cast(arrow.int64()))
    for batch in table.to_batches(max_chunksize=1024):
        for row in batch.to_pylist():
            yield ProducerRecord(
                topic="",
                value=_bytes_of(row["value"]),
                key=_bytes_of(row.get("key")),
                headers=[_header(each) for each in row.get("headers") or ()],
                partition=row.get("partition"),
                timestamp=row.get("timestamp"),
            )


def with_round_robin_column(table: Any, turns: Callable[[int], Sequence[int]]) -> Any:
    """A pyarrow.Table with every row's partition; `turns(count)` gives those of the rows that name none.

    Whose turn it is, is the partitioner's (partitioners/base.py, IN_TURN).
    """
    arrow = _extras.require("pyarrow", extra="columns", purpose="producing a table round robin")
    index = table.schema.get_field_index("partition")
    if index < 0:
        return table.append_column("partition", _int32_column(arrow, turns(table.num_rows)))
    named = table.column(index).cast(arrow.int32()).combine_chunks()
    if named.null_count == 0:
        return table
    compute = _extras.require("pyarrow.compute", extra="columns", purpose="producing a table round robin")
    filled = compute.replace_with_mask(named, named.is_null(), _int32_column(arrow, turns(named.null_count)))
    return table.set_column(index, "partition", filled)


def _int32_column(arrow: Any, partitions: Sequence[int]) -> Any:
    try:
        data = arrow.py_buffer(memoryview(partitions))  # type: ignore[arg-type]
    except TypeError:
        return arrow.array(partitions, arrow.int32())
    return arrow.Array.from_buffers(arrow.int32(), len(partitions), [None, data])


def check_partitions(table: Any) -> None:
    """Of a pyarrow.Table that goes row by row: an error for the first row that names a negative partition."""
    if table.schema.get_field_index("partition") < 0:
        return
    compute = _extras.require("pyarrow.compute", extra="columns", purpose="producing a table row by row")
    is_negative = compute.fill_null(compute.less(table.column("partition"), 0), False)
    row = compute.index(is_negative, True).as_py()
    if row >= 0:
        raise ValueError(
            f"row {row} is for partition {table.column('partition')[row].as_py()}, and there are none below 0; null "
            "is for a row that goes where its key says"
        )


def _header(header: Any) -> tuple[str, bytes | None]:
    """A struct of key and value, or an entry of a map."""
    key, value = (header["key"], header["value"]) if isinstance(header, dict) else header
    return key, _bytes_of(value)


def _bytes_of(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def _refuse(table: Any) -> None:
    if _is_lazy(table):
        raise TypeError(
            "a LazyFrame has no rows yet: produce frame.collect(), or its batches one by one, "
            "frame.collect_batches()"
        )
    if isinstance(table, _SCALARS):
        raise TypeError(
            f"{type(table).__name__} is no table: produce() takes a single value, produce_batch() what exports Arrow "
            "(of pyarrow, polars, pandas, duckdb), or several of those one by one"
        )


def _refuse_text(columns: Mapping[str, Any]) -> None:
    """A column of a mapping has a value for each row; the letters of a text would each become a row."""
    for name, column in columns.items():
        if isinstance(column, _SCALARS):
            raise TypeError(
                f"the column {name!r} is {type(column).__name__}, and a column has a value for each row: write "
                f"{{{name!r}: [...]}}; for a single record there is produce(), and pyarrow.Table.from_pylist() makes "
                "a table of rows"
            )


def _without_index(frame: Any) -> Any:
    """pandas would export the names of its rows as a column if they are not just numbers from 0 on."""
    arrow = _extras.require("pyarrow", extra="columns", purpose="producing a pandas DataFrame")
    if hasattr(frame, "columns"):
        return arrow.Table.from_pandas(frame, preserve_index=False)
    return arrow.Array.from_pandas(frame)


def _exports(table: Any) -> bool:
    return hasattr(table, "__arrow_c_array__") or hasattr(table, "__arrow_c_stream__")


def _is_lazy(table: Any) -> bool:
    return _is_of(table, "polars") and type(table).__name__ == "LazyFrame"


def _is_of(table: Any, package: str) -> bool:
    return type(table).__module__.partition(".")[0] == package
