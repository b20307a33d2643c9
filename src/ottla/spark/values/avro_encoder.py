"""Typed columns to values of Avro: what a sink with `value.format=avro` does with each batch of rows.

    encoder = AvroEncoder(fields, schema)
    encoder(structs)  # an array of structs with these fields -> an array of binary; a null struct -> null

Whether columns and schema go together is checked when the encoder is made, which is when the query is planned.
Without a schema one is made from the columns, as Spark's `to_avro` does it: `avro_schema_of`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import types as t

from ottla._native.avro_columns import write_avro
from ottla.spark.options.parsing import OptionError
from ottla.spark.values.avro_plan import plan_of
from ottla.spark.values.avro_schema import AvroType, Kind, columns_of, parse_avro

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_TOP: Final = "topLevelRecord"


class AvroEncoder:
    """Structs of `fields` to values; `schema` is the JSON of Avro's, None for the one that the fields make."""

    def __init__(
        self, fields: Sequence[t.StructField], schema: str | None = None, schema_id: int | None = None
    ) -> None:
        struct = t.StructType(list(fields))
        self.schema: Final = avro_schema_of(struct) if schema is None else schema
        avro = parse_avro(self.schema)
        _check_columns(avro, struct)
        self._plan = plan_of(avro)
        self._schema_id = schema_id

    def __call__(self, columns: pa.StructArray) -> pa.Array:
        return pa.array(write_avro(self._plan, columns, pa.field("value", pa.binary()), self._schema_id))


def avro_schema_of(struct: t.StructType) -> str:
    """The JSON of the schema that Spark's `to_avro` writes such a struct with, unless it is told another."""
    return json.dumps(_record(struct, _TOP, ""), separators=(",", ":"))


_MADE: Final[dict[type[t.DataType], object]] = {
    t.NullType: "null",
    t.BooleanType: "boolean",
    t.ByteType: "int",
    t.ShortType: "int",
    t.IntegerType: "int",
    t.LongType: "long",
    t.FloatType: "float",
    t.DoubleType: "double",
    t.StringType: "string",
    t.BinaryType: "bytes",
    t.DateType: {"type": "int", "logicalType": "date"},
    t.TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
    t.TimestampNTZType: {"type": "long", "logicalType": "local-timestamp-micros"},
}


def _record(struct: t.StructType, name: str, namespace: str) -> dict[str, object]:
    full = f"{namespace}.{name}" if namespace else name
    for field in struct.fields:
        if not _NAME.fullmatch(field.name):
            raise OptionError(
                f"the column {field.name!r} cannot be written as Avro, whose names are letters, digits and _: "
                "rename it"
            )
    fields = [{"name": f.name, "type": _made(f.dataType, f.nullable, f.name, full)} for f in struct.fields]
    return {
        "type": "record",
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        "fields": fields,
    }


def _made(kind: t.DataType, nullable: bool, name: str, namespace: str) -> object:
    made = _not_null(kind, name, namespace)
    return [made, "null"] if nullable and made != "null" else made


def _not_null(kind: t.DataType, name: str, namespace: str) -> object:
    if isinstance(kind, t.StructType):
        return _record(kind, name, namespace)
    if isinstance(kind, t.ArrayType):
        return {"type": "array", "items": _made(kind.elementType, kind.containsNull, name, namespace)}
    if isinstance(kind, t.MapType) and type(kind.keyType) is t.StringType:
        return {"type": "map", "values": _made(kind.valueType, kind.valueContainsNull, name, namespace)}
    if isinstance(kind, t.DecimalType):
        size = next(size for size in range(1, 17) if 2 ** (8 * size - 1) >= 10**kind.precision)
        return {
            "type": "fixed",
            "name": "fixed",
            "namespace": f"{namespace}.{name}",
            "size": size,
            "logicalType": "decimal",
            "precision": kind.precision,
            "scale": kind.scale,
        }
    if type(kind) in _MADE:
        return _MADE[type(kind)]
    raise OptionError(
        f"the column {name} of type {kind.simpleString()} cannot be written as Avro: convert it in Spark"
    )


_TAKEN: Final[dict[Kind, tuple[type[t.DataType], ...]]] = {
    Kind.BOOLEAN: (t.BooleanType,),
    Kind.INT: (t.ByteType, t.ShortType, t.IntegerType, t.LongType),
    Kind.LONG: (t.ByteType, t.ShortType, t.IntegerType, t.LongType, t.TimestampType, t.TimestampNTZType),
    Kind.FLOAT: (t.FloatType,),
    Kind.DOUBLE: (t.FloatType, t.DoubleType),
    Kind.BYTES: (t.BinaryType,),
    Kind.STRING: (t.StringType,),
    Kind.ENUM: (t.StringType,),
    Kind.FIXED: (t.BinaryType,),
    Kind.TIMESTAMP_MILLIS: (t.TimestampType, t.TimestampNTZType),
    Kind.TIMESTAMP_MICROS: (t.TimestampType, t.TimestampNTZType),
}


def _check_columns(avro: AvroType, struct: t.StructType) -> None:
    if isinstance(avro.spark, t.StructType):
        _check(avro, struct, "")
        return
    if [field.name for field in struct.fields] != columns_of(avro).names:
        raise OptionError(
            "value.schema is no record, so that a column named value is written, and no other; the columns are: "
            + ", ".join(struct.names)
        )
    _check(avro, struct.fields[0].dataType, "value")


def _check(avro: AvroType, column: t.DataType, path: str) -> None:
    """Raises where a column of this type cannot be written as this type."""
    if isinstance(column, t.NullType) and avro.may_be_null():
        return
    if avro.kind is Kind.RECORD and isinstance(column, t.StructType):
        _check_fields(avro, column, path)
    elif avro.kind is Kind.UNION and isinstance(column, t.StructType):
        _check_members(avro, column, path)
    elif avro.kind is Kind.WIDE:
        others = [child for child in avro.children if child.kind is not Kind.NULL]
        _check(max(others, key=lambda child: child.kind), column, path)
    elif avro.kind is Kind.ARRAY and isinstance(column, t.ArrayType):
        _check(avro.children[0], column.elementType, f"{path}[]")
    elif avro.kind is Kind.MAP and isinstance(column, t.MapType) and type(column.keyType) is t.StringType:
        _check(avro.children[0], column.valueType, f"{path}{{}}")
    elif isinstance(column, t.DecimalType) and isinstance(avro.spark, t.DecimalType):
        if column.scale != avro.spark.scale:
            raise _unfit(avro, column, path)
    elif not isinstance(column, _taken(avro)):
        raise _unfit(avro, column, path)


def _taken(avro: AvroType) -> tuple[type[t.DataType], ...]:
    return (t.DateType,) if isinstance(avro.spark, t.DateType) else _TAKEN.get(avro.kind, ())


def _unfit(avro: AvroType, column: t.DataType, path: str) -> OptionError:
    return OptionError(
        f"value.schema: {path or 'the value'} is {avro.kind.name.lower().replace('_', ' ')} "
        f"({avro.spark.simpleString()} in Spark), which the column's type {column.simpleString()} is not written as: "
        "cast it"
    )


def _check_fields(avro: AvroType, struct: t.StructType, path: str) -> None:
    fields = dict(zip(avro.names, avro.children, strict=True))
    for field in struct.fields:
        where = f"{path}.{field.name}" if path else field.name
        if field.name not in fields:
            raise OptionError(
                f"value.schema has no field for the column {where}: its fields are {', '.join(fields)}"
            )
        _check(fields[field.name], field.dataType, where)
    for name, child in fields.items():
        if name not in struct.names and not child.may_be_null():
            where = f"{path}.{name}" if path else name
            raise OptionError(
                f"value.schema has the field {where}, which is never null, but no column has it"
            )


def _check_members(avro: AvroType, struct: t.StructType, path: str) -> None:
    members = [child for child in avro.children if child.kind is not Kind.NULL]
    if len(members) != len(struct.fields):
        raise _unfit(avro, struct, path)
    for member, field in zip(members, struct.fields, strict=True):
        _check(member, field.dataType, f"{path}.{field.name}" if path else field.name)
