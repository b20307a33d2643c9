"""A schema of Avro as the compiled core goes through it: words, one type after the other.

A type is its kind, where null is, size, precision and scale, its name with a null behind it, how many children it
has, and then these. What reads it is avro_plan.c.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from pyspark.sql import types as t

from ottla.spark.values.avro_schema import AvroType, Kind

_HEAD: Final = struct.Struct("=5i")
_WORD: Final = struct.Struct("=i")


def plan_of(avro: AvroType) -> bytes:
    """What is no record is the one field `value` of one: its bytes are the same."""
    out = bytearray()
    if isinstance(avro.spark, t.StructType):
        _write(out, avro, "")
    else:
        _write_head(out, Kind.RECORD, "", 1)
        _write(out, avro, "value")
    return bytes(out)


def _write(out: bytearray, avro: AvroType, name: str) -> None:
    decimal = avro.spark if avro.kind in (Kind.DECIMAL_BYTES, Kind.DECIMAL_FIXED) else None
    precision, scale = (decimal.precision, decimal.scale) if isinstance(decimal, t.DecimalType) else (0, 0)
    children = list(_children(avro))
    _write_head(out, avro.kind, name, len(children), avro.null, avro.size, precision, scale)
    for child_name, child in children:
        if child is None:
            _write_head(out, Kind.SYMBOL, child_name, 0)
        else:
            _write(out, child, child_name)


def _children(avro: AvroType) -> Iterator[tuple[str, AvroType | None]]:
    """With the names that errors give them; a symbol is a name only."""
    match avro.kind:
        case Kind.ENUM:
            yield from ((symbol, None) for symbol in avro.names)
        case Kind.RECORD:
            yield from zip(avro.names, avro.children, strict=True)
        case Kind.ARRAY:
            yield "[]", avro.children[0]
        case Kind.MAP:
            yield "{}", avro.children[0]
        case Kind.UNION:
            others = (f"member{number}" for number in range(len(avro.children)))
            yield from (("", c) if c.kind is Kind.NULL else (next(others), c) for c in avro.children)
        case _:
            yield from (("", child) for child in avro.children)


def _write_head(
    out: bytearray,
    kind: Kind,
    name: str,
    children: int,
    null: int = 0,
    size: int = 0,
    precision: int = 0,
    scale: int = 0,
) -> None:
    encoded = name.encode("utf-8", "replace")
    out += _HEAD.pack(kind, null, size, precision, scale)
    out += _WORD.pack(len(encoded))
    out += encoded + bytes(_WORD.size - len(encoded) % _WORD.size)
    out += _WORD.pack(children)
