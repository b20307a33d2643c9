"""Topics that grow, come, go and come back while Ottla's client reads them and writes to them."""

from __future__ import annotations

import asyncio
import re
import uuid

import pytest

import ottla
from ottla.client.topic_partition import TopicPartition
from ottla.errors import DataLossError, UnknownTopicOrPartitionError
from tests.interop.brokers import Broker
from tests.interop.own import take, values_of, with_client

QUICK = {"metadata_max_age_ms": 200, "metadata_min_age_ms": 50}


def new_name(prefix: str = "own") -> str:
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def test_partitions_that_are_added_are_read_and_written(broker: Broker) -> None:
    async def body(kafka: ottla.AsyncClient) -> None:
        topic = new_name()
        await kafka.admin.create_topic(topic, 1, 1)
        async with kafka.consume(topic, start="latest") as consumer:
            await consumer.position(TopicPartition(topic, 0))
            await kafka.admin.create_partitions(topic, 3)
            wanted = []
            for partition in range(3):
                # Our own metadata may still know one partition only: producing waits for it.
                delivery = await kafka.produce(topic, b"to %d" % partition, partition=partition)
                await delivery
                wanted.append(b"to %d" % partition)
            assert sorted(map(bytes, await take(consumer, 3))) == wanted  # type: ignore[arg-type]
            assert sorted(consumer.assignment()) == [TopicPartition(topic, index) for index in range(3)]

    with_client(broker, body, **QUICK)


def test_a_pattern_finds_topics_old_and_new(broker: Broker) -> None:
    async def body(kafka: ottla.AsyncClient) -> None:
        family = new_name("family")
        await kafka.admin.create_topic(f"{family}-1", 2, 1)
        await kafka.admin.create_topic(f"x-{family}-1", 1, 1)
        await kafka.produce(f"{family}-1", b"old")
        await kafka.produce(f"x-{family}-1", b"other")
        await kafka.flush()
        async with kafka.consume(re.compile(f"{family}-[0-9]"), start="earliest") as consumer:
            assert await take(consumer, 1) == [b"old"]
            await kafka.admin.create_topic(f"{family}-2", 1, 1)
            await kafka.produce(f"{family}-2", b"new")
            assert await take(consumer, 1) == [b"new"]
            await kafka.admin.delete_topic(f"{family}-2")
            await kafka.produce(f"{family}-1", b"still")
            assert await take(consumer, 1) == [b"still"]

    with_client(broker, body, **QUICK)


def test_a_reader_of_a_topic_that_was_made_anew_is_told_and_goes_on(broker: Broker) -> None:
    async def body(kafka: ottla.AsyncClient) -> None:
        topic = new_name()
        await kafka.admin.create_topic(topic, 1, 1)
        # Written by others: a client that writes to a topic has it created where it is missing, by itself.
        await write(broker, topic, *(b"old %d" % number for number in range(10)))
        async with kafka.consume(topic, start="earliest") as consumer:
            assert await take(consumer, 10) == [b"old %d" % number for number in range(10)]
            await kafka.admin.delete_topic(topic)
            await kafka.admin.create_topic(topic, 1, 1)
            await write(broker, topic, b"new")
            with pytest.raises(DataLossError, match=topic):
                await take(consumer, 1)
            assert await take(consumer, 1) == [b"new"]

    with_client(broker, body, **QUICK, allow_auto_create_topics=False)


async def write(broker: Broker, topic: str, *values: bytes) -> None:
    async with ottla.AsyncClient(broker.bootstrap) as kafka:
        for value in values:
            await kafka.produce(topic, value)
        await kafka.flush()


def test_a_reader_of_a_topic_that_is_gone_is_told(broker: Broker) -> None:
    async def body(kafka: ottla.AsyncClient) -> None:
        topic = new_name()
        await kafka.admin.create_topic(topic, 1, 1)
        async with kafka.consume(topic, start="earliest") as consumer:
            await consumer.position(TopicPartition(topic, 0))
            await kafka.admin.delete_topic(topic)
            with pytest.raises(UnknownTopicOrPartitionError, match=topic):
                await take(consumer, 1)

    with_client(broker, body, **QUICK, allow_auto_create_topics=False)


def test_a_writer_goes_on_in_a_topic_that_was_made_anew(broker: Broker) -> None:
    async def body(kafka: ottla.AsyncClient) -> None:
        topic = new_name()
        await kafka.admin.create_topic(topic, 1, 1)
        for number in range(10):
            await (await kafka.produce(topic, b"old %d" % number))
        async with ottla.AsyncClient(broker.bootstrap) as other:
            await other.admin.delete_topic(topic)
            await other.admin.create_topic(topic, 1, 1)
        deliveries = [await kafka.produce(topic, b"new %d" % number) for number in range(10)]
        await asyncio.gather(*map(outcome, deliveries))
        assert await values_of(kafka, topic) == [b"new %d" % number for number in range(10)]

    with_client(broker, body)


async def outcome(delivery: ottla.wire.records.Delivery) -> None:
    await delivery


def test_a_topic_is_created_by_writing_to_it(broker: Broker) -> None:
    async def body(kafka: ottla.AsyncClient) -> None:
        topic = new_name()
        deliveries = [await kafka.produce(topic, b"%d" % number) for number in range(100)]
        assert [(await delivery).offset for delivery in deliveries] == list(range(100))
        assert await values_of(kafka, topic) == [b"%d" % number for number in range(100)]

    with_client(broker, body)


def test_a_reader_waits_for_a_topic_that_is_created_later(broker: Broker) -> None:
    async def body(kafka: ottla.AsyncClient) -> None:
        topic = new_name()
        async with kafka.consume(topic, start="latest") as consumer:
            assert await consumer.poll(timeout=0.2) == []
            async with ottla.AsyncClient(broker.bootstrap) as other:
                await other.admin.create_topic(topic, 1, 1)
                await (await other.produce(topic, b"first"))
            assert await take(consumer, 1) == [b"first"]

    with_client(broker, body, **QUICK, allow_auto_create_topics=False)
