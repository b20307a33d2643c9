"""Programs that use transactions through whatever happens, and write down what they were told.

A writer fills the first topic of a chain in transactions of several partitions. It commits most of them, aborts some
on purpose, dawdles for longer than the coordinator allows, crashes in the middle, or prepares one that another
client ends. A session copies what it reads from topic to topic, with its offsets in the same transaction. Readers of
both isolation levels poll all the time. Each record has the name of its transaction as its key.

What they were told becomes a `TransactionHistory` (transaction_checks.py). Who comes and goes when is the workload's
business (transaction_workload.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeVar

from ottla.client.client import AsyncClient
from ottla.client.topic_partition import TopicPartition
from ottla.client.transactions.prepared import PreparedTransaction
from ottla.client.transactions.session import AsyncTransactSession
from ottla.client.transactions.transaction import AsyncTransaction
from ottla.config import ClientOptions
from ottla.errors import (
    AbortNeededError,
    KafkaError,
    MaxPollExceededError,
    PreparedTransactionError,
    ProducerLostError,
    TransactionError,
    TransactionPendingError,
)
from ottla.sim.checks import RuleViolation
from ottla.sim.runtime import SimRuntime, generator
from ottla.sim.transaction_checks import (
    ReaderLog,
    SeenRecord,
    SentRecord,
    ToldOutcome,
    TransactionEntry,
    TransactionHistory,
)
from ottla.sim.workload import AWAY
from ottla.wire.records import Delivery, Record

_T = TypeVar("_T")

_POLL: Final = 1.0
_RETRY: Final = 0.2
_WORKS: Final = (0.0, 0.05, 0.3, 1.0)
_RESTS: Final = (0.0, 1.0, 2.0)
"""Of a session, between two transactions."""
_BREATH: Final = 0.3
"""Of a reader, between two polls that had records."""
_INTENTIONS: Final = {"commit": 58, "abort": 14, "prepare": 12, "crash": 8, "dawdle": 8}
_EMPTY: Final = 0.05
"""How often a session ends a transaction in which there is nothing."""
_GIVEN_UP: Final = 0.12
"""How often a session aborts what it could commit."""
_DAWDLES: Final = 0.03
_DURING_COMMIT: Final = (0.0, 0.001, 0.003, 0.01, 0.1)
_KILLED_IN: Final = ("reset", "silent")


@dataclass(frozen=True)
class TransactionPlan:
    """What is written and copied, and with which patience; times are in seconds."""

    topics: Mapping[str, int]
    """The levels of the chain with their partitions, from the first to the last."""
    writer_options: ClientOptions
    session_options: ClientOptions
    reader_options: ClientOptions
    dawdles: float
    """Longer than a transaction may be open."""
    pause: float = 2.3
    """On average, between two transactions of a writer: each costs a dozen requests in every level of the chain."""
    most_records: int = 14
    """Of a transaction of a writer."""

    @property
    def partitions(self) -> list[TopicPartition]:
        return [
            TopicPartition(topic, index) for topic, count in self.topics.items() for index in range(count)
        ]


@dataclass
class TransactionWorld:
    """What all programs of a simulation share."""

    runtime: SimRuntime
    bootstrap: str
    nodes: Sequence[str]
    """The machines of the cluster."""
    plan: TransactionPlan
    history: TransactionHistory
    machines: list[str] = field(default_factory=list)
    """Where programs run now; it changes under the hands of those who look at it."""
    violations: list[RuleViolation] = field(default_factory=list)
    deliveries: list[tuple[TransactionEntry, TopicPartition, bytes, Delivery]] = field(default_factory=list)
    late: list[asyncio.Task[None]] = field(default_factory=list)
    """What processes that are gone had sent, and what is still on its way."""
    crashes: int = 0

    def client(self, machine: str, options: ClientOptions) -> AsyncClient:
        self.machines.append(machine)
        return AsyncClient(self.bootstrap, runtime=self.runtime.at(machine), **options)

    async def close(self, machine: str, client: AsyncClient) -> None:
        """As a program does at its end; records of lost transactions are known to have failed."""
        with suppress(KafkaError):
            await client.close()
        self.machines.remove(machine)

    async def kill(self, machine: str, client: AsyncClient, mode: str, late: float) -> None:
        """The process is gone without a word. What it had sent is lost, or comes when the network finds it again."""
        network = self.runtime.network
        self.crashes += 1
        self.machines.remove(machine)
        for node in self.nodes:
            network.cut(machine, node, "silent" if mode == "silent" else "reset")
        loop = asyncio.get_running_loop()
        closing = loop.create_task(client.close(0.0), name=f"{machine} is killed")
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)

        async def heal() -> None:
            await asyncio.sleep(late)
            for node in self.nodes:
                network.heal(machine, node)

        self.late.append(loop.create_task(heal(), name=f"{machine} is found again"))

    def sent(
        self, entry: TransactionEntry, partition: TopicPartition, delivery: Delivery, value: bytes
    ) -> None:
        self.deliveries.append((entry, partition, value, delivery))

    def settle(self) -> None:
        """What became of each record, once the programs have ended."""
        for entry, partition, value, delivery in self.deliveries:
            is_stored = delivery.done() and delivery.error is None
            entry.sent.append(SentRecord(partition, value, delivery.offset if is_stored else None))
        self.deliveries.clear()

    def failed(self, who: str, error: KafkaError) -> None:
        """Errors that a program meets with are of a few kinds; any other is one that it could do nothing about."""
        expected = isinstance(error, (*AWAY, TransactionError, MaxPollExceededError))
        if not expected and not getattr(error, "retriable", False):
            self.violations.append(RuleViolation("program failed", f"{who}: {error!r}"))


def _now() -> float:
    return asyncio.get_running_loop().time()


class TransactionalWriter:
    """Transactions of one transactional id, one after the other, in clients one after the other."""

    def __init__(self, name: str, world: TransactionWorld, ender: TransactionEnder) -> None:
        self.name = name
        self.committed = 0
        """Records, of transactions that are known to be committed."""
        self._world = world
        self._ender = ender
        self._random = generator(world.runtime.seed, f"transactions of {name}")
        self._topic, self._partitions = next(iter(world.plan.topics.items()))
        self._number = self._incarnation = 0
        self._endings: list[asyncio.Task[None]] = []
        self._open_client()

    def _open_client(self) -> None:
        self._incarnation += 1
        self._machine = f"{self.name}.{self._incarnation}"
        options: ClientOptions = {**self._world.plan.writer_options, "transactional_id": self.name}
        self._client = self._world.client(self._machine, options)

    async def run(self, stops: Callable[[], bool]) -> None:
        while not stops():
            try:
                await self._transact()
            except ProducerLostError:
                await self._world.close(self._machine, self._client)
                self._open_client()
            except KafkaError as error:
                self._world.failed(self.name, error)
                await asyncio.sleep(_RETRY)
            await asyncio.sleep(self._random.expovariate(1 / self._world.plan.pause))
        await asyncio.gather(*self._endings)

    async def close(self) -> None:
        for task in self._endings:
            task.cancel()
        await asyncio.gather(*self._endings, return_exceptions=True)
        await self._world.close(self._machine, self._client)

    async def _transact(self) -> None:
        random, plan = self._random, self._world.plan
        intention = random.choices(list(_INTENTIONS), list(_INTENTIONS.values()))[0]
        transaction = await self._client.begin_transaction()
        self._number += 1
        entry = TransactionEntry(f"{self.name}/{self._number}", self._machine)
        self._world.history.transactions.append(entry)
        try:
            await self._write(entry)
            if intention == "dawdle":
                await asyncio.sleep(plan.dawdles)
        except ProducerLostError:
            raise
        except KafkaError as error:
            self._world.failed(self.name, error)
            intention = "abort"
        if intention == "prepare":
            await self._prepare(entry, transaction)
        elif intention == "crash":
            await self._crash(entry, transaction)
        else:
            await self._end(entry, transaction, is_commit=intention != "abort")

    async def _write(self, entry: TransactionEntry) -> None:
        random = self._random
        for number in range(random.randint(1, self._world.plan.most_records)):
            partition = TopicPartition(self._topic, random.randrange(self._partitions))
            value = f"{entry.name}/{number}".encode()
            delivery = await self._client.produce(
                self._topic, value, key=entry.name.encode(), partition=partition.partition
            )
            self._world.sent(entry, partition, delivery, value)
            if random.random() < 0.1:
                await asyncio.sleep(random.choice((0.01, 0.3)))

    async def _end(self, entry: TransactionEntry, transaction: AsyncTransaction, *, is_commit: bool) -> None:
        if not is_commit:
            await _repeated(transaction.abort)
            return
        entry.commit_asked, entry.outcome = _now(), ToldOutcome.UNKNOWN
        try:
            await _repeated(transaction.commit)
        except AbortNeededError:
            entry.outcome = ToldOutcome.ABORTED
            await _repeated(transaction.abort)
        except ProducerLostError as error:
            entry.outcome = _lost(error)
            raise
        else:
            self._committed(entry)

    def _committed(self, entry: TransactionEntry) -> None:
        entry.outcome = ToldOutcome.COMMITTED
        self.committed += sum(each[0] is entry for each in self._world.deliveries)

    async def _crash(self, entry: TransactionEntry, transaction: AsyncTransaction) -> None:
        """Before its end, or while that is under way."""
        if self._random.random() < 0.6:
            entry.commit_asked, entry.outcome = _now(), ToldOutcome.UNKNOWN
            committing = asyncio.get_running_loop().create_task(transaction.commit(), name="a last commit")
            await asyncio.sleep(self._random.choice(_DURING_COMMIT))
            committing.cancel()
            (error,) = await asyncio.gather(committing, return_exceptions=True)
            if error is None:
                self._committed(entry)
            elif isinstance(error, AbortNeededError):
                entry.outcome = ToldOutcome.ABORTED
            elif isinstance(error, ProducerLostError):
                entry.outcome = _lost(error)
        await self._world.kill(
            self._machine,
            self._client,
            self._random.choice(_KILLED_IN),
            self._random.choice((0.1, 1.0, self._world.plan.dawdles)),
        )
        self._open_client()

    async def _prepare(self, entry: TransactionEntry, transaction: AsyncTransaction) -> None:
        """Another client ends it, while this one waits for that, or is replaced by one that knows nothing of it."""
        try:
            prepared = await _repeated(transaction.prepare)
        except AbortNeededError:
            await _repeated(transaction.abort)
            return
        await self._world.close(self._machine, self._client)
        is_commit = self._random.random() < 0.7
        if is_commit:
            entry.commit_asked, entry.outcome = _now(), ToldOutcome.UNKNOWN

        async def end() -> None:
            entry.outcome = await self._ender.end(prepared, is_commit=is_commit)
            if entry.outcome is ToldOutcome.COMMITTED:
                self._committed(entry)

        ending = asyncio.get_running_loop().create_task(end(), name=f"{entry.name} is ended elsewhere")
        self._endings.append(ending)
        if self._random.random() < 0.7:
            await asyncio.gather(ending, return_exceptions=True)
        self._open_client()


class TransactionEnder:
    """A user that ends what others have prepared."""

    def __init__(self, world: TransactionWorld) -> None:
        self._world = world
        self._machine = "ender"
        self._client = world.client(self._machine, world.plan.reader_options)

    async def end(self, prepared: PreparedTransaction, *, is_commit: bool) -> ToldOutcome:
        while True:
            try:
                if is_commit:
                    await self._client.commit_prepared(prepared)
                    return ToldOutcome.COMMITTED
                await self._client.abort_prepared(prepared)
                return ToldOutcome.ABORTED
            except PreparedTransactionError as error:
                if is_commit and not error.is_other_outcome:
                    return ToldOutcome.UNKNOWN
                if not is_commit and error.is_other_outcome:
                    self._world.violations.append(
                        RuleViolation("ended otherwise", f"nothing was to commit it: {error}")
                    )
                return ToldOutcome.ABORTED
            except KafkaError as error:
                self._world.failed(self._machine, error)
                await asyncio.sleep(_RETRY)

    async def close(self) -> None:
        await self._world.close(self._machine, self._client)


class ChainSession:
    """One transactional session of a group, on a machine of its own; a client that is lost is replaced by another."""

    def __init__(
        self, name: str, transactional_id: str, link: tuple[str, str, str], world: TransactionWorld
    ) -> None:
        self.name, self.transactional_id = name, transactional_id
        self._group, self._source, self._target = link
        self._world = world
        self._random = generator(world.runtime.seed, f"session {name}")
        self._number = self._incarnation = 0
        self._stops = False
        self._task: asyncio.Task[None] | None = None
        self._open_session()

    @property
    def machine(self) -> str:
        return f"{self.name}.{self._incarnation}"

    def _open_session(self) -> None:
        self._incarnation += 1
        options: ClientOptions = {
            **self._world.plan.session_options,
            "transactional_id": self.transactional_id,
        }
        self._client = self._world.client(self.machine, options)
        self._session: AsyncTransactSession = self._client.transact_session(
            self._source, group=self._group, start="earliest"
        )

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name=self.name)

    async def leave(self) -> None:
        """Ends as a program does that is asked to."""
        self._stops = True
        assert self._task is not None
        await self._task
        with suppress(KafkaError):
            await self._session.close()
        await self._world.close(self.machine, self._client)

    async def vanish(self) -> None:
        """The process is killed."""
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        mode = self._random.choice(_KILLED_IN)
        late = self._random.choice((0.1, 2.0, self._world.plan.dawdles))
        await self._world.kill(self.machine, self._client, mode, late)

    async def _run(self) -> None:
        while not self._stops:
            try:
                await self._transact()
            except ProducerLostError:
                with suppress(KafkaError):
                    await self._session.close()
                await self._world.close(self.machine, self._client)
                self._open_session()
            except KafkaError as error:
                self._world.failed(self.name, error)
                await asyncio.sleep(_RETRY)

    async def _transact(self) -> None:
        random = self._random
        records: list[Record] = await self._session.poll(random.randint(1, 40), timeout=_POLL)
        if not records and random.random() >= _EMPTY:
            return
        await self._begin()
        self._number += 1
        entry = TransactionEntry(f"{self.machine}/{self._number}", self.machine, group=self._group)
        for record in records:
            consumed = entry.consumed.setdefault(TopicPartition(record.topic, record.partition), [])
            consumed.append(record.offset)
        self._world.history.transactions.append(entry)
        is_commit = random.random() >= _GIVEN_UP
        try:
            await self._copy(entry, records)
            slow = self._world.plan.dawdles if random.random() < _DAWDLES else random.choice(_WORKS)
            await asyncio.sleep(slow)
        except ProducerLostError:
            raise
        except KafkaError as error:
            self._world.failed(self.name, error)
            is_commit = False
        await self._end(entry, is_commit=is_commit)
        await asyncio.sleep(random.choice(_RESTS))

    async def _begin(self) -> None:
        """What was polled belongs to the next transaction, however long that takes to begin."""
        while True:
            try:
                await self._session.begin()
                return
            except ProducerLostError:
                raise
            except KafkaError as error:
                self._world.failed(self.name, error)
                await asyncio.sleep(_RETRY)

    async def _copy(self, entry: TransactionEntry, records: Sequence[Record]) -> None:
        for record in records:
            value = record.value or b""
            partition = TopicPartition(
                self._target, self._random.randrange(self._world.plan.topics[self._target])
            )
            delivery = await self._session.produce(
                self._target, value, key=entry.name.encode(), partition=partition.partition
            )
            self._world.sent(entry, partition, delivery, value)

    async def _end(self, entry: TransactionEntry, *, is_commit: bool) -> None:
        if is_commit:
            entry.commit_asked, entry.outcome = _now(), ToldOutcome.UNKNOWN
        while True:
            try:
                is_committed = await self._session.end(commit=is_commit)
                entry.outcome = ToldOutcome.COMMITTED if is_committed else ToldOutcome.ABORTED
                return
            except TransactionPendingError:
                continue
            except AbortNeededError:
                entry.outcome = ToldOutcome.ABORTED
                return
            except ProducerLostError as error:
                entry.outcome = _lost(error) if is_commit else ToldOutcome.ABORTED
                raise


class TransactionReader:
    """Reads all topics from the first record on."""

    def __init__(self, name: str, world: TransactionWorld, *, is_committed: bool) -> None:
        self.log = ReaderLog(name, is_committed)
        world.history.readers.append(self.log)
        self.values: dict[str, set[bytes]] = {topic: set() for topic in world.plan.topics}
        """What has come so far, by topic."""
        self._world = world
        options: ClientOptions = {
            **world.plan.reader_options,
            "isolation_level": "read_committed" if is_committed else "read_uncommitted",
        }
        self._client = world.client(name, options)
        self._consumer = self._client.consume(*world.plan.partitions, start="earliest")

    async def run(self, until: Callable[[], bool]) -> None:
        while not until():
            try:
                records: list[Record] = await self._consumer.poll(timeout=_POLL)
            except KafkaError as error:
                self._world.failed(self.log.name, error)
                await asyncio.sleep(_RETRY)
                continue
            now = _now()
            for record in records:
                partition = TopicPartition(record.topic, record.partition)
                name, value = (record.key or b"").decode(), record.value or b""
                self.log.records.append(SeenRecord(now, partition, record.offset, name, value))
                self.values[record.topic].add(value)
            if records:
                await asyncio.sleep(_BREATH)

    def has_reached(self, ends: Mapping[TopicPartition, int]) -> bool:
        return all((self._consumer.known_position(tp) or 0) >= end for tp, end in ends.items())

    async def close(self) -> None:
        await self._consumer.close()
        await self._world.close(self.log.name, self._client)


def _lost(error: ProducerLostError) -> ToldOutcome:
    return ToldOutcome.UNKNOWN if error.may_be_committed else ToldOutcome.ABORTED


async def _repeated(call: Callable[[], Awaitable[_T]]) -> _T:
    """Until there is an outcome."""
    while True:
        try:
            return await call()
        except TransactionPendingError:
            continue
