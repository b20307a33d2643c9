"""Whatever the cluster does to a request of whichever kind: nothing is lost, nothing comes twice, the order stays.

Every action at every moment, for each API that producing and consuming need; then slow brokers, restarts, moving
leaders and topics that go and come back, all with the whole client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

import ottla
from ottla.broker import delay, drop, error, never
from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.cluster.options import TopicSpec
from ottla.broker.server.faults import STAGES, Action
from tests.client.worlds import Body, World, in_simulation, on_sockets

Disturb = Callable[[AsyncCluster, World], Coroutine[Any, Any, None]]

COUNT = 60
PARTITIONS = 3

# Short timeouts: on sockets, a broker that never answers is waited for in real time.
OPTIONS = {
    "request_timeout_ms": 1_000,
    "socket_connection_setup_timeout_ms": 1_000,
    "fetch_max_wait_ms": 100,
    "retry_backoff_ms": 20,
    "reconnect_backoff_ms": 20,
    "linger_ms": 1,
}

ERRORS = {
    "Produce": [
        "NOT_LEADER_OR_FOLLOWER",
        "LEADER_NOT_AVAILABLE",
        "REQUEST_TIMED_OUT",
        "NOT_ENOUGH_REPLICAS",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "KAFKA_STORAGE_ERROR",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "NETWORK_EXCEPTION",
        "CORRUPT_MESSAGE",
    ],
    "Fetch": [
        "NOT_LEADER_OR_FOLLOWER",
        "UNKNOWN_LEADER_EPOCH",
        "FENCED_LEADER_EPOCH",
        "FETCH_SESSION_ID_NOT_FOUND",
        "INVALID_FETCH_SESSION_EPOCH",
        "KAFKA_STORAGE_ERROR",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "UNKNOWN_TOPIC_ID",
    ],
    "Metadata": ["LEADER_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PARTITION", "REQUEST_TIMED_OUT"],
    "ListOffsets": [
        "NOT_LEADER_OR_FOLLOWER",
        "LEADER_NOT_AVAILABLE",
        "OFFSET_NOT_AVAILABLE",
        "UNKNOWN_LEADER_EPOCH",
    ],
    "InitProducerId": ["COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "REQUEST_TIMED_OUT"],
    "ApiVersions": ["UNSUPPORTED_VERSION"],
}
APIS = list(ERRORS)
# Where nothing is stored, these would say so wrongly after the append.
BEFORE_ONLY = {"CORRUPT_MESSAGE"}


async def produce(kafka: ottla.AsyncClient, count: int = COUNT, first: int = 0) -> None:
    for number in range(first, first + count):
        await kafka.produce("orders", b"%d" % number, partition=number % PARTITIONS)
        if number % 10 == 9:
            await kafka.flush()


async def read(kafka: ottla.AsyncClient, count: int = COUNT) -> dict[int, list[int]]:
    seen: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
    async with kafka.consume("orders", start="earliest") as consumer:
        left = count
        while left:
            for record in await consumer.poll():
                seen[record.partition].append(int(record.value))
                left -= 1
    return seen


def expected(count: int = COUNT) -> dict[int, list[int]]:
    return {partition: list(range(partition, count, PARTITIONS)) for partition in range(PARTITIONS)}


def stored(cluster: AsyncCluster) -> dict[int, list[int]]:
    return {
        partition: [int(record.value or b"") for record in cluster.dump("orders", partition)]
        for partition in range(PARTITIONS)
    }


def under(api: str, when: str, action: Action, count: int) -> Callable[[World], Awaitable[None]]:
    """The first requests of one kind go wrong, and some more of them in the middle."""

    async def body(world: World) -> None:
        async with world.cluster(
            3, topics={"orders": TopicSpec(partitions=PARTITIONS, replicas=3)}
        ) as cluster:
            first = cluster.faults.add(api=api, when=when, action=action, count=count)
            writer, reader = world.client(cluster, **OPTIONS), world.client(cluster, **OPTIONS)
            reading = asyncio.get_running_loop().create_task(read(reader))
            await produce(writer, COUNT // 2)
            again = cluster.faults.add(api=api, when=when, action=action, count=count)
            await produce(writer, COUNT // 2, COUNT // 2)
            assert await reading == expected()
            assert stored(cluster) == expected()
            assert first.hits + again.hits >= 1

    return body


def rules() -> list[tuple[str, str, Action]]:
    found = []
    for api in APIS:
        for when in STAGES:
            found += [(api, when, action) for action in (drop, never, delay(0.3))]
            for code in ERRORS[api]:
                if when == "before_append" or code not in BEFORE_ONLY:
                    found.append((api, when, error(code)))
    return found


@pytest.mark.parametrize(("api", "when", "action"), rules(), ids=str)
def test_every_fault_of_every_request_is_survived(api: str, when: str, action: Action) -> None:
    for seed in (1, 2):
        in_simulation(under(api, when, action, count=2), seed=seed)


@pytest.mark.parametrize(
    ("api", "when", "action"),
    [
        ("Produce", "after_append", drop),
        ("Produce", "response", never),
        ("Produce", "before_append", error("NOT_LEADER_OR_FOLLOWER")),
        ("Fetch", "response", drop),
        ("Fetch", "before_append", never),
        ("Metadata", "before_append", drop),
        ("ListOffsets", "response", delay(0.2)),
        ("InitProducerId", "before_append", error("COORDINATOR_LOAD_IN_PROGRESS")),
        ("ApiVersions", "before_append", drop),
    ],
    ids=str,
)
def test_faults_are_survived_on_sockets(api: str, when: str, action: Action) -> None:
    on_sockets(under(api, when, action, count=1))


def disturbed(disturb: Disturb) -> Body:
    """Something happens to the cluster while it is written and read."""

    async def body(world: World) -> None:
        async with world.cluster(
            3, topics={"orders": TopicSpec(partitions=PARTITIONS, replicas=3)}
        ) as cluster:
            writer, reader = world.client(cluster, **OPTIONS), world.client(cluster, **OPTIONS)
            reading = asyncio.get_running_loop().create_task(read(reader))
            await produce(writer, 10)
            trouble = asyncio.get_running_loop().create_task(disturb(cluster, world))
            for first in range(10, COUNT, 10):
                await produce(writer, 10, first)
                await world.runtime.clock.sleep(0.02)
            await trouble
            assert await reading == expected()
            assert stored(cluster) == expected()

    return body


async def pauses(cluster: AsyncCluster, world: World) -> None:
    for node in (1, 2, 3):
        cluster.pause_node(node)
        await world.runtime.clock.sleep(0.05)
        cluster.resume_node(node)


async def long_pause(cluster: AsyncCluster, world: World) -> None:
    """Longer than a request may take: connections are given up and made again."""
    cluster.pause_node(1)
    await world.runtime.clock.sleep(2.5)
    cluster.resume_node(1)


async def restarts(cluster: AsyncCluster, world: World) -> None:
    for number, node in enumerate((1, 2, 3)):
        await cluster.stop_node(node, clean=number != 1)
        await world.runtime.clock.sleep(0.05)
        await cluster.start_node(node)


async def moves(cluster: AsyncCluster, world: World) -> None:
    for number in range(9):
        partition = number % PARTITIONS
        await cluster.move_leader("orders", partition, cluster.leader("orders", partition) % 3 + 1)
        await world.runtime.clock.sleep(0.02)


async def fences(cluster: AsyncCluster, world: World) -> None:
    """A node that is alive, and which the controller has given up."""
    await cluster.fence_node(2)
    await world.runtime.clock.sleep(0.1)


DISTURBANCES = [pauses, long_pause, restarts, moves, fences]


@pytest.mark.parametrize("seed", range(1, 5))
@pytest.mark.parametrize("disturb", DISTURBANCES)
def test_trouble_in_the_cluster_is_survived(disturb: Disturb, seed: int) -> None:
    in_simulation(disturbed(disturb), seed=seed)


@pytest.mark.parametrize("disturb", DISTURBANCES)
def test_trouble_in_the_cluster_is_survived_on_sockets(
    disturb: Disturb,
) -> None:
    on_sockets(disturbed(disturb))


@pytest.mark.parametrize("seed", range(1, 4))
def test_a_topic_that_is_deleted_and_created_again_is_written_and_read_anew(seed: int) -> None:
    async def body(world: World) -> None:
        async with world.cluster(2, topics={"orders": PARTITIONS}) as cluster:
            kafka = world.client(cluster, **OPTIONS, auto_offset_reset="earliest")
            await produce(kafka)
            await cluster.delete_topic("orders")
            await cluster.create_topic("orders", PARTITIONS)
            await produce(kafka)
            assert stored(cluster) == expected()
            assert await read(kafka) == expected()

    in_simulation(body, seed=seed)


def test_the_same_seed_gives_the_same_run() -> None:
    body = under("Produce", "after_append", drop, count=2)
    assert in_simulation(body, seed=7) == in_simulation(body, seed=7)


def test_passing_trouble_of_a_quiet_partition_does_not_add_up() -> None:
    """Three errors within minutes, each gone at once, are no reason to tell the reader."""

    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster, world.client(cluster) as kafka:
            consumer = kafka.consume("orders", start="latest")
            assert await consumer.poll(timeout=1) == []
            for _ in range(3):
                fault = cluster.faults.add(api="Fetch", action=error("NOT_LEADER_OR_FOLLOWER"), count=1)
                assert await consumer.poll(timeout=50) == []
                assert fault.hits == 1
            cluster.seed("orders", [b"1"])
            assert len(await consumer.poll(timeout=50)) == 1

    in_simulation(body)
