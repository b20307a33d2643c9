"""A streaming query that writes to the sink: its checkpoint, its drivers, and what is done between two of them.

A driver writes the plan of a batch into the checkpoint, runs it, and writes that it is committed. It may be killed at
any moment, or end with an error; then the next one begins with the batch that is planned and not committed, under the
same number. One that is only taken for dead goes on beside the next, until the checkpoint tells it that it is not
alone.

In a query with a data source, what starts a batch and what commits it are two processes; in foreachBatch it is one.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from ottla.errors import KafkaError
from ottla.sim.checks import RuleViolation
from ottla.sim.runtime import generator
from ottla.sim.transaction_checks import ToldOutcome
from ottla.spark.sink.exactly_once.driver import abort_batch, commit_batch, start_batch
from ottla.spark.sink.exactly_once.errors import MismatchingReplayError
from ottla.spark.sink.exactly_once.names import SinkNames
from ottla.spark.sink.exactly_once.recovery import abort_sink, finish_sink, forget_sink
from ottla.spark.sink.exactly_once.values import BatchStart, TaskOutcome
from tests.sim.sink.checks import BatchName, CommitEntry, DriverEntry
from tests.sim.sink.jobs import Executors, Job, split
from tests.sim.sink.processes import EXPECTED, STANDS_STILL, ProcessGoneError, SinkWorld, SparkProcess

CRASHED, BESIDE, RESHAPED = (
    "driver is killed",
    "driver goes on beside the next",
    "batch runs again with other tasks",
)
REFUSED, RECOVERED, FORGOTTEN = "other tasks are refused", "sink is recovered", "sink is handed on"
INCOMPLETE = "what is decided is lost"
Form = Literal["data source", "foreachBatch"]

_MOST_ROWS: Final = 12
_OTHER_TASKS: Final = 0.35
_CRASHES: Final = 0.07
"""How often a driver is killed as a whole, in one batch."""
_CRASHES_AFTER: Final = (0.0, 0.01, 0.05, 0.2, 0.6, 2.0)
_TAKEN_FOR_DEAD: Final = 0.6
"""How often, of those that stand still."""
_RECOVERED: Final = 0.3
_RESTARTS_AFTER: Final = (0.0, 0.1, 1.0)
_RISK_OF_START, _RISK_OF_COMMIT = 1.5, 3.0
"""Drivers are fewer than tasks, and their steps are more than those."""
_BEHIND_THE_DECISION: Final = range(8, 13)
"""The steps of a commit in which what is decided is committed, one transaction after the other."""
_LAST_BATCHES: Final = 2
"""That are planned when all is well again."""


class NotAloneError(Exception):
    """The checkpoint has been written to by another driver."""


class JobFailedError(Exception):
    """A task has failed too often."""


class BatchPlan(NamedTuple):
    """What the checkpoint says of a batch."""

    rows: tuple[str, ...]
    tasks: int


@dataclass
class Checkpoint:
    """What survives. Every file of it is written once, by one driver."""

    plans: dict[int, BatchPlan] = field(default_factory=dict)
    commits: dict[int, float] = field(default_factory=dict)

    @property
    def next_batch(self) -> int:
        return len(self.commits)

    def write_plan(self, batch_id: int, plan: BatchPlan) -> None:
        if self.plans.setdefault(batch_id, plan) is not plan:
            raise NotAloneError(f"batch {batch_id} is planned")

    def write_commit(self, batch_id: int, now: float) -> None:
        if batch_id in self.commits:
            raise NotAloneError(f"batch {batch_id} is committed")
        self.commits[batch_id] = now


class StreamingQuery:
    """One query from its first batch to its last, with all its drivers."""

    def __init__(
        self, name: str, names: SinkNames, form: Form, world: SinkWorld, executors: Executors
    ) -> None:
        self.name, self.names, self.form = name, names, form
        self.world, self.executors = world, executors
        self.checkpoint = Checkpoint()
        self.restored: dict[int, int] = {}
        """How many tasks a batch must have, as a driver has said."""
        self.last_batch: int | None = None
        self._random = generator(world.runtime.seed, f"query {name}")
        self._drivers = 0
        self._others: list[tuple[QueryDriver, asyncio.Task[None]]] = []

    def plan(self, batch_id: int) -> BatchPlan:
        random = generator(self.world.runtime.seed, f"{self.name}, batch {batch_id}")
        rows = tuple(f"{self.name}/{batch_id}/{number}" for number in range(random.randint(0, _MOST_ROWS)))
        return BatchPlan(rows, random.randint(1, self.world.sink.most_tasks))

    def tasks_of(self, batch_id: int) -> int:
        """In this run of the batch."""
        planned = self.checkpoint.plans[batch_id].tasks
        if batch_id in self.restored:
            return self.restored[batch_id]
        if self.world.is_settled or self._random.random() >= _OTHER_TASKS:
            return planned
        return self._random.randint(1, self.world.sink.most_tasks)

    def ends_with(self, batch_id: int) -> None:
        self.last_batch = batch_id

    def settle(self) -> None:
        """A few batches more, and the query has come to its end."""
        self.last_batch = len(self.checkpoint.plans) + _LAST_BATCHES - 1

    @property
    def is_done(self) -> bool:
        return self.last_batch is not None and self.checkpoint.next_batch > self.last_batch

    async def run(self) -> None:
        """Until its last batch is committed."""
        while not self.is_done:
            self._drivers += 1
            driver = QueryDriver(f"{self.name}-driver-{self._drivers}", self)
            living = self.world.spawn(driver.run(), driver.name)
            await self._watch(driver, living)
            await self._between_drivers()
        for driver, living in self._others:
            # Whoever is still there finds out by itself; what it waits for may take long.
            if self._random.random() < 0.5:
                await driver.kill(living)

    async def _watch(self, driver: QueryDriver, living: asyncio.Task[None]) -> None:
        """Returns when the next driver may begin."""
        random = self._random
        suspecting = asyncio.get_running_loop().create_task(driver.suspected.wait())
        try:
            while not living.done():
                await asyncio.wait([living, suspecting], return_when=asyncio.FIRST_COMPLETED)
                if living.done():
                    return
                if self.world.is_settled or random.random() < _TAKEN_FOR_DEAD:
                    if self.world.is_settled or random.random() < 0.3:
                        await driver.kill(living)
                    else:
                        self.world.struck[BESIDE] += 1
                        self._others.append((driver, living))
                    return
                driver.suspected.clear()
                suspecting = asyncio.get_running_loop().create_task(driver.suspected.wait())
        finally:
            suspecting.cancel()

    async def _between_drivers(self) -> None:
        if self.is_done:
            return
        random = self._random
        if not self.world.is_settled and random.random() < _RECOVERED:
            await operate(self.world, self.names, random.choice(("finish", "abort", "abort", "forget")))
        # Sometimes after all that was open has timed out.
        pauses = (2.0,) if self.world.is_settled else (*_RESTARTS_AFTER, self.world.plan.dawdles)
        await asyncio.sleep(random.choice(pauses))

    def commit(self, batch_id: int) -> None:
        now = asyncio.get_running_loop().time()
        self.checkpoint.write_commit(batch_id, now)
        self.world.told.committed[BatchName(self.name, batch_id)] = now


class QueryDriver:
    """One life of the driver."""

    def __init__(self, name: str, query: StreamingQuery) -> None:
        self.name = name
        self.suspected = asyncio.Event()
        """One of its processes stands still."""
        self._query, self._world = query, query.world
        self._random = generator(query.world.runtime.seed, name)
        self._processes: list[SparkProcess] = []
        self._committer = self._process("committer")
        self._started_at = 0.0

    async def run(self) -> None:
        checkpoint = self._query.checkpoint
        batch_id = checkpoint.next_batch
        is_replay = batch_id in checkpoint.plans
        try:
            while self._query.last_batch is None or batch_id <= self._query.last_batch:
                if not is_replay:
                    checkpoint.write_plan(batch_id, self._query.plan(batch_id))
                await self._batch(batch_id)
                await self._perhaps_stand_still()
                self._query.commit(batch_id)
                batch_id, is_replay = batch_id + 1, False
                if not self._world.is_settled:
                    await asyncio.sleep(self._random.expovariate(1 / self._world.sink.pause))
        except (NotAloneError, JobFailedError, ProcessGoneError):
            pass
        except (KafkaError, TimeoutError) as error:
            if isinstance(error, KafkaError):
                self._world.failed(self.name, error)
        for process in self._processes:
            await process.close()

    async def kill(self, living: asyncio.Task[None]) -> None:
        """All of it at once; its executors may live on."""
        living.cancel()
        self._world.struck[CRASHED] += 1
        for process in self._processes:
            await process.kill()
        await asyncio.gather(living, return_exceptions=True)

    def _process(self, what: str) -> SparkProcess:
        self._processes = [each for each in getattr(self, "_processes", []) if not each.is_gone]
        process = SparkProcess(f"{self.name}-{what}", self._world)
        process.suspected = self.suspected
        self._processes.append(process)
        return process

    async def _batch(self, batch_id: int) -> None:
        if not self._world.is_settled and self._random.random() < _CRASHES:
            living = asyncio.current_task()
            assert living is not None
            self._world.spawn(self._crash(living), f"{self.name} crashes")
        query = self._query
        name, plan = BatchName(query.name, batch_id), query.checkpoint.plans[batch_id]
        self._world.told.rows[name] = plan.rows
        start = await self._start()
        tasks = query.tasks_of(batch_id)
        if tasks != plan.tasks:
            self._world.struck[RESHAPED] += 1
        outcomes = await query.executors.run(Job(start, query.name, batch_id, name, split(plan.rows, tasks)))
        try:
            if None in outcomes:
                raise JobFailedError(f"batch {batch_id}")
            await self._perhaps_stand_still()
            done = [each for each in outcomes if each is not None]
            await commit(self._committer, self._world, name, self._started_at, done)
        except (*EXPECTED, JobFailedError) as error:
            if isinstance(error, MismatchingReplayError):
                self._restore(start, batch_id, tasks)
            await self._abort(outcomes)
            raise

    async def _crash(self, living: asyncio.Task[None]) -> None:
        await asyncio.sleep(self._random.choice(_CRASHES_AFTER))
        if not living.done() and not self._world.is_settled:
            await self.kill(living)

    async def _perhaps_stand_still(self) -> None:
        """Between two calls of the protocol."""
        if self._world.is_struck(self._random, 1.0):
            self._world.struck[STANDS_STILL] += 1
            self.suspected.set()
            await asyncio.sleep(self._random.choice(self._world.sink.pauses))

    async def _start(self) -> BatchStart:
        process = self._committer if self._query.form == "foreachBatch" else self._process("planner")
        sink, called_at = self._world.sink, asyncio.get_running_loop().time()
        start = await process.run(
            start_batch(
                process.client, self._query.names, timeout_ms=sink.timeout_ms, patience=sink.patience
            ),
            risk=_RISK_OF_START,
        )
        self._started_at = started(self._world, start, called_at)
        if process is not self._committer:
            await process.close()
        return start

    def _restore(self, start: BatchStart, batch_id: int, tasks: int) -> None:
        """As the error says."""
        self._world.struck[REFUSED] += 1
        if start.last is None or start.last.tasks == tasks:
            self._world.violations.append(
                RuleViolation(
                    "refused without reason", f"batch {batch_id} with {tasks} tasks, after {start.last}"
                )
            )
            return
        self._query.restored[batch_id] = start.last.tasks

    async def _abort(self, outcomes: list[TaskOutcome | None]) -> None:
        """In a process of its own: what failed before has let go its client."""
        process = self._process("aborter")
        try:
            await process.run(abort_batch(process.client, outcomes, patience=self._world.sink.patience))
        except KafkaError as error:
            self._world.failed(self.name, error)


def started(world: SinkWorld, start: BatchStart, called_at: float) -> float:
    """Writes down that a driver has taken the sink over; when that was."""
    now = asyncio.get_running_loop().time()
    world.told.drivers.append(DriverEntry(start.names, called_at, now))
    if start.last is not None and not start.last.complete:
        world.struck[INCOMPLETE] += 1
    return now


async def commit(
    process: SparkProcess, world: SinkWorld, name: BatchName, started_at: float, outcomes: list[TaskOutcome]
) -> None:
    """Calls the protocol, and writes down what it says."""
    now = asyncio.get_running_loop().time()
    first = outcomes[0]
    lists = tuple(each.prepared for each in outcomes if each.prepared is not None)
    for attempt in world.told.attempts.values():
        if attempt.prepared in lists and attempt.transaction.commit_asked is None:
            attempt.transaction.commit_asked, attempt.transaction.outcome = now, ToldOutcome.UNKNOWN
    entry = CommitEntry(name, first.start.names, started_at, lists, now)
    world.told.commits.append(entry)
    await process.run(
        commit_batch(process.client, first.query_id, first.batch_id, outcomes, patience=world.sink.patience),
        risk=_RISK_OF_COMMIT,
        delicate=_BEHIND_THE_DECISION,
    )
    entry.returned_at = asyncio.get_running_loop().time()


async def operate(world: SinkWorld, names: SinkNames, what: str) -> bool:
    """Somebody recovers the sink, from a shell; whether that has worked."""
    process = SparkProcess("operator", world)
    called_at = asyncio.get_running_loop().time()
    works = {"finish": finish_sink, "abort": abort_sink, "forget": forget_sink}
    try:
        await process.run(works[what](process.client, names))
    except EXPECTED as error:
        if isinstance(error, KafkaError):
            world.failed("operator", error)
        return False
    else:
        world.struck[FORGOTTEN if what == "forget" else RECOVERED] += 1
        world.told.drivers.append(DriverEntry(names, called_at, asyncio.get_running_loop().time()))
        return True
    finally:
        await process.close()
