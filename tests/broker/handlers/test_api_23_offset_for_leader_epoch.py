"""OffsetForLeaderEpoch: where the epochs of a log ended."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.broker import Cluster
from ottla.wire.messages import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from tests.broker.handlers.requests import batch, produce, send

Partition = OffsetForLeaderEpochRequest.OffsetForLeaderPartition


def end_of(
    cluster: Cluster,
    topic: str,
    epoch: int,
    *,
    partition: int = 0,
    current: int = -1,
    version: int = 4,
    node: int | None = None,
) -> tuple[int, int, int]:
    """Error, epoch and end offset."""
    wanted = Partition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
    topics = [OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=topic, partitions=[wanted])]
    request = OffsetForLeaderEpochRequest(replica_id=-1 if version >= 3 else -2, topics=topics)
    where = cluster.leader(topic) if node is None else node
    (response,) = send(cluster, request, version, OffsetForLeaderEpochResponse, node=where).topics
    (end,) = response.partitions
    assert (response.topic, end.partition) == (topic, partition)
    return end.error_code, end.leader_epoch, end.end_offset


@pytest.fixture
def topic(kafka3: Cluster, new_topic: Callable[..., str]) -> str:
    """Two records of epoch 0, three of epoch 1."""
    name = new_topic(kafka3)
    produce(kafka3, name, batch([b"a", b"b"]))
    kafka3.move_leader(name, 0, kafka3.leader(name) % 3 + 1)
    produce(kafka3, name, batch([b"c", b"d", b"e"]))
    return name


@pytest.mark.parametrize("version", [2, 3, 4])
def test_an_epoch_ends_where_the_next_begins_or_the_log_ends(
    kafka3: Cluster, topic: str, version: int
) -> None:
    assert end_of(kafka3, topic, 0, version=version) == (0, 0, 2)
    assert end_of(kafka3, topic, 1, version=version) == (0, 1, 5)


def test_nothing_is_known_of_the_future_and_of_no_epoch(kafka3: Cluster, topic: str) -> None:
    assert end_of(kafka3, topic, 2) == (0, -1, -1)
    assert end_of(kafka3, topic, -1) == (0, -1, -1)


def test_a_client_must_believe_in_the_right_leader(kafka3: Cluster, topic: str) -> None:
    assert end_of(kafka3, topic, 0, current=1) == (0, 0, 2)
    assert end_of(kafka3, topic, 0, current=0) == (74, -1, -1)
    assert end_of(kafka3, topic, 0, current=2) == (75, -1, -1)
    assert end_of(kafka3, topic, 0, current=-1) == (0, 0, 2)
    assert end_of(kafka3, topic, 0, current=-2) == (74, -1, -1)


def test_only_the_leader_answers(kafka3: Cluster, topic: str) -> None:
    follower = kafka3.leader(topic) % 3 + 1
    assert end_of(kafka3, topic, 0, node=follower) == (6, -1, -1)


def test_what_does_not_exist_is_unknown(kafka3: Cluster, topic: str) -> None:
    assert end_of(kafka3, topic, 0, partition=9) == (3, -1, -1)
    assert end_of(kafka3, "nowhere", 0, node=1) == (3, -1, -1)
