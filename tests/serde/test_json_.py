"""JSON: compact, in UTF-8, and only what JSON has."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.serde.json_ import JSON

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
