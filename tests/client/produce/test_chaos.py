"""Producing while the cluster is shaken, in simulations of many seeds: what the receipts say is what the logs have.

Delivered records are stored once; those that failed for certain are not; those that may be stored are there once or
not at all; and whatever is stored is in the order in which it was produced.

`make chaos` runs many more seeds than `make test-sim` does.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.server import faults
from ottla.errors import DeliveryError, DeliveryTimeoutError, KafkaError
from ottla.wire.records import Delivery
from tests.client.produce.outages import LONGEST, outage
from tests.client.produce.producing import producing
from tests.client.worlds import CHAOS_SEEDS, World, in_simulation

TOPIC = "orders"
PARTITIONS = 3
RECORDS = 300
QUICK = {"broker.session.timeout.ms": 1000, "broker.heartbeat.interval.ms": 100}
# Not OUT_OF_ORDER_SEQUENCE_NUMBER: a producer takes that for a proof, which an invented one is not.
ERRORS = (
    "NOT_LEADER_OR_FOLLOWER",
    "NOT_ENOUGH_REPLICAS",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "INVALID_RECORD",
    "MESSAGE_TOO_LARGE",
    "INVALID_PRODUCER_EPOCH",
)


async def shake(
    world: World, cluster: AsyncCluster, random: Random, enough: asyncio.Event, delivery_timeout: float
) -> None:
    """Something goes wrong, and then something else; every node runs in the end."""
    while not enough.is_set():
        await world.runtime.clock.sleep(random.uniform(0.0, 0.3))
        match random.randrange(8):
            case 0:
                cluster.faults.add(
                    "Produce", when="after_append", action=faults.drop, count=random.randint(1, 3)
                )
            case 1:
                cluster.faults.add(
                    "Produce", when="before_append", action=faults.drop, count=random.randint(1, 3)
                )
            case 2:
                cluster.faults.add("Produce", action=faults.error(random.choice(ERRORS)), count=1)
            case 3:
                late = faults.error("REQUEST_TIMED_OUT")
                action = random.choice((faults.delay(0.2), faults.delay(1.5), faults.never, late))
                cluster.faults.add("Produce", when="after_append", action=action, count=1)
            case 4:
                partition = random.randrange(PARTITIONS)
                leader = cluster.leader(TOPIC, partition)
                if leader > 0:
                    with suppress(KafkaError):  # the other one may not be in sync
                        await cluster.move_leader(TOPIC, partition, leader % 3 + 1)
            case 5 | 6:
                await outage(world, cluster, random, PARTITIONS, delivery_timeout)
            case _:
                node = random.randint(1, 3)
                await cluster.stop_node(node, clean=random.random() < 0.5)
                if random.random() < 0.2:
                    await world.runtime.clock.sleep(random.uniform(0.0, LONGEST))
                await cluster.start_node(node)


async def produce(
    world: World, producer: Any, random: Random, delivery_timeout: float
) -> list[list[Delivery]]:
    deliveries: list[list[Delivery]] = [[] for _ in range(PARTITIONS)]
    partition = 0
    for _ in range(RECORDS):
        # Often several in a row to the same one, so that many of its batches are in flight at once.
        partition = random.choice((partition, partition, random.randrange(PARTITIONS)))
        number = len(deliveries[partition])
        deliveries[partition].append(producer.produce(TOPIC, b"%d" % number, partition=partition))
        if random.random() < 0.2:
            await world.runtime.clock.sleep(random.uniform(0.0, 0.05))
        elif random.random() < 0.01:
            await world.runtime.clock.sleep(random.uniform(0.0, 1.0) * min(delivery_timeout, LONGEST))
    return deliveries


async def goes_on(producer: Any, partition: int) -> None:
    """The partition takes records again, once its leader is back, which may take longer than a delivery."""
    while True:
        try:
            await producer.produce(TOPIC, b"999999", partition=partition)
            return
        except DeliveryTimeoutError:
            with suppress(DeliveryError):
                await producer.flush()


def check(cluster: AsyncCluster, partition: int, deliveries: list[Delivery]) -> None:
    stored = [int(record.value or b"") for record in cluster.dump(TOPIC, partition)]
    assert stored == sorted(set(stored)), "twice, or out of order"
    there = dict.fromkeys(stored)
    for number, delivery in enumerate(deliveries):
        assert delivery.done()
        if delivery.error is None:
            assert number in there, f"{number} was delivered and is not stored"
        elif not getattr(delivery.error, "may_be_stored", False):
            assert number not in there, f"{number} failed with {delivery.error} and is stored"


@pytest.mark.parametrize("seed", range(CHAOS_SEEDS))
@pytest.mark.parametrize("delivery_timeout_ms", [120_000, 2_000, 700])
def test_receipts_and_logs_agree(seed: int, delivery_timeout_ms: int) -> None:
    async def body(world: World) -> None:
        random = Random(seed)
        topics = {TOPIC: PARTITIONS}
        delivery_timeout = delivery_timeout_ms / 1000
        request_timeout_ms = min(1000, delivery_timeout_ms // 2)
        async with world.cluster(3, topics=topics, config=QUICK) as cluster:
            async with producing(
                world,
                cluster,
                linger_ms=random.choice((0, 5)),
                batch_size=random.choice((80, 200)),
                request_timeout_ms=request_timeout_ms,
                fetch_max_wait_ms=100,
                default_api_timeout_ms=1000,
                delivery_timeout_ms=delivery_timeout_ms,
            ) as rig:
                late = random.choice((0.0, 0.005, 0.05))
                cluster.faults.add("Produce", when="response", action=faults.delay(late))
                enough = asyncio.Event()
                shaking = asyncio.ensure_future(shake(world, cluster, random, enough, delivery_timeout))
                deliveries = await produce(world, rig.producer, random, delivery_timeout)
                enough.set()
                await shaking
                cluster.faults.clear()
                failed = 0
                try:
                    await rig.producer.flush(300)
                except DeliveryError as error:
                    failed = error.failed
                assert failed == sum(each.error is not None for part in deliveries for each in part)
                for partition in range(PARTITIONS):
                    await goes_on(rig.producer, partition)
            for partition in range(PARTITIONS):
                check(cluster, partition, deliveries[partition])

    in_simulation(body, seed=seed)
