"""Which columns there are, and what becomes of schemas that users give."""

from __future__ import annotations

import pickle

import pytest
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.spark.options.connector import SourceOptions
from ottla.spark.options.parsing import OptionError
from ottla.spark.source.schema import HEADERS_TYPE, SourceColumns
from tests.spark.reading import source_schema


def options(**more: str) -> SourceOptions:
    given = {name.replace("_", "."): text for name, text in more.items()}
    return SourceOptions.parse(
        {"kafka.bootstrap.servers": "localhost:1", "subscribe": "orders", **given}, streaming=False
    )


def struct(*fields: StructField) -> StructType:
    return StructType(list(fields))


def test_the_columns_are_those_of_the_jvm_connector() -> None:
    plain = [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
    assert source_schema(options()) == struct(*plain)
    with_headers = source_schema(options(includeHeaders="true"))
    assert with_headers == struct(*plain, StructField("headers", HEADERS_TYPE))


def test_a_schema_may_have_fewer_columns_in_any_order_and_headers_without_an_option() -> None:
    given = struct(StructField("offset", LongType()), StructField("headers", HEADERS_TYPE))
    columns = SourceColumns.of(given, options())
    assert columns == SourceColumns(("offset", "headers"), ("offset", "headers"))
    assert pickle.loads(pickle.dumps(columns)) == columns


def test_names_are_compared_as_in_spark_without_regard_to_case() -> None:
    columns = SourceColumns.of(struct(StructField("TimestampTYPE", IntegerType())), options())
    assert columns == SourceColumns(("TimestampTYPE",), ("timestampType",))


@pytest.mark.parametrize(
    ("field", "error"),
    [
        (StructField("id", LongType()), r"column id bigint.*key binary, value binary.*value\.format"),
        (StructField("value", StringType()), r"column value string, but.*value binary"),
        (StructField("offset", IntegerType()), r"column offset int, but.*offset bigint"),
        (StructField("key", BinaryType(), nullable=False), r"key is never null.*NOT NULL"),
    ],
)
def test_a_column_that_cannot_be_is_refused_with_those_that_can(field: StructField, error: str) -> None:
    with pytest.raises(OptionError, match=error):
        SourceColumns.of(struct(field), options())


def test_columns_of_the_value_replace_the_value() -> None:
    parsed = options(value_format="json", value_schema="id bigint, name string")
    schema = source_schema(parsed)
    assert schema.names == ["key", "id", "name", "topic", "partition", "offset", "timestamp", "timestampType"]
    columns = SourceColumns.of(schema, parsed)
    assert columns.decoded == ("id", "name")
    assert columns.kafka[:4] == ("key", None, None, "topic")
    assert pickle.loads(pickle.dumps(columns)) == columns


def test_a_schema_may_say_what_is_in_the_value() -> None:
    given = struct(StructField("id", LongType()), StructField("offset", LongType()))
    columns = SourceColumns.of(given, options(value_format="json"))
    assert columns.decoded == ("id",)
    assert columns.value is not None
    assert columns.value.schema == struct(StructField("id", LongType()))


def test_a_value_that_is_text_keeps_its_name() -> None:
    parsed = options(value_format="string")
    assert source_schema(parsed)["value"] == StructField("value", StringType())
    assert SourceColumns.of(source_schema(parsed), parsed).decoded == ("value",)
