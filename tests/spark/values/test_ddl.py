"""Schemas as text."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as t

from ottla.spark.options.parsing import OptionError
from ottla.spark.values.ddl import parse_schema

SCHEMAS = [
    "id bigint",
    "a boolean, b tinyint, c byte, d smallint, e short, f int, g integer, h bigint, i long",
    "j float, k real, l double",
    "a decimal, b decimal(10), c DEC(10, 2), d numeric(38,38)",
    "a string, b binary, c date, d timestamp, e timestamp_ltz, f timestamp_ntz",
    "a: int, b: array<string>, c: map<string, array<int>>",
    "a struct<x: int, y struct<z:string>>, b array<struct<q:date>>",
    "struct<a:int,b:string>",
    "`a b` int, `c``d` string, `select` date",
    "A INT NOT NULL, b STRING NOT NULL COMMENT 'it is \\'so\\'', c STRUCT<d: INT NOT NULL COMMENT \"x\">",
    "order string, date date, timestamp timestamp, array array<int>, decimal decimal",
    "  a\n  int ,\n b\tstring ",
]


def without_comments(data_type: t.DataType) -> object:
    return json.loads(
        data_type.json(), object_hook=lambda found: {k: v for k, v in found.items() if k != "metadata"}
    )


def test_ddl_is_read_as_spark_reads_it(spark: SparkSession) -> None:
    for text in SCHEMAS:
        expected = t.StructType.fromDDL(text)
        assert without_comments(parse_schema(text)) == without_comments(expected), text


def test_json_of_a_struct_type_is_read() -> None:
    schema = t.StructType().add("id", t.LongType(), False).add("tags", t.ArrayType(t.StringType()))
    assert parse_schema(schema.json()) == schema


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "value.schema has its end where the name of a column should be"),
        ("id", "value.schema has its end where a type"),
        ("id bigint,", "value.schema has its end where the name of a column should be"),
        ("id bigit", "value.schema has 'bigit' at character 4 where a type"),
        (
            "id bigint name string",
            "value.schema has 'name' at character 11 where a comma or the end should be",
        ),
        ("id array<int", "value.schema has its end where '>' should be"),
        ("id array int", "value.schema has 'int' at character 10 where '<' should be"),
        ("id map<string>", "value.schema has '>' at character 14 where ',' should be"),
        ("id decimal(x)", "value.schema has 'x' at character 12 where a number should be"),
        ("id interval", "value.schema has 'interval' at character 4 where a type"),
        ("id varchar(10)", "value.schema has 'varchar' at character 4 where a type"),
        ("id; bigint", "value.schema cannot be read from '; bigint' on"),
        ("`id bigint", "value.schema cannot be read from '`id bigint' on"),
        ("array<" * 100, "value.schema has '<' at character 6 where a type"),
        ("a " + "array<" * 100 + "int" + ">" * 100, "value.schema nests types more than 32 deep"),
        ("{", "value.schema is not the JSON of a StructType"),
        ('{"type":"array"}', "value.schema is not the JSON of a StructType"),
        (
            '{"type":"struct","fields":[{"name":"a","type":"nope"}]}',
            "value.schema is not the JSON of a StructType",
        ),
        ('{"type":' + "[" * 100_000, "value.schema is not the JSON of a StructType"),
    ],
)
def test_what_is_no_schema_is_refused_with_its_position(text: str, found: str) -> None:
    with pytest.raises(OptionError) as raised:
        parse_schema(text)
    assert str(raised.value).startswith(found)
