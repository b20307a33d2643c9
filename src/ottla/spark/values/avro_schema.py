"""Schemas of Avro: their JSON read and checked, and the types that Spark has for them.

Types are those of Spark's own `SchemaConverters` (what `from_avro` gives), except where docs/spark.md says otherwise.
Nothing here knows of bytes; what the compiled core gets is written by `avro_plan`.

Invariant: an `AvroType` that exists has a type in Spark, is not recursive, and is of bounded size.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from pyspark.sql import types as t

from ottla.spark.options.parsing import OptionError

# Arrow takes 64 levels, of which a map is two.
_MOST_NESTING: Final = 32
# A record that names another one twice, which names another one twice, and so on, grows beyond all bounds.
_MOST_TYPES: Final = 50_000
_MOST_DIGITS: Final = 38
_INT32: Final = 2**31 - 1


class Kind(IntEnum):
    """What the compiled core tells apart; the numbers are those of avro_plan.h."""

    NULL = 0
    BOOLEAN = 1
    INT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    BYTES = 6
    STRING = 7
    RECORD = 8
    ENUM = 9
    ARRAY = 10
    MAP = 11
    UNION = 12
    WIDE = 13
    FIXED = 14
    DECIMAL_BYTES = 15
    DECIMAL_FIXED = 16
    TIMESTAMP_MILLIS = 17
    TIMESTAMP_MICROS = 18
    SYMBOL = 19


class NullIs(IntEnum):
    """Where null is in a union of two."""

    ABSENT = 0
    FIRST = 1
    SECOND = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroType:
    """A type of Avro and what Spark has for it. A type and null, in a union of two, are one AvroType."""

    kind: Kind
    spark: t.DataType
    null: NullIs = NullIs.ABSENT
    size: int = 0
    """The bytes of a fixed."""
    names: tuple[str, ...] = ()
    """Of fields, or the symbols of an enum."""
    children: tuple[AvroType, ...] = ()
    """Of a record its fields, of a union its branches: UNION is a struct of them, WIDE one column for all."""
    types: int = 1
    """How many there are, with all that it holds."""

    def may_be_null(self) -> bool:
        is_union = self.kind in (Kind.UNION, Kind.WIDE)
        return (
            self.null is not NullIs.ABSENT
            or self.kind is Kind.NULL
            or (is_union and any(child.kind is Kind.NULL for child in self.children))
        )


def parse_avro(text: str) -> AvroType:
    """The schema in this JSON; a schema that is one name ("long") may stand without quotes."""
    stripped = text.strip()
    try:
        found: object = json.loads(stripped) if stripped[:1] in ("{", "[", '"') else stripped
    except (ValueError, RecursionError) as error:
        raise OptionError(f"value.schema is not the JSON of an Avro schema ({error})") from error
    is_record = isinstance(found, dict) and found.get("type") in ("record", "error")
    # What is no record becomes the field of one.
    return _Parser().parse(found, "", "the schema", 0 if is_record else 1)


def columns_of(avro: AvroType) -> t.StructType:
    """A record's fields; what is no record is one column `value`."""
    if isinstance(avro.spark, t.StructType):
        return avro.spark
    return t.StructType([t.StructField("value", avro.spark)])


def _wrong(path: str, problem: str) -> OptionError:
    return OptionError(f"value.schema: {path} {problem}")


_PRIMITIVES: Final[dict[str, tuple[Kind, t.DataType]]] = {
    "null": (Kind.NULL, t.NullType()),
    "boolean": (Kind.BOOLEAN, t.BooleanType()),
    "int": (Kind.INT, t.IntegerType()),
    "long": (Kind.LONG, t.LongType()),
    "float": (Kind.FLOAT, t.FloatType()),
    "double": (Kind.DOUBLE, t.DoubleType()),
    "bytes": (Kind.BYTES, t.BinaryType()),
    "string": (Kind.STRING, t.StringType()),
}
# A logical type that does not go with its type, or is not known, is to be ignored, as Avro says.
_LOGICAL: Final[dict[tuple[str, str], tuple[Kind, t.DataType]]] = {
    ("int", "date"): (Kind.INT, t.DateType()),
    ("long", "timestamp-millis"): (Kind.TIMESTAMP_MILLIS, t.TimestampType()),
    ("long", "timestamp-micros"): (Kind.TIMESTAMP_MICROS, t.TimestampType()),
    ("long", "local-timestamp-millis"): (Kind.TIMESTAMP_MILLIS, t.TimestampNTZType()),
    ("long", "local-timestamp-micros"): (Kind.TIMESTAMP_MICROS, t.TimestampNTZType()),
}
_INTEGERS: Final = frozenset({Kind.INT, Kind.LONG, Kind.TIMESTAMP_MILLIS, Kind.TIMESTAMP_MICROS})


class _Parser:
    def __init__(self) -> None:
        self._named: dict[str, AvroType] = {}
        self._open: set[str] = set()

    def parse(self, found: object, namespace: str, path: str, depth: int) -> AvroType:
        if depth > _MOST_NESTING:
            raise _wrong(path, f"nests types more than {_MOST_NESTING} deep")
        if isinstance(found, str):
            parsed = self._by_name(found, namespace, path)
        elif isinstance(found, list):
            parsed = self._union(found, namespace, path, depth)
        elif isinstance(found, dict):
            parsed = self._described(found, namespace, path, depth)
        else:
            raise _wrong(path, f"is no type: {json.dumps(found)[:100]}")
        if parsed.types > _MOST_TYPES:
            raise _wrong(path, f"has more than {_MOST_TYPES} types in all, with each reference counted anew")
        return parsed

    def _by_name(self, name: str, namespace: str, path: str) -> AvroType:
        if name in _PRIMITIVES:
            kind, spark = _PRIMITIVES[name]
            return AvroType(kind=kind, spark=spark)
        full = _full_name(name, namespace)
        if full in self._open:
            raise _wrong(path, f"is of the type {full} that it is in: a recursive type has no columns")
        if full not in self._named:
            raise _wrong(
                path, f"is of the type {full!r}, which is none of Avro's and is not defined before it"
            )
        return self._named[full]

    def _described(self, found: dict[str, object], namespace: str, path: str, depth: int) -> AvroType:
        name = found.get("type")
        if not isinstance(name, str):
            raise _wrong(path, 'has no "type" with the name of one')
        match name:
            case "record" | "error":
                return self._record(found, namespace, path, depth)
            case "enum":
                return self._define(found, namespace, path, _enum(found, path))
            case "fixed":
                return self._define(found, namespace, path, _fixed(found, path))
            case "array":
                items = self.parse(_member(found, "items", path), namespace, f"{path}[]", depth + 1)
                array = t.ArrayType(items.spark, True)
                return AvroType(kind=Kind.ARRAY, spark=array, children=(items,), types=1 + items.types)
            case "map":
                values = self.parse(_member(found, "values", path), namespace, f"{path}{{}}", depth + 1)
                mapping = t.MapType(t.StringType(), values.spark, True)
                return AvroType(kind=Kind.MAP, spark=mapping, children=(values,), types=1 + values.types)
        if name == "bytes" and (decimal := _decimal(found, _MOST_DIGITS * 100, path)) is not None:
            return AvroType(kind=Kind.DECIMAL_BYTES, spark=decimal)
        logical = _LOGICAL.get((name, str(found.get("logicalType"))))
        if logical is not None:
            return AvroType(kind=logical[0], spark=logical[1])
        return self._by_name(name, namespace, path)

    def _record(self, found: dict[str, object], namespace: str, path: str, depth: int) -> AvroType:
        full = self._new_name(found, namespace, path)
        fields = found.get("fields")
        if not isinstance(fields, list):
            raise _wrong(path, 'is a record without "fields"')
        self._open.add(full)
        names: list[str] = []
        children: list[AvroType] = []
        for field in fields:
            name = field.get("name") if isinstance(field, dict) else None
            if not isinstance(name, str) or not name or "\0" in name:
                raise _wrong(path, f"has a field without a name: {json.dumps(field)[:100]}")
            where = name if path == "the schema" else f"{path}.{name}"
            if name in names:
                raise _wrong(where, "is there more than once")
            names.append(name)
            children.append(
                self.parse(_member(field, "type", where), full.rpartition(".")[0], where, depth + 1)
            )
        self._open.discard(full)
        struct = t.StructType(
            [t.StructField(n, child.spark, True) for n, child in zip(names, children, strict=True)]
        )
        record = AvroType(
            kind=Kind.RECORD,
            spark=struct,
            names=tuple(names),
            children=tuple(children),
            types=1 + sum(child.types for child in children),
        )
        self._named[full] = record
        return record

    def _define(self, found: dict[str, object], namespace: str, path: str, parsed: AvroType) -> AvroType:
        self._named[self._new_name(found, namespace, path)] = parsed
        return parsed

    def _new_name(self, found: dict[str, object], namespace: str, path: str) -> str:
        name, own = found.get("name"), found.get("namespace", namespace)
        if not isinstance(name, str) or not name or not isinstance(own, str):
            raise _wrong(path, f"is of the type {found['type']}, which needs a name")
        full = _full_name(name, own)
        if full in self._named or full in self._open:
            raise _wrong(path, f"defines the type {full} again")
        return full

    def _union(self, found: list[object], namespace: str, path: str, depth: int) -> AvroType:
        if not found:
            raise _wrong(path, "is a union of nothing")
        if any(isinstance(branch, list) for branch in found):
            raise _wrong(path, "is a union that holds a union")
        if found.count("null") > 1:
            raise _wrong(path, "is a union that has null more than once")
        # Only where the members become a struct do they lie deeper.
        deeper = depth + (len(found) - found.count("null") > 1)
        return _united([self.parse(branch, namespace, path, deeper) for branch in found])


def _united(branches: Sequence[AvroType]) -> AvroType:
    others = [branch for branch in branches if branch.kind is not Kind.NULL]
    types = 1 + sum(branch.types for branch in branches)
    if len(branches) == 2 and len(others) == 1:
        null = NullIs.FIRST if branches[0].kind is Kind.NULL else NullIs.SECOND
        return dataclasses.replace(others[0], null=null)
    if len(others) == 1:
        return AvroType(kind=Kind.WIDE, spark=others[0].spark, children=tuple(branches), types=types)
    raw = [Kind.LONG if b.kind in _INTEGERS - {Kind.INT} else b.kind for b in branches]
    for narrow, wide, spark in (
        (Kind.INT, Kind.LONG, t.LongType()),
        (Kind.FLOAT, Kind.DOUBLE, t.DoubleType()),
    ):
        if len(others) == 2 and {narrow, wide} == set(raw) - {Kind.NULL}:
            plain = tuple(AvroType(kind=kind, spark=b.spark) for kind, b in zip(raw, branches, strict=True))
            return AvroType(kind=Kind.WIDE, spark=spark, children=plain, types=types)
    members = [t.StructField(f"member{number}", branch.spark, True) for number, branch in enumerate(others)]
    return AvroType(kind=Kind.UNION, spark=t.StructType(members), children=tuple(branches), types=types)


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _member(found: dict[str, object], name: str, path: str) -> object:
    if name not in found:
        raise _wrong(path, f'lacks "{name}"')
    return found[name]


def _enum(found: dict[str, object], path: str) -> AvroType:
    symbols = found.get("symbols")
    if not isinstance(symbols, list) or not symbols or not all(isinstance(s, str) for s in symbols):
        raise _wrong(path, 'is an enum without "symbols"')
    if len(set(symbols)) < len(symbols):
        raise _wrong(path, "is an enum with a symbol that is there more than once")
    return AvroType(
        kind=Kind.ENUM, spark=t.StringType(), names=tuple(map(str, symbols)), types=1 + len(symbols)
    )


def _fixed(found: dict[str, object], path: str) -> AvroType:
    size = found.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _INT32:
        raise _wrong(path, f'is a fixed type whose "size" is no number of bytes: {size!r}')
    digits = len(str(2 ** (8 * min(size, 1000) - 1) - 1)) - 1 if size else 0
    decimal = _decimal(found, digits, path)
    if decimal is not None:
        return AvroType(kind=Kind.DECIMAL_FIXED, spark=decimal, size=size)
    return AvroType(kind=Kind.FIXED, spark=t.BinaryType(), size=size)


def _decimal(found: dict[str, object], most: int, path: str) -> t.DecimalType | None:
    """None where it is no decimal, or not a valid one, which is to be ignored."""
    precision, scale = found.get("precision"), found.get("scale", 0)
    if found.get("logicalType") != "decimal" or type(precision) is not int or type(scale) is not int:
        return None
    if not (0 < precision <= most and 0 <= scale <= precision):
        return None
    if precision > _MOST_DIGITS:
        raise _wrong(path, f"is a decimal of {precision} digits, but Spark's have at most {_MOST_DIGITS}")
    return t.DecimalType(precision, scale)
