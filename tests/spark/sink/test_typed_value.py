"""Typed columns out: which columns make the value, what is refused on the driver, and what a task sends."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from ottla.broker import Cluster
from ottla.spark.options.encoding import ValueEncoding
from ottla.spark.sink import typed_value
from ottla.spark.sink.columns import SinkColumns
from ottla.spark.sink.errors import SinkColumnError, SinkRowError
from ottla.spark.sink.row_sender import send_rows
from tests.spark.sinks import HEADERS, schema_of, sink_options, values

JSON = ValueEncoding(format="json")
POINT = StructType([StructField("x", IntegerType()), StructField("y", IntegerType())])
ARROW_POINT = pa.struct([("x", pa.int32()), ("y", pa.int32())])


def columns_of(schema: StructType, encoding: ValueEncoding = JSON) -> SinkColumns:
    return SinkColumns.of(schema, "orders", encoding)


def written(schema: StructType, batch: pa.RecordBatch, encoding: ValueEncoding = JSON) -> list[bytes | None]:
    (records,) = columns_of(schema, encoding).by_topic(batch).values()
    found: list[bytes | None] = records.column("value").to_pylist()
    return found


def test_all_columns_make_the_value_but_those_that_stand_beside_it() -> None:
    schema = schema_of("key", "topic", "partition", "headers", id=LongType(), name=StringType())
    batch = pa.record_batch(
        {
            "key": [b"k", None],
            "topic": ["elsewhere", None],
            "partition": pa.array([0, None], pa.int32()),
            "headers": pa.array([None, None], HEADERS),
            "id": [1, 2],
            "name": ["é", None],
        }
    )
    (records,) = columns_of(schema).by_topic(batch).values()
    assert records.schema.names == ["key", "headers", "partition", "value"]
    assert records.column("value").to_pylist() == ['{"id":1,"name":"é"}'.encode(), b'{"id":2}']
    assert records.column("key").to_pylist() == [b"k", None]


def test_a_struct_called_value_is_the_value_and_a_null_one_a_tombstone() -> None:
    schema = schema_of("key", value=POINT, other=LongType())
    structs = pa.array([{"x": 1, "y": None}, None, {"x": None, "y": 2}], ARROW_POINT)
    batch = pa.record_batch({"key": [b"a", b"b", b"c"], "value": structs, "other": [1, 2, 3]})
    assert written(schema, batch) == [b'{"x":1}', None, b'{"y":2}']
    assert written(schema, batch.slice(1)) == [None, b'{"y":2}']


def test_a_value_of_another_type_is_a_column_among_others() -> None:
    batch = pa.record_batch({"value": [1.5, None], "at": ["now", "then"]})
    assert written(schema_of(value=DecimalType(), at=StringType()), batch) == [
        b'{"value":1.5,"at":"now"}',
        b'{"at":"then"}',
    ]


def test_rows_of_several_topics_are_encoded_and_then_shared_out() -> None:
    found = SinkColumns.of(schema_of("topic", id=LongType()), None, JSON)
    tables = found.by_topic(pa.record_batch({"topic": ["b", "a", "b"], "id": [1, 2, 3]}))
    assert {topic: table.column("value").to_pylist() for topic, table in tables.items()} == {
        "b": [b'{"id":1}', b'{"id":3}'],
        "a": [b'{"id":2}'],
    }


# Malformed values


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_what_was_malformed_is_written_as_it_came(kind: pa.DataType) -> None:
    schema = schema_of("key", id=LongType(), _malformed=BinaryType())
    raw = pa.array([None, b"not JSON", b""], kind)
    batch = pa.record_batch({"key": [b"k"] * 3, "id": [1, 2, None], "_malformed": raw})
    assert written(schema, batch) == [b'{"id":1}', b"not JSON", b""]
    assert written(schema, batch.slice(0, 1)) == [b'{"id":1}']
    assert written(schema, batch.slice(1)) == [b"not JSON", b""]


def test_what_was_malformed_stands_beside_a_struct_and_may_have_another_name() -> None:
    schema = schema_of(value=POINT, bad=BinaryType())
    structs = pa.array([{"x": 1, "y": 2}, {"x": 3, "y": 4}, None, None], ARROW_POINT)
    batch = pa.record_batch({"value": structs, "bad": [None, b"raw", b"too", None]})
    encoding = ValueEncoding(format="json", malformed_column="bad")
    assert written(schema, batch, encoding) == [b'{"x":1,"y":2}', b"raw", b"too", None]
    with pytest.raises(SinkColumnError, match="column makes the value"):
        columns_of(schema_of("key", bad=BinaryType()), encoding)


def test_nested_and_empty_columns_stay_what_they_are_beside_malformed_rows() -> None:
    kinds: dict[str, DataType] = {
        "tags": MapType(StringType(), ArrayType(POINT)),
        "empty": StructType([]),
        "none": NullType(),
    }
    batch = pa.record_batch(
        {
            "tags": pa.array([[("a", [{"x": 1, "y": None}, None])], []], pa.map_(pa.string(), pa.list_(ARROW_POINT))),
            "empty": pa.array([{}, None], pa.struct([])),
            "none": pa.nulls(2),
            "_malformed": [None, b"raw"],
        }
    )  # fmt: skip
    assert written(schema_of(**kinds, _malformed=BinaryType()), batch) == [
        b'{"tags":{"a":[{"x":1},null]},"empty":{}}',
        b"raw",
    ]


def test_a_column_of_malformed_values_is_binary() -> None:
    with pytest.raises(
        SinkColumnError, match=r"_malformed attribute unsupported type string.*value\.malformed\.column"
    ):
        columns_of(schema_of(id=LongType(), _malformed=StringType()))


# Avro

AVRO = """{"type": "record", "name": "order", "fields": [
    {"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"], "default": null}]}"""


def test_avro_is_written_by_the_schema_that_is_given() -> None:
    encoding = ValueEncoding(format="avro", schema=AVRO)
    schema = schema_of("key", name=StringType(), id=LongType(), _malformed=BinaryType())
    # What could be read of the malformed value has no id, which the schema wants.
    columns = {
        "key": [b"k"] * 3,
        "name": ["a", "b", None],
        "id": [1, None, 3],
        "_malformed": [None, b"raw", None],
    }
    assert written(schema, pa.record_batch(columns), encoding) == [b"\x02\x02\x02a", b"raw", b"\x06\x00"]


def test_what_is_no_record_in_avro_is_written_of_one_column() -> None:
    encoding = ValueEncoding(format="avro", schema='["null", "string"]')
    batch = pa.record_batch({"value": ["a", None]})
    assert written(schema_of(value=StringType()), batch, encoding) == [b"\x02\x02a", b"\x00"]


@pytest.mark.parametrize(
    ("schema", "avro", "error"),
    [
        (schema_of(id=LongType(), other=LongType()), AVRO, "no field for the column other"),
        (
            schema_of(value=StructType([StructField("id", StringType())])),
            AVRO,
            "id is long .*string is not written as",
        ),
        (schema_of(id=VariantType()), None, "id of type variant cannot be written as Avro"),
        (schema_of(value=StringType()), None, "value.format is avro, but .* text already"),
        (schema_of(id=LongType()), "{", "value.schema is not the JSON of an Avro schema"),
    ],
)
def test_columns_that_do_not_go_with_avro_are_refused_on_the_driver(
    schema: StructType, avro: str | None, error: str
) -> None:
    with pytest.raises(ValueError, match=error):
        columns_of(schema, ValueEncoding(format="avro", schema=avro))


# What is refused


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        (schema_of("key"), "no column makes the value: .*headers, key, partition, topic, _malformed"),
        (schema_of(value=StringType()), r"text already: value string\. Leave value\.format out"),
        (schema_of(value=BinaryType(), _malformed=BinaryType()), "text already: value binary"),
        (schema_of(v=VariantType()), "v is of type variant, which is not written as JSON: cast it to string"),
        (
            schema_of(a=StructType([StructField("b", ArrayType(DayTimeIntervalType()))])),
            r"a\.b\[\] is of type interval day to second",
        ),
        (
            schema_of(value=StructType([StructField("m", MapType(LongType(), LongType()))])),
            r"value\.m is a map with keys of type bigint",
        ),
        (schema_of(m=MapType(StringType(), VariantType())), r"m\{\} is of type variant"),
        (
            StructType([StructField("a", LongType()), StructField("a", LongType()), StructField("A", LongType())]),
            "more than one column a: readers take",
        ),
        (schema_of(s=StructType([*POINT.fields, *POINT.fields])), "more than one column x, y in s"),
        (schema_of(**{"a\0b": LongType()}), r"'a\\x00b': Arrow ends names at a null"),
        (schema_of(key=LongType(), id=LongType()), r"key attribute unsupported type bigint"),
    ],
)  # fmt: skip
def test_columns_that_make_no_value_are_refused_on_the_driver(schema: StructType, error: str) -> None:
    with pytest.raises(SinkColumnError, match=error):
        columns_of(schema)


def test_nesting_has_an_end_that_the_driver_knows() -> None:
    kind: DataType = LongType()
    for _ in range(31):
        kind = ArrayType(kind)
    columns_of(schema_of(a=kind))
    with pytest.raises(SinkColumnError, match=r"nests types more than 32 deep"):
        columns_of(schema_of(a=ArrayType(kind)))


def test_without_a_value_an_error_names_the_option() -> None:
    with pytest.raises(SinkColumnError, match=r"'value' not found among id\. Set value\.format to json"):
        SinkColumns.of(schema_of(id=LongType()), "orders")


def test_a_batch_that_is_too_large_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_large(_encoding: object, _fields: object) -> object:
        def encode(_structs: pa.StructArray) -> pa.Array:
            raise OverflowError("3 rows make more than 2 GiB of JSON: write fewer of them at a time")

        return encode

    monkeypatch.setattr("ottla.spark.values.encoders.encoder", too_large)
    with pytest.raises(
        SinkRowError, match=r"2 GiB of JSON.*Lower spark\.sql\.execution\.arrow\.maxRecordsPerBatch"
    ):
        written(schema_of(id=LongType()), pa.record_batch({"id": [1, 2, 3]}))


# On the way


def test_the_value_travels_and_its_encoder_is_made_where_it_arrives() -> None:
    found = columns_of(schema_of(id=LongType()))
    arrived: SinkColumns = pickle.loads(pickle.dumps(found))
    assert arrived == found
    batch = pa.record_batch({"id": [1]})
    (records,) = arrived.by_topic(batch).values()
    assert records.column("value").to_pylist() == [b'{"id":1}']
    assert "pyarrow" not in vars(typed_value)


@pytest.mark.kafka_cluster(topics={"orders": 1})
def test_a_task_sends_encoded_rows(kafka: Cluster) -> None:
    schema = schema_of("key", id=LongType(), at=TimestampType())
    found = columns_of(schema)
    moments = pa.array([0, 1_700_000_000_123_456], pa.timestamp("us", "Europe/Prague"))
    batch = pa.record_batch({"key": [b"a", b"b"], "id": [1, 2], "at": moments})
    send_rows(iter([batch, batch.slice(0, 0)]), sink_options(kafka, "orders"), found)
    assert values(kafka, "orders") == [
        b'{"id":1,"at":"1970-01-01T00:00:00.000Z"}',
        b'{"id":2,"at":"2023-11-14T22:13:20.123Z"}',
    ]
