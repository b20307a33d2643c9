"""The fixed formats, by known answers: the bytes that Java's serializers write, and what they must not take."""

from __future__ import annotations

import json
import math
import struct
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.serde import Serde, string
from ottla.serde.formats import FLOAT32, FLOAT64, INT32, INT64, JSON, STR, UUID_TEXT

KNOWN = [
    (STR, "", ""),
    (STR, "abc", "616263"),
    (STR, "Łódź 😀", "c581c3b364c5ba20f09f9880"),
    (STR, "\0", "00"),
    (INT32, 0, "00000000"),
    (INT32, 1, "00000001"),
    (INT32, -1, "ffffffff"),
    (INT32, 423412424, "193cc2c8"),
    (INT32, 2**31 - 1, "7fffffff"),
    (INT32, -(2**31), "80000000"),
    (INT64, 1, "0000000000000001"),
    (INT64, -2, "fffffffffffffffe"),
    (INT64, 922337203685477580, "0ccccccccccccccc"),
    (INT64, 2**63 - 1, "7fffffffffffffff"),
    (INT64, -(2**63), "8000000000000000"),
    (FLOAT32, 0.0, "00000000"),
    (FLOAT32, 1.0, "3f800000"),
    (FLOAT32, -2.5, "c0200000"),
    (FLOAT32, math.inf, "7f800000"),
    (FLOAT32, -math.inf, "ff800000"),
    (FLOAT64, 1.0, "3ff0000000000000"),
    (FLOAT64, 0.1, "3fb999999999999a"),
    (FLOAT64, -0.0, "8000000000000000"),
    (FLOAT64, math.inf, "7ff0000000000000"),
    (
        UUID_TEXT,
        UUID("0123abcd-4567-89ef-0123-456789abcdef"),
        "30313233616263642d343536372d383965662d303132332d343536373839616263646566",
    ),
]


@pytest.mark.parametrize(("serde", "value", "expected"), KNOWN)
def test_the_bytes_are_those_of_javas_serializer(serde: Serde[Any], value: object, expected: str) -> None:
    assert serde.serializer(value) == bytes.fromhex(expected)
    read = serde.deserializer(bytes.fromhex(expected))
    assert (type(read), repr(read)) == (type(value), repr(value))


def test_a_float_of_32_bits_is_the_nearest_one() -> None:
    assert FLOAT32.serializer(0.1) == bytes.fromhex("3dcccccd")
    assert FLOAT32.deserializer(bytes.fromhex("3dcccccd")) == 0.10000000149011612


@pytest.mark.parametrize(("serde", "expected"), [(FLOAT32, "7fc00000"), (FLOAT64, "7ff8000000000000")])
def test_nan_is_a_float(serde: Serde[float], expected: str) -> None:
    assert serde.serializer(math.nan) == bytes.fromhex(expected)
    assert math.isnan(serde.deserializer(bytes.fromhex(expected)))


def test_an_int_is_taken_for_a_float_but_not_the_other_way_round() -> None:
    assert FLOAT64.serializer(2) == bytes.fromhex("4000000000000000")
    with pytest.raises(struct.error):
        INT32.serializer(2.0)  # type: ignore[arg-type]


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_int_of_64_bits_comes_back(value: int) -> None:
    assert INT64.deserializer(INT64.serializer(value)) == value


@given(st.text(st.characters(codec="utf-8")))
def test_every_text_comes_back(value: str) -> None:
    for serde in (STR, string("utf-16-be"), string("utf-32")):
        assert serde.deserializer(serde.serializer(value)) == value


@given(st.uuids())
def test_every_uuid_comes_back(value: UUID) -> None:
    assert UUID_TEXT.deserializer(UUID_TEXT.serializer(value)) == value


@pytest.mark.parametrize(
    ("serde", "value"),
    [
        (STR, 5),
        (STR, b"abc"),
        (STR, "\ud800"),
        (string("ascii"), "é"),
        (string("latin-1"), b"abc"),
        (INT32, 2**31),
        (INT32, -(2**31) - 1),
        (INT32, "5"),
        (INT64, 2**63),
        (INT64, b"5"),
        (FLOAT32, 1e39),
        (FLOAT64, "1.0"),
        (FLOAT64, 10**400),
        (UUID_TEXT, "0123abcd-4567-89ef-0123-456789abcdef"),
        (UUID_TEXT, 5),
    ],
)
def test_a_value_that_does_not_fit_is_refused(serde: Serde[Any], value: object) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError, struct.error)):
        serde.serializer(value)


@pytest.mark.parametrize(
    ("serde", "data"),
    [
        (STR, b"\xff"),
        (STR, b"\xc3"),
        (string("utf-16-be"), b"a"),
        (INT32, b""),
        (INT32, b"abc"),
        (INT32, b"abcde"),
        (INT64, b"abcd"),
        (FLOAT32, b"abcdefgh"),
        (FLOAT64, b"abcd"),
        (UUID_TEXT, b""),
        (UUID_TEXT, b"0123abcd456789ef0123456789abcdef"),
        (UUID_TEXT, b"{0123abcd-4567-89ef-0123-456789abcdef}"),
        (UUID_TEXT, b"urn:uuid:0123abcd-4567-89ef-0123-456789abcdef"),
        (UUID_TEXT, b"0123-abcd4567-89ef-0123-456789abcdef"),
        (UUID_TEXT, b"0123abcd-4567-89ef-0123-456789abcdeg"),
        (UUID_TEXT, b"0123456789abcdef"),
        (UUID_TEXT, b"\xff" * 36),
    ],
)
def test_bytes_in_another_format_are_refused(serde: Serde[Any], data: bytes) -> None:
    with pytest.raises((ValueError, struct.error)):
        serde.deserializer(data)


def test_a_uuid_in_capitals_is_read() -> None:
    value = UUID("0123abcd-4567-89ef-0123-456789abcdef")
    assert UUID_TEXT.deserializer(b"0123ABCD-4567-89EF-0123-456789ABCDEF") == value


def test_text_can_have_another_encoding_and_another_way_with_what_does_not_fit() -> None:
    assert string("latin-1").serializer("é") == b"\xe9"
    assert string("utf-16-be").serializer("a") == b"\0a"
    assert string("ascii", "replace").serializer("é") == b"?"
    assert string(errors="replace").deserializer(b"\xff") == "\ufffd"
    assert string("UTF8").expects == "a str in utf-8"


@pytest.mark.parametrize("arguments", [("utf-9",), ("hex",), ("utf-8", "ignoer")])
def test_an_encoding_that_does_not_exist_is_refused_at_once(arguments: tuple[str, ...]) -> None:
    with pytest.raises(LookupError):
        string(*arguments)


# JSON: compact, in UTF-8, and only what JSON has

documents = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"id": 1, "tags": ["a", None, True], "price": 1.5}, b'{"id":1,"tags":["a",null,true],"price":1.5}'),
        ("Łódź", '"Łódź"'.encode()),
        ('\n"\\', b'"\\n\\"\\\\"'),
        ([], b"[]"),
        (False, b"false"),
        (2**70, b"1180591620717411303424"),
    ],
)
def test_json_is_compact_and_in_utf_8(value: object, expected: bytes) -> None:
    assert JSON.serializer(value) == expected
    assert JSON.deserializer(expected) == value


@given(documents)
def test_every_document_comes_back_and_is_what_the_standard_library_reads(value: object) -> None:
    data = JSON.serializer(value)
    assert JSON.deserializer(data) == value
    assert json.loads(data) == value


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_does_not_have_is_not_written(value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        JSON.serializer({"price": value})


@pytest.mark.parametrize("name", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_json_does_not_have_is_not_read(name: str) -> None:
    with pytest.raises(ValueError, match=f"JSON has no {name}"):
        JSON.deserializer(f"[{name}]".encode())


@pytest.mark.parametrize("value", [{1, 2}, object(), b"bytes", {(1, 2): 3}])
def test_what_json_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        JSON.serializer(value)


def test_text_that_utf_8_cannot_hold_is_refused() -> None:
    with pytest.raises(UnicodeEncodeError):
        JSON.serializer("\ud800")


@pytest.mark.parametrize("data", [b"", b"{", b"{} {}", b"{'a': 1}", b'"\xff"', b"nul"])
def test_what_is_no_json_is_refused(data: bytes) -> None:
    with pytest.raises((json.JSONDecodeError, UnicodeDecodeError)):
        JSON.deserializer(data)


def test_a_byte_order_mark_is_ignored() -> None:
    assert JSON.deserializer(b'\xef\xbb\xbf{"a": 1}') == {"a": 1}


def test_null_is_read_as_none() -> None:
    assert JSON.deserializer(b"null") is None
