"""The schema in the tree: read right, fresh against the facts, with fresh stubs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ottla.errors import ProtocolError
from ottla.wire import api_for_key, api_key, api_keys, api_named
from ottla.wire.schema import (
    StructSchema,
    Versions,
    api_names,
    message_names,
    message_schema,
    snake_case,
)
from tests.facts import facts_dir
from tools import make_schema, make_stubs


def test_the_schema_is_what_the_facts_say() -> None:
    facts = facts_dir()
    if facts is None:
        pytest.skip("the protocol facts are not on this machine (see tests/facts.py)")
    assert make_schema.TARGET.read_text() == make_schema.make(facts)


def test_the_stubs_are_fresh() -> None:
    assert make_stubs.TARGET.read_text() == make_stubs.make(), "run `make stubs`"


def test_every_client_facing_api_of_kafka_4_3_is_there() -> None:
    assert len(message_names()) == 189
    # Taken by the ZooKeeper days (4-7), and by what only brokers and controllers say to each other.
    assert [key for key in range(93) if key not in api_keys()] == [4, 5, 6, 7]
    for key in api_keys():
        api = api_for_key(key)
        assert api.request.VERSIONS == api.response.VERSIONS
        assert api.request.SCHEMA.flexible == api.response.SCHEMA.flexible
        assert (key, key) == (api.request.API_KEY, api.response.API_KEY)
        assert api_named(api.name) is api


@pytest.mark.parametrize(
    ("name", "versions"),
    [
        ("Produce", "0-13"),
        ("Fetch", "0-18"),
        ("ListOffsets", "0-11"),
        ("Metadata", "0-13"),
        ("OffsetCommit", "0-10"),
        ("OffsetFetch", "0-10"),
        ("JoinGroup", "0-9"),
        ("CreateTopics", "0-7"),
        ("OffsetForLeaderEpoch", "0-4"),
        ("DescribeConfigs", "0-4"),
    ],
)
def test_versions_that_kafka_4_dropped_are_there(name: str, versions: str) -> None:
    assert str(api_named(name).versions) == versions


def test_unstable_versions_are_known_and_not_offered() -> None:
    api = api_named("InitProducerId")
    assert (str(api.versions), str(api.stable_versions)) == ("0-6", "0-5")
    assert api_named("Fetch").stable_versions == api_named("Fetch").versions


def test_header_versions() -> None:
    fetch = api_named("Fetch")
    assert (fetch.request_header_version(11), fetch.request_header_version(12)) == (1, 2)
    assert (fetch.response_header_version(11), fetch.response_header_version(12)) == (0, 1)
    assert api_named("ApiVersions").response_header_version(4) == 0
    assert api_named("SaslHandshake").request_header_version(1) == 1


def test_unknown_apis_are_protocol_errors() -> None:
    with pytest.raises(ProtocolError, match="no API with key 999"):
        api_for_key(999)
    with pytest.raises(ProtocolError, match="no API named 'Fetsch'"):
        api_named("Fetsch")
    with pytest.raises(ProtocolError, match="no API named 'Fetsch'"):
        api_key("Fetsch")


def test_keys_are_known_by_name_without_a_class_being_made() -> None:
    assert [api_key(api_for_key(key).name) for key in api_keys()] == list(api_keys())
    code = (
        "from ottla.wire import api_key; from ottla.wire.message import message_class as made; "
        "before = made.cache_info(); print(api_key('Fetch'), made.cache_info() == before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1 True\n"


def test_versions() -> None:
    assert list(Versions.parse("2-4")) == [2, 3, 4]
    assert str(Versions.parse("3")) == "3"
    assert 7 in Versions.parse("3+")
    assert len(Versions.parse("none")) == 0
    assert str(Versions.parse("none")) == "none"
    assert Versions.parse("3+").within(Versions(0, 5)) == Versions(3, 5)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("MaxWaitMs", "max_wait_ms"),
        ("KRaftVersion", "kraft_version"),
        ("Enable2Pc", "enable_2pc"),
        ("Id", "id"),
    ],
)
def test_names_become_python_names(name: str, expected: str) -> None:
    assert snake_case(name) == expected


def test_no_two_fields_or_structs_of_a_message_share_a_name() -> None:
    for name in message_names():
        schema = message_schema(name)
        assert name not in schema.structs
        for struct in (schema.body, *schema.structs.values()):
            attributes = [field.attribute for field in struct.fields]
            assert len(set(attributes)) == len(attributes)
            assert not {"encode", "decode", "unknown_tagged_fields"} & set(attributes)


def test_fields_are_within_the_versions_of_what_they_stand_in() -> None:
    def walk(struct: StructSchema, versions: Versions) -> None:
        for field in struct.fields:
            assert field.versions.low >= versions.low
            assert field.versions.high <= versions.high
            assert len(field.versions) > 0
            if isinstance(field.type, StructSchema) and field.type.name not in shared:
                walk(field.type, field.versions)

    for name in message_names():
        schema = message_schema(name)
        shared = {s for s in schema.structs if sum(holds(schema.body, s)) > 1}
        walk(schema.body, schema.versions)


def holds(struct: StructSchema, name: str) -> list[bool]:
    found = []
    for field in struct.fields:
        if isinstance(field.type, StructSchema):
            found.append(field.type.name == name)
            found += holds(field.type, name)
    return found


def test_api_names_are_kafkas() -> None:
    assert (api_names()[0], api_names()[1], api_names()[18]) == ("Produce", "Fetch", "ApiVersions")
