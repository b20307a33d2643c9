"""Which types may be planned."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from ottla._native.json_columns import read_json
from ottla.spark.options.parsing import OptionError
from ottla.spark.values.types import SUPPORTED, arrow_schema, check, nullable

EVERY_TYPE = t.StructType(
    [
        t.StructField(str(number), kind)
        for number, kind in enumerate(
            [
                t.BooleanType(),
                t.ByteType(),
                t.ShortType(),
                t.IntegerType(),
                t.LongType(),
                t.FloatType(),
                t.DoubleType(),
                t.DecimalType(1, 0),
                t.DecimalType(38, 38),
                t.StringType(),
                t.BinaryType(),
                t.DateType(),
                t.TimestampType(),
                t.TimestampNTZType(),
                t.ArrayType(t.MapType(t.StringType(), t.StructType().add("x", t.DateType()))),
            ]
        )
    ]
)


def test_every_type_that_is_planned_can_be_read() -> None:
    check(EVERY_TYPE)
    columns = pa.array(read_json(arrow_schema(EVERY_TYPE.fields), pa.array([b"{}"], pa.binary())))
    assert columns.null_count == 0
    assert all(column.null_count == 1 for column in columns.flatten())


@pytest.mark.parametrize(("precision", "scale"), [(39, 0), (0, 0), (2, 5), (5, -2)])
def test_a_decimal_that_no_column_can_be_is_refused_before_any_task_runs(precision: int, scale: int) -> None:
    schema = t.StructType().add("a", t.ArrayType(t.DecimalType(precision, scale)))
    with pytest.raises(OptionError, match=rf"a\[\] is decimal\({precision},{scale}\).*1 to 38 digits"):
        check(schema)


def test_a_name_that_arrow_would_cut_off_is_refused() -> None:
    """The column would be read from the field `a`."""
    with pytest.raises(OptionError, match="named"):
        check(t.StructType().add("a\0b", t.LongType()))


@pytest.mark.parametrize(
    "kind",
    [
        t.NullType(),
        t.VarcharType(3),
        t.CharType(3),
        t.CalendarIntervalType(),
        t.DayTimeIntervalType(),
        t.YearMonthIntervalType(),
        t.VariantType(),
        t.ArrayType(t.NullType()),
    ],
)
def test_other_types_are_refused_with_the_list_of_those_that_are_not(kind: t.DataType) -> None:
    with pytest.raises(OptionError) as raised:
        check(t.StructType().add("a", t.StructType().add("b", kind)))
    assert str(raised.value).startswith("value.schema: a.b")
    assert SUPPORTED in str(raised.value)


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        (t.StructType(), "value.schema has no columns: name at least one"),
        (t.StructType().add("a", "integer").add("a", "string"), "value.schema names a more than once"),
        (
            t.StructType().add("a", t.StructType()),
            "value.schema: a is a struct without fields: name at least one",
        ),
        (
            t.StructType().add("a", t.MapType(t.IntegerType(), t.StringType())),
            "value.schema: a is a map with keys of type int, but the keys of JSON are strings: "
            "make it map<string, ...>",
        ),
    ],
)
def test_shapes_that_json_does_not_have_are_refused(schema: t.StructType, found: str) -> None:
    with pytest.raises(OptionError) as raised:
        check(schema)
    assert str(raised.value) == found


def test_nesting_is_bounded() -> None:
    kind: t.DataType = t.IntegerType()
    for _ in range(40):
        kind = t.ArrayType(kind)
    with pytest.raises(OptionError, match="nests types more than 32 deep"):
        check(t.StructType().add("a", kind))


def test_nothing_is_promised_not_to_be_null() -> None:
    strict = t.StructType(
        [
            t.StructField("a", t.ArrayType(t.StructType().add("b", t.IntegerType(), False), False), False),
            t.StructField("m", t.MapType(t.StringType(), t.IntegerType(), False), False),
        ]
    )
    loose = nullable(strict)
    assert all(field.nullable for field in loose.fields)
    assert loose["a"].dataType == t.ArrayType(t.StructType().add("b", t.IntegerType(), True), True)
    assert loose["m"].dataType == t.MapType(t.StringType(), t.IntegerType(), True)
