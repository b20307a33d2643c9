"""Whom the loop asks: brokers that fail, hang and move, and the way back to the bootstrap servers."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from ottla.broker import delay, drop, error, never
from ottla.errors import ApiTimeoutError, NoBrokersError, RebootstrapRequiredError
from tests.client.metadata.setup import started, there
from tests.client.worlds import Body, World, in_simulation

Run = Callable[[Body], object]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def address_of(world: World, node_id: int, port: int) -> str:
    return f"node-{node_id}:{port}" if world.simulated else f"127.0.0.1:{port}"


def dead_address(world: World) -> str:
    return "nowhere:9092" if world.simulated else f"127.0.0.1:{free_port()}"


def test_seeds_are_tried_until_one_answers(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(topics=["orders"]) as cluster,
            started(world, f"{dead_address(world)},{cluster.bootstrap}") as client,
        ):
            client.metadata.track("orders")
            await client.topic()
            assert client.written.count == 1
            assert client.metadata.failure() is None

    run(body)


def test_when_nobody_can_be_reached_a_wait_ends_in_time_with_every_reason(run: Run) -> None:
    async def body(world: World) -> None:
        dead = dead_address(world)
        async with started(world, dead) as client:
            with pytest.raises(ApiTimeoutError) as caught:
                await client.metadata.wait(there("orders"), 0.3)
            cause = caught.value.__cause__
            assert isinstance(cause, NoBrokersError)
            assert dead in str(cause)
            assert "bootstrap_servers" in str(cause)
            assert client.written.updates
            assert all(isinstance(failed, NoBrokersError) for failed in client.written.updates)
            with pytest.raises(ApiTimeoutError) as caught:
                await client.metadata.fresh(None, timeout=0.3)
            assert isinstance(caught.value.__cause__, NoBrokersError)

    run(body)


def test_failures_back_off() -> None:
    async def body(world: World) -> None:
        async with started(world, dead_address(world)) as client:
            client.metadata.track("orders")
            for _ in range(100):
                client.metadata.refresh_now("now, now, now")
                await world.clock.sleep(0.1)
            assert 8 <= len(client.written.updates) <= 20

    in_simulation(body)


def test_a_client_that_began_before_its_cluster_finds_it(run: Run) -> None:
    async def body(world: World) -> None:
        port = free_port()
        async with started(world, address_of(world, 1, port)) as client:
            client.metadata.track("orders")
            cluster = world.cluster(topics=["orders"], ports=[port])
            while not client.written.updates:
                await world.clock.sleep(0.01)
            async with cluster:
                await client.topic()

    run(body)


def test_a_lost_connection_leads_to_the_next_broker(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3, topics=["orders"]) as cluster, started(world, cluster) as client:
            cluster.faults.add("Metadata", action=drop, count=2)
            client.metadata.track("orders")
            await client.topic()
            assert client.written.count == 3
            assert client.written.updates == [None]

    run(body)


def test_a_broker_that_hangs_holds_metadata_up_for_seconds_only() -> None:
    async def body(world: World) -> None:
        async with world.cluster(2, topics=["orders"]) as cluster, started(world, cluster) as client:
            hung = cluster.faults.add("Metadata", action=never, count=1)
            client.metadata.track("orders")
            began = world.clock.monotonic()
            await client.topic()
            assert hung.hits == 1
            assert 5 <= world.clock.monotonic() - began < 6

    in_simulation(body)


@pytest.mark.parametrize("brokers", [1, 2])
def test_slow_brokers_are_heard(brokers: int) -> None:
    async def body(world: World) -> None:
        async with world.cluster(brokers, topics=["orders"]) as cluster, started(world, cluster) as client:
            cluster.faults.add("Metadata", action=delay(12))
            client.metadata.track("orders")
            await client.topic()
            assert client.written.count == brokers
            assert client.written.updates == [None]

    in_simulation(body)


def test_a_node_that_restarts_is_used_again(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster, started(world, cluster) as client:
            client.metadata.track("orders")
            await client.topic()
            await cluster.stop_node(1)
            client.metadata.refresh_now("its connection is lost")
            await cluster.wait_for(lambda: client.metadata.failure() is not None, "a failure")
            await cluster.start_node(1)
            await client.update()
            assert client.metadata.failure() is None

    run(body)


async def move_away(world: World, strategy: str) -> list[int]:
    """All brokers that the client knows are gone; one that it does not know yet listens where a seed should be."""
    port = free_port()
    async with world.cluster(2) as cluster:
        seeds = f"{cluster.bootstrap},{address_of(world, 3, port)}"
        async with started(world, seeds, metadata_recovery_strategy=strategy) as client:
            await client.update()
            await cluster.add_node(port=port)
            for node_id in (1, 2):
                await cluster.stop_node(node_id, clean=False)
                await cluster.fence_node(node_id)
            client.metadata.refresh_now("nobody is where they were")
            await cluster.wait_for(lambda: len(client.written.updates) > 1, "an update or a failure")
            return [broker.node_id for broker in client.brokers.known()]


def test_a_client_whose_brokers_have_all_moved_begins_again_with_its_seeds(run: Run) -> None:
    async def body(world: World) -> None:
        assert await move_away(world, "rebootstrap") == [3]

    run(body)


def test_without_rebootstrap_a_client_stays_with_the_brokers_that_it_knows(run: Run) -> None:
    async def body(world: World) -> None:
        assert await move_away(world, "none") == [1, 2]

    run(body)


@pytest.mark.parametrize("strategy", ["rebootstrap", "none"])
def test_a_broker_can_send_the_client_back_to_its_seeds(run: Run, strategy: str) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(topics=["orders"]) as cluster,
            started(world, cluster, metadata_recovery_strategy=strategy) as client,
        ):
            await client.update()
            cluster.faults.add("Metadata", action=error(RebootstrapRequiredError), count=1)
            await client.update()
            asked = [-1, 1, -1] if strategy == "rebootstrap" else [-1, 1, 1]
            assert client.written.asked == asked

    run(body)


def test_known_brokers_that_hang_are_given_up_after_the_trigger() -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(3) as cluster,
            started(world, cluster, metadata_recovery_rebootstrap_trigger_ms=4_000) as client,
        ):
            await client.update()
            hung = cluster.faults.add("Metadata", action=never, count=2)
            await client.update()
            assert hung.hits == 2
            # The first one that hangs begins the count, the second one is beyond it.
            assert [node > 0 for node in client.written.asked] == [False, True, True, False]

    in_simulation(body)
