"""aiokafka: Python with asyncio. Each call runs a loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count as numbers
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from tests.interop.peers.base import WITHIN_S, Outcome, Sent

_IN_FLIGHT = 200


class AioKafka:
    name = "aiokafka"
    writes_null_headers = True

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Sent], *, codec: str = "none", partition: int = 0
    ) -> list[int]:
        async def run() -> list[int]:
            async with _producer(bootstrap, codec) as producer:
                pending = [
                    await producer.send(
                        topic,
                        record.value,
                        record.key,
                        partition,
                        timestamp_ms=record.timestamp,
                        headers=list(record.headers),
                    )
                    for record in records
                ]
                return [(await future).offset for future in pending]

        return asyncio.run(asyncio.wait_for(run(), WITHIN_S))

    def stream(self, bootstrap: str, topic: str, partitions: int, more: Callable[[int], bool]) -> Outcome:
        async def run() -> Outcome:
            errors: list[str] = []
            pending: list[Any] = []

            async def settle() -> None:
                for future in pending:
                    try:
                        await future
                    except KafkaError as error:
                        errors.append(repr(error))
                pending.clear()

            sent = 0
            async with _producer(bootstrap, "none") as producer:
                for number in numbers():
                    if not more(number):
                        break
                    pending.append(await producer.send(topic, b"%d" % number, partition=number % partitions))
                    sent += 1
                    if len(pending) >= _IN_FLIGHT:
                        await settle()
                await settle()
            return Outcome(sent, errors)

        return asyncio.run(run())

    def consume(
        self, bootstrap: str, topic: str, count: int, *, partition: int = 0, offset: int = 0
    ) -> list[Sent]:
        async def run() -> list[Sent]:
            found: list[Sent] = []
            async with _consumer(bootstrap) as consumer:
                assigned = TopicPartition(topic, partition)
                consumer.assign([assigned])
                consumer.seek(assigned, offset)
                while len(found) < count:
                    found.append(_sent(await consumer.getone()))
            return found

        return asyncio.run(asyncio.wait_for(run(), WITHIN_S))

    def offset_at(self, bootstrap: str, topic: str, timestamp: int) -> int | None:
        async def run() -> int | None:
            async with _consumer(bootstrap) as consumer:
                found = await consumer.offsets_for_times({TopicPartition(topic, 0): timestamp})
            (answer,) = found.values()
            return None if answer is None else int(answer.offset)

        return asyncio.run(asyncio.wait_for(run(), WITHIN_S))

    def range_of(self, bootstrap: str, topic: str, partition: int = 0) -> tuple[int, int]:
        async def run() -> tuple[int, int]:
            wanted = TopicPartition(topic, partition)
            async with _consumer(bootstrap) as consumer:
                low = await consumer.beginning_offsets([wanted])
                high = await consumer.end_offsets([wanted])
            return low[wanted], high[wanted]

        return asyncio.run(asyncio.wait_for(run(), WITHIN_S))


@asynccontextmanager
async def _producer(bootstrap: str, codec: str) -> AsyncIterator[Any]:
    compression = None if codec == "none" else codec
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, compression_type=compression, enable_idempotence=True
    )
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


@asynccontextmanager
async def _consumer(bootstrap: str) -> AsyncIterator[Any]:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="none", isolation_level="read_committed"
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


def _sent(record: Any) -> Sent:
    return Sent(record.value, record.key, tuple(record.headers), record.timestamp)
