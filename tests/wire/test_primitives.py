"""Varints, against the protocol's own examples and their inverse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.wire.primitives import MalformedError, read_uvarint, uvarint, varint
from tests.facts import third_party_vectors
from tests.oracle.records import encode_varint


@given(st.integers(0, 2**32 - 1))
def test_unsigned_varints_come_back(value: int) -> None:
    data = uvarint(value)
    assert read_uvarint(data + b"x", 0) == (value, len(data))
    assert len(data) == max(1, -(-value.bit_length() // 7))


def test_unsigned_varints_are_kafkas() -> None:
    for vector in third_party_vectors("unsigned-varint"):
        unsigned = vector["input"] % 2**32  # Java has no unsigned int
        assert uvarint(unsigned).hex() == vector["expected"]
        assert read_uvarint(bytes.fromhex(vector["expected"]), 0)[0] == unsigned


def test_a_varint_has_five_bytes_at_most() -> None:
    with pytest.raises(MalformedError, match="more than 5 bytes"):
        read_uvarint(b"\x80" * 5 + b"\0", 0)
    with pytest.raises(IndexError):
        read_uvarint(b"\x80\x80", 0)


@pytest.mark.parametrize("value", [-1, 2**32])
def test_numbers_that_no_varint_holds_are_refused(value: int) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        uvarint(value)


def test_signed_varints_are_kafkas() -> None:
    for area in ("varint", "varlong"):
        for vector in third_party_vectors(area):
            if isinstance(vector["input"], int):
                assert varint(vector["input"]).hex() == vector["expected"]


@pytest.mark.parametrize("value", [0, -1, 63, 64, -64, -65, 2**63 - 1, -(2**63)])
def test_signed_varints_are_those_of_the_oracle(value: int) -> None:
    assert varint(value) == encode_varint(value)
    with pytest.raises(ValueError, match="does not fit"):
        varint(2**63)
