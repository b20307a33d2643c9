"""Where the cluster's tests run: on sockets and real time, or in a simulation. The same bodies, by the same names."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from ottla import sim
from ottla.broker.cluster.cluster import AsyncCluster
from ottla.net.channel import Channel
from ottla.runtime import MovableClock, Runtime, SystemRuntime
from ottla.sim.network import Conditions
from ottla.wire import Message
from ottla.wire.batches import encode_batch
from ottla.wire.messages import FetchRequest, FetchResponse, ProduceRequest, ProduceResponse

_R = TypeVar("_R", bound=Message)

TIMEOUT = 30.0
VIRTUAL_TIMEOUT = 1e6
PRODUCE_TIMEOUT_MS = 25_000
"""How long replicas may take: a machine that is busy with other tests stops a process for seconds."""


class World:
    """One of the two; makes clusters and clients in it."""

    def __init__(self, runtime: Runtime, simulated: bool) -> None:
        self.runtime = runtime
        self.simulated = simulated
        self._channels: list[Channel] = []

    def cluster(self, brokers: int = 1, **options: Any) -> AsyncCluster:
        return AsyncCluster(brokers, runtime=self.runtime if self.simulated else None, **options)

    async def client(self, cluster: AsyncCluster, node_id: int = 1) -> Client:
        node = cluster.node(node_id)
        channel = await Channel.open(self.runtime, node.host, node.port, client_id="test")
        self._channels.append(channel)
        return Client(channel, VIRTUAL_TIMEOUT if self.simulated else TIMEOUT)

    async def close(self) -> None:
        for channel in self._channels:
            channel.close()
            await channel.wait_closed()


class Client:
    """A client of a few lines: one connection, requests as they are."""

    def __init__(self, channel: Channel, timeout: float) -> None:
        self.channel = channel
        self._timeout = timeout

    async def ask(self, request: Message, version: int, expected: type[_R]) -> _R:
        answer = await self.channel.request(request, version, self._timeout)
        assert isinstance(answer, expected)
        return answer

    async def produce(
        self,
        topic: str,
        records: bytes,
        partition: int = 0,
        acks: int = -1,
        version: int = 9,
        timeout_ms: int = PRODUCE_TIMEOUT_MS,
    ) -> ProduceResponse.PartitionProduceResponse:
        request = produce_request(topic, records, partition, acks, timeout_ms)
        answer = await self.ask(request, version, ProduceResponse)
        return answer.responses[0].partition_responses[0]

    async def fetch(
        self, topic: str, offset: int = 0, partition: int = 0, max_wait: int = 0, min_bytes: int = 1
    ) -> FetchResponse.PartitionData:
        answer = await self.ask(
            fetch_request(topic, offset, partition, max_wait, min_bytes), 12, FetchResponse
        )
        return answer.responses[0].partitions[0]


class Peer(asyncio.Protocol):
    """A connection that sends bytes as they are."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(None)


async def connect(runtime: Runtime, host: str, port: int) -> Peer:
    peer = await runtime.connect(host, port, Peer)
    assert isinstance(peer, Peer)
    return peer


def produce_request(
    topic: str, records: bytes, partition: int = 0, acks: int = -1, timeout_ms: int = PRODUCE_TIMEOUT_MS
) -> ProduceRequest:
    data = ProduceRequest.PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[data])],
    )


def fetch_request(
    topic: str, offset: int = 0, partition: int = 0, max_wait: int = 0, min_bytes: int = 1
) -> FetchRequest:
    wanted = FetchRequest.FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20
    )
    return FetchRequest(
        max_wait_ms=max_wait,
        min_bytes=min_bytes,
        max_bytes=1 << 24,
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=[wanted])],
    )


def batch(*values: bytes, timestamp: int = 1_700_000_000_000, **options: Any) -> bytes:
    """A producer's batch of these values."""
    return encode_batch(
        [(number, timestamp, None, value, []) for number, value in enumerate(values)], **options
    )


Body = Callable[[World], Awaitable[None]]


def on_sockets(body: Body) -> None:
    async def main() -> None:
        await _run(body, World(SystemRuntime(MovableClock()), simulated=False))

    asyncio.run(main())


def in_simulation(body: Body, seed: int = 1, conditions: Conditions | None = None) -> str:
    """Runs it; the digest of everything that was delivered."""

    async def main(runtime: sim.SimRuntime) -> str:
        await _run(body, World(runtime, simulated=True))
        return runtime.network.trace.digest()

    return sim.run(main, seed=seed, conditions=conditions)


async def _run(body: Body, world: World) -> None:
    try:
        await body(world)
    finally:
        await world.close()
