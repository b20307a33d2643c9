"""Which columns make a record: checked before any row is sent, as the JVM connector does."""

from __future__ import annotations

import pickle

import pyarrow
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.spark.sink.columns import SinkColumns
from ottla.spark.sink.errors import SinkColumnError, SinkRowError
from tests.spark.sinks import numbered, rows, schema_of


def headers_of(key: tuple[str, DataType], value: tuple[str, DataType]) -> ArrayType:
    return ArrayType(StructType([StructField(*key), StructField(*value)]))


@pytest.mark.parametrize("kind", [StringType(), BinaryType()])
def test_keys_and_values_are_strings_or_bytes(kind: DataType) -> None:
    assert SinkColumns.of(schema_of(value=kind, key=kind), "orders").fields == (("value", 0), ("key", 1))


@pytest.mark.parametrize(
    ("name", "kind", "error"),
    [
        ("value", IntegerType(), r"value .* int\. value must be a\(n\) string or binary"),
        ("value", NullType(), r"value .* void\. value must"),
        ("value", StringType("UTF8_LCASE"), r"value .* string collate UTF8_LCASE\. value must"),
        ("key", LongType(), r"key .* bigint\. key must be a\(n\) string or binary"),
        ("partition", LongType(), r"partition .* bigint\. partition must be a\(n\) int"),
        ("topic", BinaryType(), r"topic .* binary\. topic must be a\(n\) string"),
        (
            "headers",
            StringType(),
            r"headers .* string\. headers must be a\(n\) array<struct<key:string,value:binary>>",
        ),
        (
            "headers",
            headers_of(("key", StringType()), ("value", StringType())),
            r"headers .* array<struct<key:string,value:string>>\. headers must",
        ),
        (
            "headers",
            headers_of(("k", StringType()), ("v", BinaryType())),
            r"headers .* array<struct<k:string,v:binary>>\. headers must",
        ),
    ],
)
def test_a_wrong_type_is_refused_by_name_with_what_is_expected(name: str, kind: DataType, error: str) -> None:
    others = [other for other in ("value", "topic") if other != name]
    with pytest.raises(SinkColumnError, match=error):
        SinkColumns.of(schema_of(*others, **{name: kind}), None)


@pytest.mark.parametrize("schema", [schema_of("key"), schema_of("key", Value=StringType())])
def test_without_a_value_there_is_nothing_to_write(schema: StructType) -> None:
    with pytest.raises(SinkColumnError, match="Required attribute 'value' not found"):
        SinkColumns.of(schema, "orders")


def test_without_a_topic_there_is_nowhere_to_write_to() -> None:
    with pytest.raises(SinkColumnError, match="topic option required when no 'topic' attribute is present"):
        SinkColumns.of(schema_of("value"), None)


def test_a_topic_column_of_any_type_does_not_matter_beside_the_option() -> None:
    found = SinkColumns.of(schema_of("value", topic=IntegerType()), "orders")
    assert (found.topic, found.fields) == ("orders", (("value", 0),))


def test_columns_of_other_names_are_left_alone_and_of_one_name_the_first_counts() -> None:
    schema = schema_of("value", "value", timestamp=TimestampType(), offset=LongType())
    found = SinkColumns.of(schema, "orders")
    first, second = pyarrow.array([b"first"]), pyarrow.array([b"second"])
    batch = pyarrow.RecordBatch.from_arrays(
        [first, second, pyarrow.array([1]), pyarrow.array([2])], names=schema.names
    )
    (records,) = found.by_topic(batch).values()
    assert records.to_pydict() == {"value": [b"first"]}


def test_rows_of_a_topic_come_together_and_keep_their_order() -> None:
    found = SinkColumns.of(schema_of("topic", "key", "value"), None)
    names = ["b", "a", "b", "c", "a", "b"]
    tables = found.by_topic(rows(topic=names, key=[None] * 6, value=numbered(6)))
    assert {topic: table.column("value").to_pylist() for topic, table in tables.items()} == {
        "b": [b"0", b"2", b"5"],
        "a": [b"1", b"4"],
        "c": [b"3"],
    }


def test_slices_and_large_types_are_read_as_any_other() -> None:
    found = SinkColumns.of(schema_of("topic", "value"), None)
    arrays = [
        pyarrow.array(["a", "b", "a"], pyarrow.large_string()),
        pyarrow.array(numbered(3), pyarrow.large_binary()),
    ]
    batch = pyarrow.RecordBatch.from_arrays(arrays, names=["topic", "value"]).slice(1)
    tables = found.by_topic(batch)
    assert {topic: table.column("value").to_pylist() for topic, table in tables.items()} == {
        "b": [b"1"],
        "a": [b"2"],
    }


def test_a_null_topic_is_refused() -> None:
    found = SinkColumns.of(schema_of("topic", "value"), None)
    with pytest.raises(SinkRowError, match=r"null topic\. Use the topic option"):
        found.by_topic(rows(topic=["a", None], value=numbered(2)))


def test_a_negative_partition_is_refused_and_null_is_none() -> None:
    found = SinkColumns.of(schema_of("value", "partition"), "orders")
    with pytest.raises(SinkRowError, match="Invalid partition: -2"):
        found.by_topic(rows(value=numbered(3), partition=[0, -2, None]))
    assert found.by_topic(rows(value=numbered(2), partition=[None, None]))["orders"].num_rows == 2


@pytest.mark.parametrize("whole", [pyarrow.list_, pyarrow.large_list])
def test_the_case_of_names_in_headers_does_not_matter(whole: type) -> None:
    schema = schema_of("value", headers=headers_of(("KEY", StringType()), ("Value", BinaryType())))
    entries = whole(pyarrow.struct([("KEY", pyarrow.string()), ("Value", pyarrow.binary())]))
    headers = pyarrow.array([[], [{"KEY": "h", "Value": b"1"}], None], entries).slice(1)
    batch = pyarrow.RecordBatch.from_arrays([pyarrow.array(numbered(2)), headers], names=schema.names)
    (records,) = SinkColumns.of(schema, "orders").by_topic(batch).values()
    assert records.column("headers").to_pylist() == [[{"key": "h", "value": b"1"}], None]


def test_columns_travel() -> None:
    found = SinkColumns.of(schema_of("value", "topic"), None)
    assert pickle.loads(pickle.dumps(found)) == found
