import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.metadata import records
from ottla.broker.metadata.records import (
    BrokerChangeRecord,
    BrokerEndpoint,
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    SupportedFeature,
    TopicRecord,
    UnregisterBrokerRecord,
)
from ottla.errors import DecodeError
from ottla.wire import Uuid

ids = st.binary(min_size=16, max_size=16).map(Uuid)
numbers = st.integers(-1, 2**62)
replicas = st.lists(st.integers(0, 9), max_size=4).map(tuple)
flags = st.none() | st.booleans()
listeners = st.lists(st.builds(BrokerEndpoint, st.text(), st.text(), numbers, numbers), max_size=2).map(tuple)
features = st.lists(st.builds(SupportedFeature, st.text(), numbers, numbers), max_size=2).map(tuple)
any_record: st.SearchStrategy[MetadataRecord] = st.one_of(
    st.builds(
        RegisterBrokerRecord,
        numbers,
        numbers,
        ids,
        listeners,
        st.none() | st.text(),
        st.booleans(),
        st.booleans(),
        features,
    ),
    st.builds(BrokerChangeRecord, numbers, numbers, flags, flags),
    st.builds(UnregisterBrokerRecord, numbers, numbers),
    st.builds(TopicRecord, st.text(), ids),
    st.builds(RemoveTopicRecord, ids),
    st.builds(
        PartitionRecord,
        ids,
        numbers,
        replicas,
        replicas,
        numbers,
        numbers,
        numbers,
        elr=replicas,
        last_known_elr=replicas,
    ),
    st.builds(
        PartitionChangeRecord,
        ids,
        numbers,
        st.none() | replicas,
        st.none() | numbers,
        st.none() | replicas,
        st.none() | replicas,
        st.none() | replicas,
        flags,
        st.none() | replicas,
        st.none() | replicas,
    ),
    st.builds(ClearElrRecord, st.text()),
    st.builds(ConfigRecord, numbers, st.text(), st.text(), st.none() | st.text()),
    st.builds(ProducerIdsRecord, numbers, numbers, numbers),
    st.builds(FeatureLevelRecord, st.text(), numbers),
)


@given(any_record)
def test_a_record_comes_back_from_its_bytes(record: MetadataRecord) -> None:
    assert records.decode(records.encode(record)) == record
    assert records.decode(memoryview(records.encode(record))) == record


def test_the_bytes_name_the_type_and_the_version() -> None:
    content = json.loads(records.encode(TopicRecord("orders", Uuid(b"1" * 16))))
    assert content == {"type": "Topic", "version": 0, "name": "orders", "topic_id": "MTExMTExMTExMTExMTExMQ"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"null",
        b"\xff",
        b'{"type": "Topic"}',
        b'{"type": "Nothing", "version": 0}',
        b'{"type": "Topic", "version": 0, "name": "x"}',
        b'{"type": "Topic", "version": 0, "name": "x", "topic_id": "short"}',
        b'{"type": "Topic", "version": 0, "name": "x", "topic_id": 5}',
        b'{"type": "UnregisterBroker", "version": 0, "broker_id": 1, "broker_epoch": 1, "more": 1}',
    ],
)
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        records.decode(data)


def test_a_version_from_the_future_is_refused_by_its_number() -> None:
    data = records.encode(RemoveTopicRecord(Uuid(16))).replace(b'"version":0', b'"version":7')
    with pytest.raises(DecodeError, match="RemoveTopic record of version 7"):
        records.decode(data)


def test_a_value_that_no_record_has_is_not_written() -> None:
    with pytest.raises(TypeError, match="cannot be part of a metadata record"):
        records.encode(TopicRecord(object(), Uuid(16)))  # type: ignore[arg-type]
