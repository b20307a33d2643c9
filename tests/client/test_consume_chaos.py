"""Consuming while leaders move, nodes come and go, and connections break: every record once, in order."""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random
from typing import Any

import pytest

from ottla.broker import faults
from ottla.broker.cluster import AsyncCluster
from ottla.client.topic_partition import TopicPartition
from tests.client.consuming import consuming, numbered
from tests.client.worlds import World, in_simulation

PARTITIONS = 6
ROUNDS = 40
PER_ROUND = 50


async def disturb(world: World, cluster: AsyncCluster, random: Random) -> None:
    """One thing that goes wrong."""
    match random.randrange(6):
        case 0:
            partition = random.randrange(PARTITIONS)
            others = [node for node in cluster.nodes if node != cluster.leader("orders", partition)]
            if others:
                await cluster.move_leader("orders", partition, random.choice(others))
        case 1:
            node = random.choice(sorted(cluster.nodes))
            await cluster.stop_node(node)
            await world.runtime.clock.sleep(random.random())
            await cluster.start_node(node)
        case 2:
            cluster.faults.add("Fetch", action=faults.drop, count=random.randrange(1, 4))
        case 3:
            code = random.choice(["NOT_LEADER_OR_FOLLOWER", "KAFKA_STORAGE_ERROR", "UNKNOWN_TOPIC_ID"])
            cluster.faults.add(
                "Fetch", action=faults.error(code), count=random.randrange(1, 4), when="response"
            )
        case 4:
            cluster.faults.add("Metadata", action=faults.delay(random.random()), count=2)
        case 5:
            code = random.choice(["FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH"])
            cluster.faults.add("Fetch", action=faults.error(code), count=1, when="response")


def has_leader(cluster: AsyncCluster, partition: int) -> bool:
    return cluster.leader("orders", partition) in cluster.nodes


async def write(world: World, cluster: AsyncCluster, random: Random) -> None:
    written = dict.fromkeys(range(PARTITIONS), 0)
    for _ in range(ROUNDS):
        for partition in range(PARTITIONS):
            await cluster.wait_for(partial(has_leader, cluster, partition))
            cluster.seed("orders", numbered(PER_ROUND, written[partition]), partition)
            written[partition] += PER_ROUND
        await disturb(world, cluster, random)
        await world.runtime.clock.sleep(random.random() / 2)
    cluster.faults.clear()


@pytest.mark.parametrize("seed", range(8))
def test_every_record_comes_once_and_in_order(seed: int) -> None:
    async def body(world: World) -> None:
        random = Random(seed)
        async with world.cluster(3, topics={"orders": PARTITIONS}) as cluster:
            options: dict[str, Any] = {"max_partition_fetch_bytes": random.choice([2000, 1_000_000])}
            async with consuming(world, cluster, "orders", start="earliest", **options) as consumer:
                writing = asyncio.ensure_future(write(world, cluster, random))
                read: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
                left = PARTITIONS * ROUNDS * PER_ROUND
                async for record in consumer:
                    read[record.partition].append(record.value)
                    left -= 1
                    if left % 3001 == 0:
                        await world.runtime.clock.sleep(random.random())
                    if left % 1009 == 0:
                        meddle(consumer, random, read)
                    if not left:
                        break
                await writing
                assert await consumer.poll(timeout=1) == []
            for partition in range(PARTITIONS):
                assert read[partition] == numbered(ROUNDS * PER_ROUND)

    in_simulation(body, seed=seed)


def meddle(consumer: Any, random: Random, read: dict[int, list[bytes]]) -> None:
    """What a user does in the middle: pauses and resumes, seeks to where it is."""
    tp = TopicPartition("orders", random.randrange(PARTITIONS))
    if random.random() < 0.5:
        consumer.pause(tp)
        consumer.resume(tp)
    else:
        consumer.seek(tp, len(read[tp.partition]))
