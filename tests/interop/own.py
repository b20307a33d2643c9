"""What the tests of Ottla's own client share: a client for a body, within bounds, and reading a topic whole."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import ottla
from tests.interop.brokers import Broker

WITHIN_S = 60.0


def with_client(broker: Broker, body: Callable[[ottla.AsyncClient], Awaitable[None]], **options: Any) -> None:
    """Runs the body with a client of this cluster; a body that hangs is ended."""

    async def main() -> None:
        async with asyncio.timeout(WITHIN_S), ottla.AsyncClient(broker.bootstrap, **options) as kafka:
            await body(kafka)

    asyncio.run(main())


async def read_all(kafka: ottla.AsyncClient, *topics: Any) -> list[Any]:
    """Every record that is there now."""
    return [record async for record in kafka.consume(*topics, start="earliest", stop="latest")]


async def values_of(kafka: ottla.AsyncClient, *topics: Any) -> list[bytes | None]:
    return [record.value for record in await read_all(kafka, *topics)]


async def take(consumer: ottla.AsyncConsumer, count: int) -> list[bytes | None]:
    """The values of the next records, however long they take."""
    found: list[bytes | None] = []
    while len(found) < count:
        found += [record.value for record in await consumer.poll(count - len(found))]
    return found
