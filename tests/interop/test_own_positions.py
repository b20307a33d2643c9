"""Where Ottla's consumer begins, goes and ends, on both brokers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

import ottla
from ottla.client.topic_partition import TopicPartition
from ottla.errors import OffsetOutOfRangeError
from ottla.hooks import Hook
from tests.interop import confluent
from tests.interop.brokers import Broker
from tests.interop.own import read_all, take, values_of, with_client
from tests.interop.peers import PEERS, Sent
from tests.interop.waiting import eventually

TIME = 1_700_000_000_000
CONFLUENT = PEERS[0]


def numbers(*these: range) -> list[bytes | None]:
    return [b"%d" % number for each in these for number in each]


def topic_with(broker: Broker, count: int, **config: str) -> str:
    """A topic of one partition with numbered records, a second apart, in batches of ten."""
    topic = broker.create_topic(config={name.replace("_", "."): value for name, value in config.items()})
    for first in range(0, count, 10):
        CONFLUENT.produce(
            broker.bootstrap,
            topic,
            [
                Sent(b"%d" % number, timestamp=TIME + 1000 * number)
                for number in range(first, min(first + 10, count))
            ],
        )
    return topic


def test_reading_begins_and_ends_where_it_is_told_to(broker: Broker) -> None:
    topic = topic_with(broker, 40)

    async def body(kafka: ottla.AsyncClient) -> None:
        async def read(start: Any, stop: Any) -> list[bytes | None]:
            return [record.value async for record in kafka.consume(topic, start=start, stop=stop)]

        assert await read("earliest", "latest") == numbers(range(40))
        assert await read(33, "latest") == numbers(range(33, 40))
        assert await read("earliest", 7) == numbers(range(7))
        assert await read(15, 25) == numbers(range(15, 25))
        assert await read("latest", "latest") == []
        assert await read(40, "latest") == []
        assert await read(25, 15) == []
        at = [ottla.Timestamp(TIME + 12_000), ottla.Timestamp(TIME + 20_001)]
        assert await read(at[0], "latest") == numbers(range(12, 40))
        assert await read(at[0], at[1]) == numbers(range(12, 21))
        assert await read(datetime.fromtimestamp(at[0].ms / 1000, UTC), 14) == numbers(range(12, 14))
        assert await read(ottla.Timestamp(TIME + 3_600_000), "latest") == []
        assert await read("earliest", ottla.Timestamp(TIME)) == []

    with_client(broker, body)


def test_the_end_is_where_it_was_when_reading_began(broker: Broker) -> None:
    topic = topic_with(broker, 20)

    async def body(kafka: ottla.AsyncClient) -> None:
        found = []
        async for record in kafka.consume(topic, start="earliest", stop="latest"):
            found.append(record.value)
            await (await kafka.produce(topic, b"more"))
        assert found == numbers(range(20))

    with_client(broker, body, linger_ms=0, max_partition_fetch_bytes=200)


def test_the_latest_is_what_comes_after_the_beginning(broker: Broker) -> None:
    topic = topic_with(broker, 20)

    async def body(kafka: ottla.AsyncClient) -> None:
        async with kafka.consume(topic, start="latest") as consumer:
            assert await consumer.position(TopicPartition(topic, 0)) == 20
            await kafka.produce(topic, b"20")
            assert await take(consumer, 1) == [b"20"]

    with_client(broker, body)


def test_empty_topics_end_at_once(broker3: Broker) -> None:
    topics = [broker3.create_topic(partitions=5) for _ in range(2)]

    async def body(kafka: ottla.AsyncClient) -> None:
        assert await read_all(kafka, *topics) == []
        async with kafka.consume(*topics, start="earliest") as consumer:
            assert await consumer.poll(timeout=0.1) == []

    with_client(broker3, body)


def test_seeking_moves_a_consumer_back_and_ahead(broker: Broker) -> None:
    topic = topic_with(broker, 40)
    first = TopicPartition(topic, 0)

    async def body(kafka: ottla.AsyncClient) -> None:
        async with kafka.consume(topic, start="earliest") as consumer:
            assert await take(consumer, 5) == numbers(range(5))
            consumer.seek(first, 30)
            assert await take(consumer, 3) == numbers(range(30, 33))
            assert await consumer.position(first) == 33
            consumer.seek(first, ottla.Timestamp(TIME + 12_000))
            assert await take(consumer, 28) == numbers(range(12, 40))
            consumer.seek(first, "earliest")
            assert await take(consumer, 2) == numbers(range(2))
            consumer.seek(first, "latest")
            assert await consumer.position(first) == 40
            await kafka.produce(topic, b"40")
            assert await take(consumer, 1) == [b"40"]
            assert consumer.lag() == {first: 0}

    with_client(broker, body)


def test_a_paused_partition_waits(broker: Broker) -> None:
    topic = broker.create_topic(partitions=2)
    left, right = TopicPartition(topic, 0), TopicPartition(topic, 1)

    async def body(kafka: ottla.AsyncClient) -> None:
        async with kafka.consume(topic, start="earliest") as consumer:
            await consumer.position(left)
            await consumer.position(right)
            consumer.pause(left)
            for number in range(20):
                await kafka.produce(topic, b"%d" % number, partition=number % 2)
            await kafka.flush()
            assert await take(consumer, 10) == numbers(range(1, 20, 2))
            assert await consumer.poll(timeout=0.1) == []
            consumer.resume(left)
            assert await take(consumer, 10) == numbers(range(0, 20, 2))

    with_client(broker, body)


class Resets(Hook):
    """The positions that were moved."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int, int, int]] = []

    def on_position_reset(self, topic: str, partition: int, old: int, new: int, reason: str) -> None:
        self.seen.append((topic, partition, old, new))


@pytest.mark.parametrize(("reset", "to"), [("earliest", 25), ("latest", 40)])
def test_a_position_that_was_deleted_is_reset(broker: Broker, reset: str, to: int) -> None:
    topic = topic_with(broker, 40)
    first = TopicPartition(topic, 0)
    resets = Resets()

    async def body(kafka: ottla.AsyncClient) -> None:
        async with kafka.consume(topic, start=3) as consumer:
            assert await take(consumer, 2) == numbers(range(3, 5))
            await kafka.admin.delete_records({first: 25})
            consumer.seek(first, 10)
            while not resets.seen:
                await consumer.poll(1, timeout=0.01)
            consumer.seek(first, to)
            await kafka.produce(topic, b"40")
            assert await take(consumer, 41 - to) == numbers(range(to, 41))
        assert resets.seen == [(topic, 0, 10, to)]

    with_client(broker, body, auto_offset_reset=reset, hooks=[resets])


@pytest.mark.parametrize("start", [99, 10])
def test_without_a_reset_an_offset_that_is_gone_or_never_was_is_an_error(broker: Broker, start: int) -> None:
    topic = topic_with(broker, 40)

    async def body(kafka: ottla.AsyncClient) -> None:
        await kafka.admin.delete_records({TopicPartition(topic, 0): 25})
        async with kafka.consume(topic, start=start) as consumer:
            with pytest.raises(OffsetOutOfRangeError, match=f"{topic}.*auto_offset_reset") as raised:
                await take(consumer, 1)
            assert str(start) in str(raised.value)

    with_client(broker, body, auto_offset_reset="none")


@pytest.mark.parametrize("broker", [pytest.param("apache", marks=pytest.mark.kafka)], indirect=True)
def test_a_log_with_gaps_is_read_to_its_end(broker: Broker) -> None:
    """Markers of transactions have offsets that no record has: the end is one of them."""
    topic = broker.create_topic()
    confluent.produce_transactions(broker.bootstrap, topic, [([b"a"], True), ([b"b"], False)])
    eventually(lambda: CONFLUENT.range_of(broker.bootstrap, topic) == (0, 4), "the last marker")

    async def body(kafka: ottla.AsyncClient) -> None:
        assert await values_of(kafka, topic) == [b"a"]

    with_client(broker, body, isolation_level="read_committed")
