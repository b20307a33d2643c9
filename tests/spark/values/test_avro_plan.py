"""Plans, in words; that they mean what they should is shown by reading with them (tests/native)."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from ottla._native.avro_columns import read_avro
from ottla.spark.values.avro_plan import plan_of
from ottla.spark.values.avro_schema import parse_avro

RECORD = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "é", "type": ["null", "int"]},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "BCDE"]}},
        {"name": "u", "type": ["int", "null", "string"]},
    ],
}
COLUMNS = pa.schema([("é", pa.int32())])


def test_what_is_no_record_is_the_field_of_one() -> None:
    assert plan_of(parse_avro("long")) == plan_of(
        parse_avro('{"type":"record","name":"R","fields":[{"name":"value","type":"long"}]}')
    )


def test_a_plan_that_is_cut_or_has_other_words_is_refused_or_harmless() -> None:
    plan = plan_of(parse_avro(json.dumps(RECORD)))
    values = pa.array([b"\x02\x02\x00\x02\x04\x02x"], pa.binary())
    for length in range(len(plan)):
        with pytest.raises((ValueError, TypeError)):
            read_avro(plan[:length], COLUMNS, values)
    for at in range(0, len(plan), 4):
        for word in (b"\x01\0\0\0", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x13\0\0\0"):
            try:
                pa.array(read_avro(plan[:at] + word + plan[at + 4 :], COLUMNS, values)).validate(full=True)
            except (ValueError, TypeError):
                continue
