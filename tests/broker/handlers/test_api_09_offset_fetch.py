"""OffsetFetch: nothing is committed, and only the coordinator says so."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ottla.broker import Cluster
from ottla.wire import Uuid
from ottla.wire.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from tests.interop.plain import Connection
from tests.interop.waiting import eventually

NOT_COORDINATOR, UNKNOWN_TOPIC_ID = 16, 100
Group = OffsetFetchRequest.OffsetFetchRequestGroup
Topics = OffsetFetchRequest.OffsetFetchRequestTopics


def coordinator(cluster: Cluster, group: str) -> int:
    """The node that coordinates a group, once there is one."""
    found: list[int] = []

    def send() -> bool:
        with Connection(cluster.bootstrap) as connection:
            response = connection.ask(FindCoordinatorRequest(key=group), 3)
        assert isinstance(response, FindCoordinatorResponse)
        found[:] = [response.node_id]
        return response.error_code == 0

    eventually(send, f"the coordinator of {group}", 10, every=0.02)
    return found[0]


def asked(cluster: Cluster, node: int, request: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
    address = cluster.bootstrap.split(",")[node - 1]
    with Connection(address) as connection:
        response = connection.ask(request, version)
    assert isinstance(response, OffsetFetchResponse)
    return response


@pytest.mark.parametrize("version", range(1, 8))
def test_one_group_has_committed_nothing(version: int) -> None:
    with Cluster(topics=["orders"]) as cluster:
        node = coordinator(cluster, "g")
        topic = OffsetFetchRequest.OffsetFetchRequestTopic(name="orders", partition_indexes=[0, 7])
        response = asked(cluster, node, OffsetFetchRequest(group_id="g", topics=[topic]), version)
        assert response.error_code == 0
        assert [
            (part.partition_index, part.committed_offset, part.error_code)
            for part in response.topics[0].partitions
        ] == [(0, -1, 0), (7, -1, 0)]
        if version >= 2:
            assert asked(cluster, node, OffsetFetchRequest(group_id="g", topics=None), version).topics == []


@pytest.mark.parametrize("version", [8, 9, 10])
def test_many_groups_have_committed_nothing(version: int) -> None:
    with Cluster(topics=["orders"]) as cluster:
        node = coordinator(cluster, "g")
        known = cluster.call(lambda: cluster._cluster.node(1).image.topics["orders"].id)
        topics = [Topics(name="orders", topic_id=known, partition_indexes=[0])]
        if version >= 10:
            topics.append(Topics(topic_id=Uuid(b"x" * 16), partition_indexes=[0]))
        groups = [Group(group_id="g", topics=topics), Group(group_id="h", topics=None)]
        response = asked(cluster, node, OffsetFetchRequest(groups=groups), version)
        first, second = response.groups
        codes = [part.error_code for topic in first.topics for part in topic.partitions]
        assert codes == ([0, UNKNOWN_TOPIC_ID] if version >= 10 else [0])
        assert all(part.committed_offset == -1 for topic in first.topics for part in topic.partitions)
        assert (second.group_id, second.topics, second.error_code) == ("h", [], 0)


def test_who_does_not_coordinate_says_so() -> None:
    with Cluster(brokers=2) as cluster:
        other = 3 - coordinator(cluster, "g")
        assert asked(cluster, other, OffsetFetchRequest(group_id="g"), 7).error_code == NOT_COORDINATOR
        many = asked(cluster, other, OffsetFetchRequest(groups=[Group(group_id="g", topics=None)]), 8)
        assert many.groups[0].error_code == NOT_COORDINATOR


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
