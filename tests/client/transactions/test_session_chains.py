"""Chains of groups whose members are sessions, on sockets: each topic of the chain has every record once.

By each way to share partitions: four assignors of the client and two of the coordinator. Members come, go and are
replaced, connections die, and some transactions are aborted. With virtual time and many seeds: test_session_chaos.py.
`OTTLA_CHAIN_RECORDS` makes it longer (`make chains`).
"""

from __future__ import annotations

import asyncio
import os
from random import Random

import pytest

import ottla
from ottla.broker import AsyncCluster
from ottla.config import ClientOptions
from ottla.errors import AbortNeededError, ProducerLostError, TransactionPendingError

# A tenth of what groups without transactions copy in the same time.
RECORDS = int(os.environ.get("OTTLA_CHAIN_RECORDS", "12000")) // 10
PATIENCE = 240 + RECORDS / 20
SLICE = 50
ABORTED = 0.1
TOPICS = {"level-0": 6, "level-1": 3, "level-2": 8, "level-3": 1}
MODES: dict[str, ClientOptions] = {
    "range": {"partition_assignment_strategy": "range"},
    "roundrobin": {"partition_assignment_strategy": "roundrobin"},
    "sticky": {"partition_assignment_strategy": "sticky"},
    "cooperative-sticky": {"partition_assignment_strategy": "cooperative-sticky"},
    "kip-848 uniform": {"group_protocol": "consumer", "group_remote_assignor": "uniform"},
    "kip-848 range": {"group_protocol": "consumer", "group_remote_assignor": "range"},
}
CONFIG = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 500,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "group.consumer.min.heartbeat.interval.ms": 50,
    "group.consumer.heartbeat.interval.ms": 100,
    "group.consumer.min.assignment.interval.ms": 0,
    "group.consumer.assignment.interval.ms": 0,
}


class SessionChain:
    """Three groups of sessions, and what disturbs them."""

    def __init__(self, cluster: AsyncCluster, mode: str) -> None:
        self.cluster = cluster
        self.options: ClientOptions = {
            "metadata_min_age_ms": 100,
            "retry_backoff_ms": 10,
            "reconnect_backoff_ms": 10,
            "linger_ms": 0,
            # A member whose leave was lost with its connection is missed soon.
            "session_timeout_ms": 6_000,
            **MODES[mode],
        }
        if "group_protocol" not in MODES[mode]:
            self.options["heartbeat_interval_ms"] = 100
        self.random = Random(mode)
        self.outcomes = {True: 0, False: 0}
        """How many transactions were committed, and how many were not."""
        self.changes = 0
        self._is_ahead = asyncio.Event()
        self._members: list[CopyingSession] = []
        self._leaving: list[asyncio.Task[None]] = []

    def add(self, number: int, transactional_id: str | None = None) -> None:
        self.changes += 1
        name = transactional_id or f"copy-{self.changes}"
        self._members.append(CopyingSession(self, number, name))

    async def disturb(self) -> None:
        """Until it is cancelled: a member comes, or goes, or is replaced, or loses connections.

        Each time a transaction was committed before, so that a slow machine is not kept from ever getting on.
        """
        random = self.random
        while True:
            for _ in range(random.randrange(1, 4)):
                self._is_ahead.clear()
                await self._is_ahead.wait()
            number = random.randrange(3)
            members = [member for member in self._members if member.number == number]
            if len(members) < 2 or (len(members) < 4 and random.random() < 0.4):
                self.add(number)
            else:
                leaver = random.choice(members)
                self._members.remove(leaver)
                if random.random() < 0.3:
                    # As after a crash that only looked like one: the former member is still there.
                    self.add(number, leaver.transactional_id)
                self._leaving.append(asyncio.create_task(leaver.leave()))
            if random.random() < 0.3:
                node = random.choice(list(self.cluster.nodes.values()))
                for connection in list(node.server.connections):
                    if random.random() < 0.5:
                        connection.abort()

    def ended(self, is_committed: bool) -> None:
        self.outcomes[is_committed] += 1
        if is_committed:
            self._is_ahead.set()

    def tend(self) -> None:
        """Raises what a member has failed with; a group whose members are all lost gets another one."""
        for number in range(3):
            lost = [member.is_lost() for member in self._members if member.number == number]
            if all(lost):
                self.add(number)

    async def end(self) -> None:
        await asyncio.gather(*self._leaving, *(member.leave() for member in self._members))


class CopyingSession:
    """Reads one topic in a group, and copies it to the next in transactions."""

    def __init__(self, chain: SessionChain, number: int, transactional_id: str) -> None:
        self.number = number
        self.transactional_id = transactional_id
        self._chain = chain
        self._target = f"level-{number + 1}"
        options: ClientOptions = {**chain.options, "transactional_id": transactional_id}
        self._client = ottla.AsyncClient(chain.cluster.bootstrap, **options)
        self._session = self._client.transact_session(
            f"level-{number}", group=f"group-{number}", start="earliest"
        )
        self._stops = False
        self._task = asyncio.create_task(self._run())

    async def leave(self) -> None:
        self._stops = True
        await self._task
        await self._session.close()
        await self._client.close()

    def is_lost(self) -> bool:
        if self._task.done():
            self._task.result()
        return self._task.done()

    async def _run(self) -> None:
        try:
            while not self._stops:
                await self._transact()
        except ProducerLostError:
            # Another member has its transactional id by now, or the machine was too slow for a transaction. The
            # others get its partitions at once, and not only when it has not polled for max_poll_interval_ms.
            await self._session.close()

    async def _transact(self) -> None:
        records = await self._session.poll(SLICE, timeout=0.1)
        if not records:
            return
        try:
            await self._session.begin()
            for record in records:
                await self._session.produce(self._target, record.value, key=record.key)
            is_wanted = self._chain.random.random() >= ABORTED
            self._chain.ended(await self._ended(is_wanted))
        except AbortNeededError:
            self._chain.ended(False)

    async def _ended(self, commit: bool) -> bool:
        while True:
            try:
                return await self._session.end(commit)
            except TransactionPendingError:
                continue


async def write(cluster: AsyncCluster) -> None:
    async with ottla.AsyncClient(cluster.bootstrap) as client:
        for number in range(RECORDS):
            await client.produce("level-0", b"%d" % number, key=b"%d" % (number % 100))
        await client.flush()


async def committed(cluster: AsyncCluster, topic: str) -> list[int]:
    async with ottla.AsyncClient(cluster.bootstrap, isolation_level="read_committed") as reader:
        return [int(record.value) async for record in reader.consume(topic, start="earliest", stop="latest")]


@pytest.mark.parametrize("mode", MODES)
def test_every_record_passes_a_chain_of_sessions_once(mode: str) -> None:
    async def main() -> None:
        async with AsyncCluster(3, topics=TOPICS, config=CONFIG) as cluster:
            chain = SessionChain(cluster, mode)
            for number in (0, 1, 2, 0, 1, 2):
                chain.add(number)
            disturbing = asyncio.create_task(chain.disturb())
            try:
                await write(cluster)
                await wait_for_copies(chain, RECORDS // 2)
                disturbing.cancel()
                await wait_for_copies(chain, RECORDS)
            finally:
                disturbing.cancel()
                await asyncio.gather(disturbing, return_exceptions=True)
                await chain.end()
            for topic in TOPICS:
                assert sorted(await committed(cluster, topic)) == list(range(RECORDS)), topic
            assert chain.outcomes[True]
            assert chain.outcomes[False]

    asyncio.run(main())


async def wait_for_copies(chain: SessionChain, count: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while len(await committed(chain.cluster, "level-3")) < count:
            chain.tend()
            await asyncio.sleep(0.2)
