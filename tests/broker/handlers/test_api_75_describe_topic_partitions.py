"""DescribeTopicPartitions: pages of partitions, in the order of names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.broker import Cluster, error
from ottla.wire.messages import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from tests.broker.handlers.requests import send

Page = tuple[list[tuple[str | None, int, list[int]]], tuple[str, int] | None]


@pytest.fixture(scope="module")
def own() -> Iterator[Cluster]:
    with Cluster(brokers=2, topics={"c": 2, "a": 1, "b": 3}) as cluster:
        yield cluster


def request(
    *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest(
        topics=[DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None
        if cursor is None
        else DescribeTopicPartitionsRequest.Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )


def page(cluster: Cluster, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Page:
    """Topics with their errors and partitions, and where the next page begins."""
    response = send(cluster, request(*names, limit=limit, cursor=cursor), 0, DescribeTopicPartitionsResponse)
    topics = [
        (topic.name, topic.error_code, [part.partition_index for part in topic.partitions])
        for topic in response.topics
    ]
    following = response.next_cursor
    return topics, None if following is None else (following.topic_name, following.partition_index)


def test_all_topics_come_sorted(own: Cluster) -> None:
    assert page(own) == ([("a", 0, [0]), ("b", 0, [0, 1, 2]), ("c", 0, [0, 1])], None)


def test_a_partition_is_described_with_its_replicas(own: Cluster) -> None:
    response = send(own, request("a"), 0, DescribeTopicPartitionsResponse)
    (topic,) = response.topics
    (part,) = topic.partitions
    assert (part.error_code, part.leader_id, part.leader_epoch) == (0, own.leader("a"), 0)
    assert sorted(part.replica_nodes) == sorted(part.isr_nodes) == [1, 2]
    assert (part.offline_replicas, part.eligible_leader_replicas, part.last_known_elr) == ([], [], [])
    assert (topic.is_internal, topic.topic_authorized_operations) == (False, 3576)


def test_a_partition_is_described_with_those_that_may_lead_beside_the_isr() -> None:
    with Cluster(brokers=2, config={"min.insync.replicas": 2}) as cluster:
        cluster.create_topic("both")
        cluster.create_topic("single", 2, replicas=1)
        lost = next(index for index in (0, 1) if cluster.leader("single", index) == 2)
        cluster.stop_node(2)
        response = send(cluster, request("both", "single"), 0, DescribeTopicPartitionsResponse)
    described = {
        (topic.name, part.partition_index): (
            part.leader_id,
            part.isr_nodes,
            part.eligible_leader_replicas,
            part.last_known_elr,
        )
        for topic in response.topics
        for part in topic.partitions
    }
    assert described == {
        ("both", 0): (1, [1], [2], []),
        ("single", lost): (-1, [], [2], [2]),
        ("single", 1 - lost): (1, [1], [], []),
    }


def test_named_topics_come_sorted_too_and_once(own: Cluster) -> None:
    assert page(own, "c", "z", "a", "b b", "c") == (
        [("a", 0, [0]), ("b b", 17, []), ("c", 0, [0, 1]), ("z", 3, [])],
        None,
    )


def test_a_page_ends_within_a_topic(own: Cluster) -> None:
    assert page(own, limit=2) == ([("a", 0, [0]), ("b", 0, [0])], ("b", 1))
    assert page(own, limit=2, cursor=("b", 1)) == ([("b", 0, [1, 2])], ("c", 0))
    assert page(own, limit=2, cursor=("c", 0)) == ([("c", 0, [0, 1])], None)


def test_the_cursor_may_point_to_a_topic_that_is_not_there(own: Cluster) -> None:
    assert page(own, "a", "z", limit=1) == ([("a", 0, [0])], ("z", 0))
    assert page(own, limit=9, cursor=("aa", 1)) == ([("b", 0, [0, 1, 2]), ("c", 0, [0, 1])], None)
    assert page(own, "b", cursor=("b", 9)) == ([("b", 0, [])], None)


@pytest.mark.parametrize("limit", [0, -1, 1])
def test_a_page_has_at_least_one_partition(own: Cluster, limit: int) -> None:
    assert page(own, "b", limit=limit) == ([("b", 0, [0])], ("b", 1))


def test_the_broker_has_a_limit_of_its_own() -> None:
    with Cluster(topics={"a": 5}, config={"max.request.partition.size.limit": 3}) as cluster:
        assert page(cluster) == ([("a", 0, [0, 1, 2])], ("a", 3))


def test_a_cursor_that_makes_no_sense_is_refused(own: Cluster) -> None:
    refused: Page = ([("b", 42, []), ("a", 42, [])], None)
    assert page(own, "b", "a", cursor=("c", 0)) == refused
    assert page(own, "b", "a", cursor=("a", -1)) == refused
    assert page(own, cursor=("a", -1)) == ([], None)


def test_an_empty_name_is_an_error_of_the_server(own: Cluster) -> None:
    assert page(own, "", "a") == ([("", -1, []), ("a", -1, [])], None)
    assert page(own, "", "a", cursor=("", 0)) == ([("", 17, []), ("a", 0, [0])], None)


def test_a_fault_is_answered_for_its_topic(own: Cluster) -> None:
    own.faults.add("DescribeTopicPartitions", topic="b", action=error("TOPIC_AUTHORIZATION_FAILED"), count=1)
    assert page(own, "a", "b") == ([("a", 0, [0]), ("b", 29, [])], None)
