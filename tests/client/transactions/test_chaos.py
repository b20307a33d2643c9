"""Transactions while requests and responses get lost, coordinators and leaders move, and nodes come and go.

Readers of committed records see every transaction that was told to be committed, once and whole; nothing of one that
was told to be aborted; and of one whose outcome could not be told all or nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.server import faults
from ottla.client.client import AsyncClient
from ottla.client.group.membership import GroupMetadata
from ottla.client.topic_partition import TopicPartition
from ottla.errors import AbortNeededError, KafkaError, ProducerLostError, TransactionPendingError
from tests.client.worlds import CHAOS_SEEDS, World, in_simulation

PARTITIONS = 4
TRANSACTIONS = 30
CONFIG = {
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
OPTIONS: dict[str, Any] = {
    "linger_ms": 0,
    "request_timeout_ms": 2000,
    "delivery_timeout_ms": 6000,
    "default_api_timeout_ms": 30_000,
    "metadata_min_age_ms": 50,
    "retry_backoff_max_ms": 200,
    "transaction_timeout_ms": 20_000,
}
COORDINATED = ["InitProducerId", "EndTxn", "TxnOffsetCommit", "AddPartitionsToTxn", "AddOffsetsToTxn"]
CODES = [
    "NOT_COORDINATOR",
    "COORDINATOR_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "CONCURRENT_TRANSACTIONS",
]
PRODUCE_CODES = [
    "NOT_LEADER_OR_FOLLOWER",
    "NOT_ENOUGH_REPLICAS",
    "REQUEST_TIMED_OUT",
    "TRANSACTION_ABORTABLE",
]


class Outcomes:
    """What the program was told of each transaction, by its name."""

    def __init__(self) -> None:
        self.committed: dict[str, int] = {}
        """How many records each has."""
        self.aborted: list[str] = []
        self.unknown: dict[str, int] = {}
        self.offset = 0
        """The one that was last committed with a transaction."""

    def check(self, seen: list[bytes], offset: int | None) -> None:
        counted = Counter(value.split(b"/")[0].decode() for value in seen)
        repeated = [value for value, count in Counter(seen).items() if count > 1]
        assert not repeated, f"seen more than once: {repeated}"
        for name, count in self.committed.items():
            assert counted[name] == count, f"{name} is committed, and {counted[name]} of {count} are seen"
        for name in self.aborted:
            assert counted[name] == 0, f"{name} is aborted, and {counted[name]} of it are seen"
        for name, count in self.unknown.items():
            assert counted[name] in (0, count), f"of {name} {counted[name]} of {count} are seen"
        assert set(counted) <= {*self.committed, *self.unknown}
        possible = [int(name[1:]) for name in self.unknown if int(name[1:]) > self.offset]
        if self.offset or offset:
            assert offset in (self.offset, *possible), f"offset {offset}, after {self.offset} or {possible}"


class Program:
    """Transactions one after the other, with what a program does about each error."""

    def __init__(self, world: World, cluster: AsyncCluster, random: Random) -> None:
        self.world, self.cluster, self.random = world, cluster, random
        self.outcomes = Outcomes()
        self.client = self._new_client()
        self.clients = 1

    def _new_client(self) -> AsyncClient:
        return self.world.client(self.cluster, transactional_id="billing", **OPTIONS)

    async def run(self) -> None:
        for number in range(1, TRANSACTIONS + 1):
            await self._transact(f"t{number}", number)

    async def _transact(self, name: str, number: int) -> None:
        outcomes, random = self.outcomes, self.random
        count = random.randrange(1, 12)
        wants_commit = random.random() < 0.7
        has_offsets = random.random() < 0.5
        try:
            transaction = await self._repeated(self.client.begin_transaction)
        except ProducerLostError:
            outcomes.aborted.append(name)
            await self._replace()
            return
        try:
            for each in range(count):
                value = b"%s/%d" % (name.encode(), each)
                await self.client.produce("orders", value, partition=random.randrange(PARTITIONS))
                if random.random() < 0.3:
                    await self.world.runtime.clock.sleep(random.random() / 5)
            if has_offsets:
                offsets = {TopicPartition("requests", 0): number}
                await self._repeated(lambda: transaction.send_offsets(offsets, GroupMetadata("readers")))
            await self._repeated(transaction.commit if wants_commit else transaction.abort)
        except AbortNeededError:
            outcomes.aborted.append(name)
            try:
                await self._repeated(transaction.abort)
            except ProducerLostError:
                await self._replace()
        except ProducerLostError as error:
            if error.may_be_committed:
                outcomes.unknown[name] = count
            else:
                outcomes.aborted.append(name)
            await self._replace()
        else:
            if wants_commit:
                outcomes.committed[name] = count
                if has_offsets:
                    outcomes.offset = number
            else:
                outcomes.aborted.append(name)

    async def _repeated(self, call: Any) -> Any:
        """What is pending is asked for again."""
        for _ in range(20):
            try:
                return await call()
            except TransactionPendingError:
                continue
        raise AssertionError("a transaction has no outcome after minutes")

    async def _replace(self) -> None:
        # Records of the lost transaction, which is known.
        with suppress(KafkaError):
            await self.client.close(1.0)
        self.client = self._new_client()
        self.clients += 1


async def disturb(world: World, cluster: AsyncCluster, random: Random) -> None:
    """Forever."""
    clock = world.runtime.clock
    while True:
        await clock.sleep(random.random())
        match random.randrange(6):
            case 0 | 1:
                api = random.choice([*COORDINATED, "Produce", "FindCoordinator"])
                when = random.choice(["before_append", "after_append", "response"])
                action = random.choice([faults.drop, faults.delay(random.random() * 3)])
                cluster.faults.add(api, action=action, count=random.randrange(1, 4), when=when)
            case 2:
                code = faults.error(random.choice(CODES))
                cluster.faults.add(random.choice(COORDINATED), action=code, count=random.randrange(1, 4))
            case 3:
                cluster.faults.add("Produce", action=faults.error(random.choice(PRODUCE_CODES)), count=1)
            case 4:
                await move_a_leader(cluster, random)
            case 5:
                node = random.choice(sorted(cluster.nodes))
                await cluster.stop_node(node, clean=random.random() < 0.5)
                await clock.sleep(random.random())
                await cluster.start_node(node)


async def move_a_leader(cluster: AsyncCluster, random: Random) -> None:
    topic, count = random.choice(
        [("orders", PARTITIONS), ("__transaction_state", 3), ("__consumer_offsets", 2)]
    )
    partition = random.randrange(count)
    try:
        in_sync = cluster.in_sync(topic, partition)
        others = [
            node for node in in_sync if node != cluster.leader(topic, partition) and node in cluster.nodes
        ]
    except ValueError:
        return  # the internal topic has not been made yet
    if others:
        await cluster.move_leader(topic, partition, random.choice(others))


async def all_committed(world: World, cluster: AsyncCluster) -> tuple[list[bytes], int | None]:
    """What a reader of committed records sees, once nothing is open any more."""
    reader = world.client(cluster, isolation_level="read_committed", metadata_min_age_ms=50)
    # A transaction that a lost client has left open is ended by its coordinator.
    latest = await reader.admin.list_offsets("orders")
    while (stable := await reader.admin.list_offsets("orders", isolation="read_committed")) != latest:
        assert stable is not None
        await world.runtime.clock.sleep(0.5)
        latest = await reader.admin.list_offsets("orders")
    seen = [record.value async for record in reader.consume("orders", start="earliest", stop="latest")]
    requests = TopicPartition("requests", 0)
    found = await reader.admin.group_offsets("readers", requests, require_stable=True)
    offset = found[requests]
    return seen, None if offset is None else offset.offset


@pytest.mark.sim
@pytest.mark.parametrize("release", ["4.3", "3.9"])
@pytest.mark.parametrize("seed", range(1, CHAOS_SEEDS + 1))
def test_transactions_in_turmoil_are_seen_as_they_were_told(seed: int, release: str) -> None:
    async def body(world: World) -> None:
        options: dict[str, Any] = {} if release == "4.3" else {"max_versions": release}
        topics = {"orders": PARTITIONS, "requests": 1}
        async with world.cluster(3, topics=topics, config=CONFIG, **options) as cluster:
            random = Random(seed)
            program = Program(world, cluster, random)
            disturbing = asyncio.ensure_future(disturb(world, cluster, Random(seed + 1)))
            try:
                await program.run()
            finally:
                disturbing.cancel()
                await asyncio.gather(disturbing, return_exceptions=True)
            cluster.faults.clear()
            for node in (1, 2, 3):
                if node not in cluster.nodes:
                    await cluster.start_node(node)
            await program._replace()
            program.outcomes.check(*await all_committed(world, cluster))
            assert program.outcomes.committed

    in_simulation(body, seed)
