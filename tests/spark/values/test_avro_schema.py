"""Schemas of Avro to Spark's types. What Spark makes of the same schemas: tests/interop/spark/test_avro.py."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import types as t

from ottla.spark.options.parsing import OptionError
from ottla.spark.values.avro_schema import Kind, NullIs, columns_of, parse_avro


def record(*fields: tuple[str, Any], name: str = "R", **more: str) -> dict[str, Any]:
    members = [{"name": field, "type": kind} for field, kind in fields]
    return {"type": "record", "name": name, "fields": members, **more}


def fixed(size: int, **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": "F", "size": size, **more}


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def spark(schema: Any) -> str:
    return parse_avro(json.dumps(schema)).spark.simpleString()


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("null", "void"),
        ("boolean", "boolean"),
        ("bytes", "binary"),
        ({"type": "string", "logicalType": "uuid"}, "string"),
        (["null", "int"], "int"),
        (["int"], "int"),
        (["int", "long"], "bigint"),
        (["long", "null", "int"], "bigint"),
        (["null", "float", "double"], "double"),
        (["null", "int", "string"], "struct<member0:int,member1:string>"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "string"),
        ({"type": "array", "items": ["null", "int"]}, "array<int>"),
        ({"type": "map", "values": "long"}, "map<string,bigint>"),
        (fixed(4), "binary"),
        (fixed(8, logicalType="decimal", precision=10, scale=3), "decimal(10,3)"),
        (fixed(2, logicalType="decimal", precision=10), "binary"),
        (logical("bytes", "decimal", precision=10, scale=2), "decimal(10,2)"),
        (logical("bytes", "decimal", precision=4, scale=20), "binary"),
        (logical("int", "date"), "date"),
        (logical("int", "time-millis"), "int"),
        (logical("long", "time-micros"), "bigint"),
        (logical("long", "timestamp-millis"), "timestamp"),
        (logical("long", "timestamp-micros"), "timestamp"),
        (logical("long", "local-timestamp-millis"), "timestamp_ntz"),
        (logical("long", "local-timestamp-micros"), "timestamp_ntz"),
        (logical("int", "timestamp-millis"), "int"),
        (logical("long", "unheard-of"), "bigint"),
        (
            record(("a", record(("x", "int"), name="S", namespace="n")), ("b", ["null", "n.S"])),
            "struct<a:struct<x:int>,b:struct<x:int>>",
        ),
        (
            record(("a", record(("x", "int"), name="S")), ("b", "S"), namespace="n"),
            "struct<a:struct<x:int>,b:struct<x:int>>",
        ),
    ],
)  # fmt: skip
def test_types_are_those_of_spark(schema: Any, expected: str) -> None:
    assert spark(schema) == expected


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ("{", "is not the JSON of an Avro schema"),
        ('"lon"',
         "value.schema: the schema is of the type 'lon', which is none of Avro's and is not defined before it"),
        (record(("a", 5)), "value.schema: a is no type: 5"),
        (record(("a", [])), "value.schema: a is a union of nothing"),
        (record(("a", ["int", ["string"]])), "value.schema: a is a union that holds a union"),
        (record(("a", ["null", "null"])), "value.schema: a is a union that has null more than once"),
        (record(("a", {"type": "array"})), 'value.schema: a lacks "items"'),
        (record(("a", {"type": "array", "items": record(("b", "x"), name="S")})),
         "value.schema: a[].b is of the type 'x'"),
        (record(("a", {"type": "map", "values": {"type": "enum", "name": "E"}})),
         'value.schema: a{} is an enum without "symbols"'),
        (record(("a", {"type": {"type": "int"}})), 'value.schema: a has no "type" with the name of one'),
        (record(("a", "int"), ("a", "int")), "value.schema: a is there more than once"),
        (record(("next", ["null", "R"])), "value.schema: next is of the type R that it is in: a recursive type"),
        (record(("a", fixed(1)), ("b", fixed(2))), "value.schema: b defines the type F again"),
        (fixed(-1), "is a fixed type whose \"size\" is no number of bytes: -1"),
        ({"type": "record", "fields": []}, "value.schema: the schema is of the type record, which needs a name"),
        ({"type": "record", "name": "R"}, 'value.schema: the schema is a record without "fields"'),
        (logical("bytes", "decimal", precision=40), "is a decimal of 40 digits, but Spark's have at most 38"),
    ],
)  # fmt: skip
def test_what_is_no_schema_is_refused_with_the_path_to_it(schema: Any, problem: str) -> None:
    with pytest.raises(OptionError) as raised:
        parse_avro(schema if isinstance(schema, str) else json.dumps(schema))
    assert problem in str(raised.value)


def test_null_in_a_union_of_two_belongs_to_the_other_type() -> None:
    first, second = parse_avro('["null", "int"]'), parse_avro('["int", "null"]')
    assert (first.kind, first.null, second.null) == (Kind.INT, NullIs.FIRST, NullIs.SECOND)
    assert first.may_be_null()
    assert parse_avro('["int", "null", "string"]').may_be_null()
    assert not parse_avro('["int", "string"]').may_be_null()


def test_a_record_is_columns_and_all_else_is_one() -> None:
    assert columns_of(parse_avro(json.dumps(record(("a", "int"))))).simpleString() == "struct<a:int>"
    assert columns_of(parse_avro("long")) == t.StructType([t.StructField("value", t.LongType())])


def test_types_that_nest_or_grow_without_end_are_refused() -> None:
    deep: Any = "int"
    for _ in range(40):
        deep = {"type": "array", "items": deep}
    with pytest.raises(OptionError, match="nests types more than 32 deep"):
        parse_avro(json.dumps(deep))
    fields: list[tuple[str, Any]] = [("f", record(("x", "int"), name="T0"))]
    for number in range(1, 30):
        twice = record(("a", f"T{number - 1}"), ("b", f"T{number - 1}"), name=f"T{number}")
        fields += [(f"f{number}", twice)]
    with pytest.raises(OptionError, match="has more than 50000 types in all"):
        parse_avro(json.dumps(record(*fields)))
