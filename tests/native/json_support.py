"""Reading JSON through the compiled core and getting Python values back."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ottla._native.json_columns import JsonColumns, read_json


def documents(*values: bytes | None) -> pa.Array:
    return pa.array(values, pa.binary())


def read(schema: pa.Schema, *values: bytes | None) -> tuple[list[Any], JsonColumns]:
    """The rows, checked by Arrow itself, and what else was found."""
    found = read_json(schema, documents(*values))
    array = pa.array(found)
    array.validate(full=True)
    assert len(array) == len(values)
    return array.to_pylist(), found


def malformed(found: JsonColumns, rows: int) -> list[bool]:
    bits = found.malformed or bytes((rows + 7) // 8)
    return [bool(bits[row // 8] >> row % 8 & 1) for row in range(rows)]


def value(kind: pa.DataType, text: str | bytes) -> Any:
    """One value of a document, which must be well-formed."""
    data = text if isinstance(text, bytes) else text.encode()
    rows, found = read(pa.schema([("v", kind)]), b'{"v":' + data + b"}")
    assert found.malformed_count == 0, found.problem
    return rows[0]["v"]


def is_malformed(kind: pa.DataType, text: str | bytes) -> bool:
    data = text if isinstance(text, bytes) else text.encode()
    rows, found = read(pa.schema([("v", kind)]), b'{"v":' + data + b"}")
    assert rows[0]["v"] is None or found.malformed_count == 0 or pa.types.is_nested(kind)
    return found.malformed_count == 1
