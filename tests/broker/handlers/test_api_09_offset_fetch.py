"""OffsetFetch: what groups have committed, in every version, and only from their coordinators."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from ottla.broker import Cluster
from ottla.wire import Uuid
from ottla.wire.messages import OffsetFetchRequest, OffsetFetchResponse
from tests.broker.handlers.groups import NOT_COORDINATOR, commit, coordinator
from tests.broker.handlers.requests import send

UNKNOWN_TOPIC_ID = 100
Group = OffsetFetchRequest.OffsetFetchRequestGroup
Topics = OffsetFetchRequest.OffsetFetchRequestTopics


def fetch(cluster: Cluster, group: str, request: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
    return send(cluster, request, version, OffsetFetchResponse, node=coordinator(cluster, group))


@pytest.mark.parametrize("version", range(1, 8))
@pytest.mark.parametrize("stable", [False, True])
def test_one_group(kafka: Cluster, new_topic: Callable[..., str], version: int, stable: bool) -> None:
    topic = new_topic(kafka, 2)
    group = f"fetch-{version}-{stable}"
    commit(kafka, group, (topic, 0, 5))
    requested = OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=[0, 1, 7])
    request = OffsetFetchRequest(group_id=group, topics=[requested])
    request.require_stable = stable and version >= 7
    response = fetch(kafka, group, request, version)
    assert response.error_code == 0
    assert [
        (part.partition_index, part.committed_offset, part.metadata, part.error_code)
        for part in response.topics[0].partitions
    ] == [(0, 5, "note", 0), (1, -1, "", 0), (7, -1, "", 0)]
    if version >= 2:
        (everything,) = fetch(kafka, group, OffsetFetchRequest(group_id=group, topics=None), version).topics
        assert [(part.partition_index, part.committed_offset) for part in everything.partitions] == [(0, 5)]


@pytest.mark.parametrize("version", [8, 9, 10])
@pytest.mark.parametrize("stable", [False, True])
def test_many_groups(kafka: Cluster, new_topic: Callable[..., str], version: int, stable: bool) -> None:
    topic = new_topic(kafka)
    first, second = (f"{name}-{version}-{stable}" for name in ("first", "second"))
    commit(kafka, first, (topic, 0, 5))
    commit(kafka, second, (topic, 0, 6))
    known = kafka.call(lambda: kafka._cluster.node(1).image.topics[topic].id)
    topics = [Topics(name=topic, topic_id=known, partition_indexes=[0])]
    if version >= 10:
        topics.append(Topics(topic_id=Uuid(b"x" * 16), partition_indexes=[0]))
    groups = [
        Group(group_id=first, topics=topics),
        Group(group_id=second, topics=None),
        Group(group_id="absent", topics=None),
    ]
    coordinator(kafka, second)
    response = fetch(kafka, first, OffsetFetchRequest(groups=groups, require_stable=stable), version)
    parts = [
        [(part.committed_offset, part.error_code) for topic in group.topics for part in topic.partitions]
        for group in response.groups
    ]
    unknown = [(-1, UNKNOWN_TOPIC_ID)] if version >= 10 else []
    assert parts == [[(5, 0), *unknown], [(6, 0)], []]
    assert [group.error_code for group in response.groups] == [0, 0, 0]
    if version >= 10:
        assert response.groups[1].topics[0].topic_id == known


def test_offsets_of_a_deleted_topic_go_with_it(kafka: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka)
    commit(kafka, "deleted-topic", (topic, 0, 5))
    kafka.delete_topic(topic)
    request = OffsetFetchRequest(group_id="deleted-topic", topics=None, require_stable=True)
    kafka.wait_for(
        lambda: (
            not kafka._cluster.node(1).groups.read(
                "deleted-topic", lambda shard: shard.offsets.has_offsets("deleted-topic")
            )
        ),
        "the end of the offsets",
    )
    assert fetch(kafka, "deleted-topic", request, 7).topics == []


def test_a_node_that_does_not_coordinate_says_so(kafka3: Cluster) -> None:
    other = coordinator(kafka3, "elsewhere") % 3 + 1
    requested = OffsetFetchRequest.OffsetFetchRequestTopic(name="orders", partition_indexes=[0])
    for version in range(1, 8):
        request = OffsetFetchRequest(group_id="elsewhere", topics=[requested])
        response = send(kafka3, request, version, OffsetFetchResponse, node=other)
        code = response.error_code if version >= 2 else response.topics[0].partitions[0].error_code
        assert code == NOT_COORDINATOR
    for stable in (False, True):
        many = OffsetFetchRequest(groups=[Group(group_id="elsewhere", topics=None)], require_stable=stable)
        assert send(kafka3, many, 8, OffsetFetchResponse, node=other).groups[0].error_code == NOT_COORDINATOR


CONSUMER = """
import sys
from confluent_kafka import Consumer, TopicPartition
settings = {"bootstrap.servers": sys.argv[1], "group.id": "g", "auto.offset.reset": "earliest", "log_level": 0}
consumer = Consumer(settings)
consumer.assign([TopicPartition("orders", 0)])
message = consumer.poll(20)
assert message is not None and message.error() is None and message.value() == b"1", message
consumer.close()
"""


def test_a_consumer_of_librdkafka_without_a_committed_offset_begins_where_it_was_told() -> None:
    with Cluster(topics=["orders"]) as cluster:
        cluster.seed("orders", [b"1"])
        # In a process of its own: librdkafka does not survive a coordinator that lacks this request.
        command = [sys.executable, "-c", CONSUMER, cluster.bootstrap]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
