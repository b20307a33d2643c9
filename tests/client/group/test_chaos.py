"""A group whose members come, go and crash, while coordinators move and connections die.

Every record is processed, none after a commit that covers it, and what a member is given of a partition has no gaps.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

import pytest

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.server import faults
from ottla.client.client import AsyncClient
from ottla.client.group.consumer import AsyncGroupConsumer
from ottla.client.topic_partition import TopicPartition
from ottla.errors import ClientClosedError, CommitFailedError, KafkaError
from tests.client.worlds import CHAOS_SEEDS, World, in_simulation

PARTITIONS = 6
ROUNDS = 25
PER_ROUND = 20
MOST_MEMBERS = 4
CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
}
MEMBER: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "session_timeout_ms": 3000,
    "heartbeat_interval_ms": 300,
    "max_poll_interval_ms": 8000,
    "auto_commit_interval_ms": 300,
    "metadata_max_age_ms": 1000,
    "metadata_min_age_ms": 100,
}
PROTOCOLS: list[dict[str, Any]] = [
    {"partition_assignment_strategy": "range"},
    {"partition_assignment_strategy": "cooperative-sticky"},
    {"partition_assignment_strategy": ("cooperative-sticky", "range")},
    {"partition_assignment_strategy": "sticky"},
    {"group_protocol": "consumer"},
]
COORDINATED = ["JoinGroup", "SyncGroup", "Heartbeat", "ConsumerGroupHeartbeat", "OffsetCommit", "OffsetFetch"]
STRUCK = [*COORDINATED, "FindCoordinator", "Fetch"]
CODES = ["NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"]


class Ledger:
    """What the whole group has processed and committed."""

    def __init__(self) -> None:
        self.processed: dict[TopicPartition, set[int]] = defaultdict(set)
        self.committed: dict[TopicPartition, int] = defaultdict(int)
        self.failed_commits = 0

    def handed_out(self, record: Any) -> None:
        tp = TopicPartition(record.topic, record.partition)
        assert record.offset >= self.committed[tp], (
            f"{tp}: {record.offset} after a commit of {self.committed[tp]}"
        )

    def has_all(self, written: dict[int, int]) -> bool:
        return all(
            self.processed[TopicPartition("orders", partition)] >= set(range(count))
            for partition, count in written.items()
        )


class ChaoticMember:
    """Reads in one of the ways there are, and checks what it gets."""

    def __init__(
        self, world: World, cluster: AsyncCluster, ledger: Ledger, random: Random, **options: Any
    ) -> None:
        self.commits_itself = random.random() < 0.5
        self.client: AsyncClient = world.client(
            cluster, **MEMBER, **options, enable_auto_commit=not self.commits_itself
        )
        self.clock = world.runtime.clock
        self.ledger = ledger
        self.random = random
        self.next: dict[TopicPartition, int | None] = {}
        self.callbacks = 0
        self.consumer: AsyncGroupConsumer = self.client.consume(
            "orders", group="billing", on_assigned=self.assigned, on_revoked=self.gone, on_lost=self.gone
        )
        self.task = asyncio.get_running_loop().create_task(self.run())

    async def assigned(self, consumer: object, partitions: list[TopicPartition]) -> None:
        async for _ in self.alone():
            for tp in partitions:
                assert tp not in self.next
                self.next[tp] = None

    async def gone(self, consumer: object, partitions: list[TopicPartition]) -> None:
        async for _ in self.alone():
            for tp in partitions:
                del self.next[tp]

    async def alone(self) -> Any:
        self.callbacks += 1
        assert self.callbacks == 1, "two callbacks at once"
        await self.clock.sleep(self.random.random() / 20)
        yield
        self.callbacks -= 1

    async def run(self) -> None:
        while True:
            try:
                records = await self.consumer.poll(self.random.randrange(1, 200), timeout=1.0)
            except ClientClosedError:
                return  # the test has failed, and its world ends
            except KafkaError:
                continue
            for record in records:
                self.take(record)
            if records:
                await self.clock.sleep(self.random.random())
            for record in records:
                self.ledger.processed[TopicPartition(record.topic, record.partition)].add(record.offset)
            if self.commits_itself and self.random.random() < 0.7:
                await self.commit()

    def take(self, record: Any) -> None:
        tp = TopicPartition(record.topic, record.partition)
        self.ledger.handed_out(record)
        assert tp in self.next, f"{tp} is not assigned, and {record.offset} of it was handed out"
        expected = self.next[tp]
        assert expected in (None, record.offset), f"{tp}: {record.offset} instead of {expected}"
        self.next[tp] = record.offset + 1

    async def commit(self) -> None:
        offsets = self.consumer.to_commit(None)
        try:
            await self.consumer.commit(offsets, timeout=5.0)
        except (CommitFailedError, ValueError):
            self.ledger.failed_commits += 1
            return
        for tp, each in offsets.items():
            self.ledger.committed[tp] = max(self.ledger.committed[tp], each.offset)

    async def leave(self) -> None:
        await self.stop()
        await self.consumer.close()
        await self.client.close()

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        self.check()

    def check(self) -> None:
        if self.task.done() and not self.task.cancelled() and (error := self.task.exception()) is not None:
            raise error

    async def crash(self) -> None:
        """Without a word to the coordinator, as a process that is killed."""
        await self.stop()
        core = self.client._core
        assert core is not None
        for source in self.consumer._session._sources.values():
            source.stop()
        for task in list(core._tasks._tasks):
            task.cancel()
        await core._brokers.close()
        self.consumer.is_closed = True
        core._consumers.clear()
        await self.client.close()


class Chaos:
    def __init__(self, world: World, cluster: AsyncCluster, random: Random, options: dict[str, Any]) -> None:
        self.world, self.cluster, self.random, self.options = world, cluster, random, options
        self.ledger = Ledger()
        self.members: list[ChaoticMember] = []
        self.written = dict.fromkeys(range(PARTITIONS), 0)

    async def run(self) -> None:
        self.join()
        for _ in range(ROUNDS):
            for partition in self.written:
                await self.cluster.wait_for(partial(self.has_leader, partition))
                values = [b"%d" % number for number in range(PER_ROUND)]
                self.cluster.seed("orders", values, partition)
                self.written[partition] += PER_ROUND
            await self.disturb()
            await self.world.runtime.clock.sleep(self.random.random())
            for member in self.members:
                member.check()
        self.cluster.faults.clear()
        if not self.members:
            self.join()
        await self.settle()
        for member in self.members:
            await member.leave()

    async def settle(self) -> None:
        clock = self.world.runtime.clock
        deadline = clock.monotonic() + 60
        while not self.ledger.has_all(self.written):
            for member in self.members:
                member.check()
            if clock.monotonic() > deadline:
                states = [member.consumer.health() for member in self.members]
                raise AssertionError(f"not all was processed: {list(self.missing())}; {states}")
            await clock.sleep(0.5)

    def missing(self) -> Iterator[str]:
        for partition, count in self.written.items():
            tp = TopicPartition("orders", partition)
            left = sorted(set(range(count)) - self.ledger.processed[tp])
            if left:
                yield f"{tp}: {left[0]} to {left[-1]}"

    def has_leader(self, partition: int) -> bool:
        return self.cluster.leader("orders", partition) in self.cluster.nodes

    def join(self) -> None:
        self.members.append(ChaoticMember(self.world, self.cluster, self.ledger, self.random, **self.options))

    async def disturb(self) -> None:
        cluster, random = self.cluster, self.random
        match random.randrange(10):
            case 0 | 1 | 7:
                if len(self.members) < MOST_MEMBERS:
                    self.join()
            case 2 | 8:
                if self.members:
                    await self.members.pop(random.randrange(len(self.members))).leave()
            case 3 | 9:
                if self.members:
                    await self.members.pop(random.randrange(len(self.members))).crash()
            case 4:
                node = random.choice(sorted(cluster.nodes))
                await cluster.stop_node(node)
                await self.world.runtime.clock.sleep(random.random())
                await cluster.start_node(node)
            case 5:
                count, when = random.randrange(1, 4), random.choice(["before_append", "after_append"])
                cluster.faults.add(random.choice(STRUCK), action=faults.drop, count=count, when=when)
            case 6:
                code, count = random.choice(CODES), random.randrange(1, 4)
                cluster.faults.add(random.choice(COORDINATED), action=faults.error(code), count=count)


@pytest.mark.sim
@pytest.mark.parametrize("options", PROTOCOLS, ids=str)
@pytest.mark.parametrize("seed", range(1, CHAOS_SEEDS + 1))
def test_a_group_in_turmoil_processes_everything_and_nothing_after_its_commit(
    seed: int, options: dict[str, Any]
) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3, topics={"orders": PARTITIONS}, config=CONFIG) as cluster:
            await Chaos(world, cluster, Random(seed), options).run()

    in_simulation(body, seed)
