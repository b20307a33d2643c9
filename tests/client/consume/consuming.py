"""A consumer without the rest of a client, and small ways to read with it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.client.consume.consumer import AsyncConsumer
from ottla.client.consume.context import ConsumerContext
from ottla.client.consume.subscription import Subscribed, Subscription
from ottla.client.metadata import Metadata
from ottla.net.channel import Channel
from tests.broker.worlds import Client
from tests.client.worlds import World

CONSUMER_OPTIONS = frozenset(
    {
        "start",
        "stop",
        "key_deserializer",
        "value_deserializer",
        "interceptors",
        "on_error",
        "lane",
    }
)


@asynccontextmanager
async def consuming(
    world: World,
    cluster: AsyncCluster | str,
    *topics: Subscribed,
    hooks: tuple[object, ...] = (),
    **options: Any,
) -> AsyncIterator[AsyncConsumer]:
    """A consumer that has begun; `options` are its own, or the client's."""
    own = {name: options.pop(name) for name in list(options) if name in CONSUMER_OPTIONS}
    lane = own.pop("lane", 0)
    parts = world.parts(cluster, *hooks, **options)
    metadata = Metadata(parts.config, parts.runtime, parts.hooks, parts.brokers, parts.tasks)
    metadata.start()
    consumer = AsyncConsumer(
        ConsumerContext(parts.config, parts.runtime, parts.hooks, parts.brokers, metadata, parts.tasks, lane),
        Subscription.of(*topics),
        **own,
    )
    try:
        async with consumer:
            yield consumer
    finally:
        await metadata.close()


async def read(consumer: AsyncConsumer, count: int) -> list[Any]:
    """The next `count` records."""
    found: list[Any] = []
    async for record in consumer:
        found.append(record)
        if len(found) == count:
            break
    return found


async def until(world: World, condition: Callable[[], bool], within: float = 30.0) -> None:
    """Looks now and then, by the world's clock."""
    clock = world.runtime.clock
    deadline = clock.monotonic() + within
    while not condition():
        assert clock.monotonic() < deadline, "waited in vain"
        await clock.sleep(0.01)


def values(records: list[Any]) -> list[Any]:
    return [record.value for record in records]


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


@asynccontextmanager
async def plain_client(world: World, cluster: AsyncCluster, node_id: int = 1) -> AsyncIterator[Client]:
    """One connection to one node, for what a test needs beside its consumer."""
    node = cluster.node(node_id)
    channel = await Channel.open(world.runtime, node.host, node.port, client_id="test")
    try:
        yield Client(channel, 30.0)
    finally:
        channel.close()
        await channel.wait_closed()
