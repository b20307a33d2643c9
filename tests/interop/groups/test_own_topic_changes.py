"""Ottla's members while topics change: what they commit, and what a leader notices that was away. On both brokers."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

import ottla
from ottla.client.admin import GroupOffset
from ottla.client.blocking.group_consumer import GroupConsumer
from ottla.errors import (
    CommitFailedError,
    DataLossError,
    InvalidRegularExpressionError,
    UnknownTopicOrPartitionError,
)
from tests.client.group.grouping import COOPERATIVE, EAGER, KIP_848, PROTOCOLS
from tests.interop.brokers import Broker
from tests.interop.waiting import eventually

LONG = 60.0
# What still reads a topic that was deleted would have a broker create it again, before the test does.
NOT_CREATED: dict[str, Any] = {"allow_auto_create_topics": False}
BY_HAND: dict[str, Any] = {**NOT_CREATED, "enable_auto_commit": False}


@pytest.fixture
def topic() -> str:
    return f"changing-{uuid.uuid4()}"


@pytest.fixture
def group_id() -> str:
    return f"own-{uuid.uuid4()}"


@pytest.fixture
def client(quick: Broker) -> Iterator[ottla.Client]:
    with ottla.Client(quick.bootstrap, **NOT_CREATED) as client:
        yield client


def fill(client: ottla.Client, topic: str, count: int) -> None:
    for number in range(count):
        client.produce(topic, b"%d" % number, partition=0)
    client.flush()


def read(consumer: GroupConsumer, count: int) -> list[Any]:
    """Also where the topic is gone for a moment, or is another one."""
    found: list[Any] = []
    deadline = time.monotonic() + LONG
    while len(found) < count and time.monotonic() < deadline:
        try:
            found += consumer.poll(timeout=1)
        except (DataLossError, UnknownTopicOrPartitionError):
            continue
    return found


@pytest.mark.parametrize("options", PROTOCOLS.values(), ids=PROTOCOLS)
def test_offsets_are_not_committed_for_another_topic_of_the_same_name(
    quick: Broker, client: ottla.Client, topic: str, group_id: str, options: dict[str, Any]
) -> None:
    first = ottla.TopicPartition(topic, 0)
    client.admin.create_topic(topic, partitions=1)
    fill(client, topic, 10)
    with (
        ottla.Client(quick.bootstrap, **{**options, **BY_HAND}) as kafka,
        kafka.consume(topic, group=group_id) as consumer,
    ):
        assert len(read(consumer, 10)) == 10
        consumer.commit()
        assert client.admin.group_offsets(group_id, first) == {first: GroupOffset(10, "", 0)}
        client.admin.delete_topic(topic)
        client.admin.create_topic(topic, partitions=1)
        # Whether the member has heard of it or not.
        with pytest.raises(CommitFailedError, match=f"{first} are not committed"):
            consumer.commit({first: 10})
        eventually(
            lambda: client.admin.group_offsets(group_id, [first]) == {first: None},
            "the old offset to be forgotten",
        )
        fill(client, topic, 3)
        assert [record.offset for record in read(consumer, 3)] == [0, 1, 2]
        consumer.commit()
    assert client.admin.group_offsets(group_id, first) == {first: GroupOffset(3, "", 0)}


@pytest.mark.parametrize("options", PROTOCOLS.values(), ids=PROTOCOLS)
def test_offsets_of_a_topic_are_not_committed_once_its_successor_is_assigned(
    quick: Broker, client: ottla.Client, topic: str, group_id: str, options: dict[str, Any]
) -> None:
    first = ottla.TopicPartition(topic, 0)
    client.admin.create_topic(topic, partitions=1)
    fill(client, topic, 10)
    with (
        ottla.Client(quick.bootstrap, **{**options, **BY_HAND}) as kafka,
        kafka.consume(topic, group=group_id) as consumer,
    ):
        assert len(read(consumer, 10)) == 10
        client.admin.delete_topic(topic)
        eventually(lambda: not consumer.assignment(), "the member to have heard that the topic is gone", LONG)
        client.admin.create_topic(topic, partitions=1)
        eventually(lambda: consumer.assignment() == [first], "the new topic to be assigned", LONG)
        with pytest.raises(CommitFailedError, match=f"{first} are not committed: the topic was deleted"):
            consumer.commit({first: 10})
        fill(client, topic, 3)
        assert [record.offset for record in read(consumer, 3)] == [0, 1, 2]
        consumer.commit({first: 3})
    assert client.admin.group_offsets(group_id, first) == {first: GroupOffset(3, "", 0)}


@pytest.mark.parametrize("options", [EAGER, COOPERATIVE], ids=["eager", "cooperative"])
def test_a_static_leader_that_comes_back_notices_what_has_changed_without_it(
    quick: Broker, client: ottla.Client, topic: str, group_id: str, options: dict[str, Any]
) -> None:
    client.admin.create_topic(topic, partitions=2)
    options = {**options, "session_timeout_ms": 30_000}
    with ottla.Client(quick.bootstrap, **options) as kafka, ottla.Client(quick.bootstrap, **options) as other:
        leader = kafka.consume(topic, group=group_id, group_instance_id="a")
        with leader:
            eventually(lambda: len(leader.assignment()) == 2, "the first member to have all")
            with other.consume(topic, group=group_id, group_instance_id="b") as follower:
                eventually(
                    lambda: len(leader.assignment()) == len(follower.assignment()) == 1, "both to have one"
                )
                leader.close()
                client.admin.create_partitions(topic, 4)
                with kafka.consume(topic, group=group_id, group_instance_id="a") as again:

                    def share_all() -> bool:
                        owned = again.assignment() + follower.assignment()
                        return len(owned) == len(set(owned)) == 4

                    eventually(share_all, "both to share what the topic has grown by")


def test_the_coordinator_finds_the_topics_of_a_server_pattern_also_those_that_come_later(
    quick: Broker, client: ottla.Client, topic: str, group_id: str
) -> None:
    client.admin.create_topic(f"{topic}-a", partitions=1)
    pattern = ottla.ServerPattern(f"{topic}-[[:lower:]]")
    with (
        ottla.Client(quick.bootstrap, **KIP_848) as kafka,
        kafka.consume(pattern, group=group_id) as consumer,
    ):

        def reads(*topics: str) -> bool:
            return {tp.topic for tp in consumer.assignment()} == {f"{topic}-{each}" for each in topics}

        eventually(lambda: reads("a"), "the first topic to be found")
        client.admin.create_topic(f"{topic}-b", partitions=1)
        # Kafka resolves expressions anew at most every ten seconds.
        eventually(lambda: reads("a", "b"), "the second topic to be found", within=LONG)
        fill(client, f"{topic}-b", 3)
        assert len(read(consumer, 3)) == 3


def test_a_server_pattern_that_is_none_is_a_clear_error(quick: Broker, group_id: str) -> None:
    with (
        ottla.Client(quick.bootstrap, **KIP_848) as kafka,
        kafka.consume(ottla.ServerPattern("orders-("), group=group_id) as consumer,
        pytest.raises(InvalidRegularExpressionError),
    ):
        consumer.poll(timeout=LONG)
