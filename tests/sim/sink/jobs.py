"""The tasks of a batch, as Spark runs them: in attempts, each in a worker that may have served another task before.

An attempt that fails is followed by another. So is one that Spark takes for lost: its executor does not answer, but
it lives on, beside the next attempt, and beside the next batch if it takes its time. A job whose task has failed too
often is given up, while attempts of its other tasks may still run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from ottla.client.topic_partition import TopicPartition
from ottla.client.transactions.prepared import PreparedTransaction
from ottla.errors import KafkaError
from ottla.sim.runtime import generator
from ottla.sim.transaction_checks import TransactionEntry
from ottla.spark.sink.exactly_once.task import Attempt, begin_attempt
from ottla.spark.sink.exactly_once.values import BatchStart, TaskOutcome
from tests.sim.sink.checks import AttemptEntry, BatchName
from tests.sim.sink.processes import EXPECTED, RowError, SinkWorld, SparkProcess

LOST, FAILED, SKIPPED = "attempt lives on", "attempt fails", "attempt skips"
LATE = "attempt ends behind its batch"
OUTPUT: Final = "output"
_MOST_ATTEMPTS: Final = 4
_CORES: Final = 3
_REUSED: Final = 0.6
_RAISES: Final = 0.04
"""How often the program of an attempt raises, with rows of it sent."""
_TAKEN_FOR_LOST: Final = 0.7
"""How often, of those that stand still."""
_LOST_BY_CHANCE: Final = 0.03
_DAWDLES: Final = 0.03
_RISK: Final = 1.3
_UNTIL_LOST: Final = (0.0, 0.02, 0.3)


@dataclass(frozen=True)
class Job:
    """The tasks of one run of a batch."""

    start: BatchStart
    query_id: str
    batch_id: int
    name: BatchName
    rows: tuple[tuple[str, ...], ...]
    """Of each task."""


def split(rows: Sequence[str], tasks: int) -> tuple[tuple[str, ...], ...]:
    """Which rows belong to which task follows from their number, and is the same in every run."""
    return tuple(tuple(rows[slot::tasks]) for slot in range(tasks))


class Executors:
    """All workers, of whichever query or write."""

    def __init__(self, world: SinkWorld) -> None:
        self._world = world
        self._random = generator(world.runtime.seed, "executors")
        self._idle: list[SparkProcess] = []
        self._attempts = 0

    async def run(self, job: Job) -> list[TaskOutcome | None]:
        """What came of each task; None for one that has failed too often, or did not come to its end before that."""
        names = job.start.names
        self._world.told.widest[names] = max(self._world.told.widest.get(names, 0), len(job.rows))
        fails = asyncio.Event()
        cores = asyncio.Semaphore(_CORES)

        async def task(slot: int) -> TaskOutcome | None:
            async with cores:
                return None if fails.is_set() else await self._task(job, slot, fails)

        return list(await asyncio.gather(*map(task, range(len(job.rows)))))

    async def _task(self, job: Job, slot: int, fails: asyncio.Event) -> TaskOutcome | None:
        for _ in range(_MOST_ATTEMPTS):
            worker = self._worker()
            attempt = self._world.spawn(self._attempt(worker, job, slot), f"task {slot} of {job.name}")
            if not await self._is_done(worker, attempt, fails):
                if fails.is_set():
                    return None
                self._world.struck[LOST] += 1
                continue
            try:
                return await attempt
            except EXPECTED as error:
                if isinstance(error, KafkaError):
                    self._world.failed(f"task {slot} of {job.name}", error)
        fails.set()
        return None

    async def _is_done(
        self, worker: SparkProcess, attempt: asyncio.Task[TaskOutcome], fails: asyncio.Event
    ) -> bool:
        """False if Spark does not wait for it any more."""
        random, create = self._random, asyncio.get_running_loop().create_task
        watching = [create(_after(0.0, fails))]
        if not self._world.is_settled:
            if random.random() < _LOST_BY_CHANCE:
                watching.append(create(_after(random.uniform(0.0, 0.5))))
            elif random.random() < _TAKEN_FOR_LOST:
                watching.append(create(_after(random.choice(_UNTIL_LOST), worker.suspected)))
        try:
            await asyncio.wait([attempt, *watching], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in watching:
                each.cancel()
            await asyncio.gather(*watching, return_exceptions=True)
        return attempt.done()

    def _worker(self) -> SparkProcess:
        self._idle = [each for each in self._idle if not each.is_gone]
        if self._idle and self._random.random() < _REUSED:
            return self._idle.pop(self._random.randrange(len(self._idle)))
        return SparkProcess("worker", self._world)

    async def _attempt(self, worker: SparkProcess, job: Job, slot: int) -> TaskOutcome:
        """A worker that has failed serves no other task."""
        self._attempts += 1
        name = f"{job.query_id}/{job.batch_id}/{slot}/{self._attempts}"
        raises = not self._world.is_settled and self._random.random() < _RAISES
        dawdles = not self._world.is_settled and self._random.random() < _DAWDLES
        try:
            outcome = await worker.run(
                self._write(worker, job, slot, name, raises=raises, dawdles=dawdles), risk=_RISK
            )
        except BaseException:
            await worker.close()
            raise
        self._idle.append(worker)
        return outcome

    async def _write(
        self, worker: SparkProcess, job: Job, slot: int, name: str, *, raises: bool, dawdles: bool
    ) -> TaskOutcome:
        """As a task does it."""
        kafka = worker.client
        entry = AttemptEntry(job.name, TransactionEntry(name, name))
        self._world.told.attempts[name] = entry
        attempt: Attempt | None = None
        try:
            attempt = await begin_attempt(
                kafka, job.start, query_id=job.query_id, batch_id=job.batch_id, slot=slot
            )
            if attempt.skips:
                self._world.struck[SKIPPED] += 1
                return await attempt.prepare(0)
            state = kafka.transaction_state
            entry.began = (
                PreparedTransaction(job.start.names.slot_id(slot), state.producer_id, state.epoch),
                asyncio.get_running_loop().time(),
            )
            self._world.history.transactions.append(entry.transaction)
            for row in job.rows[slot]:
                await self._send(worker, entry, row)
            if raises:
                self._world.struck[FAILED] += 1
                raise RowError(name)
            if dawdles:
                await asyncio.sleep(self._world.plan.dawdles)
            outcome = await attempt.prepare(len(job.rows[slot]))
        except (KafkaError, TimeoutError, RowError):
            if attempt is not None:
                with suppress(KafkaError, TimeoutError):
                    kafka.abort_buffered()
                    await attempt.fail()
            raise
        if job.name in self._world.told.committed:
            self._world.struck[LATE] += 1
        if outcome.prepared is not None:
            entry.prepared, entry.prepared_at = outcome.prepared, asyncio.get_running_loop().time()
        return outcome

    async def _send(self, worker: SparkProcess, entry: AttemptEntry, row: str) -> None:
        number = int(row.rpartition("/")[2])
        partition = TopicPartition(OUTPUT, number % self._world.plan.topics[OUTPUT])
        value = row.encode()
        delivery = await worker.client.produce(
            OUTPUT, value, key=entry.transaction.name.encode(), partition=partition.partition
        )
        self._world.sent(entry.transaction, partition, delivery, value)


async def _after(seconds: float, event: asyncio.Event | None = None) -> None:
    if event is not None:
        await event.wait()
    await asyncio.sleep(seconds)
