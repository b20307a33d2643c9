"""Producing while topics are deleted, created again, purged and given more partitions, and nodes restart; many seeds.

Every receipt ends, in one way; what is stored is stored once, and in the order in which it was produced; what failed
for certain is not there; and what was produced after the topic was last created is there if it was delivered.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import pytest

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.server import faults
from ottla.client.client import AsyncClient
from ottla.errors import DeliveryError, KafkaError
from ottla.wire.records import Delivery
from tests.client.produce.outages import outage
from tests.client.worlds import CHAOS_SEEDS, World, in_simulation

TOPIC = "orders"
CONFIG = {
    "broker.session.timeout.ms": 1000,
    "broker.heartbeat.interval.ms": 100,
    "auto.create.topics.enable": False,
}


@dataclass
class Produced:
    number: int
    life: int
    delivery: Delivery


class Chaos:
    """`life` counts how often the topic was created."""

    def __init__(
        self,
        world: World,
        cluster: AsyncCluster,
        client: AsyncClient,
        random: Random,
        delivery_timeout: float,
    ) -> None:
        self.world = world
        self.cluster = cluster
        self.client = client
        self.random = random
        self.delivery_timeout = delivery_timeout
        self.life = 1
        self.partitions = 3
        self.enough = asyncio.Event()

    async def shake(self) -> None:
        while not self.enough.is_set():
            await self.world.runtime.clock.sleep(self.random.uniform(0.0, 0.4))
            match self.random.randrange(8):
                case 0:
                    await self.create_again()
                case 1:
                    with suppress(KafkaError):
                        await self.client.admin.create_partitions(TOPIC, self.partitions + 1)
                        self.partitions += 1
                case 2:
                    node = self.random.randint(1, 3)
                    await self.cluster.stop_node(node, clean=self.random.random() < 0.5)
                    await self.cluster.start_node(node)
                case 3:
                    when = self.random.choice(("after_append", "before_append"))
                    self.cluster.faults.add("Produce", when=when, action=faults.drop, count=2)
                case 4:
                    self.cluster.faults.add("Metadata", action=faults.drop, count=2)
                case 5:
                    await outage(
                        self.world, self.cluster, self.random, self.partitions, self.delivery_timeout
                    )
                case 6:
                    await self.client.purge_topics(TOPIC)
                case _:
                    with suppress(KafkaError):
                        leader = self.cluster.leader(TOPIC, 0)
                        await self.cluster.move_leader(TOPIC, 0, leader % 3 + 1)

    async def create_again(self) -> None:
        await self.cluster.delete_topic(TOPIC)
        if self.random.random() < 0.5:
            await self.world.runtime.clock.sleep(self.random.uniform(0.0, 3.0))
        self.partitions = self.random.randint(1, 5)
        await self.cluster.create_topic(TOPIC, self.partitions)
        self.life += 1

    async def produce(self) -> list[Produced]:
        produced = []
        for number in range(400):
            delivery = await self.client.produce(TOPIC, b"%d" % number, key=b"%d" % (number % 7))
            produced.append(Produced(number, self.life, delivery))
            if self.random.random() < 0.2:
                await self.world.runtime.clock.sleep(self.random.uniform(0.0, 0.08))
        return produced

    def is_replicated(self) -> bool:
        """A new leader gives out nothing before its followers say that they have it."""
        for number in self.cluster.controller.state.image.topics[TOPIC].partitions:
            if self.cluster.leader(TOPIC, number) not in self.cluster.nodes:
                return False
            partition = self.cluster.partition(TOPIC, number)
            if partition.high_watermark < partition.log.log_end_offset:
                return False
        return True

    def check(self, produced: list[Produced]) -> None:
        there: dict[int, None] = {}
        # As many as there are: a request for one more may have had no answer.
        for partition in self.cluster.controller.state.image.topics[TOPIC].partitions:
            stored = [int(record.value or b"") for record in self.cluster.dump(TOPIC, partition)]
            assert stored == sorted(stored), f"out of order in {partition}: {stored}"
            assert not any(number in there for number in stored), f"twice: {stored}"
            there.update(dict.fromkeys(stored))
            assert len(stored) == len(dict.fromkeys(stored)), f"twice: {stored}"
        for each in produced:
            assert each.delivery.done()
            error = each.delivery.error
            if error is None:
                assert each.number in there or each.life < self.life, f"{each.number} is lost"
            elif not getattr(error, "may_be_stored", False):
                assert each.number not in there, f"{each.number} failed with {error} and is stored"


def chaos(seed: int) -> None:
    async def body(world: World) -> None:
        random = Random(seed)
        delivery_timeout_ms = random.choice((2000, 60_000))
        async with world.cluster(3, topics={TOPIC: 3}, config=CONFIG) as cluster:
            client = world.client(
                cluster,
                linger_ms=random.choice((0, 5)),
                batch_size=random.choice((80, 200)),
                request_timeout_ms=1000,
                default_api_timeout_ms=1000,
                max_block_ms=60_000,
                delivery_timeout_ms=delivery_timeout_ms,
                buffer_memory=random.choice((5000, 1_000_000)),
                compression_type=random.choice(("none", "gzip")),
                metadata_min_age_ms=500,
            )
            cluster.faults.add("Produce", when="response", action=faults.delay(random.choice((0.0, 0.02))))
            it = Chaos(world, cluster, client, random, delivery_timeout_ms / 1000)
            shaking = asyncio.ensure_future(it.shake())
            produced = await it.produce()
            it.enough.set()
            await shaking
            cluster.faults.clear()
            failed = 0
            try:
                await client.flush(300)
            except DeliveryError as error:
                failed = error.failed
            assert failed == sum(each.delivery.error is not None for each in produced)
            assert client._running().producer.buffered_records == 0
            assert client._running().producer.buffered_bytes == 0
            await client.close()
            await cluster.wait_for(it.is_replicated)
            it.check(produced)

    in_simulation(body, seed=seed)


@pytest.mark.parametrize("seed", range(CHAOS_SEEDS))
def test_receipts_and_logs_agree_whatever_becomes_of_the_topic(seed: int) -> None:
    chaos(seed)
