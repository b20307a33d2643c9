"""Processes as Spark has them: each with a client of its own, to be killed or to stand still at any moment.

What a process is asked to do is one use of it, and what becomes of it meanwhile is drawn: it is killed or stands
still before or after a call of its client, or is killed in the moment in which something of it arrives, or after a
while. A process that stands still goes on later as if nothing had happened, whatever others have done meanwhile.
"""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar

from ottla.client.client import AsyncClient
from ottla.client.transactions.prepared import PreparedTransaction
from ottla.config import ClientOptions
from ottla.errors import DeliveryTimeoutError, KafkaError
from ottla.runtime import Random
from ottla.sim.checks import RuleViolation
from ottla.sim.runtime import SimRuntime, generator
from ottla.sim.transaction_clients import TransactionWorld
from ottla.spark.sink.exactly_once.errors import ControlRecordError, SinkError
from tests.sim.sink.checks import SinkHistory

_T = TypeVar("_T")

KILLED, STANDS_STILL = "process is killed", "process stands still"
_MOST_STEPS: Final = 14
_ANY_STEP: Final = range(1, _MOST_STEPS + 1)
_MOST_ARRIVALS: Final = 30
_MOMENTS: Final = (0.0, 0.003, 0.02, 0.2, 1.0)
_FOUND_AGAIN: Final = (0.05, 1.0)


class ProcessGoneError(Exception):
    """The process was killed in the middle of its work."""


class RowError(Exception):
    """The program of a task has raised."""


EXPECTED: Final = (KafkaError, TimeoutError, ProcessGoneError, RowError)
"""What the work of a process may end with."""


@dataclass(frozen=True)
class Fate:
    """What becomes of a process in one use of it."""

    deed: Literal["kill", "stand still"]
    by: Literal["steps", "arrivals", "time"]
    at: float
    """After so many of them, or so many seconds."""
    seconds: float = 0.0
    """For which it stands still."""


@dataclass(frozen=True)
class SinkPlan:
    """With which patience processes work, and how dangerous their lives are; times are in seconds."""

    options: ClientOptions
    timeout_ms: int
    """Of transactions."""
    patience: float
    """Of drivers, for the outcomes of transactions."""
    pauses: tuple[float, ...]
    """For how long a process stands still."""
    danger: float
    """How likely it is killed, or stands still, in one use."""
    most_tasks: int
    pause: float
    """On average, between two batches."""


@dataclass
class SinkWorld(TransactionWorld):
    """What all processes of a simulation share."""

    sink: SinkPlan = field(kw_only=True)
    told: SinkHistory = field(kw_only=True)
    struck: Counter[str] = field(default_factory=Counter)
    is_settled: bool = False
    """Nothing happens to processes from now on."""
    running: list[asyncio.Task[Any]] = field(default_factory=list)
    """What processes do, also those that no other one waits for any more."""
    processes: list[SparkProcess] = field(default_factory=list)
    """Those that may live."""
    count: int = 0

    async def end(self) -> None:
        """Whatever still runs is over, after an error as well."""
        for task in self.running:
            task.cancel()
        await asyncio.gather(*self.running, return_exceptions=True)
        for process in list(self.processes):
            await process.close()
        await asyncio.gather(*self.late)

    def spawn(self, work: Coroutine[Any, Any, _T], name: str) -> asyncio.Task[_T]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self.look_at_ended()
        self.running.append(task)
        return task

    def look_at_ended(self) -> None:
        """What ended with an error that processes do not end with is a mistake."""
        for each in self.running:
            if each.done() and not each.cancelled():
                error = each.exception()
                if error is not None and not isinstance(error, EXPECTED):
                    self.violations.append(
                        RuleViolation(
                            "process failed",
                            f"{each.get_name()}: {''.join(traceback.format_exception(error))}",
                        )
                    )
        self.running = [each for each in self.running if not each.done()]

    def is_struck(self, random: Random, risk: float) -> bool:
        return not self.is_settled and random.random() < min(0.5, self.sink.danger * risk)

    def drawn(self, random: Random, risk: float, delicate: range) -> Fate | None:
        """For one use of a process; half of what strikes at a step strikes at a delicate one."""
        if not self.is_struck(random, risk):
            return None
        by: Literal["steps", "arrivals", "time"] = random.choice(("steps", "steps", "arrivals", "time"))
        at = {
            "steps": random.choice((random.randint(1, _MOST_STEPS), random.choice(delicate))),
            "arrivals": random.randint(1, _MOST_ARRIVALS),
            "time": random.choice(_MOMENTS),
        }[by]
        if by == "steps" and random.random() < 0.55:
            return Fate("stand still", by, at, random.choice(self.sink.pauses))
        return Fate("kill", by, at)

    def failed(self, who: str, error: KafkaError) -> None:
        """A sink says of each failure what became of the batch; a record that cannot be read is never one of them."""
        is_told = isinstance(error, (SinkError, DeliveryTimeoutError))
        if is_told and not isinstance(error, ControlRecordError):
            return
        super().failed(who, error)


class SparkProcess:
    """One process; it does one thing at a time."""

    def __init__(self, name: str, world: SinkWorld) -> None:
        world.count += 1
        self.machine = f"{name}.{world.count}"
        self.is_gone = False
        self.suspected = asyncio.Event()
        """It stands still: others may take it for dead."""
        self._world = world
        self._random = generator(world.runtime.seed, f"process {self.machine}")
        self._fate: Fate | None = None
        self._steps = 0
        self._working: list[asyncio.Task[Any]] = []
        world.machines.append(self.machine)
        world.processes.append(self)
        self.client: AsyncClient = _SteppedClient(
            self, world.bootstrap, world.runtime.at(self.machine), world.sink.options
        )

    async def run(
        self, work: Coroutine[Any, Any, _T], *, risk: float = 1.0, delicate: range = _ANY_STEP
    ) -> _T:
        """What the work returns; ProcessGoneError if the process is killed meanwhile."""
        if self.is_gone:
            work.close()
            raise ProcessGoneError(self.machine)
        self.suspected.clear()
        self._fate, self._steps = self._world.drawn(self._random, risk, delicate), 0
        task = self._world.spawn(work, f"work of {self.machine}")
        self._working.append(task)
        watching = self._watch()
        try:
            # Who waits may be killed: the work goes on all the same, if its own process lives.
            await asyncio.wait([task])
            if task.cancelled():
                raise ProcessGoneError(self.machine)
            return task.result()
        finally:
            if task.done():
                self._working.remove(task)
                self._fate = None
            if watching is not None:
                watching.cancel()

    def _watch(self) -> asyncio.Task[None] | None:
        fate = self._fate
        if fate is None or fate.by == "steps":
            return None
        return self._world.spawn(self._strike_later(fate), f"what becomes of {self.machine}")

    async def _strike_later(self, fate: Fate) -> None:
        if fate.by == "time":
            await asyncio.sleep(fate.at)
        else:
            for _ in range(int(fate.at)):
                await self._world.runtime.network.next_arrival_from(self.machine)
        if self._fate is fate:
            # Not here: who watches ends with the work.
            self._world.spawn(self.kill(), f"{self.machine} is killed")

    def aborts(self, prepared: PreparedTransaction) -> None:
        self._world.told.aborts.append(prepared)

    async def step(self) -> None:
        """Before and after each call of the client."""
        fate = self._fate
        if fate is None or fate.by != "steps":
            return
        self._steps += 1
        if self._steps != fate.at:
            return
        if fate.deed == "kill":
            self._world.spawn(self.kill(), f"{self.machine} is killed")
            await asyncio.get_running_loop().create_future()
        self._world.struck[STANDS_STILL] += 1
        self.suspected.set()
        await asyncio.sleep(fate.seconds)

    async def kill(self) -> None:
        """It is gone in this moment; what it had sent may come later."""
        if self.is_gone:
            return
        self._leave()
        self._world.struck[KILLED] += 1
        for task in self._working:
            task.cancel()
        mode = self._random.choice(("reset", "silent"))
        late = self._random.choice((*_FOUND_AGAIN, self._world.plan.dawdles))
        await self._world.kill(self.machine, self.client, mode, late)

    async def close(self) -> None:
        if not self.is_gone:
            self._leave()
            await self._world.close(self.machine, self.client)

    def _leave(self) -> None:
        self.is_gone = True
        self._world.processes.remove(self)


class _SteppedClient(AsyncClient):
    """A client whose process may stop before or after what the protocol asks of it."""

    def __init__(
        self, process: SparkProcess, bootstrap: str, runtime: SimRuntime, options: ClientOptions
    ) -> None:
        super().__init__(bootstrap, runtime=runtime, **options)
        self._process = process

    async def _stepped(self, call: Coroutine[Any, Any, Any]) -> Any:
        try:
            await self._process.step()
        except BaseException:
            call.close()
            raise
        result = await call
        await self._process.step()
        return result

    async def take_transactional_id(self, *args: Any, **options: Any) -> Any:
        return await self._stepped(super().take_transactional_id(*args, **options))

    async def init_transactions(self, *args: Any, **options: Any) -> Any:
        return await self._stepped(super().init_transactions(*args, **options))

    async def begin_transaction(self, *args: Any, **options: Any) -> Any:
        return await self._stepped(super().begin_transaction(*args, **options))

    async def produce(self, *args: Any, **options: Any) -> Any:
        return await self._stepped(super().produce(*args, **options))

    async def flush(self, *args: Any, **options: Any) -> Any:
        return await self._stepped(super().flush(*args, **options))

    async def commit_prepared(self, *args: Any, **options: Any) -> Any:
        return await self._stepped(super().commit_prepared(*args, **options))

    async def abort_prepared(self, *args: Any, **options: Any) -> Any:
        self._process.aborts(args[0])
        return await self._stepped(super().abort_prepared(*args, **options))
