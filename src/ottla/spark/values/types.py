"""Which types a value's columns may have, in Spark and in Arrow.

Invariant: what passes `check` is what the native reader can fill, and nothing else is planned.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

from ottla.spark.options.parsing import OptionError

_LEAVES = (
    t.BooleanType,
    t.ByteType,
    t.ShortType,
    t.IntegerType,
    t.LongType,
    t.FloatType,
    t.DoubleType,
    t.BinaryType,
    t.DateType,
    t.TimestampType,
    t.TimestampNTZType,
)
SUPPORTED = (
    "boolean, tinyint, smallint, int, bigint, float, double, decimal, string, binary, date, timestamp, "
    "timestamp_ntz, array<...>, map<string, ...>, struct<...>"
)
# What the native reader takes; Spark's own limit is beyond what users write.
_MOST_NESTING = 32
_MOST_DIGITS = 38


def nullable(schema: t.StructType) -> t.StructType:
    """The same columns, all of them nullable at every depth: no document has to hold what a schema promises."""
    changed = _nullable(schema)
    assert isinstance(changed, t.StructType)
    return changed


def _nullable(data_type: t.DataType) -> t.DataType:
    if isinstance(data_type, t.StructType):
        return t.StructType([t.StructField(f.name, _nullable(f.dataType), True) for f in data_type.fields])
    if isinstance(data_type, t.ArrayType):
        return t.ArrayType(_nullable(data_type.elementType), True)
    if isinstance(data_type, t.MapType):
        return t.MapType(data_type.keyType, _nullable(data_type.valueType), True)
    return data_type


def check(schema: t.StructType) -> None:
    """Raises where a column is of a type that cannot be read from JSON here."""
    if not schema.fields:
        raise OptionError("value.schema has no columns: name at least one")
    _check(schema, "", 0)


def _check(data_type: t.DataType, path: str, depth: int) -> None:
    if depth > _MOST_NESTING:
        raise OptionError(f"value.schema: {path} nests types more than {_MOST_NESTING} deep")
    if isinstance(data_type, t.StructType):
        _check_struct(data_type, path, depth)
    elif isinstance(data_type, t.ArrayType):
        _check(data_type.elementType, f"{path}[]", depth + 1)
    elif isinstance(data_type, t.MapType):
        if type(data_type.keyType) is not t.StringType:
            raise OptionError(
                f"value.schema: {path} is a map with keys of type {data_type.keyType.simpleString()}, "
                "but the keys of JSON are strings: make it map<string, ...>"
            )
        _check(data_type.valueType, f"{path}{{}}", depth + 1)
    elif isinstance(data_type, t.DecimalType):
        _check_decimal(data_type, path)
    elif not (isinstance(data_type, _LEAVES) or type(data_type) is t.StringType):
        raise OptionError(
            f"value.schema: {path} is of type {data_type.simpleString()}, which cannot be read from JSON. "
            f"Supported are {SUPPORTED}; read it as string or binary and convert it in Spark"
        )


def _check_decimal(decimal: t.DecimalType, path: str) -> None:
    """PySpark makes decimals of any numbers, and leaves it to the JVM to complain."""
    if not (1 <= decimal.precision <= _MOST_DIGITS and 0 <= decimal.scale <= decimal.precision):
        raise OptionError(
            f"value.schema: {path} is {decimal.simpleString()}, but a decimal has 1 to {_MOST_DIGITS} digits, of "
            "which none to all stand behind the point"
        )


def _check_struct(struct: t.StructType, path: str, depth: int) -> None:
    names = [field.name for field in struct.fields]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        where = f" in {path}" if path else ""
        raise OptionError(f"value.schema names {', '.join(twice)} more than once{where}")
    if path and not names:
        raise OptionError(f"value.schema: {path} is a struct without fields: name at least one")
    for field in struct.fields:
        if "\0" in field.name:
            raise OptionError(
                f"value.schema: no column can be named {field.name!r}: Arrow ends names at a null"
            )
        _check(field.dataType, f"{path}.{field.name}" if path else field.name, depth + 1)


def arrow_schema(fields: list[t.StructField]) -> pa.Schema:
    """The columns as Spark expects them from a data source: it compares types, names and nullability."""
    return to_arrow_schema(t.StructType(fields), timezone="UTC")
