"""Sessions that come, go and crash, while requests get lost and coordinators move: every record is processed once.

What a reader of committed records sees behind the chain is what lay before it, each exactly once; by every protocol
of groups, and with both transaction versions.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import Any

import pytest

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.server import faults
from ottla.client.transactions.session import AsyncTransactSession
from ottla.errors import ClientClosedError, KafkaError, TransactionError
from tests.client.group.grouping import QUICK
from tests.client.worlds import CHAOS_SEEDS, World, in_simulation

PARTITIONS = 4
PER_PARTITION = 100
ROUNDS = 16
SEEDS = max(2, CHAOS_SEEDS // 3)
"""Fewer than others: one of these takes as long as ten of theirs."""
MOST_SESSIONS = 3
CONFIG = {
    **QUICK,
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
OPTIONS: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "session_timeout_ms": 3000,
    "heartbeat_interval_ms": 200,
    "max_poll_interval_ms": 8000,
    "metadata_min_age_ms": 50,
    "request_timeout_ms": 1500,
    "delivery_timeout_ms": 5000,
    "default_api_timeout_ms": 10_000,
    "retry_backoff_max_ms": 200,
    "linger_ms": 0,
}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "eager": {"partition_assignment_strategy": "range"},
    "cooperative": {"partition_assignment_strategy": "cooperative-sticky"},
    "kip-848": {"group_protocol": "consumer"},
}
STRUCK = [
    "EndTxn",
    "TxnOffsetCommit",
    "Heartbeat",
    "ConsumerGroupHeartbeat",
    "JoinGroup",
    "OffsetFetch",
    "Produce",
]
CODES = ["NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"]


class ChaoticSession:
    """A program that processes in transactions until it is told to stop, and begins anew where it has to."""

    def __init__(
        self, world: World, cluster: AsyncCluster, name: str, random: Random, **options: Any
    ) -> None:
        self.world, self.random = world, random
        self.client = world.client(cluster, transactional_id=name, **OPTIONS, **options)
        self.session: AsyncTransactSession = self.client.transact_session("orders", group="billing")
        self.commits = 0
        self.is_lost = False
        self.task = asyncio.get_running_loop().create_task(self.run())

    async def run(self) -> None:
        while not self.is_lost:
            try:
                await self._transact()
            except ClientClosedError:
                return
            except TransactionError as error:
                self.is_lost = error.fatal
            except KafkaError:
                continue

    async def _transact(self) -> None:
        records = await self.session.poll(self.random.randrange(1, 60), timeout=1.0)
        await self.session.begin()
        for record in records:
            await self.session.produce("bills", record.value, partition=record.partition)
        await self.world.runtime.clock.sleep(self.random.random() / 2)
        is_wanted = self.random.random() < 0.9
        while True:
            try:
                self.commits += await self.session.end(commit=is_wanted)
                return
            except TransactionError as error:
                if not error.retriable:
                    raise

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        self.check()

    def check(self) -> None:
        if self.task.done() and not self.task.cancelled() and (error := self.task.exception()) is not None:
            raise error

    async def leave(self) -> None:
        await self.stop()
        try:
            await self.session.close()
            await self.client.close(2.0)
        except KafkaError:
            await self.client.close(0.0)

    async def crash(self) -> None:
        """Without a word to any coordinator, as a process that is killed."""
        await self.stop()
        core = self.client._core
        assert core is not None
        for source in self.session.consumer._session._sources.values():
            source.stop()
        for task in list(core._tasks._tasks):
            task.cancel()
        await core._brokers.close()
        self.session.consumer.is_closed = True
        core._consumers.clear()
        core.transactions = None
        await asyncio.gather(self.client.close(0.0), return_exceptions=True)


class SessionChaos:
    def __init__(self, world: World, cluster: AsyncCluster, random: Random, options: dict[str, Any]) -> None:
        self.world, self.cluster, self.random, self.options = world, cluster, random, options
        self.sessions: list[ChaoticSession] = []
        self.begun = 0
        self.commits = 0

    def begin(self) -> None:
        self.begun += 1
        # A name of the pool: one that is taken over fences what crashed under it.
        name = f"billing-{self.begun % (MOST_SESSIONS + 2)}"
        self.sessions.append(
            ChaoticSession(self.world, self.cluster, name, Random(self.random.random()), **self.options)
        )

    async def run(self) -> None:
        for partition in range(PARTITIONS):
            values = [b"%d/%d" % (partition, number) for number in range(PER_PARTITION)]
            self.cluster.seed("orders", values, partition)
        self.begin()
        for _ in range(ROUNDS):
            await self.disturb()
            await self.world.runtime.clock.sleep(self.random.random())
            for session in [each for each in self.sessions if each.is_lost or each.task.done()]:
                self.sessions.remove(session)
                await self._gone(session)
        self.cluster.faults.clear()
        await self.settle()
        for session in self.sessions:
            await self._gone(session)

    async def _gone(self, session: ChaoticSession) -> None:
        await session.leave()
        self.commits += session.commits

    async def settle(self) -> None:
        clock = self.world.runtime.clock
        deadline = clock.monotonic() + 120
        while len(seen := await self.bills()) < PARTITIONS * PER_PARTITION:
            assert clock.monotonic() < deadline, f"{len(seen)} of {PARTITIONS * PER_PARTITION} are processed"
            if not any(not each.task.done() for each in self.sessions):
                self.begin()
            for session in self.sessions:
                session.check()
            await clock.sleep(1.0)
        # What another session might still commit would be seen by now.
        await clock.sleep(5.0)
        counted = Counter(await self.bills())
        assert [value for value, count in counted.items() if count > 1] == []
        assert len(counted) == PARTITIONS * PER_PARTITION

    async def bills(self) -> list[bytes]:
        reader = self.world.client(self.cluster, isolation_level="read_committed", metadata_min_age_ms=50)
        found = [record.value async for record in reader.consume("bills", start="earliest", stop="latest")]
        await reader.close()
        return found

    async def disturb(self) -> None:
        cluster, random = self.cluster, self.random
        match random.randrange(9):
            case 0 | 1 | 2:
                if len(self.sessions) < MOST_SESSIONS:
                    self.begin()
            case 3:
                if self.sessions:
                    await self._gone(self.sessions.pop(random.randrange(len(self.sessions))))
            case 4:
                if self.sessions:
                    crashed = self.sessions.pop(random.randrange(len(self.sessions)))
                    self.commits += crashed.commits
                    await crashed.crash()
            case 5 | 6:
                when = random.choice(["before_append", "after_append", "response"])
                action = random.choice([faults.drop, faults.delay(random.random() * 4)])
                cluster.faults.add(
                    random.choice(STRUCK), action=action, count=random.randrange(1, 4), when=when
                )
            case 7:
                code = faults.error(random.choice(CODES))
                cluster.faults.add(random.choice(STRUCK[:-1]), action=code, count=random.randrange(1, 4))
            case 8:
                node = random.choice(sorted(cluster.nodes))
                await cluster.stop_node(node)
                await self.world.runtime.clock.sleep(random.random())
                await cluster.start_node(node)


@pytest.mark.sim
@pytest.mark.parametrize(
    ("release", "protocol"),
    # Release 3.9 has transaction.version 1, and no groups of KIP-848.
    [("4.3", "eager"), ("4.3", "cooperative"), ("4.3", "kip-848"), ("3.9", "eager"), ("3.9", "cooperative")],
)
@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_sessions_in_turmoil_process_everything_exactly_once(seed: int, release: str, protocol: str) -> None:
    async def body(world: World) -> None:
        options: dict[str, Any] = {} if release == "4.3" else {"max_versions": release}
        topics = {"orders": PARTITIONS, "bills": PARTITIONS}
        async with world.cluster(3, topics=topics, config=CONFIG, **options) as cluster:
            chaos = SessionChaos(world, cluster, Random(seed), PROTOCOLS[protocol])
            await chaos.run()
            assert chaos.commits

    in_simulation(body, seed)
