"""Columns to documents: against a plain writer in Python, on random columns of every type, sliced and nested.

That this is what Spark writes is compared in tests/spark/values/test_to_json.
"""

from __future__ import annotations

import json
import locale
import math
import struct
import threading
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ottla._native.json_columns import read_json
from ottla._native.json_documents import write_json
from tests.native.json_oracle import ESCAPES, document, java_number

INT32, INT64 = 2**31, 2**63


def written(structs: pa.StructArray | pa.RecordBatch) -> list[bytes | None]:
    """The documents, in an array that Arrow itself has checked."""
    found = pa.array(write_json(structs))
    found.validate(full=True)
    assert found.type == pa.binary()
    assert len(found) == len(structs)
    documents: list[bytes | None] = found.to_pylist()
    return documents


def one(kind: pa.DataType, value: Any) -> str:
    """What stands for a value in a document."""
    (found,) = written(pa.StructArray.from_arrays([pa.array([[value]], pa.list_(kind))], names=["v"]))
    assert found is not None
    return found.decode().removeprefix('{"v":[').removesuffix("]}")


# Random columns

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda unscaled: Decimal(unscaled).scaleb(-scale))


LEAVES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int8(), st.integers(-128, 127)),
    (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    (pa.int32(), st.integers(-INT32, INT32 - 1)),
    (pa.int64(), st.integers(-INT64, INT64 - 1)),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (pa.decimal128(10, 2), decimals(10, 2)),
    (pa.decimal128(28, 10), decimals(28, 10)),
    (pa.decimal128(28, 28), decimals(28, 28)),
    (pa.string(), TEXT),
    (pa.large_string(), TEXT),
    (pa.string_view(), TEXT),
    (pa.binary(), st.binary(max_size=20)),
    (pa.large_binary(), st.binary(max_size=20)),
    (pa.date32(), st.integers(-INT32, INT32 - 1)),
    (pa.timestamp("us", "UTC"), st.integers(-INT64, INT64 - 1)),
    (pa.timestamp("us", "Europe/Prague"), st.integers(-(2**52), 2**52)),
    (pa.timestamp("us"), st.integers(-INT64, INT64 - 1)),
    (pa.null(), st.none()),
]
Column = tuple[pa.DataType, st.SearchStrategy[Any]]


def or_null(column: Column) -> Column:
    return column[0], st.none() | column[1]


def lists(inner: Column, make: Any) -> Column:
    return make(inner[0]), st.lists(or_null(inner)[1], max_size=4)


def maps(inner: Column) -> Column:
    return pa.map_(pa.string(), inner[0]), st.lists(st.tuples(TEXT, or_null(inner)[1]), max_size=3)


def structs(fields: dict[str, Column]) -> Column:
    kinds = [(name, kind) for name, (kind, _) in fields.items()]
    return pa.struct(kinds), st.fixed_dictionaries({name: or_null(each)[1] for name, each in fields.items()})


COLUMNS: st.SearchStrategy[Column] = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: (
        st.builds(lists, inner, st.sampled_from([pa.list_, pa.large_list]))
        | st.builds(maps, inner)
        | st.dictionaries(NAMES, inner, max_size=4).map(structs)
    ),
    max_leaves=6,
)


@given(st.dictionaries(NAMES, COLUMNS, max_size=5).map(structs).map(or_null), st.data())
def test_columns_are_written_as_the_plain_writer_does(column: Column, data: st.DataObject) -> None:
    kind, values = column
    rows = data.draw(st.lists(values, max_size=6))
    array = pa.array(rows, kind)
    expected = [document(kind, row) for row in rows]
    assert written(array) == expected
    begin = data.draw(st.integers(0, len(rows)))
    assert written(array.slice(begin)) == expected[begin:]
    assert written(array.slice(0, begin)) == expected[:begin]
    # As the columns of a batch are: cut themselves, and not by the struct around them.
    cut = [array.field(index).slice(begin) for index in range(kind.num_fields)]
    if cut and None not in rows:
        assert written(pa.StructArray.from_arrays(cut, fields=list(kind))) == expected[begin:]


@given(st.lists(st.fixed_dictionaries({"a": st.none() | TEXT, "b": st.floats()}), min_size=1, max_size=8))
def test_python_reads_what_is_written(rows: list[dict[str, Any]]) -> None:
    batch = pa.RecordBatch.from_pylist(rows, pa.schema([("a", pa.string()), ("b", pa.float64())]))
    for row, text in zip(rows, written(batch), strict=True):
        assert text is not None
        found = json.loads(text)
        assert found.get("a") == row["a"]
        assert math.isnan(row["b"]) or float(found["b"]).hex() == row["b"].hex()


def test_what_was_written_is_read_back_by_column() -> None:
    kind = pa.struct(
        [("a", pa.int64()), ("b", pa.map_(pa.string(), pa.decimal128(28, 10))), ("c", pa.list_(pa.binary()))]
    )
    rows = [{"a": 1, "b": [("k", Decimal("1E-10"))], "c": [b"\0", None]}, {"a": None, "b": [], "c": None}]
    array = pa.array(rows, kind)
    found = read_json(pa.schema(list(kind)), pa.array(write_json(array)))
    assert found.malformed_count == 0
    assert pa.array(found).to_pylist() == array.to_pylist()


# Leaves


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"), (-0.0, "-0.0"), (1.0, "1.0"), (-1.5, "-1.5"), (0.1, "0.1"), (0.001, "0.001"), (100.0, "100.0"),
        (9999999.0, "9999999.0"), (1e7, "1.0E7"), (12345678.9, "1.23456789E7"), (0.00099, "9.9E-4"), (1e-5, "1.0E-5"),
        (1e10, "1.0E10"), (1e23, "1.0E23"), (8.41e21, "8.41E21"), (2.0**-44, "5.684341886080802E-14"),
        (5e-324, "4.9E-324"), (2.2250738585072014e-308, "2.2250738585072014E-308"), (0.3, "0.3"),
        (0.1 + 0.2, "0.30000000000000004"), (1.7976931348623157e308, "1.7976931348623157E308"),
        (123456.789, "123456.789"), (math.nan, '"NaN"'), (math.inf, '"Infinity"'), (-math.inf, '"-Infinity"'),
    ],
)  # fmt: skip
def test_doubles_have_the_form_of_java(value: float, text: str) -> None:
    assert one(pa.float64(), value) == text


@given(
    st.floats(allow_nan=False, allow_infinity=False) | st.integers(-1080, 1020).map(lambda power: 2.0**power)
)
@example(2.0**-1022)
def test_doubles_are_the_shortest_that_come_back(value: float) -> None:
    text = one(pa.float64(), value)
    assert text == java_number(value)
    assert float(text).hex() == value.hex()


@given(st.integers(0, 0x7F7FFFFF) | st.integers(0, 254).map(lambda exponent: exponent << 23))
def test_floats_are_the_shortest_that_come_back(bits: int) -> None:
    (value,) = struct.unpack("<f", struct.pack("<I", bits))
    assert one(pa.float32(), value) == java_number(value, single=True)


@given(st.integers(-(10**9), 10**9), st.integers(0, 9))
def test_prices_and_the_like_are_written_as_they_are_read(cents: int, places: int) -> None:
    value = cents / 10**places
    assert one(pa.float64(), value) == java_number(value)


def test_a_locale_with_a_comma_changes_nothing() -> None:
    before = locale.setlocale(locale.LC_NUMERIC)
    try:
        locale.setlocale(locale.LC_NUMERIC, "de_DE.UTF-8")
    except locale.Error:
        pytest.skip("this machine has no such locale")
    try:
        assert one(pa.float64(), 0.1 + 0.2) == "0.30000000000000004"
    finally:
        locale.setlocale(locale.LC_NUMERIC, before)


@pytest.mark.parametrize(
    ("scale", "unscaled", "text"),
    [(2, 150, "1.50"), (2, -5, "-0.05"), (10, 0, "0E-10"), (10, 1000, "1.000E-7"), (6, 1, "0.000001"), (7, 1, "1E-7"),
     (5, 0, "0.00000"), (0, -(10**38 - 1), "-" + "9" * 38), (38, 10**38 - 1, "0." + "9" * 38)],
)  # fmt: skip
def test_decimals_have_all_their_places(scale: int, unscaled: int, text: str) -> None:
    data = unscaled.to_bytes(16, "little", signed=True)
    values = pa.Array.from_buffers(pa.decimal128(38, scale), 1, [None, pa.py_buffer(data)])
    (found,) = written(pa.StructArray.from_arrays([values], names=["v"]))
    assert found == f'{{"v":{text}}}'.encode()


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 15, 16, 4095, 4096, 4097, 20_000])
@pytest.mark.parametrize("filler", ["a", "é", "\\", "\x1f", '"'])
def test_strings_of_every_length_are_escaped_where_they_have_to_be(length: int, filler: str) -> None:
    for text in (filler * length, "x" * length + filler, filler + "x" * length):
        assert written(pa.array([{"v": text}])) == [document(pa.struct([("v", pa.string())]), {"v": text})]


def test_every_character_of_one_byte() -> None:
    text = "".join(map(chr, range(128)))
    escaped = one(pa.string(), text)
    assert json.loads(escaped) == text
    assert escaped == f'"{"".join(ESCAPES.get(character, character) for character in text)}"'


# The border


def test_rows_without_anything_are_empty_objects_and_null_rows_are_null() -> None:
    assert written(pa.array([{}, None], pa.struct([]))) == [b"{}", None]
    assert written(pa.array([{"a": None}, None], pa.struct([("a", pa.int8())]))) == [b"{}", None]
    assert written(pa.array([], pa.struct([("a", pa.int8())]))) == []


def test_a_record_batch_is_taken_too_and_cut() -> None:
    batch = pa.record_batch({"a": [1, 2, 3], "b": [["x"], [], None]})
    assert written(batch.slice(1)) == [b'{"a":2,"b":[]}', b'{"a":3}']


@pytest.mark.parametrize(
    ("array", "named"),
    [
        (pa.array([1]), "format 'l'"),
        (pa.array([{"a": {"b": [1]}}], pa.struct([("a", pa.struct([("b", pa.list_(pa.uint8()))]))])), "format 'C'"),
        (pa.array([{"a": 1}], pa.struct([("a", pa.duration("us"))])), "'a', an Arrow array of the format 'tDu'"),
        (pa.array([{"a": [(1, 1)]}], pa.struct([("a", pa.map_(pa.int8(), pa.int8()))])), r"'a', .* '\+m'"),
        (pa.array([{"a": 1}], pa.struct([("a", pa.timestamp("ns"))])), "'a', .* 'tsn:'"),
    ],
)  # fmt: skip
def test_a_type_that_is_not_written_is_refused_by_name(array: pa.Array, named: str) -> None:
    with pytest.raises(TypeError, match=named):
        write_json(array)


def nested(levels: int) -> pa.Array:
    kind: pa.DataType = pa.int8()
    value: Any = 1
    for _ in range(levels):
        kind, value = pa.list_(kind), [value]
    return pa.array([{"a": value}], pa.struct([("a", kind)]))


def test_types_may_be_nested_but_not_without_end() -> None:
    assert written(nested(63)) == [b'{"a":' + b"[" * 63 + b"1" + b"]" * 63 + b"}"]
    with pytest.raises(TypeError, match="JSON is not written"):
        write_json(nested(64))


def test_documents_outlive_their_columns_and_are_written_by_threads_at_once() -> None:
    array = pa.array([{"a": number, "b": "x" * (number % 50)} for number in range(2_000)])
    expected = written(array)
    found: list[list[bytes | None]] = []
    threads = [threading.Thread(target=lambda: found.append(written(array))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [expected] * 4
