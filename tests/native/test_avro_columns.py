"""Values of Avro to columns and back: the border, what is malformed and why, and what a value may cost.

Random schemas and damaged values are in test_avro_fuzz, Spark's own reader in tests/interop/spark.
"""

from __future__ import annotations

import mmap
import struct
import threading
import tracemalloc
from typing import Any

import pyarrow as pa
import pytest

from ottla._native.avro_columns import AvroValueError, read_avro, write_avro
from ottla.spark.options.parsing import OptionError
from tests.native.avro_support import BINARY, Avro, record

ARRAY = {"type": "array", "items": "int"}
ENUM = {"type": "enum", "name": "E", "symbols": ["A"]}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
ORDER = Avro(record(id="long", name=["null", "string"], flag="boolean"))


def decimal(precision: int, scale: int = 0) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def one(kind: Any, *data: int) -> Any:
    """The value in the field of that type, which must be well-formed."""
    rows, found = Avro(record(v=kind)).read(bytes(data))
    assert found.problem is None
    return rows[0]["v"]


def problem(kind: Any, *data: int, schema_id: int | None = None) -> str | None:
    rows, found = Avro(record(v=kind)).read(None, bytes(data), schema_id=schema_id)
    assert rows[1] == {"v": None} or found.problem is None
    assert found.first_malformed == (-1 if found.problem is None else 1)
    return found.problem


def test_rows_nulls_and_malformed_values_stand_where_their_values_stood() -> None:
    rows, found = ORDER.read(
        b"\x02\x02\x02a\x01", None, b"\x02\x02\x02a", b"", b"\x03\x00\x00", b"\x02\x00\x01!"
    )
    assert rows == [
        {"id": 1, "name": "a", "flag": True},
        None,
        {"id": None, "name": None, "flag": None},
        {"id": None, "name": None, "flag": None},
        {"id": -2, "name": None, "flag": False},
        {"id": None, "name": None, "flag": None},
    ]
    assert (found.malformed_count, found.first_malformed, found.malformed) == (3, 2, b"\x2c")
    assert found.problem == "there are too few bytes for the value of 'flag', at byte 4"


def test_a_slice_of_values_is_read_as_such() -> None:
    values = pa.array([b"\x02", b"\x04", None, b"\x06"]).slice(1)
    found = pa.array(read_avro(Avro(record(v="int")).plan, pa.schema([("v", pa.int32())]), values))
    assert found.to_pylist() == [{"v": 2}, None, {"v": 3}]


def test_fields_that_are_not_asked_for_are_skipped_and_not_looked_into() -> None:
    columns = pa.schema([("flag", pa.bool_())])
    rows, found = ORDER.read(b"\x02\x02\x02\xff\x01", b"\x02\x04\x01", columns=columns)
    assert rows == [{"flag": True}, {"flag": None}]
    assert found.problem == "the branch is none of the union of 'name', at byte 1"
    assert ORDER.read(b"\x02\x00\x01", b"\x02", columns=pa.schema([]))[1].malformed_count == 1


@pytest.mark.parametrize(
    ("kind", "data", "reason"),
    [
        ("boolean", [2], "the value is neither true nor false, at byte 0"),
        ("int", [0x80] * 4 + [0x10], "a number of more than 32 bits stands in the value, at byte 0"),
        ("int", [0x80] * 5 + [0], "a number of more than 32 bits stands in the value, at byte 0"),
        ("long", [0xFF] * 9 + [2], "a number of more than 64 bits stands in the value, at byte 0"),
        ("long", [0x80] * 10 + [0], "a number of more than 64 bits stands in the value, at byte 0"),
        ("string", [3], "a negative length stands in the value, at byte 0"),
        ("string", [4, 97], "there are too few bytes for the value, at byte 0"),
        ("bytes", [0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F], "there are too few bytes for the value, at byte 0"),
        ("string", [2, 0xFF], "there is no UTF-8 in the string, at byte 1"),
        ({"type": "map", "values": "int"}, [2, 2, 0xFF, 2, 0], "there is no UTF-8 in a key, at byte 2"),
        (["null", "int"], [4], "the branch is none of the union, at byte 0"),
        (["null", "int", "string"], [5], "the branch is none of the union, at byte 0"),
        (ENUM, [2], "the symbol is none of the enum, at byte 0"),
        (ENUM, [1], "the symbol is none of the enum, at byte 0"),
        (ARRAY, [0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F, 0],
         "a block has more items than there are bytes for the value, at byte 0"),
        (ARRAY, [1, 4, 2, 0], "a block does not have the size that it says, in the value, at byte 3"),
        (ARRAY, [1, 1, 2, 0], "a block of a negative size stands in the value, at byte 0"),
        (ARRAY, [0xFF] * 9 + [1, 0], "a block with too many items stands in the value, at byte 0"),
        ({"type": "array", "items": record(x="int")}, [4, 2],
         "a block has more items than there are bytes for the value, at byte 0"),
        ({"type": "array", "items": ["null", record(x="int")]}, [4, 2, 2, 2],
         "there are too few bytes for the value of 'v[].x', at byte 4"),
        ({"type": "array", "items": "null"}, [0x80, 0x80, 0x80, 0x80, 0x80, 0x40, 0],
         "too many items without bytes stand in the array, at byte 6"),
        (decimal(3), [0], "the value does not fit the decimal type, at byte 1"),
        (decimal(3), [4, 3, 0xE8], "the value does not fit the decimal type, at byte 1"),
        (decimal(38), [36, 1, *[0] * 17], "the value does not fit the decimal type, at byte 1"),
        (MILLIS, [0xFF] * 9 + [1], "a timestamp that is too large is the value, at byte 0"),
        ("null", [0], "bytes follow the value, at byte 0"),
    ],
)  # fmt: skip
def test_what_is_malformed_is_said_with_its_place(kind: Any, data: list[int], reason: str) -> None:
    found = problem(kind, *data)
    assert found is not None
    assert found.replace(" of 'v'", "") == reason


def test_numbers_are_read_to_their_limits() -> None:
    assert one("int", 0xFF, 0xFF, 0xFF, 0xFF, 0x0F) == -(2**31)
    assert one("long", *[0xFF] * 9, 1) == -(2**63)
    assert one("long", 0x80, 0x00) == 0
    assert str(one(decimal(3, 1), 38, *[0xFF] * 19)) == "-0.1"


def test_blocks_of_all_forms_make_one_array() -> None:
    assert one({"type": "array", "items": "int"}, 2, 2, 3, 4, 4, 6, 2, 8, 0) == [1, 2, 3, 4]
    assert one({"type": "map", "values": "int"}, 1, 6, 2, 97, 2, 2, 2, 98, 4, 0) == {"a": 1, "b": 2}


def test_unions_are_one_column_or_a_struct_of_members() -> None:
    assert [one(["int", "long"], 0, 2), one(["long", "null", "int"], 2)] == [1, None]
    assert one(["null", "float", "double"], 2, 0, 0, 128, 63) == 1.0
    assert one(["string"], 0, 2, 97) == "a"
    assert one(["int", "null", "string"], 4, 2, 97) == {"member0": None, "member1": "a"}
    assert one(["int", "null", "string"], 2) is None


def test_values_begin_with_the_schema_id_that_is_said() -> None:
    avro = Avro(record(v="int"))
    rows, found = avro.read(b"\0\0\0\0\3\2", b"\0\0\0\0\7\2", b"\1\0\0\0\3\2", b"\0\0\0", schema_id=3)
    assert [row["v"] for row in rows] == [1, None, None, None]
    assert (found.malformed_count, found.problem) == (3, "it has schema id 7, not 3")
    assert (
        problem("int", 2, schema_id=3)
        == "the value does not begin with byte 0 and the id of a schema, at byte 0"
    )
    assert avro.read(b"\0\xff\xff\xff\xff\2", schema_id=2**32 - 1)[0] == [{"v": 1}]


@pytest.mark.parametrize(
    ("items", "claim"),
    [
        ("null", 1 << 40),
        (record(), 1 << 40),
        ({"type": "fixed", "name": "Z", "size": 0}, 1 << 40),
        ("double", 1 << 40),
        (["null", "string"], 1 << 40),
    ],
)
def test_what_a_count_claims_costs_nothing(items: Any, claim: int) -> None:
    data = bytearray()
    rest = claim << 1
    while rest >= 0x80:
        data.append(rest & 0x7F | 0x80)
        rest >>= 7
    data.append(rest)
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    found = Avro(record(v={"type": "array", "items": items})).read(*[bytes(data) + b"\0"] * 100)[1]
    skipped = Avro(record(v={"type": "array", "items": items})).read(
        bytes(data) + b"\0", columns=pa.schema([])
    )[1]
    assert found.malformed_count == 100
    # Skipped, items without bytes are nothing at all.
    assert skipped.malformed_count == (0 if items in ("null",) or isinstance(items, dict) else 1)
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()
    assert pa.total_allocated_bytes() - before < 1_000_000


def test_arrays_of_items_without_bytes_are_read_up_to_a_bound() -> None:
    assert one({"type": "array", "items": "null"}, 20, 0) == [None] * 10
    assert one({"type": "array", "items": record()}, 4, 0) == [{}, {}]
    assert len(one({"type": "array", "items": "null"}, 0xD0, 0x0F, 0)) == 1000
    assert problem({"type": "array", "items": "null"}, 0xE0, 0x0F, 0) is not None


@pytest.mark.parametrize("is_record", [True, False])
def test_the_deepest_schema_that_is_planned_is_read_and_written(is_record: bool) -> None:
    deep: Any = "int"
    for _ in range(31):
        deep = {"type": "map", "values": deep}
    avro = Avro(record(v=deep) if is_record else deep)
    with pytest.raises(OptionError, match="nests types more than 32 deep"):
        Avro({"type": "map", "values": avro.schema}).read()
    structs, _ = avro.arrays(b"\2\2k\0\0")
    assert len(structs.flatten()[0][0]) == 1
    assert avro.write(structs) == [b"\2\2k\0\0"]


def test_columns_that_the_schema_does_not_give_are_refused() -> None:
    for columns in ([("v", pa.string())], [("w", pa.int32())], [("v", pa.int32()), ("v", pa.int32())]):
        with pytest.raises(TypeError, match="the schema of Avro is not read into these columns"):
            Avro(record(v="int")).read(columns=pa.schema(columns))
    with pytest.raises(TypeError, match="values must be an Arrow array of binary, not of the format 'u'"):
        read_avro(ORDER.plan, ORDER.columns, pa.array(["a"]))


def test_columns_that_the_schema_does_not_have_are_not_written() -> None:
    avro = Avro(record(v="int"))
    for row in ({"v": "a"}, {"w": 1}, {"v": 1, "w": 1}):
        with pytest.raises(TypeError, match="cannot be written with the schema of Avro"):
            avro.write(pa.array([row]))
    with pytest.raises(TypeError, match="must be an Arrow array of structs, not int64"):
        avro.write(pa.array([1]))
    with pytest.raises(TypeError, match="values of Avro are binary, not"):
        write_avro(avro.plan, pa.array([{"v": 1}]), pa.field("value", pa.struct([("a", pa.binary())])))


@pytest.mark.parametrize(
    ("kind", "column", "values", "expected"),
    [
        ("int", pa.int8(), [-1, 63], [b"\x01", b"\x7e"]),
        ("int", pa.int64(), [2**31 - 1], [b"\xfe\xff\xff\xff\x0f"]),
        ("long", pa.int16(), [-300], [b"\xd7\x04"]),
        ("double", pa.float32(), [1.5], [b"\0\0\0\0\0\0\xf8\x3f"]),
        (["long", "int"], pa.int64(), [1], [b"\0\2"]),
        (["int", "null", "long"], pa.int64(), [1, None], [b"\4\2", b"\2"]),
        (["string"], pa.string(), ["a"], [b"\0\2a"]),
        (["null", "string"], pa.null(), [None], [b"\0"]),
        ("null", pa.int64(), [None], [b""]),
        ("string", pa.large_string(), ["a", ""], [b"\2a", b"\0"]),
        ("string", pa.string_view(), ["a", "b" * 20], [b"\2a", b"\x28" + b"b" * 20]),
        ("bytes", pa.large_binary(), [b"\0"], [b"\2\0"]),
        ({"type": "array", "items": "int"}, pa.large_list(pa.int32()), [[1], []], [b"\2\2\0", b"\0"]),
        (MILLIS, pa.timestamp("us", "UTC"), [-1], [b"\1"]),
        (decimal(4, 1), pa.decimal128(9, 1), ["12.8", "-12.8", "0"], [b"\4\0\x80", b"\2\x80", b"\2\0"]),
    ],
)  # fmt: skip
def test_columns_of_all_layouts_are_written(
    kind: Any, column: pa.DataType, values: list[Any], expected: list[bytes]
) -> None:
    if pa.types.is_decimal(column):
        array = pa.array(values, pa.string()).cast(column)
    elif pa.types.is_timestamp(column):
        array = pa.array(values, pa.int64()).cast(column)
    else:
        array = pa.array(values, column)
    assert Avro(record(v=kind)).write(pa.StructArray.from_arrays([array], ["v"])) == expected


def test_a_value_that_the_schema_does_not_allow_stops_the_writing() -> None:
    avro = Avro(record(v=decimal(3)))
    column = pa.array(["1", "1000"]).cast(pa.decimal128(5, 0))
    with pytest.raises(AvroValueError) as raised:
        avro.write(pa.StructArray.from_arrays([column], ["v"]))
    assert str(raised.value) == "row 1: the number has more digits than the decimal type (v)"
    assert (raised.value.row, raised.value.path) == (1, "v")


def test_values_beyond_the_two_gib_of_a_column_are_refused_however_it_grew() -> None:
    # What there is doubles, so the third value makes room beyond 2 GiB: the fourth would fit it, but no offset.
    half = 1 << 29
    sizes = [half, 20, half, 2 * half - 1]
    zeros = pa.py_buffer(mmap.mmap(-1, max(sizes), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    views = b"".join(struct.pack("=iiii", size, 0, 0, 0) for size in sizes)
    values = pa.Array.from_buffers(pa.binary_view(), len(sizes), [None, pa.py_buffer(views), zeros])
    with pytest.raises(MemoryError, match="more than the 2 GiB that one column holds"):
        Avro(record(v="bytes")).write(pa.StructArray.from_arrays([values], ["v"]))


def test_threads_read_and_write_at_once() -> None:
    values = pa.array(
        [ORDER.bytes_of({"id": n, "name": str(n), "flag": True}) for n in range(2000)], pa.binary()
    )
    expected = read_avro(ORDER.plan, ORDER.columns, values)
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(20):
            structs = pa.array(read_avro(ORDER.plan, ORDER.columns, values))
            if not pa.array(write_avro(ORDER.plan, structs, BINARY)).equals(values):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong
    assert pa.array(expected).field(0).to_pylist() == list(range(2000))
