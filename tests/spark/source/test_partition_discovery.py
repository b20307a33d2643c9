"""Which partitions a query reads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import ottla
from ottla import TopicPartition
from ottla.broker import Cluster, error
from ottla.errors import TopicAuthorizationFailedError, UnknownTopicOrPartitionError
from ottla.spark.options.topics import Topics
from ottla.spark.source.partition_discovery import discover


@pytest.fixture
def client(kafka: Cluster) -> Iterator[ottla.Client]:
    kafka.create_topic("orders", 2)
    kafka.create_topic("orders.old", 1)
    with ottla.Client(kafka.bootstrap) as client:
        yield client


ORDERS = {TopicPartition("orders", 0), TopicPartition("orders", 1)}
OLD = TopicPartition("orders.old", 0)


@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        (Topics(subscribe=("orders",)), ORDERS),
        (Topics(subscribe=("orders", "orders.old")), ORDERS | {OLD}),
        (Topics(pattern="ord.*"), ORDERS | {OLD}),
        (Topics(pattern="rde"), ORDERS | {OLD}),
        (Topics(pattern="^orders$"), ORDERS),
        (Topics(pattern="ordres"), set()),
        (Topics(assign=(TopicPartition("orders", 1), OLD)), {TopicPartition("orders", 1), OLD}),
        (
            Topics(assign=(TopicPartition("orders", 1), TopicPartition("orders", 7))),
            {TopicPartition("orders", 1)},
        ),
    ],
)
def test_topics_and_patterns_and_partitions_are_found(
    client: ottla.Client, topics: Topics, expected: set[TopicPartition]
) -> None:
    assert discover(client, topics).all_there() == expected


def test_missing_topics_are_separate_from_those_that_are_there(client: ottla.Client) -> None:
    found = discover(client, Topics(subscribe=("orders", "ordres")))
    assert found.partitions == ORDERS
    assert found.missing == {"ordres"}
    with pytest.raises(UnknownTopicOrPartitionError, match="ordres"):
        found.all_there()


def test_looking_for_a_topic_does_not_create_it(kafka: Cluster, client: ottla.Client) -> None:
    discover(client, Topics(subscribe=("ordres",)))
    assert client.admin.list_topics().keys() == {"orders", "orders.old"}


def test_a_topic_that_may_not_be_read_is_an_error(kafka: Cluster, client: ottla.Client) -> None:
    kafka.faults.add(api="Metadata", topic="orders", action=error("TOPIC_AUTHORIZATION_FAILED"))
    with pytest.raises(TopicAuthorizationFailedError):
        discover(client, Topics(subscribe=("orders",)))


def test_internal_topics_are_not_read(kafka: Cluster, client: ottla.Client) -> None:
    kafka.create_topic("__consumer_offsets", 1)
    assert discover(client, Topics(pattern=".*")).partitions == ORDERS | {OLD}
    assert discover(client, Topics(subscribe=("__consumer_offsets",))).all_there() == set()
