"""FindCoordinator: coordinators of groups, transactional ids and share partitions."""

from __future__ import annotations

import pytest

from ottla.broker import Cluster
from ottla.broker.coordinator.internal_topics import coordinator_partition
from ottla.wire.messages import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.resources import ConfigResourceType
from tests.broker.handlers.requests import await_topic, send

GROUP, TRANSACTION, SHARE = range(3)
SHARE_KEY = "group:AAAAAAAAAAAAAAAAAAAAAQ:0"


def find(
    cluster: Cluster, *keys: str, kind: int = GROUP, version: int = 6, node: int = 1
) -> list[FindCoordinatorResponse.Coordinator]:
    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))
    return send(cluster, request, version, FindCoordinatorResponse, node=node).coordinators


def find_one(cluster: Cluster, key: str, kind: int = GROUP, version: int = 3) -> FindCoordinatorResponse:
    return send(cluster, FindCoordinatorRequest(key=key, key_type=kind), version, FindCoordinatorResponse)


def test_the_internal_topic_comes_with_the_first_request() -> None:
    with Cluster(brokers=3, config={"offsets.topic.num.partitions": 7}) as cluster:
        (first,) = find(cluster, "group")
        assert (first.error_code, first.node_id, first.host, first.port) == (15, -1, "", -1)
        await_topic(cluster, "__consumer_offsets")
        partition = coordinator_partition("group", 7)
        leader = cluster.leader("__consumer_offsets", partition)
        for node in cluster.nodes:
            (found,) = find(cluster, "group", node=node)
            assert (found.error_code, found.node_id) == (0, leader)
            assert f"{found.host}:{found.port}" == cluster.bootstrap.split(",")[leader - 1]
        cluster.move_leader("__consumer_offsets", partition, leader % 3 + 1)
        assert find(cluster, "group")[0].node_id == leader % 3 + 1


def test_many_keys_are_found_at_once_and_none_is_none(kafka: Cluster) -> None:
    find(kafka, "a")
    await_topic(kafka, "__consumer_offsets")
    found = find(kafka, "a", "b", "a", "", version=4)
    assert [(each.key, each.error_code, each.node_id) for each in found] == [
        ("a", 0, 1),
        ("b", 0, 1),
        ("a", 0, 1),
        ("", 0, 1),
    ]
    assert find(kafka, version=4) == []


@pytest.mark.parametrize("version", [0, 1, 3])
def test_one_key_is_found_in_the_old_form(kafka: Cluster, version: int) -> None:
    find(kafka, "a")
    await_topic(kafka, "__consumer_offsets")
    found = find_one(kafka, "a", version=version)
    assert (found.error_code, found.node_id) == (0, 1)
    assert found.error_message == ("NONE" if version else "")


def test_an_old_client_gets_a_message_that_there_is_no_coordinator_yet() -> None:
    with Cluster() as cluster:
        response = find_one(cluster, "a")
        assert (response.error_code, response.node_id, response.port) == (15, -1, -1)
        assert response.error_message == "The coordinator is not available."


def test_share_partitions_have_coordinators_since_version_6(kafka: Cluster) -> None:
    assert [each.error_code for each in find(kafka, SHARE_KEY, kind=SHARE, version=5)] == [42]
    find(kafka, SHARE_KEY, kind=SHARE)
    assert [each.error_code for each in find(kafka, "group", "a:b:c", kind=SHARE)] == [42, 42]


def test_transactional_ids_have_coordinators_in_a_topic_of_their_own() -> None:
    config = {"transaction.state.log.num.partitions": 3, "transaction.state.log.segment.bytes": 2_000_000}
    with Cluster(brokers=3, config=config) as cluster:
        assert find_one(cluster, "payments", TRANSACTION).error_code == 15
        await_topic(cluster, "__transaction_state")
        (found,) = find(cluster, "payments", kind=TRANSACTION)
        assert (found.error_code, found.node_id) == (
            0,
            cluster.leader("__transaction_state", coordinator_partition("payments", 3)),
        )
        assert find_one(cluster, "payments", TRANSACTION).node_id == found.node_id
        topic = cluster._cluster.nodes[1].image.topics["__transaction_state"]
        assert [len(partition.replicas) for partition in topic.partitions.values()] == [3, 3, 3]
        overrides = cluster._cluster.nodes[1].image.configs[ConfigResourceType.TOPIC, "__transaction_state"]
        assert overrides == {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": "2",
            "segment.bytes": "2000000",
            "unclean.leader.election.enable": "false",
        }


def test_an_unknown_type_is_refused(kafka: Cluster) -> None:
    (refused,) = find(kafka, "key", kind=9)
    assert (refused.key, refused.error_code, refused.node_id) == ("key", 42, -1)
    assert find_one(kafka, "key", 9).error_code == 42
