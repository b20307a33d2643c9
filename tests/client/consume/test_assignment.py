"""What is to be read and does not exist: told soon where reading is to end, waited for with a warning where not."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest

from ottla import AsyncConsumer, TopicPartition
from ottla.client.client import AsyncClient
from ottla.errors import KafkaError, NoSuchPartitionError, UnknownTopicOrPartitionError
from tests.client.worlds import World, in_simulation

NO_CREATION = {"auto.create.topics.enable": False}
SOON = 2.0


async def records(kafka: AsyncClient, *topics: Any, **options: Any) -> list[Any]:
    return [record.value async for record in kafka.consume(*topics, **options)]


async def batches(kafka: AsyncClient, *topics: Any, **options: Any) -> list[Any]:
    return [batch async for batch in kafka.consume_batches(*topics, **options)]


async def polled(kafka: AsyncClient, *topics: Any, **options: Any) -> list[Any]:
    consumer: AsyncConsumer = kafka.consume(*topics, **options)
    return await consumer.poll()


async def seconds_until_produce_fails(world: World, kafka: AsyncClient) -> float:
    began = world.clock.monotonic()
    delivery = await kafka.produce("ordres", b"1")
    with pytest.raises(UnknownTopicOrPartitionError):
        await delivery
    with pytest.raises(KafkaError):
        await kafka.flush()
    return world.clock.monotonic() - began


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno == logging.WARNING and record.name.startswith("ottla.client.consume")
    ]


@pytest.mark.parametrize("read", [records, batches, polled])
@pytest.mark.parametrize("stop", ["latest", 7])
def test_a_topic_that_does_not_exist_is_an_error_as_soon_as_for_a_producer(read: Any, stop: Any) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=NO_CREATION) as cluster:
            kafka = world.client(cluster)
            most = await seconds_until_produce_fails(world, kafka) + 0.5
            began = world.clock.monotonic()
            with pytest.raises(UnknownTopicOrPartitionError, match=r"ordres.*check the name"):
                await read(kafka, "orders", "ordres", stop=stop)
            assert world.clock.monotonic() - began <= min(most, SOON)

    in_simulation(body)


def test_without_a_stop_one_warning_says_that_the_topic_is_waited_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def body(world: World) -> None:
        async with world.cluster(config=NO_CREATION) as cluster:
            kafka = world.client(cluster)
            async with kafka.consume("orders") as consumer:
                assert await consumer.poll(timeout=SOON) == []
                assert len(warned(caplog)) == 1
                assert re.search("topic orders does not exist: .* waits for it", warned(caplog)[0])
                assert await consumer.poll(timeout=30) == []
                await cluster.create_topic("orders")
                cluster.seed("orders", [b"first"])
                assert [record.value for record in await consumer.poll(timeout=10)] == [b"first"]
            assert len(warned(caplog)) == 1

    in_simulation(body)


@pytest.mark.parametrize("options", [{}, {"stop": "latest"}])
def test_a_topic_that_is_created_a_moment_later_is_no_matter(
    options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    async def body(world: World) -> None:
        async with world.cluster(config=NO_CREATION) as cluster:
            kafka = world.client(cluster)
            async with kafka.consume("orders", start="earliest", **options) as consumer:
                await world.clock.sleep(0.6)
                await cluster.create_topic("orders")
                cluster.seed("orders", [b"first"])
                assert [record.value for record in await consumer.poll(timeout=10)] == [b"first"]
            assert warned(caplog) == []

    in_simulation(body)


def test_a_topic_that_reading_creates_is_read_to_its_end() -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            assert await records(world.client(cluster), "orders", stop="latest") == []

    in_simulation(body)


@pytest.mark.parametrize("options", [{}, {"stop": "latest"}])
@pytest.mark.parametrize("read", [records, batches, polled])
def test_a_partition_that_does_not_exist_is_an_error_soon(read: Any, options: dict[str, Any]) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 3}) as cluster:
            began = world.clock.monotonic()
            with pytest.raises(NoSuchPartitionError, match=r"no partition 7 of topic 'orders', .* 0 to 2"):
                await read(world.client(cluster), TopicPartition("orders", 7), **options)
            assert world.clock.monotonic() - began <= SOON

    in_simulation(body)


def test_a_pattern_that_matches_nothing_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            kafka = world.client(cluster, metadata_max_age_ms=1_000, metadata_min_age_ms=100)
            assert await records(kafka, re.compile("audit.*"), re.compile("ord.*"), stop="latest") == []
            assert warned(caplog) == ["no topic matches 'audit.*': nothing is read for it"]
            caplog.clear()
            async with kafka.consume(re.compile("audit.*")) as consumer:
                assert await consumer.poll(timeout=SOON) == []
                assert warned(caplog) == ["no topic matches 'audit.*': the consumer waits for one"]
                await cluster.create_topic("audit-1")
                cluster.seed("audit-1", [b"first"])
                assert [record.value for record in await consumer.poll(timeout=10)] == [b"first"]
            assert len(warned(caplog)) == 1

    in_simulation(body)
