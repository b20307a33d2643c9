"""Bad input: it gets a clear end, costs bounded memory, and everyone else is served on."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable

import pytest

from ottla.errors import ConnectionLostError
from ottla.wire import api_named, correlation_id_of, decode_response, encode_request
from ottla.wire.messages import ApiVersionsRequest, ApiVersionsResponse, ShareGroupHeartbeatRequest
from tests.broker.worlds import Body, World, batch, connect, fetch_request
from tests.wire.splitter import FrameSplitter

Run = Callable[[Body], object]

SIZE = struct.Struct(">i")
UNSUPPORTED_VERSION = 35


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
    "an api that is not served": request_bytes(76, 1),
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
            await asyncio.wait_for(rogue.lost, 60)
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
                await asyncio.wait_for(rogue.lost, 60)

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


def test_an_api_that_is_not_served_ends_the_connection(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            client = await world.client(cluster)
            with pytest.raises(ConnectionLostError):
                await client.channel.request(ShareGroupHeartbeatRequest(group_id="g"), 1, 1000.0)

    run(body)


def test_a_slow_reader_gets_no_second_response_before_it_took_the_first(run: Run) -> None:
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
            (pending,) = [c.pending_bytes for c in node.server.connections if c.pending_bytes]
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
            # The loop goes on: it accepts a connection, and whatever it reads it reads before that.
            await world.client(cluster)
            await cluster.wait_for(lambda: cluster.node(1).connections == 7, "another connection")
            assert dispatcher.pending_requests == 2
            cluster.resume_node(1)
            assert [(await each).error_code for each in asked] == [0] * 18

    run(body)
