"""DescribeLogDirs: what a node says about the replicas that it has."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.broker import Cluster, error
from ottla.wire.messages import DescribeLogDirsRequest, DescribeLogDirsResponse
from tests.broker.handlers.requests import batch, produce, send

LogDir = DescribeLogDirsResponse.DescribeLogDirsResult
Topic = DescribeLogDirsRequest.DescribableLogDirTopic


def describe(cluster: Cluster, *wanted: tuple[str, list[int]], version: int = 5, node: int = 1) -> LogDir:
    """The one log directory of a node; without arguments, with everything in it."""
    topics = [Topic(topic=topic, partitions=partitions) for topic, partitions in wanted]
    request = DescribeLogDirsRequest(topics=topics or None)
    response = send(cluster, request, version, DescribeLogDirsResponse, node=node)
    assert response.error_code == 0
    (result,) = response.results
    return result


def sizes(described: LogDir) -> dict[str, dict[int, int]]:
    return {
        topic.name: {replica.partition_index: replica.partition_size for replica in topic.partitions}
        for topic in described.topics
    }


@pytest.mark.parametrize("version", range(1, 6))
def test_replicas_are_described_with_their_sizes(
    kafka: Cluster, new_topic: Callable[..., str], version: int
) -> None:
    topic, records = new_topic(kafka, 2), batch([b"a", b"b"])
    produce(kafka, topic, records)
    produce(kafka, topic, records)
    described = describe(kafka, (topic, [0, 1]), version=version)
    assert (described.error_code, described.log_dir) == (0, "/ottla/node-1")
    assert sizes(described) == {topic: {0: 2 * len(records), 1: 0}}
    assert not any(replica.offset_lag or replica.is_future_key for replica in described.topics[0].partitions)


def test_a_directory_in_memory_has_no_size_and_is_not_cordoned(kafka: Cluster) -> None:
    described = describe(kafka)
    assert (described.total_bytes, described.usable_bytes, described.is_cordoned) == (-1, -1, False)


def test_null_stands_for_all_topics(kafka: Cluster, new_topic: Callable[..., str]) -> None:
    first, second = new_topic(kafka), new_topic(kafka, 3)
    everything = sizes(describe(kafka))
    assert (everything[first], everything[second]) == ({0: 0}, {0: 0, 1: 0, 2: 0})


def test_no_topics_are_not_all_topics(kafka: Cluster, new_topic: Callable[..., str]) -> None:
    new_topic(kafka)
    response = send(kafka, DescribeLogDirsRequest(topics=[]), 5, DescribeLogDirsResponse)
    assert [(result.log_dir, result.topics) for result in response.results] == [("/ottla/node-1", [])]


def test_what_does_not_exist_is_left_out(kafka: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka)
    assert sizes(describe(kafka, (topic, [0, 9]), ("nowhere", [0]))) == {topic: {0: 0}}
    assert sizes(describe(kafka, (topic, [9]))) == {}


def test_a_partition_named_twice_is_described_once(kafka: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka, 2)
    described = describe(kafka, (topic, [1, 1]), (topic, [0, 1]))
    assert [[replica.partition_index for replica in each.partitions] for each in described.topics] == [[1, 0]]


def test_every_node_describes_its_own_replicas(kafka3: Cluster, new_topic: Callable[..., str]) -> None:
    topic, records = new_topic(kafka3, replicas=3), batch([b"a", b"b", b"c"])
    produce(kafka3, topic, records)
    for node in (1, 2, 3):
        described = describe(kafka3, (topic, [0]), node=node)
        assert described.log_dir == f"/ottla/node-{node}"
        assert sizes(described) == {topic: {0: len(records)}}
        assert described.topics[0].partitions[0].offset_lag == 0


def test_a_replica_of_another_node_is_left_out(kafka3: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka3, replicas=1)
    leader = kafka3.leader(topic)
    found = {node: sizes(describe(kafka3, (topic, [0]), node=node)) for node in (1, 2, 3)}
    assert found == {node: {topic: {0: 0}} if node == leader else {} for node in (1, 2, 3)}


def test_a_fault_of_a_partition_is_the_error_of_its_directory(
    kafka: Cluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(kafka, 2)
    kafka.faults.add(
        "DescribeLogDirs", topic=topic, partition=1, action=error("KAFKA_STORAGE_ERROR"), count=1
    )
    described = describe(kafka, (topic, [0, 1]))
    assert (described.error_code, described.log_dir, described.topics) == (56, "/ottla/node-1", [])


def test_a_whole_request_is_refused_at_the_top(kafka: Cluster) -> None:
    kafka.faults.add("DescribeLogDirs", action=error("CLUSTER_AUTHORIZATION_FAILED"), count=1)
    response = send(kafka, DescribeLogDirsRequest(topics=None), 5, DescribeLogDirsResponse)
    assert (response.error_code, response.results) == (31, [])
