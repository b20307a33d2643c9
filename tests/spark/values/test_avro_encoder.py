"""Columns to values of Avro, without Spark. The bytes are held against fastavro in tests/native."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from ottla._native.avro_columns import AvroValueError
from ottla.spark.options.parsing import OptionError
from ottla.spark.values.avro_encoder import AvroEncoder, avro_schema_of
from tests.spark.values.test_avro_schema import fixed, logical, record

ID = t.StructField("id", t.LongType(), False)
NAME = t.StructField("name", t.StringType())


def fields(**kinds: t.DataType) -> list[t.StructField]:
    return [t.StructField(name, kind) for name, kind in kinds.items()]


def test_structs_are_written_with_a_schema_of_their_own() -> None:
    encoder = AvroEncoder([ID, NAME])
    columns = pa.struct([("id", pa.int64()), ("name", pa.string())])
    rows = pa.array([{"id": 1, "name": "é"}, {"id": -1, "name": None}, None], columns)
    assert encoder(rows).to_pylist() == [b"\x02\x00\x04\xc3\xa9", b"\x01\x02", None]
    assert encoder(rows.slice(1, 1)).to_pylist() == [b"\x01\x02"]


def test_a_schema_id_is_put_in_front() -> None:
    encoder = AvroEncoder([ID], None, 258)
    assert encoder(pa.array([{"id": 1}])).to_pylist() == [b"\x00\x00\x00\x01\x02\x02"]


def test_a_schema_may_have_another_order_and_fields_that_may_be_null() -> None:
    schema = record(("more", ["null", "int"]), ("name", ["null", "string"]), ("id", "long"))
    encoder = AvroEncoder([ID, NAME], json.dumps(schema))
    assert encoder(pa.array([{"id": 1, "name": "a"}])).to_pylist() == [b"\x00\x02\x02a\x02"]


def test_what_is_no_record_is_written_from_the_column_value() -> None:
    encoder = AvroEncoder(fields(value=t.LongType()), '"long"')
    assert encoder(pa.array([{"value": 2}])).to_pylist() == [b"\x04"]
    with pytest.raises(
        OptionError, match="a column named value is written, and no other; the columns are: id"
    ):
        AvroEncoder([ID], '"long"')


def test_the_schema_that_columns_make_is_spark_s() -> None:
    struct = t.StructType(
        [
            t.StructField("a", t.DecimalType(10, 2)),
            t.StructField("b", t.StructType([t.StructField("x", t.IntegerType(), False)]), False),
            t.StructField("c", t.ArrayType(t.StructType([t.StructField("y", t.ShortType())]))),
            t.StructField("d", t.MapType(t.StringType(), t.TimestampType(), False)),
        ]
    )
    assert json.loads(avro_schema_of(struct)) == {
        "type": "record",
        "name": "topLevelRecord",
        "fields": [
            {
                "name": "a",
                "type": [
                    {
                        **fixed(5, logicalType="decimal", precision=10, scale=2),
                        "name": "fixed",
                        "namespace": "topLevelRecord.a",
                    },
                    "null",
                ],
            },
            {"name": "b", "type": record(("x", "int"), name="b", namespace="topLevelRecord")},
            {
                "name": "c",
                "type": [
                    {
                        "type": "array",
                        "items": [
                            record(("y", ["int", "null"]), name="c", namespace="topLevelRecord"),
                            "null",
                        ],
                    },
                    "null",
                ],
            },
            {"name": "d", "type": [{"type": "map", "values": logical("long", "timestamp-micros")}, "null"]},
        ],
    }


@pytest.mark.parametrize(
    ("column", "schema", "problem"),
    [
        (t.StringType(), "int", "value.schema: a is int (int in Spark), which the column's type string is not"),
        (t.DoubleType(), "float", "value.schema: a is float (float in Spark), which the column's type double"),
        (t.ArrayType(t.StringType()), {"type": "array", "items": "long"}, "value.schema: a[] is long (bigint in"),
        (t.MapType(t.StringType(), t.DateType()), {"type": "map", "values": "int"}, "value.schema: a{} is int"),
        (t.StructType(fields(x=t.DateType())), record(("x", "string"), name="S"), "value.schema: a.x is string"),
        (t.StructType(fields(y=t.DateType())), record(("x", "string"), name="S"),
         "has no field for the column a.y: its fields are x"),
        (t.StructType([]), record(("x", "string"), name="S"),
         "has the field a.x, which is never null, but no column"),
        (t.DecimalType(10, 3), logical("bytes", "decimal", precision=10, scale=2),
         "value.schema: a is decimal bytes"),
        (t.NullType(), "int", "value.schema: a is int"),
    ],
)  # fmt: skip
def test_columns_and_schemas_that_do_not_go_together_are_refused(
    column: t.DataType, schema: Any, problem: str
) -> None:
    with pytest.raises(OptionError) as raised:
        AvroEncoder(fields(a=column), json.dumps(record(("a", schema))))
    assert problem in str(raised.value)


def test_columns_that_avro_cannot_have_are_refused() -> None:
    with pytest.raises(OptionError, match=r"the column 'a b' cannot be written as Avro"):
        avro_schema_of(t.StructType(fields(**{"a b": t.LongType()})))
    with pytest.raises(OptionError, match=r"the column a of type map<int,int> cannot be written as Avro"):
        avro_schema_of(t.StructType(fields(a=t.MapType(t.IntegerType(), t.IntegerType()))))


@pytest.mark.parametrize(
    ("kind", "schema", "column", "value", "problem"),
    [
        (t.LongType(), "long", pa.int64(), None, "the value is null, which the schema does not allow (a)"),
        (t.LongType(), "int", pa.int64(), 2**31, "the number has more than 32 bits (a)"),
        (t.StringType(), {"type": "enum", "name": "E", "symbols": ["A"]}, pa.string(), "B",
         "the text is no symbol of the enum (a)"),
        (t.BinaryType(), fixed(2), pa.binary(), b"x", "the bytes are not as many as the fixed type has (a)"),
        (t.ArrayType(t.LongType()), {"type": "array", "items": "int"}, pa.list_(pa.int64()), [1, 2**40],
         "the number has more than 32 bits (a[])"),
        (t.StructType(fields(x=t.StringType())), record(("x", "string"), name="S"),
         pa.struct([("x", pa.string())]), {"x": None}, "the value is null, which the schema does not allow (a.x)"),
        (t.StructType(fields(x=t.LongType(), y=t.StringType())), ["long", "string"],
         pa.struct([("x", pa.int64()), ("y", pa.string())]), {},
         "the value is null, which the schema does not allow (a)"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_named_by_its_row_and_field(
    kind: t.DataType, schema: Any, column: pa.DataType, value: Any, problem: str
) -> None:
    encoder = AvroEncoder(fields(a=kind), json.dumps(record(("a", schema))))
    rows = pa.array([None, {"a": value}], pa.struct([("a", column)]))
    with pytest.raises(AvroValueError) as raised:
        encoder(rows)
    assert str(raised.value) == f"row 1: {problem}"
    assert raised.value.row == 1
