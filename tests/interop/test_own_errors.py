"""What users of Ottla's client read when they ask for what cannot be: what failed, where, and what to change."""

from __future__ import annotations

import asyncio
import socket
import uuid
from collections.abc import Awaitable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import ottla
from ottla.broker import Cluster
from ottla.errors import (
    DeliveryError,
    InvalidRecordError,
    InvalidTopicError,
    KafkaError,
    MessageTooLargeError,
    NoBrokersError,
    NoSuchPartitionError,
    RecordTooLargeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from tests.interop.brokers import Broker, EmbeddedBroker
from tests.interop.own import take, with_client

# Errors that the client gives time to pass become the caller's after these.
IMPATIENT: Any = {
    "max_block_ms": 1000,
    "request_timeout_ms": 1000,
    "default_api_timeout_ms": 1000,
    "delivery_timeout_ms": 2000,
    "metadata_min_age_ms": 50,
}
# The same where a broker is to answer meanwhile, however busy the machine is.
PATIENT_ENOUGH: Any = {
    "max_block_ms": 6000,
    "request_timeout_ms": 6000,
    "default_api_timeout_ms": 6000,
    "delivery_timeout_ms": 12_000,
    "metadata_min_age_ms": 50,
}


def unused() -> str:
    return f"none-{uuid.uuid4().hex[:12]}"


async def refusal(kind: type[KafkaError], call: Awaitable[object]) -> str:
    """The words of an error that awaiting this raises."""
    with pytest.raises(kind) as raised:
        await call
    assert type(raised.value) is kind
    return str(raised.value)


def has(words: str, *parts: str) -> None:
    missing = [part for part in parts if part not in words]
    assert not missing, f"{missing} not in: {words}"


def test_a_record_that_is_too_large_for_its_topic_names_the_topics_limit(broker: Broker) -> None:
    topic = broker.create_topic(config={"max.message.bytes": "500"})

    async def body(kafka: ottla.AsyncClient) -> None:
        delivery = await kafka.produce(topic, b"x" * 1000)
        has(await refusal(MessageTooLargeError, delivery), topic, "max.message.bytes")
        # The partition is none the worse for it.
        assert (await (await kafka.produce(topic, b"small"))).offset == 0
        has(await refusal(DeliveryError, kafka.flush()), "1 record")

    with_client(broker, body)


def test_records_that_are_too_large_together_are_sent_apart(broker: Broker) -> None:
    topic = broker.create_topic(config={"max.message.bytes": "5000"})

    async def body(kafka: ottla.AsyncClient) -> None:
        deliveries = [await kafka.produce(topic, bytes([n]) * 1000) for n in range(100)]
        assert [(await delivery).offset for delivery in deliveries] == list(range(100))
        table = pa.table({"value": [b"y" * 1000] * 50})
        await (await kafka.produce_batch(topic, table))
        async with kafka.consume(topic, start="earliest") as consumer:
            assert await take(consumer, 150) == [bytes([n]) * 1000 for n in range(100)] + [b"y" * 1000] * 50

    with_client(broker, body)


def test_a_record_that_is_too_large_for_the_client_is_refused_at_once(broker: Broker) -> None:
    topic = broker.create_topic()

    async def body(kafka: ottla.AsyncClient) -> None:
        words = await refusal(RecordTooLargeError, kafka.produce(topic, b"x" * 2_000_000))
        has(words, "max_request_size=1048576", "max.message.bytes")

    with_client(broker, body)


def test_a_record_without_a_key_is_refused_by_a_compacted_topic(broker: Broker) -> None:
    topic = broker.create_topic(config={"cleanup.policy": "compact"})

    async def body(kafka: ottla.AsyncClient) -> None:
        words = await refusal(InvalidRecordError, await kafka.produce(topic, b"x"))
        has(words, topic, "key")
        assert (await (await kafka.produce(topic, b"x", b"key"))).offset == 0
        with pytest.raises(DeliveryError):
            await kafka.flush()

    with_client(broker, body)


def test_a_topic_with_a_bad_name_is_refused_everywhere(broker: Broker) -> None:
    async def body(kafka: ottla.AsyncClient) -> None:
        has(await refusal(InvalidTopicError, kafka.admin.create_topic("two words")), "two words")
        has(await refusal(InvalidTopicError, await kafka.produce("two words", b"x")), "two words")
        async with kafka.consume("two words", start="earliest") as consumer:
            has(await refusal(InvalidTopicError, take(consumer, 1)), "two words")
        with pytest.raises(DeliveryError):
            await kafka.flush()

    with_client(broker, body)


def test_a_topic_that_exists_is_not_created_again(broker: Broker) -> None:
    topic = broker.create_topic()

    async def body(kafka: ottla.AsyncClient) -> None:
        has(await refusal(TopicAlreadyExistsError, kafka.admin.create_topic(topic)), topic)

    with_client(broker, body)


def test_a_partition_that_is_not_there_is_told(broker: Broker) -> None:
    topic = broker.create_topic(partitions=2)

    async def body(kafka: ottla.AsyncClient) -> None:
        await (await kafka.produce(topic, b"x", partition=1))
        with pytest.raises(NoSuchPartitionError, match=f"no partition 7 of topic '{topic}'.* 0 to 1"):
            await kafka.produce(topic, b"x", partition=7)
        async with kafka.consume(ottla.TopicPartition(topic, 7), start="earliest") as consumer:
            has(await refusal(NoSuchPartitionError, take(consumer, 1)), topic, "7")

    with_client(broker, body, **PATIENT_ENOUGH)


def test_a_partition_that_is_not_there_is_told_although_the_topic_was_not_known_yet(broker: Broker) -> None:
    topic = broker.create_topic(partitions=2)

    async def body(kafka: ottla.AsyncClient) -> None:
        deliveries = [await kafka.produce(topic, b"x", partition=number) for number in (0, 7, 1)]
        words = await refusal(DeliveryError, kafka.flush())
        has(words, "1 record", "no partition 7", topic)
        assert [delivery.error is None for delivery in deliveries] == [True, False, True]

    with_client(broker, body)


def test_a_topic_that_is_not_there_and_not_created_is_told() -> None:
    async def body(kafka: ottla.AsyncClient) -> None:
        topic = unused()
        with pytest.raises(KafkaError) as raised:
            await (await kafka.produce(topic, b"x"))
        has(str(raised.value), topic, "check the name")
        async with kafka.consume(topic, start="earliest") as consumer:
            words = await refusal(UnknownTopicOrPartitionError, take(consumer, 1))
            has(words, topic, "default_api_timeout_ms", "create")
        has(await refusal(UnknownTopicOrPartitionError, kafka.admin.describe_topic(topic)), topic)
        has(await refusal(UnknownTopicOrPartitionError, kafka.admin.list_offsets(topic)), topic)
        with pytest.raises(DeliveryError):
            await kafka.flush()

    with Cluster(brokers=1, config={"auto.create.topics.enable": False}) as cluster:
        with_client(EmbeddedBroker(cluster), body, **PATIENT_ENOUGH)


def test_a_reader_that_may_not_create_its_topic_is_told(broker: Broker) -> None:
    async def body(kafka: ottla.AsyncClient) -> None:
        topic = unused()
        async with kafka.consume(topic, start="earliest") as consumer:
            words = await refusal(UnknownTopicOrPartitionError, take(consumer, 1))
            has(words, topic, "default_api_timeout_ms", "create")
        assert topic not in await kafka.admin.list_topics()

    with_client(broker, body, **PATIENT_ENOUGH, allow_auto_create_topics=False)


@pytest.fixture
def refused_address() -> Iterator[str]:
    """Where nobody listens, and nobody can as long as the test runs."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


@pytest.mark.parametrize("host", ["refused", "no.such.host.invalid:9092"])
def test_servers_that_cannot_be_reached_are_named_with_the_reason(host: str, refused_address: str) -> None:
    address = refused_address if host == "refused" else host

    async def calls() -> None:
        async with ottla.AsyncClient(address, **IMPATIENT) as kafka:
            with pytest.raises((KafkaError, TimeoutError)) as asked:
                await kafka.admin.list_topics()
            has(everything(asked.value), address)
            with pytest.raises((KafkaError, TimeoutError)) as written:
                await (await kafka.produce("orders", b"x"))
            has(everything(written.value), address)
            async with kafka.consume("orders", start="earliest") as consumer:
                with pytest.raises((KafkaError, TimeoutError)) as read:
                    await take(consumer, 1)
                has(everything(read.value), address)
            for error in (asked.value, written.value, read.value):
                assert any(isinstance(each, NoBrokersError) for each in chain(error)), repr(error)
            with pytest.raises(DeliveryError):
                await kafka.flush()

    async def main() -> None:
        async with asyncio.timeout(120):
            await calls()

    asyncio.run(main())


def test_the_blocking_client_says_the_same(refused_address: str) -> None:
    with ottla.Client(refused_address, **IMPATIENT) as kafka:
        with pytest.raises(KafkaError) as raised:
            kafka.admin.list_topics()
        has(everything(raised.value), refused_address)


def chain(error: BaseException | None) -> list[BaseException]:
    return [] if error is None else [error, *chain(error.__cause__)]


def everything(error: BaseException) -> str:
    return " ".join(map(str, chain(error)))
