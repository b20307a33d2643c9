"""The event loop of a simulation: asyncio's own, with a clock that jumps instead of waiting.

When nothing is ready to run, time is set to the next timer; when there is no timer either, nothing can ever
happen again, and that is an error. There are no file descriptors, no threads and no signals.

Invariant: two runs that make the same calls run the same callbacks in the same order. What is ready runs first
in, first out, as asyncio promises; timers run by deadline, and by age where that is equal, which asyncio leaves
to the heap.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from asyncio import events
from collections.abc import Callable
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple

from ottla.sim.errors import SimulationOverranError, SimulationStalledError

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop in virtual time, which begins at 0."""

    # BaseEventLoop's own: its timers, as a heap, and the resolution of its clock.
    _scheduled: list[asyncio.TimerHandle]
    _clock_resolution: float

    def __init__(self, limit: float | None = None) -> None:
        """`limit` is the virtual time that the simulation may take, in seconds."""
        super().__init__()
        self._now = 0.0
        self._clock_resolution = math.ulp(0.0)
        self.limit = limit
        self._timers = 0
        self._selector = self
        # A dict keeps them in the order of their making; asyncio's own set of tasks has no order.
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._tasks_made = 0

    def time(self) -> float:
        return self._now

    def select(self, timeout: float | None) -> list[Any]:
        """In the place of a selector: BaseEventLoop has it wait for so long."""
        if timeout is None:
            raise SimulationStalledError(
                f"nothing is left to happen at {self._now} seconds, {self.describe_tasks()}"
            )
        if timeout > 0:
            self._now += timeout
            # What is due "now" is due before now + resolution, which must be a later number also in a year.
            self._clock_resolution = math.ulp(self._now)
            if self.limit is not None and self._now > self.limit:
                raise SimulationOverranError(f"not over after {self.limit} seconds, {self.describe_tasks()}")
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        """`select` has none."""

    def call_at(
        self, when: float, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        if self.is_closed():
            raise RuntimeError("the simulation is over")
        timer = _Timer(when, self._timers, callback, args, self, context)
        self._timers += 1
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True
        return timer

    def call_soon_threadsafe(
        self, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        # Also from the loop's own thread, asyncio wakes the selector; here nothing sleeps.
        if events._get_running_loop() is not self:
            raise RuntimeError("a simulation has one thread: a call from another cannot be replayed")
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Callable[[*_Ts], _T], *args: *_Ts) -> asyncio.Future[_T]:
        """Runs `func` on the loop, in its turn."""
        return self.create_task(_call(func, *args))

    def create_task(self, coro: Any, *, name: object = None, **options: Any) -> asyncio.Task[Any]:
        """Tasks have names that are the same in each run."""
        if name is None:
            name = f"task {self._tasks_made}"
        self._tasks_made += 1
        task: asyncio.Task[Any] = super().create_task(coro, name=str(name), **options)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    @property
    def tasks(self) -> list[asyncio.Task[Any]]:
        """The tasks that are not done, oldest first."""
        return list(self._tasks)

    def describe_tasks(self) -> str:
        """Which tasks wait, and where."""
        waiting = [f"{task.get_name()} in {_where(task.get_coro())}" for task in self._tasks]
        return f"{len(waiting)} tasks wait: {'; '.join(waiting)}"


class _Timer(asyncio.TimerHandle):
    """A timer that knows its rank among those with the same deadline."""

    __slots__ = ("_number",)

    # BaseEventLoop's own: the deadline, and whether the timer is among those of the loop.
    _when: float
    _scheduled: bool

    def __init__(
        self,
        when: float,
        number: int,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: Context | None,
    ) -> None:
        super().__init__(when, callback, args, loop, context)
        self._number = number

    def __lt__(self, other: Any) -> bool:
        return (self._when, self._number) < (other._when, other._number)


async def _call(function: Callable[[*_Ts], _T], *args: *_Ts) -> _T:
    return function(*args)


def _where(coroutine: Any) -> str:
    """The innermost coroutine that a coroutine waits in, and its line."""
    while hasattr(inner := coroutine.cr_await, "cr_await"):
        coroutine = inner
    frame = coroutine.cr_frame
    return f"{coroutine.__qualname__}, line {frame.f_lineno if frame else 0}"
