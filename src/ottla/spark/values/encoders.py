"""Columns to values: what an executor does with each batch of rows before they are sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa
from pyspark.sql import types as t

from ottla._native.json_documents import write_json
from ottla.spark.options.encoding import ValueEncoding


class ValueEncoder(Protocol):
    """From an array of structs: an array of binary, with a null for a struct that is null."""

    def __call__(self, columns: pa.StructArray) -> pa.Array: ...


def encoder(encoding: ValueEncoding, fields: Sequence[t.StructField]) -> ValueEncoder:
    """What encodes structs of these fields, which `ottla.spark.sink.typed_value` has checked."""
    match encoding.format:
        case "json":
            return _json
        case "avro":
            # Only where it is used, as it takes longer to load than JSON.
            from ottla.spark.values.avro_encoder import AvroEncoder

            return AvroEncoder(fields, encoding.schema, encoding.schema_id)


def _json(columns: pa.StructArray) -> pa.Array:
    return pa.array(write_json(columns))
