"""Administration of groups through Ottla's own client; the groups are made of confluent-kafka's consumers."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Position

from ottla.client.admin import GroupOffset, GroupReset, PartitionLag
from ottla.client.blocking.client import Client
from ottla.client.consume.offset_spec import Timestamp
from ottla.client.topic_partition import TopicPartition
from ottla.errors import GroupIdNotFoundError, GroupSubscribedToTopicError, KafkaError, NonEmptyGroupError
from tests.interop.brokers import Broker
from tests.interop.peers import PEERS, Sent
from tests.interop.waiting import eventually

CONFLUENT = PEERS[0]
TIMES = (1_700_000_000_000, 1_700_000_005_000, 1_700_000_009_000)


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    with Client(broker.bootstrap, default_api_timeout_ms=30_000) as client:
        yield client


def new_group() -> str:
    return f"group-{uuid.uuid4().hex[:12]}"


@contextmanager
def member(broker: Broker, group: str, topic: str, **options: object) -> Iterator[Any]:
    """A consumer that has its partitions."""
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": group,
        "enable.auto.commit": False,
        "log_level": 0,
        **{name.replace("_", "."): value for name, value in options.items()},
    }
    consumer = Consumer(settings)
    try:
        consumer.subscribe([topic])

        def assigned() -> bool:
            consumer.poll(0.1)
            return bool(consumer.assignment())

        eventually(assigned, f"partitions of {topic}", within=30.0)
        yield consumer
    finally:
        consumer.close()


def with_records(broker: Broker, partitions: int = 2) -> str:
    """A topic with three records in each partition."""
    topic = broker.create_topic(partitions=partitions)
    for number in range(partitions):
        CONFLUENT.produce(
            broker.bootstrap, topic, [Sent(b"x", timestamp=time) for time in TIMES], partition=number
        )
    return topic


def test_a_group_with_a_member_is_listed_and_described(broker: Broker, client: Client) -> None:
    topic, group = broker.create_topic(partitions=2), new_group()
    with member(broker, group, topic, client_id="reader"):
        listed = client.admin.list_groups(states=["stable"], types=["classic"])[group]
        assert (listed.protocol_type, listed.state, listed.group_type) == ("consumer", "Stable", "classic")
        assert group not in client.admin.list_groups(states=["Empty"])
        described = client.admin.describe_group(group)
        assert (described.group_type, described.state, described.assignor) == ("classic", "Stable", "range")
        assert described.coordinator in broker.node_ids
        (only,) = described.members
        assert (only.client_id, only.topics) == ("reader", (topic,))
        assert only.assignment == (TopicPartition(topic, 0), TopicPartition(topic, 1))
    eventually(lambda: client.admin.describe_group(group).state == "Empty", "the member to leave")


def test_offsets_are_committed_read_and_deleted_for_a_group_without_members(
    broker: Broker, client: Client
) -> None:
    topic, group = with_records(broker), new_group()
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    client.admin.alter_group_offsets(group, {first: 2, second: GroupOffset(1, "halfway")})
    assert client.admin.group_offsets(group) == {first: GroupOffset(2), second: GroupOffset(1, "halfway")}
    assert client.admin.group_offsets(group, first, require_stable=True) == {first: GroupOffset(2)}
    described = client.admin.describe_group(group)
    assert (described.state, described.members) == ("Empty", ())
    assert group in client.admin.list_groups(states=["Empty"])

    client.admin.delete_group_offsets(group, [second])
    assert client.admin.group_offsets(group, topic) == {first: GroupOffset(2), second: None}
    client.admin.delete_group(group)
    assert client.admin.group_offsets(group) == {}
    with pytest.raises(GroupIdNotFoundError, match=group):
        client.admin.describe_group(group)


def test_a_consumer_goes_on_where_its_group_was_moved_to(broker: Broker, client: Client) -> None:
    topic, group = with_records(broker, partitions=1), new_group()
    client.admin.alter_group_offsets(group, {TopicPartition(topic, 0): 1})
    with member(broker, group, topic) as consumer:
        assert [each.offset for each in consumer.committed([Position(topic, 0)], timeout=30)] == [1]


@pytest.mark.parametrize(
    ("to", "after"),
    [
        ("earliest", 0),
        ("latest", 3),
        (2, 2),
        (99, 3),
        (Timestamp(TIMES[1]), 1),
        (datetime.fromtimestamp(TIMES[0] / 1000 + 1, UTC), 1),
        (Timestamp(TIMES[2] + 1), 3),
        ("by_duration:PT1H", 3),
    ],
    ids=str,
)
def test_a_group_is_reset_to_a_place(broker: Broker, client: Client, to: Any, after: int) -> None:
    topic, group = with_records(broker, partitions=1), new_group()
    partition = TopicPartition(topic, 0)
    assert client.admin.reset_group_offsets(group, topic, to=to) == {partition: GroupReset(None, after)}
    assert client.admin.group_offsets(group) == {partition: GroupOffset(after)}


def test_a_group_is_shifted_within_its_partitions_and_not_by_a_dry_run(
    broker: Broker, client: Client
) -> None:
    topic, group = with_records(broker), new_group()
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    client.admin.alter_group_offsets(group, {first: 2})
    assert client.admin.reset_group_offsets(group, shift=-1, dry_run=True) == {first: GroupReset(2, 1)}
    assert client.admin.group_offsets(group) == {first: GroupOffset(2)}
    assert client.admin.reset_group_offsets(group, shift=-5) == {first: GroupReset(2, 0)}
    reset = client.admin.reset_group_offsets(group, topic, shift=9, errors="collect")
    assert reset == {first: GroupReset(0, 3)}
    assert "no committed offset to shift" in str(reset.errors[second])


def test_a_group_that_has_committed_nothing_is_reset_only_where_topics_are_named(
    broker: Broker, client: Client
) -> None:
    with pytest.raises(KafkaError, match="committed nothing: name the topics"):
        client.admin.reset_group_offsets(new_group(), to="earliest")


def changes(client: Client, group: str, partition: TopicPartition) -> dict[str, Callable[[], object]]:
    return {
        "alter": lambda: client.admin.alter_group_offsets(group, {partition: 0}),
        "reset": lambda: client.admin.reset_group_offsets(group, to="earliest"),
        "dry run": lambda: client.admin.reset_group_offsets(group, to="earliest", dry_run=True),
        "delete": lambda: client.admin.delete_group(group),
    }


def test_a_group_with_members_is_left_alone(broker: Broker, client: Client) -> None:
    topic, group = with_records(broker, partitions=1), new_group()
    partition = TopicPartition(topic, 0)
    with member(broker, group, topic) as consumer:
        consumer.commit(offsets=[Position(topic, 0, 2)], asynchronous=False)
        for change in changes(client, group, partition).values():
            with pytest.raises(NonEmptyGroupError, match=group):
                change()
        with pytest.raises(GroupSubscribedToTopicError, match=topic):
            client.admin.delete_group_offsets(group, topic)
        assert client.admin.group_offsets(group) == {partition: GroupOffset(2)}


def test_lag_counts_what_is_committed_and_names_what_is_only_assigned(broker: Broker, client: Client) -> None:
    topic, group = with_records(broker), new_group()
    with member(broker, group, topic) as consumer:
        consumer.commit(offsets=[Position(topic, 0, 1)], asynchronous=False)
        assert client.admin.group_lag(group) == {
            TopicPartition(topic, 0): PartitionLag(committed=1, end=3, lag=2),
            TopicPartition(topic, 1): PartitionLag(committed=None, end=3, lag=None),
        }


def test_groups_fail_one_by_one(broker3: Broker) -> None:
    with Client(broker3.bootstrap, default_api_timeout_ms=30_000) as client:
        topic = broker3.create_topic(partitions=1)
        # Enough for several coordinators.
        groups = [new_group() for _ in range(8)]
        for group in groups:
            client.admin.alter_group_offsets(group, {TopicPartition(topic, 0): 0})
        described = client.admin.describe_groups([*groups, "none of that name"], errors="collect")
        assert list(described) == groups
        assert isinstance(described.errors["none of that name"], GroupIdNotFoundError)
        assert {each.coordinator for each in described.values()} <= set(broker3.node_ids)
        assert set(groups) <= set(client.admin.list_groups())
        deleted = client.admin.delete_groups(["none of that name", *groups], errors="collect")
        assert (list(deleted), list(deleted.errors)) == (groups, ["none of that name"])
        assert not set(groups) & set(client.admin.list_groups())


def test_a_group_of_the_new_protocol_is_described_with_its_epochs(broker: Broker, client: Client) -> None:
    topic, group = with_records(broker), new_group()
    with member(broker, group, topic, group_protocol="consumer") as consumer:
        consumer.commit(offsets=[Position(topic, 0, 1)], asynchronous=False)
        assert client.admin.list_groups(types=["consumer"])[group].group_type == "consumer"
        described = client.admin.describe_group(group)
        assert (described.group_type, described.assignor) == ("consumer", "uniform")
        assert described.group_epoch is not None
        assert described.group_epoch >= 1
        (only,) = described.members
        assert only.topics == (topic,)
        assert only.target == only.assignment == (TopicPartition(topic, 0), TopicPartition(topic, 1))
        assert only.member_epoch is not None
        assert only.member_epoch >= 1
        assert client.admin.group_lag(group)[TopicPartition(topic, 0)] == PartitionLag(1, 3, 2)
        with pytest.raises(NonEmptyGroupError, match=group):
            client.admin.alter_group_offsets(group, {TopicPartition(topic, 0): 0})
        with pytest.raises(NonEmptyGroupError, match=group):
            client.admin.reset_group_offsets(group, to="latest")
    eventually(lambda: client.admin.describe_group(group).state == "Empty", "the member to leave")
    assert client.admin.reset_group_offsets(group, to="latest") == {
        TopicPartition(topic, 0): GroupReset(1, 3)
    }
    client.admin.delete_group(group)
