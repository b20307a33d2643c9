"""Values to columns, without Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from ottla.spark.values import MalformedValueError, ValueOptions, Where, decoder

GOOD = b'{"id":1,"customer":"c"}'
BROKEN = b'{"id":1'
MISTYPED = b'{"id":1.5,"customer":"d"}'


def parse(**options: str) -> ValueOptions:
    parsed = ValueOptions.parse({f"value.{name.replace('_', '.')}": value for name, value in options.items()})
    assert parsed is not None
    return parsed


def decode(
    options: ValueOptions, *values: bytes | None, requested: list[str] | None = None
) -> tuple[list[list[Any]], list[bool] | None]:
    names = [field.name for field in options.fields()] if requested is None else requested
    where = Where("orders", 0, pa.array(range(10, 10 + len(values))))
    columns, keep = decoder(options, names)(pa.array(values, pa.binary()), where)
    assert len(columns) == len(names)
    return [column.to_pylist() for column in columns], None if keep is None else keep.to_pylist()


def json_options(**more: str) -> ValueOptions:
    return parse(format="json", schema="id bigint, customer string", **more)


def test_columns_come_in_the_order_that_is_wanted() -> None:
    assert decode(json_options(), GOOD, None, b"") == ([[1, None, None], ["c", None, None]], None)
    assert decode(json_options(), GOOD, requested=["customer", "id"]) == ([["c"], [1]], None)
    assert decode(json_options(), GOOD, requested=["customer"]) == ([["c"]], None)
    assert decode(json_options(), GOOD, requested=[]) == ([], None)


def test_a_malformed_value_fails_with_its_offset() -> None:
    with pytest.raises(MalformedValueError, match="the value at offset 11 of orders-0 is malformed"):
        decode(json_options(), GOOD, BROKEN)
    with pytest.raises(MalformedValueError, match="not a whole number of 64 bits of 'id', at byte 6"):
        decode(json_options(), MISTYPED)


def test_a_column_that_is_not_wanted_cannot_make_a_value_malformed_by_its_type() -> None:
    assert decode(json_options(), MISTYPED, requested=["customer"]) == ([["d"]], None)
    with pytest.raises(MalformedValueError):
        decode(json_options(), BROKEN, requested=["customer"])
    with pytest.raises(MalformedValueError):
        decode(json_options(), BROKEN, requested=[])


def test_malformed_values_are_dropped_with_that_option() -> None:
    _, keep = decode(json_options(malformed="drop"), GOOD, BROKEN, None, MISTYPED)
    assert keep == [True, False, True, False]
    assert decode(json_options(malformed="drop"), GOOD)[1] is None


def test_malformed_values_are_in_a_column_with_that_option() -> None:
    options = json_options(malformed="column")
    assert decode(options, GOOD, BROKEN, None, MISTYPED) == (
        [[1, None, None, None], ["c", None, None, "d"], [None, BROKEN, None, MISTYPED]],
        None,
    )
    assert decode(options, BROKEN, requested=["id"]) == ([[None]], None)
    assert decode(options, GOOD, BROKEN, requested=["_malformed"]) == ([[None, BROKEN]], None)


def test_a_nested_value_is_one_struct_and_null_where_there_is_none() -> None:
    options = json_options(nested="true", malformed="column")
    assert decode(options, GOOD, None, BROKEN) == (
        [[{"id": 1, "customer": "c"}, None, {"id": None, "customer": None}], [None, None, BROKEN]],
        None,
    )


AVRO = (
    '{"type":"record","name":"R","fields":[{"name":"id","type":"long"},{"name":"customer","type":"string"}]}'
)


def test_avro_follows_the_same_options() -> None:
    good, cut = b"\x02\x02c", b"\x02\x02"
    assert decode(parse(format="avro", schema=AVRO), good, None) == ([[1, None], ["c", None]], None)
    assert decode(parse(format="avro", schema=AVRO), good, requested=["customer"]) == ([["c"]], None)
    assert decode(parse(format="avro", schema=AVRO, malformed="drop"), good, cut)[1] == [True, False]
    assert decode(parse(format="avro", schema=AVRO, malformed="column", nested="true"), cut, None) == (
        [[{"id": None, "customer": None}, None], [cut, None]],
        None,
    )
    with pytest.raises(
        MalformedValueError,
        match=r"offset 11 of orders-0 .*\(value.format=avro\): there are too few bytes for the value of 'customer'",
    ):
        decode(parse(format="avro", schema=AVRO), good, cut)


def test_avro_that_is_no_record_is_the_column_value() -> None:
    assert decode(parse(format="avro", schema='["null", "long"]'), b"\x02\x04", b"\0") == ([[2, None]], None)


def test_avro_is_framed_where_a_schema_id_says_so() -> None:
    options = parse(format="avro", schema="long", schema_id="3")
    assert decode(options, b"\0\0\0\0\3\2") == ([[1]], None)
    with pytest.raises(MalformedValueError, match="it has schema id 7, not 3"):
        decode(options, b"\0\0\0\0\7\2")
    # Without it, the frame is a value like any other, and here one with something behind it.
    with pytest.raises(MalformedValueError, match="bytes follow the value, at byte 1"):
        decode(parse(format="avro", schema="long"), b"\0\0\0\0\3\2")


def test_strings_are_what_the_bytes_say() -> None:
    assert decode(parse(format="string"), "é😀".encode(), b"", None) == ([["é😀", "", None]], None)


def test_bytes_that_are_not_utf8_are_malformed_strings() -> None:
    with pytest.raises(
        MalformedValueError, match=r"offset 11 .* it is not UTF-8 \(invalid start byte\), at byte 1"
    ):
        decode(parse(format="string"), b"ok", b"a\xff")
    assert decode(parse(format="string", malformed="drop"), b"ok", b"\xff", None) == (
        [["ok", None, None]],
        [True, False, True],
    )
    assert decode(parse(format="string", malformed="column"), b"ok", b"\xff", None) == (
        [["ok", None, None], [None, b"\xff", None]],
        None,
    )


@pytest.mark.parametrize("share", [1, 100])
def test_malformed_values_cost_what_others_do_in_kind(share: int) -> None:
    values = [BROKEN if number % share == 0 else GOOD for number in range(50_000)]
    _, keep = decode(json_options(malformed="drop"), *values)
    assert keep is not None
    assert keep.count(False) == 50_000 // share
