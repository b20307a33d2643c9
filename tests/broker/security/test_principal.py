"""Principals: as text, and in the bytes that Kafka's brokers put into an envelope."""

from __future__ import annotations

import pytest

from ottla.broker.security.principal import ANONYMOUS, KafkaPrincipal
from ottla.errors import DecodeError

ALICE = KafkaPrincipal("User", "alice")
BYTES = b"\0\0\x05User\x06alice\0\0"
"""DefaultPrincipalData of Apache Kafka: version 0, type, name, no token, no tagged fields."""


def test_a_principal_is_written_and_parsed_as_type_and_name() -> None:
    assert str(ANONYMOUS) == "User:ANONYMOUS"
    assert KafkaPrincipal.parse("User:alice") == ALICE
    assert KafkaPrincipal.parse("User:CN=alice:of,O=Ottla").name == "CN=alice:of,O=Ottla"
    assert KafkaPrincipal.parse("User:*").name == "*"


@pytest.mark.parametrize("text", ["", "alice"])
def test_a_text_without_a_type_is_no_principal(text: str) -> None:
    with pytest.raises(ValueError, match="principalType:principalName"):
        KafkaPrincipal.parse(text)


def test_a_delegation_token_does_not_make_another_principal() -> None:
    assert KafkaPrincipal("User", "alice", token_authenticated=True) == ALICE
    assert KafkaPrincipal("Group", "alice") != ALICE


def test_its_bytes_are_those_of_apache_kafka() -> None:
    assert ALICE.to_bytes() == BYTES
    assert KafkaPrincipal("User", "alice", token_authenticated=True).to_bytes() == BYTES[:-2] + b"\1\0"


@pytest.mark.parametrize(
    "principal",
    [
        ALICE,
        ANONYMOUS,
        KafkaPrincipal("", ""),
        KafkaPrincipal("User", "x" * 300),
        KafkaPrincipal("User", "Žofie"),
        KafkaPrincipal("User", "alice", token_authenticated=True),
    ],
)
def test_bytes_are_read_back(principal: KafkaPrincipal) -> None:
    for data in (principal.to_bytes(), memoryview(principal.to_bytes()), principal.to_bytes() + b"tail"):
        read = KafkaPrincipal.from_bytes(data)
        assert (read, read.token_authenticated) == (principal, principal.token_authenticated)


def test_tagged_fields_of_a_newer_kafka_are_ignored() -> None:
    assert KafkaPrincipal.from_bytes(BYTES[:-1] + b"\1\0\3abc") == ALICE


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"\0",
        b"\0\1" + BYTES[2:],
        b"\xff\xff" + BYTES[2:],
        *(BYTES[:end] for end in range(2, len(BYTES))),
        b"\0\0\0\x06alice\0\0",
        b"\0\0\x05User\xff\xff\xff\xff\xff\xff",
        b"\0\0\x05User\x06al\xffce\0\0",
        BYTES[:-1] + b"\1\0\3ab",
    ],
)
def test_anything_else_is_no_principal(data: bytes | None) -> None:
    with pytest.raises(DecodeError):
        KafkaPrincipal.from_bytes(data)
