"""What columns of Avro and JSON take their memory from: large buffers from the pool, to which they go back."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from ottla._native import memory
from ottla._native.avro_columns import read_avro, write_avro
from ottla._native.json_columns import read_json
from tests.native.avro_support import BINARY, Avro, record

ROWS = 20_000
AVRO = Avro(
    record(n="long", text="string", maybe=["null", "boolean"], many={"type": "array", "items": "int"})
)
ENTRIES = [
    {"n": n, "text": f"text {n}", "maybe": None if n % 3 else True, "many": [n, n]} for n in range(ROWS)
]
STRUCTS = pa.array(ENTRIES, pa.struct(list(AVRO.columns)))
DOCUMENTS = pa.array([f'{{"n": {n}, "text": "text {n}", "many": [{n}, {n}]}}'.encode() for n in range(ROWS)])
VALUES = pa.array([AVRO.bytes_of(entry) for entry in ENTRIES], pa.binary())

MAKERS: list[Callable[[], pa.Array]] = [
    lambda: pa.array(read_avro(AVRO.plan, AVRO.columns, VALUES)),
    lambda: pa.array(write_avro(AVRO.plan, STRUCTS, BINARY)),
    lambda: pa.array(read_json(AVRO.columns, DOCUMENTS)),
]


@pytest.fixture(autouse=True)
def poisoned() -> Iterator[None]:
    """A block that goes back too early is noticed, since what is in it changes."""
    gc.collect()
    memory._poison(True)
    yield
    memory._poison(False)


@pytest.mark.parametrize("make", MAKERS)
def test_large_buffers_are_of_the_pool_as_long_as_the_array_lives(make: Callable[[], pa.Array]) -> None:
    before = memory.statistics()["in_use"]
    array = make()
    expected = array.to_pylist()
    assert memory.statistics()["in_use"] > before
    assert make().equals(array)
    assert array.to_pylist() == expected
    del array
    assert memory.statistics()["in_use"] == before


@pytest.mark.parametrize("make", MAKERS)
def test_the_next_columns_have_the_buffers_of_the_last_ones(make: Callable[[], pa.Array]) -> None:
    make()
    before = memory.statistics()
    make()
    after = memory.statistics()
    assert after["taken"] - before["taken"] == after["reused"] - before["reused"] > 0


def test_a_long_value_in_front_of_short_ones_makes_no_room_for_as_long_ones() -> None:
    values = pa.array([b"\x80\x80\x08" + b"x" * 65_536, *[b"\x02x"] * ROWS], pa.binary())
    before = memory.statistics()["in_use"]
    array = pa.array(read_avro(Avro(record(text="string")).plan, pa.schema([("text", pa.string())]), values))
    assert len(array) == ROWS + 1
    assert memory.statistics()["in_use"] - before < 4 << 20


def test_small_columns_leave_the_pool_alone() -> None:
    before = memory.statistics()["taken"]
    assert pa.array(read_avro(AVRO.plan, AVRO.columns, VALUES.slice(0, 100))).equals(STRUCTS.slice(0, 100))
    assert memory.statistics()["taken"] == before
