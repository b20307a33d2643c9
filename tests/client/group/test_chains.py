"""Chains of groups copy records from topic to topic, while members come and go and connections die.

Every value arrives at each level, no member is given what its group had committed before its assignment, and what a
member is given is contiguous (ottla/sim/group_checks.py). The same with virtual time, faults of every kind and many
seeds: tests/sim/test_group_nemesis.py. `OTTLA_CHAIN_RECORDS` makes it longer (`make chains`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from random import Random

import pytest

import ottla
from ottla.broker import AsyncCluster
from ottla.client.topic_partition import TopicPartition
from ottla.config import ClientOptions
from ottla.errors import CommitFailedError
from ottla.sim.group_checks import (
    Assigned,
    Committed,
    Delivered,
    GroupChecker,
    TakenAway,
    nothing_left_behind,
)

RECORDS = int(os.environ.get("OTTLA_CHAIN_RECORDS", "50000"))
TOPICS = {"level-0": 6, "level-1": 3, "level-2": 8, "level-3": 1}
SLICE = 200
PATIENCE = 60 + RECORDS / 500
MODES: dict[str, ClientOptions] = {
    "eager": {"partition_assignment_strategy": "range"},
    "cooperative": {"partition_assignment_strategy": "cooperative-sticky"},
    "consumer": {"group_protocol": "consumer"},
}


class Chain:
    """Three groups, and what disturbs them."""

    def __init__(self, cluster: AsyncCluster, mode: str) -> None:
        self.cluster = cluster
        self.options: ClientOptions = {
            "enable_auto_commit": False,
            "metadata_min_age_ms": 100,
            "retry_backoff_ms": 10,
            "reconnect_backoff_ms": 10,
            **MODES[mode],
        }
        if mode != "consumer":
            self.options["heartbeat_interval_ms"] = 100
        self.checker = GroupChecker()
        self.copied = [0, 0, 0]
        self.changes = 0
        self._random = Random(mode)
        self._members: list[CopyingMember] = []
        self._leaving: list[asyncio.Task[None]] = []

    def add(self, number: int) -> None:
        self.changes += 1
        self._members.append(CopyingMember(self, number, f"member-{self.changes}"))

    def is_shaken(self) -> bool:
        """Whether everything was copied, by more than twelve members, of whom six were there at first."""
        return self.copied[2] >= RECORDS and self.changes > 12

    async def disturb(self) -> None:
        """Until it is cancelled: somebody comes, or goes, or loses connections."""
        random = self._random
        while True:
            await asyncio.sleep(random.uniform(0.02, 0.3))
            number = random.randrange(3)
            members = [member for member in self._members if member.number == number]
            if len(members) < 2 or (len(members) < 4 and random.random() < 0.5):
                self.add(number)
            else:
                leaver = random.choice(members)
                self._members.remove(leaver)
                self._leaving.append(asyncio.create_task(leaver.leave()))
            if random.random() < 0.3:
                node = random.choice(list(self.cluster.nodes.values()))
                for connection in list(node.server.connections):
                    if random.random() < 0.5:
                        connection.abort()

    async def end(self) -> None:
        await asyncio.gather(*self._leaving, *(member.leave() for member in self._members))

    def has_passed(self) -> bool:
        """Whether every group has got all that is in its topic, and has copied it."""
        for number in range(3):
            topic = f"level-{number}"
            ends = {
                TopicPartition(topic, index): self.cluster.partition(topic, index).high_watermark
                for index in range(TOPICS[topic])
            }
            if list(self.checker.missing(f"group-{number}", ends)):
                return False
        return not any(member.is_copying for member in self._members)


class CopyingMember:
    """Reads one topic in a group, and copies it to the next."""

    def __init__(self, chain: Chain, number: int, name: str) -> None:
        self.number = number
        self.is_copying = False
        self._chain = chain
        self._name = name
        self._group = f"group-{number}"
        self._target = f"level-{number + 1}"
        self._client = ottla.AsyncClient(chain.cluster.bootstrap, **chain.options)
        self._consumer = self._client.consume(
            f"level-{number}",
            group=self._group,
            start="earliest",
            on_assigned=self._assigned,
            on_revoked=self._taken,
            on_lost=self._taken,
        )
        self._stops = False
        self._task = asyncio.create_task(self._run())

    def _assigned(self, _: object, partitions: Sequence[TopicPartition]) -> None:
        self._chain.checker.take(Assigned(self._group, self._name, tuple(partitions)))

    def _taken(self, _: object, partitions: Sequence[TopicPartition]) -> None:
        self._chain.checker.take(TakenAway(self._group, self._name, tuple(partitions)))

    async def leave(self) -> None:
        self._stops = True
        await self._task
        await self._client.close()

    async def _run(self) -> None:
        take = self._chain.checker.take
        while not self._stops:
            records = await self._consumer.poll(SLICE, timeout=0.1)
            self.is_copying = bool(records)
            offsets = {}
            for record in records:
                partition = TopicPartition(record.topic, record.partition)
                take(Delivered(self._group, self._name, partition, record.offset))
                offsets[partition] = record.offset + 1
            receipts = [
                await self._client.produce(self._target, record.value, key=record.key) for record in records
            ]
            for receipt in receipts:
                await receipt
            self._chain.copied[self.number] += len(records)
            self.is_copying = False
            # What has been taken away meanwhile belongs to others, who get it again.
            owned = self._consumer.assignment()
            offsets = {partition: offset for partition, offset in offsets.items() if partition in owned}
            if not offsets:
                continue
            try:
                await self._consumer.commit(offsets)
            except CommitFailedError:
                continue
            take(Committed(self._group, self._name, offsets))


@pytest.mark.parametrize("mode", MODES)
def test_every_record_passes_a_chain_of_groups(mode: str) -> None:
    async def main() -> None:
        config = {
            "group.initial.rebalance.delay.ms": 0,
            "offsets.topic.num.partitions": 3,
            "group.consumer.min.heartbeat.interval.ms": 50,
            "group.consumer.heartbeat.interval.ms": 100,
            "group.consumer.min.assignment.interval.ms": 0,
            "group.consumer.assignment.interval.ms": 0,
        }
        async with AsyncCluster(3, topics=TOPICS, config=config) as cluster:
            chain = Chain(cluster, mode)
            for number in (0, 1, 2, 0, 1, 2):
                chain.add(number)
            disturbing = asyncio.create_task(chain.disturb())
            try:
                await write(cluster)
                await cluster.wait_for(
                    chain.is_shaken, "so many copies, and members that come and go", PATIENCE
                )
                disturbing.cancel()
                await cluster.wait_for(chain.has_passed, "that everything is copied", PATIENCE)
            finally:
                disturbing.cancel()
                await asyncio.gather(disturbing, return_exceptions=True)
                await chain.end()
            assert chain.checker.violations == []
            levels = [[record.value or b"" for record in cluster.dump(topic)] for topic in TOPICS]
            for number in range(3):
                assert list(nothing_left_behind(f"level-{number}", levels[number], levels[number + 1])) == []
            assert len(levels[0]) == RECORDS

    asyncio.run(main())


async def write(cluster: AsyncCluster) -> None:
    async with ottla.AsyncClient(cluster.bootstrap) as client:
        for number in range(RECORDS):
            await client.produce("level-0", b"%d" % number, key=b"%d" % (number % 100))
        await client.flush()
