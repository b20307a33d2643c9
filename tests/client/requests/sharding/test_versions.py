"""The same request at other versions; against brokers this is in test_requests.py."""

from __future__ import annotations

import pytest

from ottla.client.requests.sharding import at_version, in_newest_shape, max_version
from ottla.errors import EncodeError
from ottla.wire import Uuid
from ottla.wire.messages import (
    AddPartitionsToTxnRequest,
    DeleteTopicsRequest,
    FindCoordinatorRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    ProduceRequest,
)

ID = Uuid(bytes(range(16)))


@pytest.mark.parametrize("version", DeleteTopicsRequest.VERSIONS)
def test_topics_to_be_deleted_by_name_can_be_said_in_every_version(version: int) -> None:
    request = in_newest_shape(DeleteTopicsRequest(topic_names=["a", "b"]))
    (sent,) = at_version(request, version)
    decoded = DeleteTopicsRequest.decode(sent.encode(version), version)
    assert [*decoded.topic_names, *(topic.name for topic in decoded.topics)] == ["a", "b"]


def test_topics_to_be_deleted_by_id_need_a_version_that_has_ids() -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(topic_id=ID)])
    (sent,) = at_version(request, 5)
    with pytest.raises(EncodeError):
        sent.encode(5)


@pytest.mark.parametrize("version", FindCoordinatorRequest.VERSIONS)
def test_coordinators_can_be_asked_for_in_every_version(version: int) -> None:
    sent = at_version(FindCoordinatorRequest(coordinator_keys=["a", "b"]), version)
    assert len(sent) == (2 if version < 4 else 1)
    for each in sent:
        each.encode(version)


@pytest.mark.parametrize("version", range(1, 11))
def test_offsets_of_groups_can_be_asked_for_in_every_version(version: int) -> None:
    topic = OffsetFetchRequest.OffsetFetchRequestTopics(name="t", topic_id=ID, partition_indexes=[1])
    group = OffsetFetchRequest.OffsetFetchRequestGroup
    request = OffsetFetchRequest(groups=[group(group_id=name, topics=[topic]) for name in "ab"])
    sent = at_version(request, version)
    assert len(sent) == (2 if version < 8 else 1)
    for each in sent:
        each.encode(version)


def test_names_are_never_sent_as_empty_ids() -> None:
    named = ProduceRequest(topic_data=[ProduceRequest.TopicProduceData(name="a")])
    by_id = ProduceRequest(topic_data=[ProduceRequest.TopicProduceData(name="a", topic_id=ID)])
    assert (max_version(named), max_version(by_id)) == (12, None)
    commit = OffsetCommitRequest(topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name="a")])
    assert max_version(commit) == 9
    topic = OffsetFetchRequest.OffsetFetchRequestTopic(name="a", partition_indexes=[0])
    old = in_newest_shape(OffsetFetchRequest(group_id="g", topics=[topic]))
    assert max_version(old) == 9
    everything = in_newest_shape(OffsetFetchRequest(group_id="g", topics=None))
    assert max_version(everything) == 9
    assert max_version(AddPartitionsToTxnRequest()) == 3
    assert max_version(MetadataRequest()) is None
