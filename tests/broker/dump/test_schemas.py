"""Records of Kafka's own topics: the schemas are Kafka's, and any bytes become JSON or a DecodeError."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.coordinator.groups import records as groups
from ottla.broker.coordinator.transactions import records as transactions
from ottla.broker.dump.schemas import decode_json, record_types
from ottla.errors import DecodeError
from ottla.wire.schema import message_names
from tools import make_record_schema

ABOUT = tuple(make_record_schema.SECTIONS)


def test_every_record_that_the_coordinators_write_is_known() -> None:
    known = {
        schema.name: str(schema.versions)
        for about in ("groups", "transactions")
        for types in record_types(about).values()
        for schema in types
        if schema is not None
    }
    for module in (groups, transactions):
        for block in module._SCHEMA.strip().split("\n\n"):
            _, name, versions, *_ = block.split()
            assert known[name] == versions


def test_no_record_has_the_name_of_a_message() -> None:
    names = [types.value.name for about in ABOUT for types in record_types(about).values()]
    assert len(names) == len(set(names))
    assert set(names).isdisjoint(message_names())


@given(
    about=st.sampled_from(ABOUT),
    pick=st.integers(0, 1000),
    version=st.integers(-1, 6),
    data=st.binary(max_size=200),
)
def test_any_bytes_become_json_or_a_decode_error(about: str, pick: int, version: int, data: bytes) -> None:
    types = list(record_types(about).values())
    for schema in types[pick % len(types)]:
        if schema is None:
            continue
        try:
            found = decode_json(schema, version, data)
        except DecodeError:
            continue
        assert version in schema.versions
        assert isinstance(found, dict)


def test_a_field_behind_a_tag_is_shown_unless_it_is_the_default() -> None:
    change = record_types("metadata")[5].value
    body = (7).to_bytes(4, "big") + bytes(16)
    assert decode_json(change, 0, body + b"\x00") == {
        "partitionId": 7,
        "topicId": "AAAAAAAAAAAAAAAAAAAAAA",
    }
    with_leader = body + b"\x01\x01\x04\x00\x00\x00\x09"
    assert decode_json(change, 0, with_leader)["leader"] == 9
    no_change = body + b"\x01\x01\x04\xff\xff\xff\xfe"
    assert "leader" not in decode_json(change, 0, no_change)
