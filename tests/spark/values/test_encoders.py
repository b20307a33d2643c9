"""Columns to values, as a task of the sink encodes them; what JSON looks like is tested in tests/native."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import LongType, StructField

from ottla.spark.options.encoding import ValueEncoding
from ottla.spark.values.encoders import encoder


def test_structs_become_documents_and_a_null_struct_stays_null() -> None:
    encode = encoder(ValueEncoding(format="json"), [StructField("id", LongType())])
    found = encode(pa.array([{"id": 1}, None, {"id": None}], pa.struct([("id", pa.int64())])))
    assert found.type == pa.binary()
    assert found.to_pylist() == [b'{"id":1}', None, b"{}"]
