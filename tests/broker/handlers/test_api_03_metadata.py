"""Metadata: brokers, topics by name and by id, auto-creation, partitions without a leader."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ottla.broker import Cluster, error
from ottla.wire import Uuid
from ottla.wire.messages import MetadataRequest, MetadataResponse
from tests.broker.handlers.requests import await_fenced, await_topic, send

UNKNOWN_ID = Uuid(b"no such topic id")
Wanted = MetadataRequest.MetadataRequestTopic


def metadata(
    cluster: Cluster,
    *topics: str | Uuid,
    version: int = 13,
    node: int = 1,
    create: bool = False,
    operations: bool = False,
) -> MetadataResponse:
    wanted = [
        Wanted(name=None, topic_id=topic) if isinstance(topic, Uuid) else Wanted(name=topic)
        for topic in topics
    ]
    request = MetadataRequest(
        topics=wanted,
        allow_auto_topic_creation=create or version < 4,
        include_topic_authorized_operations=operations,
        include_cluster_authorized_operations=operations and 8 <= version <= 10,
    )
    return send(cluster, request, version, MetadataResponse, node=node)


def all_topics(cluster: Cluster, version: int) -> list[str | None]:
    request = MetadataRequest(topics=None if version else [])
    return [topic.name for topic in send(cluster, request, version, MetadataResponse).topics]


def errors(response: MetadataResponse) -> dict[str | None, int]:
    return {topic.name: topic.error_code for topic in response.topics}


@pytest.fixture(scope="module")
def own() -> Iterator[Cluster]:
    """No topics but those of this module, and none comes by itself."""
    with Cluster(brokers=1, topics={"b": 2, "a": 1}, config={"auto.create.topics.enable": False}) as cluster:
        yield cluster


def test_brokers_are_listed_with_their_racks() -> None:
    with Cluster(brokers=2, racks=["north", None]) as cluster:
        response = metadata(cluster)
        addresses = [f"{broker.host}:{broker.port}" for broker in response.brokers]
        assert ",".join(addresses) == cluster.bootstrap
        assert [(broker.node_id, broker.rack) for broker in response.brokers] == [(1, "north"), (2, None)]
        assert response.cluster_id == cluster.cluster_id
        assert response.controller_id == 1


def test_null_is_all_topics_and_an_empty_list_is_none(own: Cluster) -> None:
    assert sorted(map(str, all_topics(own, 1))) == ["a", "b"]
    assert sorted(map(str, all_topics(own, 13))) == ["a", "b"]
    assert metadata(own, version=1).topics == []


def test_in_version_0_an_empty_list_is_all_topics(own: Cluster) -> None:
    assert sorted(map(str, all_topics(own, 0))) == ["a", "b"]


@pytest.mark.parametrize("version", [0, 1, 4, 9, 10, 12, 13])
def test_a_topic_is_described_with_its_partitions(own: Cluster, version: int) -> None:
    (topic,) = metadata(own, "b", version=version).topics
    assert (topic.error_code, topic.name, topic.is_internal) == (0, "b", False)
    assert [
        (part.error_code, part.partition_index, part.leader_id, part.replica_nodes, part.isr_nodes)
        for part in topic.partitions
    ] == [(0, 0, 1, [1], [1]), (0, 1, 1, [1], [1])]
    assert all(part.leader_epoch == (0 if version >= 7 else -1) for part in topic.partitions)


def test_a_topic_named_twice_is_described_once(own: Cluster) -> None:
    assert errors(metadata(own, "a", "a")) == {"a": 0}


def test_unknown_and_impossible_topics_have_errors_of_their_own(own: Cluster) -> None:
    assert errors(metadata(own, "nope", "a", "b b")) == {"a": 0, "nope": 3, "b b": 17}


def test_topics_are_found_by_id(own: Cluster) -> None:
    (named,) = metadata(own, "a").topics
    (found,) = metadata(own, named.topic_id, version=12).topics
    assert (found.name, found.topic_id, found.error_code) == ("a", named.topic_id, 0)


def test_an_unknown_id_is_said_to_be_unknown_and_names_count_no_more(own: Cluster) -> None:
    (response,) = metadata(own, UNKNOWN_ID, "a").topics
    assert (response.error_code, response.name, response.topic_id) == (100, None, UNKNOWN_ID)


@pytest.mark.parametrize("version", [10, 11])
def test_ids_are_refused_where_the_field_was_there_too_early(own: Cluster, version: int) -> None:
    request = MetadataRequest(topics=[Wanted(name="a", topic_id=UNKNOWN_ID), Wanted(name="b")])
    response = send(own, request, version, MetadataResponse)
    assert errors(response) == {"a": 42, "b": 42}
    assert response.brokers == []
    assert errors(send(own, MetadataRequest(topics=[Wanted(name=None)]), version, MetadataResponse)) == {
        "": 42
    }


def test_a_topic_without_name_and_id_is_an_error_of_the_server(own: Cluster) -> None:
    response = send(own, MetadataRequest(topics=[Wanted(name=None)]), 13, MetadataResponse)
    assert (errors(response), response.error_code) == ({"": -1}, -1)


def test_authorized_operations_are_there_when_requested(own: Cluster) -> None:
    nothing = -(2**31)
    asked = metadata(own, "a", "nope", version=10, operations=True)
    assert [topic.topic_authorized_operations for topic in asked.topics] == [3576, 3576]
    assert asked.cluster_authorized_operations == 8096
    unasked = metadata(own, "a", version=10)
    assert unasked.topics[0].topic_authorized_operations == nothing
    assert unasked.cluster_authorized_operations == nothing
    assert metadata(own, "a", version=13, operations=True).topics[0].topic_authorized_operations == 3576


def test_a_topic_comes_into_being_when_it_is_named(kafka: Cluster) -> None:
    assert errors(metadata(kafka, "by-itself", "b b", create=True)) == {"by-itself": 3, "b b": 17}
    await_topic(kafka, "by-itself")
    (topic,) = metadata(kafka, "by-itself").topics
    assert (topic.error_code, len(topic.partitions)) == (0, 1)


def test_it_does_not_where_the_request_or_the_broker_forbids_it(kafka: Cluster, own: Cluster) -> None:
    assert errors(metadata(kafka, "forbidden")) == {"forbidden": 3}
    assert errors(metadata(own, "forbidden", create=True)) == {"forbidden": 3}
    # Creation takes one round to the controller: by the time that another topic is there, this one would be.
    kafka.create_topic("allowed")
    assert errors(metadata(kafka, "forbidden")) == {"forbidden": 3}
    own.create_topic("allowed")
    assert errors(metadata(own, "forbidden")) == {"forbidden": 3}
    own.delete_topic("allowed")


def test_internal_topics_are_marked(kafka: Cluster) -> None:
    metadata(kafka, "__consumer_offsets", create=True)
    await_topic(kafka, "__consumer_offsets")
    (topic,) = metadata(kafka, "__consumer_offsets").topics
    assert topic.is_internal
    assert len(topic.partitions) == 50


def test_a_stopped_node_is_no_broker_and_its_replicas_are_offline() -> None:
    with Cluster(brokers=2, topics={"both": 1}) as cluster:
        cluster.stop_node(2)
        await_fenced(cluster, 2)
        response = metadata(cluster, "both")
        assert [broker.node_id for broker in response.brokers] == [1]
        (part,) = response.topics[0].partitions
        assert (part.error_code, part.leader_id) == (0, 1)
        assert (sorted(part.replica_nodes), part.isr_nodes, part.offline_replicas) == ([1, 2], [1], [2])
        (old,) = metadata(cluster, "both", version=0).topics[0].partitions
        assert (old.error_code, old.leader_id, old.replica_nodes) == (9, 1, [1])


def test_a_partition_whose_only_replica_is_down_has_no_leader() -> None:
    with Cluster(brokers=2) as cluster:
        cluster.create_topic("one", 2, replicas=1)
        leaders = {index: cluster.leader("one", index) for index in range(2)}
        cluster.stop_node(2)
        await_fenced(cluster, 2)
        parts = metadata(cluster, "one").topics[0].partitions
        assert {part.partition_index: part.leader_id for part in parts} == {
            index: -1 if leader == 2 else 1 for index, leader in leaders.items()
        }
        assert {part.error_code for part in parts if part.leader_id == -1} == {5}


def test_a_fault_is_answered_for_its_partition(kafka: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka, 2)
    kafka.faults.add("Metadata", topic=topic, action=error("LEADER_NOT_AVAILABLE"), count=1)
    assert metadata(kafka, topic).topics[0].error_code == 5
    assert metadata(kafka, topic).topics[0].error_code == 0
