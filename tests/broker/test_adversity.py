"""Bad input: it gets a clear end, costs bounded memory, and everyone else is served on."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import struct
from collections.abc import Callable

import pytest

from ottla.broker.cluster.blocking import Cluster
from ottla.errors import ConnectionLostError
from ottla.runtime import Runtime
from ottla.wire import api_named, correlation_id_of, decode_response, encode_request
from ottla.wire.messages import ApiVersionsRequest, ApiVersionsResponse, HeartbeatRequest, MetadataRequest
from tests.broker.worlds import Body, World, batch, fetch_request
from tests.wire.splitter import FrameSplitter

Run = Callable[[Body], object]

SIZE = struct.Struct(">i")
UNSUPPORTED_VERSION = 35


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


def request_bytes(key: int, version: int, body: bytes = b"", correlation_id: int = 7) -> bytes:
    frame = struct.pack(">hhih", key, version, correlation_id, -1) + body
    return SIZE.pack(len(frame)) + frame


GARBAGE = {
    "text": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "two gigabytes": SIZE.pack(0x7FFFFFFF),
    "a negative size": SIZE.pack(-1),
    "more than the limit": SIZE.pack(100 * 1024 * 1024 + 1),
    "an empty frame": SIZE.pack(0),
    "half a header": SIZE.pack(3) + b"\0\0\0",
    "an unknown api": request_bytes(999, 0),
    "a negative api": request_bytes(-1, 0),
    "an unsupported version": request_bytes(3, 99, b"\0"),
    "an api that is not served": request_bytes(12, 0),
    "a body that ends too soon": request_bytes(3, 9, b"\0"),
    "a length that lies": request_bytes(3, 1, SIZE.pack(0x7FFFFFFF)),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_what_cannot_be_understood_closes_its_connection_and_no_other(run: Run, name: str) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            client = await world.client(cluster)
            node = cluster.node(1)
            rogue = await connect(world.runtime, node.host, node.port)
            rogue.transport.write(GARBAGE[name])
            await asyncio.wait_for(rogue.lost, 10)
            assert not rogue.received
            assert (await client.produce("orders", batch(b"1"))).error_code == 0

    run(body)


def test_the_log_says_why_a_connection_was_closed(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            node = cluster.node(1)
            for name in ("an unsupported version", "a length that lies", "two gigabytes"):
                rogue = await connect(world.runtime, node.host, node.port)
                rogue.transport.write(GARBAGE[name])
                await asyncio.wait_for(rogue.lost, 10)

    with caplog.at_level(logging.WARNING, "ottla"):
        run(body)
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 3
    assert "Metadata version 99" in messages[0]
    assert "cannot be read" in messages[1]
    assert "2147483647" in messages[2]


def test_half_a_frame_waits_and_its_end_comes_with_its_connection(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            node = cluster.node(1)
            whole = b"".join(encode_request(ApiVersionsRequest(), 0, 1, None))
            slow = await connect(world.runtime, node.host, node.port)
            for byte in whole[:-1]:
                slow.transport.write(bytes([byte]))
            await cluster.wait_for(lambda: node.connections == 1)
            assert not slow.received
            slow.transport.write(whole[-1:])
            await cluster.wait_for(lambda: len(slow.received) > 4, "the answer")
            slow.transport.write(whole[:10])
            slow.transport.close()
            await cluster.wait_for(lambda: node.connections == 0)

    run(body)


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            node = cluster.node(1)
            peer = await connect(world.runtime, node.host, node.port)
            peer.transport.write(request_bytes(18, 42, b"\0whatever this newer version says"))
            await cluster.wait_for(lambda: len(peer.received) > 4, "the answer")
            (frame,) = FrameSplitter().feed(peer.received)
            answer = decode_response(api_named("ApiVersions"), 0, frame)
            assert isinstance(answer, ApiVersionsResponse)
            assert correlation_id_of(frame) == 7
            assert answer.error_code == UNSUPPORTED_VERSION
            assert [(api.api_key, api.min_version, api.max_version) for api in answer.api_keys] == [
                (18, 0, 4)
            ]
            # The connection lives, and the client asks for less.
            peer.received.clear()
            peer.transport.write(b"".join(encode_request(ApiVersionsRequest(), 0, 8, None)))
            await cluster.wait_for(lambda: len(peer.received) > 4, "the answer")
            peer.transport.close()
            await peer.lost

    run(body)


def test_an_api_of_groups_is_refused_until_there_are_groups(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            client = await world.client(cluster)
            with pytest.raises(ConnectionLostError):
                await client.channel.request(HeartbeatRequest(group_id="g", member_id="m"), 4, 1000.0)

    run(body)


def test_a_slow_reader_gets_no_second_answer_before_it_took_the_first(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config={"message.max.bytes": 8 << 20}) as cluster:
            for _ in range(20):
                cluster.seed("orders", [b"x" * 500_000])
            node = cluster.node(1)
            slow = await connect(world.runtime, node.host, node.port)
            slow.transport.pause_reading()
            request = fetch_request("orders")
            request.topics[0].partitions[0].partition_max_bytes = 20 << 20
            for number in range(50):
                slow.transport.write(b"".join(encode_request(request, 12, number, None)))
            other = await world.client(cluster)
            for _ in range(5):
                assert (await other.fetch("orders")).high_watermark == 20
            # Of half a gigabyte of answers, at most one is being sent.
            (pending,) = [c.pending_bytes for c in node.server.open_connections() if c.pending_bytes]
            assert pending < 12_000_000
            slow.transport.resume_reading()
            await cluster.wait_for(lambda: len(slow.received) > 300_000_000, "all answers", within=60)
            slow.transport.abort()
            await slow.lost

    run(body)


def test_a_full_request_queue_stops_the_reading_and_loses_nothing(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(config={"queued.max.requests": 2}) as cluster:
            clients = [await world.client(cluster) for _ in range(6)]
            dispatcher = cluster.node(1).dispatcher
            cluster.pause_node(1)
            asked = [
                asyncio.ensure_future(client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse))
                for client in clients * 3
            ]
            await cluster.wait_for(lambda: dispatcher.is_full, "a full queue")
            await asyncio.sleep(0.05)
            assert dispatcher.in_work == 2
            cluster.resume_node(1)
            assert [(await each).error_code for each in asked] == [0] * 18

    run(body)


def test_more_connections_than_allowed_are_closed_at_once(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(config={"max.connections": 2}) as cluster:
            node = cluster.node(1)
            first = await world.client(cluster)
            await world.client(cluster)
            third = await connect(world.runtime, node.host, node.port)
            await asyncio.wait_for(third.lost, 10)
            assert (await first.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)).error_code == 0

    run(body)


def test_a_connection_that_says_nothing_is_closed_after_a_while(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(config={"connections.max.idle.ms": 60_000}) as cluster:
            node = cluster.node(1)
            silent = await connect(world.runtime, node.host, node.port)
            await cluster.wait_for(lambda: node.connections == 1)
            cluster.clock.advance(50)
            await asyncio.sleep(0.05)
            assert node.connections == 1
            for _ in range(4):
                cluster.clock.advance(7)
                await asyncio.sleep(0.01)
            await asyncio.wait_for(silent.lost, 10)

    run(body)


def test_thousands_of_silent_connections_cost_little_and_others_are_served() -> None:
    """As many as the limit on open files allows here, up to ten thousand on each side."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 10_000
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard != -1 else 65_536, hard))
    try:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        count = min(wanted, (limit - 200) // 2)
        assert count > 100, f"the limit on open files is {limit}"
        with Cluster(topics=["orders"], config={"queued.max.requests": 100}) as cluster:
            host, port = cluster.bootstrap.split(":")
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            silent = [socket.create_connection((host, int(port))) for _ in range(count)]
            try:
                cluster.wait_for(
                    lambda: cluster._cluster.node(1).connections == count, "all of them", within=60
                )
                grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
                # Both sides are in this process: kilobytes per connection, not buffers.
                assert grown / count < 16, f"{grown} KiB for {count} connections"
                _asked(host, int(port))
            finally:
                for each in silent:
                    each.close()
            cluster.wait_for(lambda: cluster._cluster.node(1).connections == 0, "their end", within=60)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _asked(host: str, port: int) -> None:
    with socket.create_connection((host, port), timeout=10) as client:
        client.sendall(b"".join(encode_request(MetadataRequest(topics=[]), 12, 1, None)))
        assert len(client.recv(4)) == 4
