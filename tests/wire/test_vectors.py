"""Byte for byte what Apache Kafka writes, in both directions, for every message, version and case."""

from __future__ import annotations

import pytest

from ottla.wire.message import message_class
from ottla.wire.schema import message_names
from tests.facts import third_party_vectors
from tests.wire.vectors import MessageVector, from_json, message_vectors


def by_message() -> dict[str, list[MessageVector]]:
    found: dict[str, list[MessageVector]] = {}
    for vector in message_vectors():
        found.setdefault(vector.cls.__name__, []).append(vector)
    return found


def test_every_message_has_answers_for_every_version_of_4_3() -> None:
    assert len(message_vectors()) == 1248
    assert set(by_message()) == set(message_names())
    for vectors in by_message().values():
        versions = {vector.version for vector in vectors}
        highest = vectors[0].cls.VERSIONS.high
        assert versions == set(range(min(versions), highest + 1))
        assert {(v, case) for v in versions for case in ("min", "full")} == {
            (v.version, v.case) for v in vectors
        }


@pytest.mark.parametrize("name", message_names())
def test_messages_are_written_as_kafka_writes_them(name: str) -> None:
    for vector in by_message()[name]:
        assert vector.message.encode(vector.version).hex() == vector.data.hex(), vector


@pytest.mark.parametrize("name", message_names())
def test_what_kafka_wrote_is_read_as_it_was_meant(name: str) -> None:
    for vector in by_message()[name]:
        for data in (vector.data, bytearray(vector.data), memoryview(b"??" + vector.data)[2:]):
            assert vector.cls.decode(data, vector.version) == vector.message, vector


def test_what_other_clients_wrote_is_read_and_written_alike() -> None:
    """Old versions above all: those that Apache Kafka 4 no longer has."""
    for vector in third_party_vectors("wire-thirdparty"):
        cls = message_class(vector["input"]["message"])
        version, data = vector["input"]["version"], bytes.fromhex(vector["input"]["hex"])
        message = cls.decode(data, version)
        assert message == from_json(cls, vector["expected"]), vector["id"]
        assert message.encode(version) == data, vector["id"]
