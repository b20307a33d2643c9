"""The records of groups: Apache Kafka's bytes, in both directions.

kafka_records.jsonl is what a node of Apache Kafka 4.3.1 had in __consumer_offsets after classic groups with and
without static members, a consumer group with a regular expression, a classic member that joined it and outlived it,
commits, and a deleted group.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from ottla.broker.coordinator.groups import records
from ottla.broker.coordinator.groups.records import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    RecordStruct,
    UnknownRecordTypeError,
    decode,
    encode,
)
from ottla.errors import DecodeError
from ottla.wire.schema import StructSchema

RECORDED = [
    json.loads(line) for line in Path(__file__).with_name("kafka_records.jsonl").read_text().splitlines()
]
KEY = OffsetCommitKey(group="g", topic="t", partition=3)


def test_what_kafka_wrote_is_read_and_written_again_byte_for_byte() -> None:
    types = set()
    for line in RECORDED:
        key = bytes.fromhex(line["key"])
        value = None if line["value"] is None else bytes.fromhex(line["value"])
        named, content = decode(key, value)
        types.add(type(named))
        again = encode(named, content)
        assert (again.key, again.value) == (key, value), named
    assert len(types) == 8  # all but the one of which Kafka 4.3 writes no values


def test_an_offset_is_written_with_the_id_of_its_topic_and_in_the_old_way_where_it_expires() -> None:
    plain = encode(KEY, OffsetCommitValue(offset=5))
    assert plain.value is not None
    assert plain.value[:2] == b"\0\4"
    expiring = OffsetCommitValue(offset=5, commit_timestamp=7, expire_timestamp=9)
    written = encode(KEY, expiring)
    assert written.value is not None
    assert written.value[:2] == b"\0\1"
    assert decode(written.key, written.value) == (KEY, expiring)


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_a_group_is_read(version: int) -> None:
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=3,
        protocol="range",
        leader="m",
        current_state_timestamp=7 if version >= 2 else -1,
        members=[
            MemberMetadata(
                member_id="m",
                group_instance_id="i" if version >= 3 else None,
                rebalance_timeout=5 if version >= 1 else -1,
                session_timeout=4,
                subscription=b"s",
                assignment=b"a",
            )
        ],
    )
    parts: list[bytes | bytearray | memoryview] = [version.to_bytes(2, "big")]
    records._encoder("GroupMetadataValue", version)(value, parts.append)
    key = encode(GroupMetadataKey(group="g"), None).key
    assert decode(key, b"".join(parts)) == (GroupMetadataKey(group="g"), value)


def test_the_oldest_key_of_an_offset_is_one_like_any_other() -> None:
    key = encode(KEY, None).key
    assert decode(b"\0\0" + key[2:], None) == (KEY, None)


def test_a_type_of_a_newer_release_is_told_from_a_damaged_record() -> None:
    with pytest.raises(UnknownRecordTypeError):
        decode(b"\x00\x63rest", b"")
    with pytest.raises(DecodeError, match="0 bytes"):
        decode(b"", None)
    with pytest.raises(DecodeError, match="unknown version 9"):
        decode(encode(KEY, None).key, b"\0\x09")


def test_what_a_newer_release_added_is_kept() -> None:
    key = ConsumerGroupMetadataKey(group_id="g")
    newer = ConsumerGroupMetadataValue(epoch=4, unknown_tagged_fields={9: b"new"})
    written = encode(key, newer)
    _, read = decode(written.key, written.value)
    assert isinstance(read, ConsumerGroupMetadataValue)
    assert read.unknown_tagged_fields == {9: b"new"}


def _structs(struct: StructSchema) -> list[StructSchema]:
    found = [struct]
    for field in struct.fields:
        if isinstance(field.type, StructSchema):
            found += _structs(field.type)
    return found


def test_the_classes_have_the_fields_of_the_schema() -> None:
    by_name = {type_.__name__: type_ for type_ in RecordStruct.__subclasses__()}
    for types in records._TYPES.values():
        for type_ in types:
            for struct in _structs(records._schema(type_.__name__).body):
                declared = {each.name for each in dataclasses.fields(by_name.pop(struct.name, type_))}
                if struct.name == type_.__name__:
                    assert declared == {each.attribute for each in struct.fields} | {"unknown_tagged_fields"}
    assert by_name == {}
