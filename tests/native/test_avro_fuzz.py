"""Random schemas and values, in both directions, against fastavro; and bytes that are damaged."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla._native.avro_columns import read_avro
from tests.native.avro_support import Avro, record, tables
from tests.wire.fuzz import MUTATIONS

# Schemas are large to draw, and a slow machine is no finding.
slow = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], deadline=None)

WIDE = Avro(
    record(
        a="int",
        b=["null", "string"],
        c={"type": "array", "items": ["null", {"type": "map", "values": "double"}]},
        d=["int", "null", record(x="long", y={"type": "array", "items": "null"})],
        e={"type": "enum", "name": "E", "symbols": ["A", "B", "C"]},
        f={"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2},
        g={"type": "map", "values": {"type": "array", "items": record(z="boolean", w="float")}},
        h={"type": "fixed", "name": "F", "size": 4},
        i=["long", "int"],
        j={"type": "long", "logicalType": "timestamp-millis"},
    )
)
VALUE = {
    "a": -70000, "b": "text", "c": [None, {"k": 1.5, "l": -2.0}], "d": {"x": 5, "y": [None] * 3}, "e": "B", "f": 12,
    "g": {"m": [{"z": True, "w": 1.0}, {"z": False, "w": 2.0}]}, "h": b"abcd", "i": 7, "j": 1_700_000_000_000,
}  # fmt: skip


@slow
@given(tables())
def test_values_that_fastavro_writes_are_read(drawn: tuple[Avro, list[Any], list[Any]]) -> None:
    avro, values, expected = drawn
    rows, found = avro.read(*map(avro.bytes_of, values))
    assert found.problem is None
    assert rows == expected


@slow
@given(tables())
def test_what_was_read_is_written_as_fastavro_writes_it(drawn: tuple[Avro, list[Any], list[Any]]) -> None:
    avro, values, _ = drawn
    data = list(map(avro.bytes_of, values))
    structs = pa.array(read_avro(avro.plan, avro.columns, pa.array(data, pa.binary())))
    assert avro.write(structs) == data
    assert avro.write(structs.slice(1)) == data[1:]


@slow
@given(tables(), st.randoms(use_true_random=False))
def test_any_choice_of_fields_reads_the_same(
    drawn: tuple[Avro, list[Any], list[Any]], random: Random
) -> None:
    avro, values, expected = drawn
    chosen = [field for field in avro.columns if random.random() < 0.5]
    rows, found = avro.read(*map(avro.bytes_of, values), columns=pa.schema(chosen))
    assert found.problem is None
    assert rows == [{field.name: row[field.name] for field in chosen} for row in expected]


@slow
@given(tables(), st.randoms(use_true_random=False))
def test_damaged_values_give_sound_columns(drawn: tuple[Avro, list[Any], list[Any]], random: Random) -> None:
    avro, values, _ = drawn
    damaged = [_mutated(random, avro.bytes_of(value)) for value in values]
    _, found = avro.arrays(*damaged, None)
    assert found.malformed_count <= len(values)
    assert (found.malformed is None) == (found.malformed_count == 0)


def _mutated(random: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice([1, 1, 2, 4])):
        if changed:
            random.choice(MUTATIONS)(random, changed)
    return bytes(changed)


def _wide() -> bytes:
    from decimal import Decimal

    return WIDE.bytes_of({**VALUE, "f": Decimal("12.34")})


def test_every_truncation_is_malformed() -> None:
    data = _wide()
    assert WIDE.read(data)[1].problem is None
    cut = [data[:length] for length in range(len(data))]
    assert WIDE.arrays(*cut)[1].malformed_count == len(cut)
    assert WIDE.arrays(*cut, columns=pa.schema([]))[1].malformed_count == len(cut)


def test_every_flipped_bit_gives_sound_columns() -> None:
    data = _wide()
    flipped = [
        data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
        for at in range(len(data))
        for bit in range(8)
    ]
    _, found = WIDE.arrays(*flipped)
    # Flips that were all refused, or all harmless, would test nothing.
    assert len(flipped) // 5 < found.malformed_count < len(flipped)


def test_many_mutations_of_one_value_give_sound_columns() -> None:
    random = Random(7)
    data = _wide()
    values = [_mutated(random, data) for _ in range(20_000)]
    _, found = WIDE.arrays(*values)
    assert 4_000 < found.malformed_count < 19_900
