"""Consuming while nodes come and go, topics grow, are made anew or purged: every record once, in order."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import AsyncIterator
from functools import partial
from random import Random
from typing import Any

import pytest

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.server import faults
from ottla.client.consume.consumer import AsyncConsumer
from ottla.client.deadline import within
from ottla.client.topic_partition import TopicPartition
from ottla.errors import DataLossError, UnknownTopicOrPartitionError
from ottla.wire.messages import CreatePartitionsRequest, CreatePartitionsResponse
from tests.client.consume.consuming import consuming, numbered, plain_client
from tests.client.worlds import CHAOS_SEEDS, World, in_simulation

PARTITIONS = 6
MOST_PARTITIONS = 10
ROUNDS = 40
PER_ROUND = 50
NOISE = 8
FRESH: dict[str, Any] = {"metadata_max_age_ms": 1000, "metadata_min_age_ms": 100}
NO_CREATION = {"auto.create.topics.enable": "false"}


class Writing:
    """Writes numbered records into every partition, and disturbs the cluster between two rounds."""

    def __init__(self, world: World, cluster: AsyncCluster, random: Random) -> None:
        self.world = world
        self.cluster = cluster
        self.random = random
        self.written = dict.fromkeys(range(PARTITIONS), 0)

    async def run(self) -> None:
        for _ in range(ROUNDS):
            for partition in self.written:
                await self.cluster.wait_for(partial(self.has_leader, partition))
                self.cluster.seed("orders", numbered(PER_ROUND, self.written[partition]), partition)
                self.written[partition] += PER_ROUND
            await self.disturb()
            await self.world.runtime.clock.sleep(self.random.random() / 2)
        self.cluster.faults.clear()

    def has_leader(self, partition: int) -> bool:
        return self.cluster.leader("orders", partition) in self.cluster.nodes

    async def disturb(self) -> None:
        """One thing that goes wrong, or is changed."""
        cluster, random = self.cluster, self.random
        match random.randrange(8):
            case 0:
                partition = random.choice(list(self.written))
                leader, in_sync = cluster.leader("orders", partition), cluster.in_sync("orders", partition)
                others = [node for node in cluster.nodes if node != leader and node in in_sync]
                if others:
                    await cluster.move_leader("orders", partition, random.choice(others))
            case 1:
                await self.restart(random.choice(sorted(cluster.nodes)), clean=True)
            case 2:
                cluster.faults.add("Fetch", action=faults.drop, count=random.randrange(1, 4))
            case 3:
                code = random.choice(["NOT_LEADER_OR_FOLLOWER", "KAFKA_STORAGE_ERROR", "UNKNOWN_TOPIC_ID"])
                count = random.randrange(1, 4)
                cluster.faults.add("Fetch", action=faults.error(code), count=count, when="response")
            case 4:
                cluster.faults.add("Metadata", action=faults.delay(random.random()), count=2)
            case 5:
                code = random.choice(["FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH"])
                cluster.faults.add("Fetch", action=faults.error(code), count=1, when="response")
            case 6:
                node = random.choice(sorted(cluster.nodes))
                await cluster.wait_for(self.is_replicated)
                await self.restart(node, clean=False)
            case 7:
                await self.grow()

    def is_replicated(self) -> bool:
        """What is on one node only is lost with it, as acks=1 promises no more."""
        for partition in self.written:
            if not self.has_leader(partition):
                return False
            leader = self.cluster.partition("orders", partition)
            if leader.high_watermark < leader.log.log_end_offset:
                return False
        return True

    async def restart(self, node: int, *, clean: bool) -> None:
        await self.cluster.stop_node(node, clean=clean)
        if not clean:
            await self.cluster.fence_node(node)
        await self.world.runtime.clock.sleep(self.random.random())
        await self.cluster.start_node(node)

    async def grow(self) -> None:
        count = len(self.written) + 1
        if count > MOST_PARTITIONS:
            return
        topic = CreatePartitionsRequest.CreatePartitionsTopic(name="orders", count=count, assignments=None)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=5000, validate_only=False)
        async with plain_client(self.world, self.cluster, min(self.cluster.nodes)) as client:
            answer = await client.ask(request, 3, CreatePartitionsResponse)
        if answer.results[0].error_code == 0:
            self.written[count - 1] = 0


class Reads:
    """Reads in all the ways there are, one after the other, and meddles in between."""

    def __init__(self, world: World, consumer: AsyncConsumer, random: Random) -> None:
        self.clock = world.runtime.clock
        self.consumer = consumer
        self.random = random
        self.iterator: AsyncIterator[Any] = aiter(consumer)
        self.values: dict[int, list[bytes]] = defaultdict(list)
        self.noise = [f"noise-{number}" for number in range(NOISE)]

    async def some(self) -> int:
        """How many came."""
        match self.random.randrange(4):
            case 0:
                found = await self.consumer.poll(self.random.randrange(1, 200), timeout=0.3)
            case 1:
                found = await self.iterated(self.iterator)
            case 2:
                found = await self.iterated(aiter(self.consumer))
            case _:
                return await self.columns()
        return self.note(found)

    def note(self, found: list[Any]) -> int:
        for record in found:
            if record.topic == "orders":
                self.values[record.partition].append(record.value)
            else:
                assert record.topic in self.noise, "nothing fetched before a purge is seen after it"
        return len(found)

    async def iterated(self, records: AsyncIterator[Any]) -> list[Any]:
        """Up to a number, or until none came in time: then a wait is cancelled."""
        found: list[Any] = []
        most = self.random.randrange(1, 200)
        try:
            while len(found) < most:
                found.append(await within(self.clock, 0.1, asyncio.ensure_future(anext(records))))
        except TimeoutError:
            pass
        return found

    async def columns(self) -> int:
        try:
            following = asyncio.ensure_future(anext(self.consumer.batches()))
            batch = await within(self.clock, 0.1, following)
        except TimeoutError:
            return 0
        if batch.column("topic").to_pylist()[0] == "orders":
            found = zip(batch.column("partition").to_pylist(), batch.column("value").to_pylist(), strict=True)
            for partition, value in found:
                self.values[partition].append(value)
        return int(batch.num_rows)

    async def purge(self) -> None:
        """One of the topics that do not matter: the session of all begins anew."""
        if self.noise:
            await self.consumer.purge_topics(self.noise.pop())

    def meddle(self) -> None:
        """Pauses and resumes, now or later; seeks to where it is."""
        assigned = [tp for tp in self.consumer.assignment() if tp.topic == "orders"]
        if not assigned:
            return
        tp = self.random.choice(assigned)
        match self.random.randrange(4):
            case 0:
                self.consumer.pause(tp)
                self.consumer.resume(tp)
            case 1:
                self.consumer.pause(tp)
            case 2:
                self.consumer.resume()
            case 3:
                self.consumer.seek(tp, len(self.values[tp.partition]))


@pytest.mark.parametrize("seed", range(CHAOS_SEEDS))
def test_every_record_comes_once_and_in_order(seed: int) -> None:
    async def body(world: World) -> None:
        random = Random(seed)
        noise = {f"noise-{number}": 1 for number in range(NOISE)}
        async with world.cluster(3, topics={"orders": PARTITIONS, **noise}) as cluster:
            for topic in noise:
                cluster.seed(topic, numbered(100))
            options: dict[str, Any] = {"max_partition_fetch_bytes": random.choice([2000, 1_000_000]), **FRESH}
            async with consuming(world, cluster, "orders", *noise, start="earliest", **options) as consumer:
                writing = Writing(world, cluster, random)
                reads = Reads(world, consumer, random)
                task = asyncio.ensure_future(writing.run())
                while await reads.some() or not task.done():
                    if random.random() < 0.1:
                        await world.runtime.clock.sleep(random.random())
                    if random.random() < 0.3:
                        reads.meddle()
                    if random.random() < 0.05:
                        await reads.purge()
                await task
                while reads.noise:
                    await reads.purge()
                consumer.resume()
                while (left := sum(writing.written.values()) - sum(map(len, reads.values.values()))) > 0:
                    reads.note(await consumer.poll(timeout=30))
                    assert left, "waited for what never came"
                assert await consumer.poll(timeout=1) == []
                for partition, count in writing.written.items():
                    assert reads.values[partition] == numbered(count)
                    position = await consumer.position(TopicPartition("orders", partition))
                    assert position == count

    in_simulation(body, seed=seed)


@pytest.mark.parametrize("seed", range(CHAOS_SEEDS))
def test_every_topic_of_a_name_is_read_from_its_first_record_on(seed: int) -> None:
    async def body(world: World) -> None:
        random = Random(seed)
        async with world.cluster(3, topics={"orders": 3}, config=NO_CREATION) as cluster:
            what: Any = random.choice(["orders", re.compile("ord.*")])
            options: dict[str, Any] = {"max_partition_fetch_bytes": 500, "auto_offset_reset": "earliest"}
            async with consuming(world, cluster, what, start="earliest", **options, **FRESH) as consumer:
                task = asyncio.ensure_future(write_anew(world, cluster, random))
                found: dict[tuple[int, int], list[int]] = defaultdict(list)
                last = dict.fromkeys(range(3), 0)
                while await read_anew(consumer, found, last) or not task.done():
                    if random.random() < 0.2:
                        await world.runtime.clock.sleep(random.random())
                written = await task
                for (incarnation, _), numbers in found.items():
                    assert numbers == list(range(len(numbers))), incarnation
                final = max(incarnation for incarnation, _ in written)
                for partition in range(3):
                    assert len(found[final, partition]) == written[final, partition]

    in_simulation(body, seed=seed)


async def write_anew(world: World, cluster: AsyncCluster, random: Random) -> dict[tuple[int, int], int]:
    """How many records were written into each partition of each topic that had the name."""
    written: dict[tuple[int, int], int] = defaultdict(int)
    clock = world.runtime.clock
    for incarnation in range(4):
        for _ in range(random.randrange(5)):
            for partition in range(3):
                number = written[incarnation, partition]
                values = [b"%d %d" % (incarnation, number + each) for each in range(20)]
                cluster.seed("orders", values, partition)
                written[incarnation, partition] += 20
            await clock.sleep(random.random())
        if incarnation < 3:
            await cluster.delete_topic("orders")
            await clock.sleep(random.choice([0.0, 0.5, 5.0]))
            await cluster.create_topic("orders", 3)
    await clock.sleep(3)
    written[3, 0] += 0
    return written


async def read_anew(
    consumer: AsyncConsumer, found: dict[tuple[int, int], list[int]], last: dict[int, int]
) -> bool:
    """Whether anything came."""
    try:
        records = await consumer.poll(timeout=1)
    except (DataLossError, UnknownTopicOrPartitionError):
        return True
    for record in records:
        incarnation, number = map(int, record.value.split())
        assert incarnation >= last[record.partition]
        last[record.partition] = incarnation
        found[incarnation, record.partition].append(number)
    return bool(records)
