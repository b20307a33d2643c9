"""Administration of topics."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.broker.cluster.options import TopicSpec
from ottla.broker.server.faults import drop, error
from ottla.client.admin import NewTopic
from ottla.errors import (
    ApiTimeoutError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    KafkaError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from tests.client.requests.support import requester
from tests.client.worlds import Body, World

Run = Callable[[Body], object]


@pytest.mark.parametrize("brokers", [1, 3])
def test_a_topic_is_created_described_and_deleted(run: Run, brokers: int) -> None:
    async def body(world: World) -> None:
        async with world.cluster(brokers) as cluster:
            admin = requester(world, cluster).admin
            created = await admin.create_topic("orders", 4, brokers, configs={"retention.ms": 1000})
            assert (created.partitions, created.replication_factor) == (4, brokers)
            assert created.configs["retention.ms"] == "1000"

            described = await admin.describe_topic("orders")
            assert described.topic_id == created.topic_id
            assert [each.partition for each in described.partitions] == [0, 1, 2, 3]
            for each in described.partitions:
                assert each.leader == cluster.leader("orders", each.partition)
                assert len(each.replicas) == len(each.isr) == brokers
            assert list(await admin.list_topics()) == ["orders"]

            await admin.delete_topic("orders")
            assert await admin.list_topics() == {}
            with pytest.raises(UnknownTopicOrPartitionError, match="orders"):
                await admin.describe_topic("orders")

    run(body)


def test_partitions_and_replicas_are_the_brokers_own_numbers_unless_given(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3, config={"num.partitions": 5}) as cluster:
            created = await requester(world, cluster).admin.create_topic("orders")
            assert (created.partitions, created.replication_factor) == (5, 3)

    run(body)


def test_replicas_can_be_assigned_by_hand(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3) as cluster:
            admin = requester(world, cluster).admin
            await admin.create_topic("orders", assignments={0: [3, 1], 1: [2, 3]})
            described = await admin.describe_topic("orders")
            assert [each.replicas for each in described.partitions] == [(3, 1), (2, 3)]
            await admin.create_partitions("orders", 3, assignments=[[1, 2]])
            described = await admin.describe_topic("orders")
            assert described.partitions[2].replicas == (1, 2)

    run(body)


def test_several_fail_one_by_one(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["there"]) as cluster:
            admin = requester(world, cluster).admin
            wanted: list[str | NewTopic] = ["a", "there", NewTopic("b", 1, 7), "bad/name"]
            results = await admin.create_topics(wanted, errors="collect")
            assert list(results) == ["a"]
            assert {name: type(each) for name, each in results.errors.items()} == {
                "there": TopicAlreadyExistsError,
                "b": InvalidReplicationFactorError,
                "bad/name": InvalidTopicError,
            }
            with pytest.raises(TopicAlreadyExistsError, match="there") as caught:
                await admin.create_topics(["there", "bad/name", "c"])
            assert "bad/name failed too" in caught.value.__notes__[0]
            assert list(await admin.list_topics()) == ["a", "c", "there"]

            gone = await admin.delete_topics(["a", "nothing", "c"], errors="collect")
            assert (list(gone), list(gone.errors)) == (["a", "c"], ["nothing"])
            described = await admin.describe_topics(["there", "a"], errors="collect")
            assert (list(described), list(described.errors)) == (["there"], ["a"])

    run(body)


def test_validating_creates_nothing(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["there"]) as cluster:
            admin = requester(world, cluster).admin
            assert (await admin.create_topic("orders", 2, validate_only=True)).partitions == 2
            await admin.create_partitions("there", 9, validate_only=True)
            assert {name: len(each.partitions) for name, each in (await admin.list_topics()).items()} == {
                "there": 1
            }

    run(body)


def test_partitions_are_added(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3, topics={"orders": TopicSpec(2, 3)}) as cluster:
            admin = requester(world, cluster).admin
            await admin.create_partitions("orders", 5)
            assert len((await admin.describe_topic("orders")).partitions) == 5
            with pytest.raises(InvalidPartitionsError, match="orders"):
                await admin.create_partitions("orders", 5)

    run(body)


def test_internal_topics_are_listed_on_demand(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            me = requester(world, cluster)
            await cluster.create_topic("__consumer_offsets")
            assert list(await me.admin.list_topics()) == ["orders"]
            everything = await me.admin.list_topics(internal=True)
            assert {name: each.internal for name, each in everything.items()} == {
                "__consumer_offsets": True,
                "orders": False,
            }

    run(body)


def test_a_creation_whose_answer_was_lost_says_that_it_may_be_its_own(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            fault = cluster.faults.add("CreateTopics", when="response", action=drop, count=1)
            with pytest.raises(TopicAlreadyExistsError) as caught:
                await requester(world, cluster).admin.create_topic("orders")
            assert fault.hits == 1
            assert "may have been carried out" in caught.value.__notes__[0]

    run(body)


def test_only_the_topics_that_were_throttled_are_sent_again(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            fault = cluster.faults.add("CreateTopics", action=error("THROTTLING_QUOTA_EXCEEDED"), count=2)
            assert list(await requester(world, cluster).admin.create_topics(["a", "b"])) == ["a", "b"]
            assert fault.hits == 2

    run(body)


def test_waiting_for_metadata_ends_at_the_timeout_and_says_that_the_topic_is_there(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            admin = requester(world, cluster).admin
            await admin.list_brokers()
            fault = cluster.faults.add("Metadata", action=drop)
            with pytest.raises(ApiTimeoutError, match="orders has been created"):
                await admin.create_topic("orders", timeout=1.0)
            cluster.faults.remove(fault)
            assert list(await admin.list_topics()) == ["orders"]
            cluster.faults.add("Metadata", action=drop)
            await admin.create_topic("audit", wait=False)

    run(body)


def test_a_topic_that_a_broker_has_not_heard_of_yet_is_asked_for_again(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            admin = requester(world, cluster).admin
            unknown = error("UNKNOWN_TOPIC_OR_PARTITION")
            metadata = cluster.faults.add("Metadata", topic="orders", action=unknown, count=2)
            assert (await admin.describe_topic("orders")).name == "orders"
            assert metadata.hits == 2
            offsets = cluster.faults.add("Metadata", topic="orders", action=unknown, count=1)
            world.clock.advance(6)  # longer than metadata is kept
            assert len(await admin.list_offsets("orders")) == 1
            configs = cluster.faults.add("DescribeConfigs", action=unknown, count=1)
            await admin.describe_configs(topic="orders")
            assert (offsets.hits, configs.hits) == (1, 1)

    run(body)


def test_mistakes_are_named(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            admin = requester(world, cluster).admin
            with pytest.raises(TypeError, match=r"\['orders'\]"):
                await admin.delete_topics("orders")
            with pytest.raises(ValueError, match="collect"):
                await admin.create_topics(["a"], errors="ignore")  # type: ignore[arg-type]

    run(body)


def test_a_topic_that_is_created_again_is_another_one(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            admin = requester(world, cluster).admin
            first = await admin.create_topic("orders")
            await admin.delete_topic("orders")
            second = await admin.create_topic("orders")
            assert first.topic_id != second.topic_id
            assert (await admin.describe_topic("orders")).topic_id == second.topic_id
            with pytest.raises(KafkaError, match="orders"):
                await admin.create_topic("orders")

    run(body)
