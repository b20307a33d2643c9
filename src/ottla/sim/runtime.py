"""The Runtime of a simulation, and `run`, which starts one.

Everything random comes from one seed, by generators of their own for the network and for each machine: so a
change in what one machine draws does not change what the others do.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Final, TypeVar

from ottla.runtime import Buffers, Clock, Listener, MessagePath, MovableClock, ProtocolFactory, Timer
from ottla.sim.errors import SimulationCallbackError, SimulationError, UnfinishedTasksError
from ottla.sim.loop import VirtualLoop
from ottla.sim.network import Conditions, SimNetwork

_T = TypeVar("_T")

_logger = logging.getLogger("ottla.sim")

FIRST_DAY: Final = 1_767_225_600.0
"""The wall clock's time when a simulation begins: 2026-01-01T00:00:00Z."""

_DEFAULT_MACHINE: Final = "localhost"
_TIME_TO_CLEAN_UP: Final = 60.0


class SimClock(Clock):
    """Virtual time: that of the loop of its first use, and a calendar that begins on FIRST_DAY."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def monotonic(self) -> float:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop.time()

    def time(self) -> float:
        return FIRST_DAY + self.monotonic()

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        return asyncio.get_running_loop().call_later(delay, callback, *args)


class SimRuntime:
    """A Runtime without any system, as seen from one machine; `at` gives that of another."""

    def __init__(
        self,
        seed: int,
        conditions: Conditions | None = None,
        *,
        machine: str = _DEFAULT_MACHINE,
        world: SimRuntime | None = None,
    ) -> None:
        self.seed = seed
        self.machine = machine
        self.random = generator(seed, f"machine {machine}")
        self.clock: MovableClock = world.clock if world else MovableClock(SimClock())
        self.network: SimNetwork = (
            world.network if world else SimNetwork(generator(seed, "network"), conditions)
        )
        self._machines: dict[str, SimRuntime] = world._machines if world else {}
        self._machines[machine] = self

    def at(self, machine: str) -> SimRuntime:
        return self._machines.get(machine) or SimRuntime(self.seed, machine=machine, world=self)

    async def connect(
        self, host: str, port: int, factory: ProtocolFactory, buffers: Buffers | None = None
    ) -> asyncio.BaseProtocol:
        """The buffers of a simulated connection are the network's conditions."""
        return await self.network.connect(self.machine, host, port, factory)

    async def listen(self, host: str, port: int, factory: ProtocolFactory) -> Listener:
        return await self.network.listen(self.machine, host, port, factory)

    def path_to(self, machine: str) -> MessagePath:
        return self.network.message_path(self.machine, machine)

    async def run(self, function: Callable[..., _T], *args: Any) -> _T:
        return await asyncio.get_running_loop().run_in_executor(None, function, *args)


def run(
    main: Callable[[SimRuntime], Awaitable[_T]],
    *,
    seed: int,
    limit: float | None = None,
    conditions: Conditions | None = None,
) -> _T:
    """Runs `main` in a simulation and returns what it returns.

    A SimulationError says that all tasks waited for nothing, that `limit` seconds of virtual time were not
    enough, that tasks were left over, or that a callback or a task failed that was not awaited.
    """
    loop = VirtualLoop(limit)
    failures: list[str] = []
    loop.set_exception_handler(lambda _, context: failures.append(_described(context)))
    try:
        result: _T = loop.run_until_complete(loop.create_task(_main(main, seed, conditions), name="main"))
        if loop.tasks:
            raise UnfinishedTasksError(f"main is done, and {loop.describe_tasks()}")
        if failures:
            raise SimulationCallbackError("a callback or a task failed, and no task awaited it")
        return result
    except Exception as error:
        for failure in failures:
            error.add_note(failure)
        raise
    finally:
        _end(loop)


async def _main(main: Callable[[SimRuntime], Awaitable[_T]], seed: int, conditions: Conditions | None) -> _T:
    return await main(SimRuntime(seed, conditions))


def _end(loop: VirtualLoop) -> None:
    """Cancels what is left, in order, and lets it clean up."""
    tasks = loop.tasks
    for task in tasks:
        task.cancel()
    try:
        if tasks:
            loop.limit = loop.time() + _TIME_TO_CLEAN_UP
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    except SimulationError as error:
        _logger.warning("the simulation ends with tasks that do not: %s", error)
    finally:
        loop.close()


def _described(context: dict[str, Any]) -> str:
    error = context.get("exception")
    trace = "" if error is None else ":\n" + "".join(traceback.format_exception(error))
    return f"{context['message']}{trace}"


def generator(seed: int, purpose: str) -> Random:
    """Randomness for one purpose, which no other draws from."""
    # A text as seed goes through SHA-512: the same on every machine, and unrelated for each purpose.
    return Random(f"{seed} {purpose}")
