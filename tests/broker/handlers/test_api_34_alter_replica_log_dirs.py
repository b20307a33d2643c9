"""AlterReplicaLogDirs: a node has one log directory, so replicas can only stay where they are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.broker import Cluster, error
from ottla.wire.messages import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from tests.broker.handlers.requests import batch, produce, send

HERE, ELSEWHERE = "/ottla/node-1", "/ottla/node-2"
LONGEST_TO_MOVE = 213
"""How long a topic's name may be for Kafka to move its partition 0."""

LogDir = AlterReplicaLogDirsRequest.AlterReplicaLogDir
Topic = AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic


def alter(
    cluster: Cluster, *moves: tuple[str, str, list[int]], version: int = 2, node: int = 1
) -> dict[tuple[str, int], int]:
    """The error code of each partition, for moves of (path, topic, partitions)."""
    dirs = [
        LogDir(path=path, topics=[Topic(name=topic, partitions=partitions)])
        for path, topic, partitions in moves
    ]
    request = AlterReplicaLogDirsRequest(dirs=dirs)
    response = send(cluster, request, version, AlterReplicaLogDirsResponse, node=node)
    assert len({result.topic_name for result in response.results}) == len(response.results)
    return {
        (result.topic_name, partition.partition_index): partition.error_code
        for result in response.results
        for partition in result.partitions
    }


@pytest.mark.parametrize("version", [1, 2])
def test_a_replica_stays_in_the_directory_that_it_is_in(
    kafka: Cluster, new_topic: Callable[..., str], version: int
) -> None:
    topic = new_topic(kafka, 2)
    produce(kafka, topic, batch([b"a", b"b"]))
    assert alter(kafka, (HERE, topic, [0, 1]), version=version) == {(topic, 0): 0, (topic, 1): 0}
    assert [record.value for record in kafka.dump(topic, 0)] == [b"a", b"b"]


@pytest.mark.parametrize("path", [ELSEWHERE, "/", "", "ottla/node-1", f"{HERE}/", f"{HERE}/."])
def test_any_other_path_is_not_found(kafka: Cluster, new_topic: Callable[..., str], path: str) -> None:
    topic = new_topic(kafka, 2)
    assert alter(kafka, (path, topic, [0, 1])) == {(topic, 0): 57, (topic, 1): 57}


def test_what_does_not_exist_is_unknown(kafka: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka)
    assert alter(kafka, (HERE, topic, [0, 9]), (HERE, "nowhere", [0])) == {
        (topic, 0): 0,
        (topic, 9): 3,
        ("nowhere", 0): 3,
    }


def test_a_wrong_path_counts_before_an_unknown_partition(kafka: Cluster) -> None:
    assert alter(kafka, (ELSEWHERE, "nowhere", [0])) == {("nowhere", 0): 57}


def test_a_replica_of_another_node_is_not_available(kafka3: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka3, replicas=1)
    for node in (1, 2, 3):
        expected = 0 if node == kafka3.leader(topic) else 9
        assert alter(kafka3, (f"/ottla/node-{node}", topic, [0]), node=node) == {(topic, 0): expected}


def test_a_name_without_room_for_the_suffix_of_a_move_is_refused_wherever_it_is_to_go(kafka: Cluster) -> None:
    fits, too_long = "l" * LONGEST_TO_MOVE, "l" * (LONGEST_TO_MOVE + 1)
    assert alter(kafka, (HERE, fits, [0, 10])) == {(fits, 0): 3, (fits, 10): 17}
    assert alter(kafka, (HERE, too_long, [0])) == {(too_long, 0): 17}
    assert alter(kafka, (ELSEWHERE, too_long, [0])) == {(too_long, 0): 17}


def test_a_partition_named_twice_goes_to_the_path_that_comes_last(
    kafka: Cluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(kafka)
    assert alter(kafka, (ELSEWHERE, topic, [0]), (HERE, topic, [0])) == {(topic, 0): 0}
    assert alter(kafka, (HERE, topic, [0]), (ELSEWHERE, topic, [0])) == {(topic, 0): 57}


def test_the_refusal_of_a_whole_request_names_every_partition(
    kafka: Cluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(kafka, 2)
    kafka.faults.add("AlterReplicaLogDirs", action=error("CLUSTER_AUTHORIZATION_FAILED"), count=1)
    assert alter(kafka, (HERE, topic, [0, 1])) == {(topic, 0): 31, (topic, 1): 31}
