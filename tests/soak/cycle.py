"""What clients do in one cycle of a soak: everything that comes and goes, and some of it goes wrong.

Whatever a cycle begins it also ends: its clients are closed and its topic is deleted. A resident client lives through
all cycles, and is to have forgotten each of them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

import ottla
from ottla.client.produce.producer import Producer
from ottla.errors import ApiTimeoutError, DeliveryError, KafkaError

RECORDS: Final = 30
_QUICK: Final[dict[str, Any]] = {"retry_backoff_ms": 5, "reconnect_backoff_ms": 5, "metadata_min_age_ms": 10}
_TIMEOUT: Final = 30.0


def blocking(bootstrap: str, topic: str) -> None:
    """A blocking client: it makes a topic, writes, reads, leaves an iteration, and sees errors."""
    with ottla.Client(bootstrap, **_QUICK) as kafka:
        kafka.admin.create_topic(topic, partitions=2)
        told: list[int] = []
        for number in range(RECORDS):
            delivery = kafka.produce(topic, b"%d" % number, key=b"%d" % (number % 5))
            delivery.add_done_callback(lambda done: told.append(done.offset))
        kafka.flush(_TIMEOUT)
        assert len(told) == RECORDS
        assert sum(1 for _ in kafka.consume(topic, start="earliest", stop="latest")) == RECORDS
        for record in kafka.consume(topic, start="earliest"):
            assert record.topic == topic
            break
        waiting = kafka.consume(topic, start="latest")
        assert waiting.poll(timeout=0.001) == []
        with pytest.raises(ApiTimeoutError):
            waiting.position(ottla.TopicPartition(topic, 99), timeout=0.001)
        with pytest.raises(KafkaError):
            kafka.admin.describe_topic(f"{topic}-is-not-there")
        kafka.metrics()


async def asynchronous(bootstrap: str, topic: str) -> None:
    """An async client: the same, and calls that are cancelled."""
    async with ottla.AsyncClient(bootstrap, **_QUICK) as kafka:
        await asyncio.gather(*[await kafka.produce(topic, b"%d" % number) for number in range(RECORDS)])
        async for record in kafka.consume(topic, start="earliest"):
            assert record.topic == topic
            break
        consumer = kafka.consume(topic, start="latest")
        calls: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(consumer.poll(timeout=_TIMEOUT)),
            asyncio.ensure_future(consumer.position(ottla.TopicPartition(topic, 99))),
            asyncio.ensure_future(kafka.admin.list_topics()),
            asyncio.ensure_future(kafka.flush()),
        ]
        for rounds in range(len(calls)):
            await asyncio.sleep(0)
            calls[rounds].cancel()
        await asyncio.gather(*calls, return_exceptions=True)


def left_with_records(bootstrap: str) -> None:
    """A client that is closed at once, with records that it cannot deliver."""
    kafka = ottla.Client(bootstrap, **_QUICK)
    kept = [kafka.produce("steady", b"late"), kafka.produce("unknown", b"lost")]
    kafka.abort_buffered()
    with pytest.raises(DeliveryError):
        kafka.close(timeout=0.001)
    assert all(each.done() for each in kept)


class Resident:
    """A client that lives through all cycles, writing to each one's topic and to one that stays."""

    def __init__(self, kafka: ottla.Client) -> None:
        self._kafka = kafka
        self._consumer = kafka.consume(re.compile(r"steady"), start="latest")

    def meet(self, topic: str) -> None:
        kafka = self._kafka
        for name in (topic, "steady"):
            kafka.produce(name, b"resident").result(_TIMEOUT)
        for _ in range(3):
            self._consumer.poll(timeout=0.001)

    def forget(self, topic: str) -> None:
        """Forgets all topics, and deletes this one.

        In this order: whoever produces to a topic has it created again.
        """
        self._kafka._driver.call(forget_all(self._kafka._producer))
        self._kafka.admin.delete_topic(topic)


async def forget_all(producer: Producer) -> None:
    """As if nothing had been produced for long."""
    for topic in list(producer._topics.by_name.values()):
        assert producer._forget(topic), f"{topic.name} has records left"


@contextmanager
def resident(bootstrap: str) -> Iterator[Resident]:
    with ottla.Client(bootstrap, **_QUICK) as kafka:
        yield Resident(kafka)


def cycle(bootstrap: str, number: int, stays: Resident) -> None:
    """One of them."""
    topic = f"soak-{number}"
    blocking(bootstrap, topic)
    stays.meet(topic)
    left_with_records(bootstrap)
    asyncio.run(asynchronous(bootstrap, topic))
    stays.forget(topic)
