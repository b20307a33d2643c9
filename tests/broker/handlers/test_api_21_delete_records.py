"""DeleteRecords: the start of a log moves forward, and never back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.broker import Cluster, error
from ottla.wire.messages import DeleteRecordsRequest, DeleteRecordsResponse
from tests.broker.handlers.requests import batch, produce, send

Partition = DeleteRecordsRequest.DeleteRecordsPartition


def delete(
    cluster: Cluster, topic: str, *offsets: tuple[int, int], version: int = 2, node: int = 1
) -> list[tuple[int, int, int]]:
    """Partition, error and low watermark for each (partition, offset)."""
    wanted = [Partition(partition_index=index, offset=offset) for index, offset in offsets]
    topics = [DeleteRecordsRequest.DeleteRecordsTopic(name=topic, partitions=wanted)]
    request = DeleteRecordsRequest(topics=topics, timeout_ms=1000)
    (response,) = send(cluster, request, version, DeleteRecordsResponse, node=node).topics
    assert response.name == topic
    return [(part.partition_index, part.error_code, part.low_watermark) for part in response.partitions]


@pytest.fixture
def topic(kafka: Cluster, new_topic: Callable[..., str]) -> str:
    """Six records in the first of two partitions."""
    name = new_topic(kafka, 2)
    produce(kafka, name, batch([b"%d" % number for number in range(6)]))
    return name


@pytest.mark.parametrize("version", range(3))
def test_records_before_the_offset_are_gone(kafka: Cluster, topic: str, version: int) -> None:
    assert delete(kafka, topic, (0, 3), version=version) == [(0, 0, 3)]
    assert [record.value for record in kafka.dump(topic, 0)] == [b"3", b"4", b"5"]


def test_the_start_never_moves_back(kafka: Cluster, topic: str) -> None:
    delete(kafka, topic, (0, 3))
    assert delete(kafka, topic, (0, 1)) == [(0, 0, 3)]


def test_minus_one_is_the_high_watermark(kafka: Cluster, topic: str) -> None:
    assert delete(kafka, topic, (0, -1), (1, -1)) == [(0, 0, 6), (1, 0, 0)]
    assert kafka.dump(topic) == []
    assert produce(kafka, topic, batch([b"next"])) == 6


def test_an_offset_outside_the_log_is_out_of_range(kafka: Cluster, topic: str) -> None:
    assert delete(kafka, topic, (0, 7)) == [(0, 1, -1)]
    assert delete(kafka, topic, (0, -2)) == [(0, 1, -1)]


def test_a_partition_named_twice_moves_to_the_last_offset(kafka: Cluster, topic: str) -> None:
    assert delete(kafka, topic, (0, 4), (1, 0), (0, 2)) == [(0, 0, 2), (1, 0, 0)]


def test_what_does_not_exist_is_unknown(kafka: Cluster, topic: str) -> None:
    assert delete(kafka, topic, (9, 0)) == [(9, 3, -1)]
    assert delete(kafka, "nowhere", (0, 0)) == [(0, 3, -1)]


def test_a_topic_that_is_only_compacted_keeps_its_records(
    kafka: Cluster, new_topic: Callable[..., str]
) -> None:
    assert delete(kafka, new_topic(kafka, cleanup_policy="compact"), (0, 0)) == [(0, 44, -1)]
    assert delete(kafka, new_topic(kafka, cleanup_policy="compact,delete"), (0, 0)) == [(0, 0, 0)]


def test_only_the_leader_deletes(kafka3: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka3)
    follower = next(node for node in kafka3.nodes if node != kafka3.leader(topic))
    assert delete(kafka3, topic, (0, 0), node=follower) == [(0, 6, -1)]


def test_a_fault_is_answered_for_its_partition_alone(kafka: Cluster, topic: str) -> None:
    kafka.faults.add("DeleteRecords", topic=topic, partition=0, action=error("REQUEST_TIMED_OUT"), count=1)
    assert delete(kafka, topic, (0, 3), (1, 0)) == [(0, 7, -1), (1, 0, 0)]
    assert len(kafka.dump(topic, 0)) == 6


def test_the_refusal_of_a_whole_request_names_every_partition(kafka: Cluster, topic: str) -> None:
    kafka.faults.add("DeleteRecords", action=error("CLUSTER_AUTHORIZATION_FAILED"), count=1)
    assert delete(kafka, topic, (0, 3), (1, 0)) == [(0, 31, -1), (1, 31, -1)]


def test_a_topic_without_partitions_is_not_answered(kafka: Cluster, topic: str) -> None:
    named = [
        DeleteRecordsRequest.DeleteRecordsTopic(name=name, partitions=[]) for name in (topic, "nope", topic)
    ]
    response = send(kafka, DeleteRecordsRequest(topics=named, timeout_ms=5_000), 2, DeleteRecordsResponse)
    assert response.topics == []


def test_a_topic_without_a_cleanup_policy_may_lose_records_on_demand(
    kafka: Cluster, new_topic: Callable[..., str]
) -> None:
    name = new_topic(kafka, cleanup_policy="")
    produce(kafka, name, batch([b"0", b"1"]))
    assert delete(kafka, name, (0, 1)) == [(0, 0, 1)]
