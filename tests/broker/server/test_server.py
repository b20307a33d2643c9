"""The server: how many connections there may be, how long they may be silent, and what they cost."""

from __future__ import annotations

import asyncio
import resource
import socket
import struct
from collections.abc import Callable

import pytest

from ottla.broker.cluster.blocking import Cluster
from ottla.wire import encode_request
from ottla.wire.messages import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest
from tests.broker.worlds import Body, World, batch, connect

Run = Callable[[Body], object]


def test_more_connections_than_allowed_are_closed_at_once(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(config={"max.connections": 2}) as cluster:
            node = cluster.node(1)
            first = await world.client(cluster)
            await world.client(cluster)
            third = await connect(world.runtime, node.host, node.port)
            await asyncio.wait_for(third.lost, 60)
            assert (await first.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)).error_code == 0

    run(body)


def test_a_connection_that_says_nothing_is_closed_after_a_while(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(config={"connections.max.idle.ms": 600_000}) as cluster:
            node = cluster.node(1)
            silent = await connect(world.runtime, node.host, node.port)
            client = await world.client(cluster)
            await cluster.wait_for(lambda: node.connections == 2)
            # The server looks for idle connections before it serves the request that follows.
            for seconds in (500, 70):
                cluster.clock.advance(seconds)
                await client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
                assert node.connections == 2
            cluster.clock.advance(70)
            await asyncio.wait_for(silent.lost, 60)
            assert (await client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)).error_code == 0
            assert node.connections == 1

    run(body)


def test_connections_may_be_idle_for_good(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(config={"connections.max.idle.ms": -1}) as cluster:
            client = await world.client(cluster)
            await client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
            cluster.clock.advance(7 * 24 * 3600)
            assert (await client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)).error_code == 0
            assert cluster.node(1).connections == 1

    run(body)


def test_a_connection_whose_request_waits_is_not_idle(run: Run) -> None:
    async def body(world: World) -> None:
        config = {"connections.max.idle.ms": 600_000}
        async with world.cluster(topics=["orders"], config=config) as cluster:
            node = cluster.node(1)
            waiting = await world.client(cluster)
            fetch = asyncio.ensure_future(waiting.fetch("orders", max_wait=6_000_000))
            await cluster.wait_for(lambda: node.dispatcher.pending_requests == 1, "the long poll")
            other = await world.client(cluster)
            for _ in range(3):
                cluster.clock.advance(360)
                await other.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
            assert node.connections == 2
            assert (await other.produce("orders", batch(b"1"))).error_code == 0
            assert (await fetch).records

    run(body)


def test_a_server_that_is_closed_ends_its_connections_and_listens_no_more(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            node = cluster.node(1)
            peers = [await connect(world.runtime, node.host, node.port) for _ in range(3)]
            await cluster.wait_for(lambda: node.connections == 3, "all connections")
            await node.server.close()
            assert node.server.connections == []
            for peer in peers:
                await asyncio.wait_for(peer.lost, 60)
            with pytest.raises(ConnectionRefusedError):
                await connect(world.runtime, node.host, node.port)
            with pytest.raises(ConnectionAbortedError, match="node 1 has been stopped"):
                await node.server.listen(node.host, 0)

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
            for each in silent:
                # Reset when it is closed: ports that waited for a minute would be missed by other tests.
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
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
    with socket.create_connection((host, port), timeout=60) as client:
        client.sendall(b"".join(encode_request(MetadataRequest(topics=[]), 12, 1, None)))
        assert len(client.recv(4)) == 4
