"""Documents to columns: the border, what is malformed, and that a malformed document leaves nothing behind.

What each type takes is compared with Spark itself in tests/spark/values; random documents are in test_json_fuzz.
"""

from __future__ import annotations

import math
import threading
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from ottla._native.json_columns import read_json
from tests.native.json_support import documents, is_malformed, malformed, read, value

ORDER = pa.schema(
    [
        ("id", pa.int64()),
        ("customer", pa.string()),
        ("amount", pa.float64()),
        ("paid", pa.bool_()),
        ("at", pa.timestamp("us", tz="UTC")),
    ]
)
ID = pa.schema([("id", pa.int64())])
NOTHING = pa.schema([])


def test_a_document_becomes_a_row_whatever_the_order_of_its_fields() -> None:
    rows, found = read(
        ORDER,
        b'{"id":1,"customer":"c","amount":12.5,"paid":true,"at":"2026-05-01T12:00:00Z"}',
        b' { "at" : "2026-05-01T12:00:00+02:00" , "paid":false,"id":-2, "customer":"" ,"amount":3 }\n',
    )
    assert rows == [
        {
            "id": 1,
            "customer": "c",
            "amount": 12.5,
            "paid": True,
            "at": datetime(2026, 5, 1, 12, tzinfo=UTC),
        },
        {
            "id": -2,
            "customer": "",
            "amount": 3.0,
            "paid": False,
            "at": datetime(2026, 5, 1, 10, tzinfo=UTC),
        },
    ]
    assert (found.malformed_count, found.malformed, found.first_malformed, found.problem) == (
        0,
        None,
        -1,
        None,
    )


def test_missing_fields_are_null_others_are_left_and_the_last_of_two_counts() -> None:
    rows, found = read(
        ID, b"{}", b'{"x":[1,{"id":9}],"y":"\\u00e9"}', b'{"id":1,"id":2}', b'{"id":1,"id":null}', b'{"ID":3}'
    )
    assert [row["id"] for row in rows] == [None, None, 2, None, None]
    assert found.malformed_count == 0


def test_nulls_and_blank_values_are_null_rows() -> None:
    rows, found = read(ID, None, b"", b" \n\t\r", b'{"id":1}')
    assert rows == [None, None, None, {"id": 1}]
    assert found.malformed_count == 0


def test_a_name_is_compared_by_what_it_says_and_not_how_it_is_written() -> None:
    schema = pa.schema([('a"b', pa.int32()), ("é", pa.int32()), ("c", pa.int32()), ("", pa.int32())])
    rows, found = read(schema, b'{"a\\"b":1,"\\u00e9":2,\'c\':3,"":4}', '{"é":5,"\\u0063":6,"a":7}'.encode())
    assert rows == [{'a"b': 1, "é": 2, "c": 3, "": 4}, {'a"b': None, "é": 5, "c": 6, "": None}]
    assert found.malformed_count == 0


@pytest.mark.parametrize(
    "document",
    [
        b"{",
        b"}",
        b"1",
        b"null",
        b'"x"',
        b"[]",
        b'[{"id":1}]',
        b'{"id":1',
        b'{"id":1,}',
        b'{,"id":1}',
        b'{"id" 1}',
        b'{"id":}',
        b"{id:1}",
        b'{"id":1}x',
        b'{"id":1}{"id":2}',
        b'{"id":1,"x":tru}',
        b'{"id":1,"x":01}',
        b'{"id":1,"x":"\\x"}',
        b'{"id":1,"x":"a\nb"}',
        b'{"id":1,"x":"\xff"}',
        b'{"id":1,"x":[1,2}}',
        b'{"id":1,"x":{"y":1]}',
        b'{"id":1,"x":[1,]}',
        b'\xef\xbb\xbf{"id":1}',
        b"\x00",
        b'{"id":1}\x00',
    ],
)
def test_what_is_not_one_object_leaves_a_row_of_nulls_and_its_neighbours_alone(document: bytes) -> None:
    rows, found = read(ID, b'{"id":7}', document, b'{"id":8}')
    assert rows == [{"id": 7}, {"id": None}, {"id": 8}]
    assert malformed(found, 3) == [False, True, False]
    assert found.first_malformed == 1


def test_a_value_of_a_wrong_type_leaves_its_column_null_and_keeps_the_others() -> None:
    rows, found = read(ORDER, b'{"id":"one","customer":"c","amount":1,"paid":false}')
    assert rows[0] == {"id": None, "customer": "c", "amount": 1.0, "paid": False, "at": None}
    assert found.problem == "the value is not a whole number of 64 bits of 'id', at byte 6"


def test_the_first_problem_is_told_unless_the_document_is_no_json_at_all() -> None:
    _, wrong_twice = read(ORDER, b'{"id":1.5,"paid":1}')
    assert wrong_twice.problem == "the value is not a whole number of 64 bits of 'id', at byte 6"
    _, broken = read(ORDER, b'{"id":1.5,"paid":tru}')
    assert broken.problem == "a word is none of JSON's, at byte 17"


def test_a_wrong_element_makes_the_array_null_and_a_wrong_field_only_the_field() -> None:
    item = pa.struct([("x", pa.int32()), ("y", pa.string())])
    schema = pa.schema(
        [
            ("n", pa.list_(pa.int32())),
            ("m", pa.map_(pa.string(), pa.int32())),
            ("s", pa.list_(item)),
            ("k", pa.int8()),
        ]
    )
    rows, found = read(
        schema,
        b'{"n":[1,"x",3],"m":{"a":1,"b":true,"c":2},"s":[{"x":1},{"x":"q","y":"w"}],"k":1}',
        b'{"n":[4,null],"m":{"a":null},"s":[],"k":2}',
    )
    assert rows == [
        {"n": None, "m": None, "s": [{"x": 1, "y": None}, {"x": None, "y": "w"}], "k": 1},
        {"n": [4, None], "m": [("a", None)], "s": [], "k": 2},
    ]
    assert malformed(found, 2) == [True, False]


def test_a_document_that_breaks_inside_of_nested_values_leaves_nothing_of_them() -> None:
    inner = pa.struct([("b", pa.list_(pa.string())), ("c", pa.map_(pa.string(), pa.list_(pa.int64())))])
    schema = pa.schema([("a", pa.list_(inner)), ("z", pa.string())])
    good = b'{"a":[{"b":["x","y"],"c":{"k":[1,2]}},{"b":[]}],"z":"end"}'
    cut = [good[:length] for length in range(1, len(good))]
    mixed = [document for each in cut for document in (each, good)]
    rows, found = read(schema, *mixed)
    expected = {"a": [{"b": ["x", "y"], "c": [("k", [1, 2])]}, {"b": [], "c": None}], "z": "end"}
    assert rows[1::2] == [expected] * len(cut)
    assert rows[0::2] == [{"a": None, "z": None}] * len(cut)
    assert found.malformed_count == len(cut)


def test_a_field_that_is_there_twice_is_read_once_also_when_nested() -> None:
    schema = pa.schema([("a", pa.list_(pa.struct([("b", pa.list_(pa.string()))]))), ("t", pa.string())])
    rows, _ = read(
        schema, b'{"a":[{"b":["x"]},{"b":["y","z"]}],"t":"long","a":[{"b":["q"],"b":null}],"t":"s"}', b"{}"
    )
    assert rows == [{"a": [{"b": None}], "t": "s"}, {"a": None, "t": None}]


def test_strings_are_unescaped_and_other_values_are_taken_as_they_are_written() -> None:
    assert value(pa.string(), rb'"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"') == '"\\/\b\f\n\r\té😀'
    assert value(pa.string(), '"é😀\x7f"') == "é😀\x7f"
    assert value(pa.string(), rb'"\ud800 \udc00 \ud800\ud800\u0041"') == "? ? ??A"
    assert value(pa.string(), '{"a" : [1, 2.50]}') == '{"a" : [1, 2.50]}'
    assert value(pa.string(), "1e7") == "1e7"
    assert value(pa.string(), "null") is None


@pytest.mark.parametrize(
    "text",
    [
        b"\xc3",
        b"\xc0\x80",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xf0\x80\x80\x80",
        b"\xe0\x80\x80",
        b"\x80",
        b"\xf5",
    ],
)
def test_strings_that_are_not_utf8_are_malformed(text: bytes) -> None:
    assert is_malformed(pa.string(), b'"' + text + b'"')
    assert is_malformed(pa.string(), b'"some more text before' + text + b' and behind it"')


def test_integers_are_refused_beyond_their_range() -> None:
    for kind, bits in ((pa.int8(), 8), (pa.int16(), 16), (pa.int32(), 32), (pa.int64(), 64)):
        least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        assert (value(kind, str(least)), value(kind, str(most))) == (least, most)
        assert is_malformed(kind, str(least - 1))
        assert is_malformed(kind, str(most + 1))
        assert is_malformed(kind, "1" + "0" * 40)


def test_decimals_round_half_up_and_are_refused_beyond_their_precision() -> None:
    kind = pa.decimal128(10, 2)
    assert value(kind, "12345.665") == Decimal("12345.67")
    assert value(kind, "-0.005") == Decimal("-0.01")
    assert value(kind, '"1,000.5"') == Decimal("1000.50")
    assert value(kind, "1e-99999999999") == Decimal("0.00")
    assert is_malformed(kind, "99999999.995")
    assert is_malformed(kind, "1e99999999999")
    assert value(pa.decimal128(38, 0), "9" * 38) == Decimal("9" * 38)
    assert is_malformed(pa.decimal128(38, 0), "9" * 39)
    assert value(pa.decimal128(38, 38), "-0." + "9" * 38) == Decimal("-0." + "9" * 38)


def test_floats_are_rounded_correctly() -> None:
    for text in (
        "0.1",
        "1e23",
        "9007199254740993",
        "4.9e-324",
        "1.7976931348623157e308",
        "2.2250738585072011e-308",
    ):
        assert value(pa.float64(), text) == float(text)
    assert value(pa.float64(), "1e400") == math.inf
    assert value(pa.float32(), "16777217") == 16777216.0
    assert math.copysign(1, value(pa.float64(), "-0.0")) == -1
    assert math.isnan(value(pa.float64(), "NaN"))


def test_times_without_a_zone_are_in_utc_and_dates_ignore_the_time() -> None:
    assert value(pa.timestamp("us", tz="UTC"), '"2026-05-01 12:00:00.5"') == datetime(
        2026, 5, 1, 12, 0, 0, 500_000, tzinfo=UTC
    )
    assert value(pa.timestamp("us"), '"2026-5-1T1:2:3"') == datetime(2026, 5, 1, 1, 2, 3)
    assert is_malformed(pa.timestamp("us"), '"2026-05-01T12:00:00Z"')
    assert value(pa.date32(), '"2026-05-01T24:99"') == date(2026, 5, 1)


def test_nesting_is_bounded_and_costs_no_stack() -> None:
    def nested(depth: int) -> bytes:
        return b'{"x":' + b"[" * depth + b"]" * depth + b"}"

    _, found = read(
        ID, nested(999), nested(1000), b'{"x":' + b"[" * 1_000_000, b'{"x":' + b'{"a":' * 1_000_000
    )
    assert malformed(found, 4) == [False, True, True, True]
    assert is_malformed(pa.string(), b"[" * 1_000_000)


def test_numbers_of_more_than_a_thousand_digits_are_malformed() -> None:
    assert not is_malformed(pa.float64(), "1" * 1000)
    assert is_malformed(pa.float64(), "1" * 1001)
    assert is_malformed(pa.int64(), "-" + "1" * 1001)


def test_a_slice_of_an_array_is_read_from_where_it_begins() -> None:
    values = documents(b'{"id":1}', None, b'{"id":3}', b"{", b'{"id":5}').slice(1, 3)
    found = read_json(ID, values)
    assert pa.array(found).to_pylist() == [None, {"id": 3}, {"id": None}]
    assert found.first_malformed == 2


def test_no_documents_and_no_columns_are_fine() -> None:
    rows, found = read(ORDER)
    assert rows == []
    assert found.malformed_count == 0
    rows, found = read(NOTHING, b'{"id":1}', b"{", None)
    assert rows == [{}, {}, None]
    assert malformed(found, 3) == [False, True, False]


def test_many_columns_in_any_order_are_found() -> None:
    names = [f"c{number}" for number in range(300)]
    schema = pa.schema([(name, pa.int32()) for name in names])
    backwards = "{" + ",".join(f'"{name}":{name[1:]}' for name in reversed(names)) + "}"
    rows, found = read(schema, backwards.encode())
    assert rows[0] == {name: int(name[1:]) for name in names}
    assert found.malformed_count == 0


@pytest.mark.parametrize(
    "kind",
    [
        pa.large_string(),
        pa.uint8(),
        pa.timestamp("ms"),
        pa.timestamp("us", tz="Europe/Prague"),
        pa.time64("us"),
        pa.decimal256(40, 2),
        pa.dictionary(pa.int32(), pa.string()),
        pa.map_(pa.int32(), pa.string()),
        pa.list_(pa.null()),
    ],
)
def test_types_that_it_cannot_fill_are_refused(kind: pa.DataType) -> None:
    with pytest.raises(TypeError, match="the schema has a type that JSON is not read into"):
        read_json(pa.schema([("id", pa.int64()), ("v", kind)]), documents(b"{}"))


def test_schemas_that_nest_without_end_are_refused() -> None:
    kind: pa.DataType = pa.int32()
    for _ in range(100):
        kind = pa.list_(kind)
    with pytest.raises(TypeError, match="the schema has a type"):
        read_json(pa.schema([("v", kind)]), documents(b"{}"))


def test_values_must_be_binary() -> None:
    with pytest.raises(TypeError, match="values must be an Arrow array of binary, not of the format 'u'"):
        read_json(ID, pa.array(["{}"]))


def test_threads_read_at_the_same_time() -> None:
    values = documents(*(b'{"id":%d,"customer":"c%d"}' % (number, number) for number in range(2000)))
    expected = pa.array(read_json(ORDER, values))
    results: list[bool] = []

    def work() -> None:
        results.extend(pa.array(read_json(ORDER, values)).equals(expected) for _ in range(10))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 40


def test_malformed_documents_hold_no_memory_back() -> None:
    before = pa.total_allocated_bytes()
    columns = pa.array(read_json(ORDER, documents(*[b'{"customer":"' + b"x" * 1000 + b'"'] * 5000)))
    assert columns.field("customer").nbytes < 50_000
    assert pa.total_allocated_bytes() - before < 10_000_000
