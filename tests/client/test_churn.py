"""Nothing lost, nothing twice, in order: a million records while the cluster is in trouble all the time."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable

import pyarrow
import pyarrow.compute
import pytest

import ottla
from ottla.broker import delay, drop, error
from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.cluster.options import TopicSpec
from tests.client.worlds import World, in_simulation, on_sockets

PARTITIONS = 6
ENOUGH = 20
NUMBER = struct.Struct(">q")
QUICK = {"broker.session.timeout.ms": 1000, "broker.heartbeat.interval.ms": 200}
"""How soon a dead node is noticed."""


async def trouble(cluster: AsyncCluster, world: World, stop: asyncio.Event) -> int:
    """Leaders move, nodes restart, answers get lost before and after the append, until told to stop."""
    rounds = 0
    # Bounded: on a busy machine the trouble would outrun those who are in it.
    while not stop.is_set() and rounds < ENOUGH:
        partition = rounds % PARTITIONS
        node = rounds % 3 + 1
        kind = rounds % 5
        if kind == 0:
            leader = cluster.leader("orders", partition)
            # A node that was just restarted may still be catching up, and only a replica in sync can lead.
            others = [other for other in cluster.in_sync("orders", partition) if other != leader]
            if others:
                await cluster.move_leader("orders", partition, others[0])
        elif kind == 1:
            cluster.faults.add(api="Produce", when="after_append", action=drop, count=1)
        elif kind == 2:
            cluster.faults.add(api="Produce", when="before_append", action=drop, count=1)
            cluster.faults.add(api="Fetch", action=drop, count=1)
        elif kind == 3:
            cluster.faults.add(api="Produce", action=error("NOT_LEADER_OR_FOLLOWER"), count=2)
            cluster.faults.add(api="Produce", when="response", action=delay(0.05), count=2)
            cluster.faults.add(api="Fetch", action=error("UNKNOWN_LEADER_EPOCH"), count=1)
        else:
            await cluster.stop_node(node, clean=rounds % 2 == 0)
            await world.runtime.clock.sleep(0.05)
            await cluster.start_node(node)
            # Without a pause the cluster would be up for a small part of the time only: in a simulation, where
            # work takes no time, and on a busy machine, where a restart takes long.
            await world.runtime.clock.sleep(1.5 if world.simulated else 0.15)
        rounds += 1
        await world.runtime.clock.sleep(0.05)
    cluster.faults.clear()
    return rounds


async def produce(kafka: ottla.AsyncClient, world: World, count: int) -> None:
    """Record n goes to partition n % PARTITIONS, so each of them has every sixth number, ascending."""
    for number in range(count):
        await kafka.produce("orders", NUMBER.pack(number), partition=number % PARTITIONS)
        if number % 500 == 0:
            # Work takes no time in a simulation, so it has to be given some for the trouble to fall into.
            await world.runtime.clock.sleep(0.5 if world.simulated else 0)
    await kafka.flush()


async def read(kafka: ottla.AsyncClient, count: int) -> dict[int, list[pyarrow.Array]]:
    seen: dict[int, list[pyarrow.Array]] = {number: [] for number in range(PARTITIONS)}
    left = count
    async with kafka.consume("orders", start="earliest") as consumer:
        async for batch in consumer.batches():
            seen[batch.column("partition")[0].as_py()].append(batch.column("value"))
            left -= batch.num_rows
            if left <= 0:
                break
    assert left == 0, f"{-left} records too many"
    return seen


def numbers(columns: list[pyarrow.Array]) -> list[int]:
    return [NUMBER.unpack(value)[0] for column in columns for value in column.to_pylist()]


def churn(count: int) -> Callable[[World], Awaitable[None]]:
    async def body(world: World) -> None:
        topic = TopicSpec(partitions=PARTITIONS, replicas=3)
        async with world.cluster(3, topics={"orders": topic}, config=QUICK) as cluster:
            writer = world.client(cluster)
            # Trouble without end is the point here: nobody is to be told of it after a minute.
            reader = world.client(cluster, default_api_timeout_ms=600_000)
            stop = asyncio.Event()
            troubles = asyncio.create_task(trouble(cluster, world, stop))
            reading = asyncio.create_task(read(reader, count))
            await produce(writer, world, count)
            seen = await reading
            stop.set()
            assert await troubles >= 5, "each kind once"
            for partition in range(PARTITIONS):
                assert numbers(seen[partition]) == list(range(partition, count, PARTITIONS))

    return body


def test_a_million_records_under_churn_are_stored_once_and_in_order() -> None:
    on_sockets(churn(1_000_000))


@pytest.mark.parametrize("seed", range(1, 6))
def test_churn_in_simulation(seed: int) -> None:
    in_simulation(churn(20_000), seed=seed)
