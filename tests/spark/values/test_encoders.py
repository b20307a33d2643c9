"""Columns to values, as a task of the sink encodes them; what JSON looks like is tested in tests/native."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField

from ottla.spark.options.encoding import ValueEncoding
from ottla.spark.values.encoders import encoder


def test_structs_become_documents_and_a_null_struct_stays_null() -> None:
    encode = encoder(ValueEncoding(format="json"), [StructField("id", LongType())])
    found = encode(pa.array([{"id": 1}, None, {"id": None}], pa.struct([("id", pa.int64())])))
    assert found.type == pa.binary()
    assert found.to_pylist() == [b'{"id":1}', None, b"{}"]


def test_avro_is_written_with_a_schema_that_is_given_or_made_and_framed_with_its_id() -> None:
    fields = [StructField("id", LongType(), nullable=False), StructField("name", StringType())]
    structs = pa.array([{"id": 1, "name": "a"}, None], pa.struct([("id", pa.int64()), ("name", pa.string())]))
    made = encoder(ValueEncoding(format="avro"), fields)
    assert made(structs).to_pylist() == [b"\x02\x00\x02a", None]
    schema = """{"type": "record", "name": "r", "fields": [
        {"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}]}"""
    given = encoder(ValueEncoding(format="avro", schema=schema, schema_id=258), fields)
    assert given(structs).to_pylist() == [b"\0\0\0\1\2\x02\x02\x02a", None]
