"""A producer with everything below it and nothing above: what the tests of the produce path run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.client.context import ClientContext
from ottla.client.home_loop import CallingThreads
from ottla.client.metadata import Metadata
from ottla.client.partitioners import Partitioner, as_partitioner
from ottla.client.produce.producer import Producer
from ottla.serde.calls import Serialize
from tests.client.worlds import Parts, World

LONG = 60.0


@dataclass(frozen=True)
class Rig:
    parts: Parts
    metadata: Metadata
    producer: Producer


@asynccontextmanager
async def producing(
    world: World,
    cluster: AsyncCluster | str,
    *hooks: object,
    partitioner: Partitioner | str = "default",
    key_serializer: Serialize | None = None,
    value_serializer: Serialize | None = None,
    interceptors: Any = (),
    threads: CallingThreads | None = None,
    close_timeout: float = 5.0,
    **options: Any,
) -> AsyncIterator[Rig]:
    parts = world.parts(cluster, *hooks, **options)
    metadata = Metadata(parts.config, parts.runtime, parts.hooks, parts.brokers, parts.tasks)
    producer = Producer(
        ClientContext(parts.config, parts.runtime, parts.hooks, parts.brokers, metadata, parts.tasks),
        partitioner=as_partitioner(partitioner),
        key_serializer=key_serializer,
        value_serializer=value_serializer,
        interceptors=interceptors,
        threads=threads,
    )
    metadata.start()
    try:
        yield Rig(parts, metadata, producer)
    finally:
        try:
            await producer.close(close_timeout)
        finally:
            await metadata.close()


def values(cluster: AsyncCluster, topic: str, partition: int | None = None) -> list[bytes | None]:
    return [record.value for record in cluster.dump(topic, partition)]


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]
