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
from asyncio import events
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import Any, Final, TypeVar, TypeVarTuple

from ottla.sim.errors import SimulationOverranError, SimulationStalledError

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

_MOST_CANCELLED: Final = 100
"""Timers that were cancelled and may be kept until they are due, as long as others are the majority."""
_TASKS_BETWEEN_LOOKS: Final = 256


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop in virtual time, which begins at 0."""

    # BaseEventLoop's own: what is ready, how many cancelled timers are still kept, whether `stop` was called.
    _ready: deque[asyncio.Handle]
    _timer_cancelled_count: int
    _stopping: bool

    def __init__(self, limit: float | None = None) -> None:
        """`limit` is the virtual time that the simulation may take, in seconds."""
        super().__init__()
        self._now = 0.0
        self.limit = limit
        # A heap of tuples, which compare without a call of Python: by deadline, and by age where that is equal.
        self._scheduled: list[tuple[float, int, _Timer]] = []
        self._timers = 0
        # A dict keeps them in the order of their making; asyncio's own set of tasks has no order.
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._tasks_made = 0

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        """In the place of BaseEventLoop's, which asks a selector: what is ready now, and what is due then."""
        scheduled, ready = self._scheduled, self._ready
        self._forget_cancelled_timers()
        if not ready and not self._stopping:
            self._jump()
        while scheduled and scheduled[0][0] <= self._now:
            timer = heapq.heappop(scheduled)[2]
            timer._scheduled = False
            ready.append(timer)
        # What becomes ready meanwhile runs the next time round.
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _forget_cancelled_timers(self) -> None:
        scheduled = self._scheduled
        if self._timer_cancelled_count > _MOST_CANCELLED and self._timer_cancelled_count * 2 > len(scheduled):
            self._timer_cancelled_count = 0
            scheduled[:] = [entry for entry in scheduled if not entry[2]._cancelled]
            heapq.heapify(scheduled)
        while scheduled and scheduled[0][2]._cancelled:
            heapq.heappop(scheduled)
            self._timer_cancelled_count -= 1

    def _jump(self) -> None:
        """To the next timer."""
        if not self._scheduled:
            raise SimulationStalledError(
                f"nothing is left to happen at {self._now} seconds, {self.describe_tasks()}"
            )
        self._now = max(self._now, self._scheduled[0][0])
        if self.limit is not None and self._now > self.limit:
            raise SimulationOverranError(f"not over after {self.limit} seconds, {self.describe_tasks()}")

    def call_soon(
        self, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        if self.is_closed():
            raise RuntimeError("the simulation is over")
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(
        self, when: float, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        if self.is_closed():
            raise RuntimeError("the simulation is over")
        timer = _Timer(when, callback, args, self, context)
        heapq.heappush(self._scheduled, (when, self._timers, timer))
        self._timers += 1
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
        if self._tasks_made % _TASKS_BETWEEN_LOOKS == 0:
            self._forget_ended_tasks()
        task: asyncio.Task[Any] = super().create_task(coro, name=str(name), **options)
        self._tasks[task] = None
        return task

    def _forget_ended_tasks(self) -> None:
        """Now and then, and all at once: to be called back by each task would cost a turn of the loop for each."""
        for task in [task for task in self._tasks if task.done()]:
            del self._tasks[task]

    @property
    def tasks(self) -> list[asyncio.Task[Any]]:
        """The tasks that are not done, oldest first."""
        # Those that are done stay: what they alone hold may be a generator, which can end on a running loop only.
        return [task for task in self._tasks if not task.done()]

    def describe_tasks(self) -> str:
        """Which tasks wait, and where."""
        waiting = [f"{task.get_name()} in {_where(task.get_coro())}" for task in self.tasks]
        return f"{len(waiting)} tasks wait: {'; '.join(waiting)}"


class _Timer(asyncio.TimerHandle):
    """A timer of the loop."""

    __slots__ = ()

    # BaseEventLoop's own: whether the timer is among those of the loop.
    _scheduled: bool


async def _call(function: Callable[[*_Ts], _T], *args: *_Ts) -> _T:
    return function(*args)


def _where(coroutine: Any) -> str:
    """The innermost coroutine that a coroutine waits in, and its line."""
    while hasattr(inner := coroutine.cr_await, "cr_await"):
        coroutine = inner
    frame = coroutine.cr_frame
    return f"{coroutine.__qualname__}, line {frame.f_lineno if frame else 0}"
