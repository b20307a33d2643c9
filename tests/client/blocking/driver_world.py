"""A world in which the threads of a Driver take turns, and every order of their steps can be tried.

The driver under test is a copy of client/blocking/driver.py whose `threading`, `asyncio` and signals are those of
this world. Its threads are real ones, but only one of them runs at a time, and which one goes on is chosen before
each step. A step ends where something shared is about to be touched: a lock, the condition, the loop's wake-up, the
wait for events, a future that a thread blocks on, and every field of the driver that is touched without the lock
that guards it. Between two steps a thread touches nothing that another one can see.

`explore` runs a scenario again and again, depth first, until each choice at each state was tried. A state that was
met before is not searched twice: `fingerprints.py` says what makes two states the same one. Where a bound is asked
for, it is on preemptions: how often in a run a thread that could go on has to wait for another one. A run of
MOST_STEPS steps is a failure.

What is checked: a run raises nothing that its scenario does not expect; the loop is run by one thread at a time; and
whenever no thread can go on, each caller is done and the loop is either closed or being run, with nothing left in it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import gc
import inspect
import linecache
import math
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final

import ottla.client.blocking.driver
from ottla.client.blocking.loop import QuickRuns
from tests.client.fingerprints import fingerprint

SOURCE: Final = Path(ottla.client.blocking.driver.__file__).read_text()

MOST_STEPS: Final = 1_000
"""Of one run; the longest scenario takes about 150."""

Scenario = Callable[["World"], None]


class ScheduleError(AssertionError):
    """What went wrong, and the choices that lead there."""

    def __init__(self, what: str, choices: Sequence[int], steps: Sequence[str]) -> None:
        super().__init__(
            f"{what}\nrepeat it with replay(scenario, {list(choices)}):\n  " + "\n  ".join(steps)
        )
        self.choices = list(choices)


class Abandoned(BaseException):
    """Ends the threads of a run that is not carried on."""


class Thread:
    """One thread of the world; `can_go_on` says whether its next step is possible."""

    # Where it stands is told by its frames.
    not_of_the_state = ("_target", "_is_its_turn", "_system", "can_go_on")

    def __init__(
        self, target: Callable[[], object], name: str = "", daemon: bool = True, *, world: World
    ) -> None:
        self.name = name
        self._target = target
        self._world = world
        self._is_its_turn = threading.Semaphore(0)
        self._system = threading.Thread(target=self._run, name=name, daemon=True)
        self.is_over = False
        self.can_go_on: Callable[[], bool] = _always
        self.step = "begins"

    def start(self) -> None:
        self._world.threads.append(self)
        self._system.start()

    def join(self) -> None:
        self._world.wait(f"joins {self.name}", lambda: self.is_over)

    def go_on(self) -> None:
        self._is_its_turn.release()

    def pause(self) -> None:
        self._is_its_turn.acquire()
        if self._world.is_abandoned:
            raise Abandoned

    @property
    def ident(self) -> str:
        return self.name

    @property
    def frame(self) -> Any:
        return sys._current_frames().get(self._system.ident or 0)

    def _run(self) -> None:
        world = self._world
        try:
            self.pause()
            self._target()
        except Abandoned:
            pass
        except BaseException as error:  # noqa: BLE001  the run has failed by it
            world.fail(f"{self.name} ended with {error!r}", error)
        self.is_over = True
        world.thread_is_over(self)


class Lock:
    """Of `threading`, as far as the driver uses it."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self.name = name
        self.owner: Thread | None = None

    def acquire(self, blocking: bool = True) -> bool:
        world = self._world
        if blocking:
            world.wait(f"takes {self.name}", lambda: self.owner is None)
        else:
            world.wait(f"tries {self.name}", _always)
            if self.owner is not None:
                # A step of its own: it may be free before its thread acts on that.
                world.wait(f"has found {self.name} taken", _always)
                return False
        self.owner = world.current
        return True

    def release(self) -> None:
        if self._world.is_abandoned:
            return
        assert self.owner is not None, f"{self.name} is released, but free"
        # A step of its own: until here another thread can find it taken.
        self._world.wait(f"releases {self.name}", _always)
        self.owner = None

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Condition:
    """Of `threading`; with a timeout, the time may be up at any moment."""

    def __init__(self, world: World, lock: Lock) -> None:
        self._world = world
        self.lock = lock
        lock.name = "the state"
        self.notified: dict[Thread, bool] = {}

    def wait(self, timeout: float | None = None) -> None:
        world, me = self._world, self._world.current
        assert self.lock.owner is me
        self.notified[me] = False
        self.lock.owner = None
        if not world.has_patience_ends:
            timeout = None
        kind = "for good" if timeout is None else "for a while"
        world.wait(
            f"waits {kind}", lambda: self.lock.owner is None and (timeout is not None or self.notified[me])
        )
        del self.notified[me]
        self.lock.owner = me

    def notify_all(self) -> None:
        assert self.lock.owner is self._world.current or self._world.is_abandoned
        for thread in self.notified:
            self.notified[thread] = True

    def __enter__(self) -> None:
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        # No step: nobody tries this lock, all wait for it.
        self.lock.owner = None


class Loop(QuickRuns):
    """The client's own, with a selector that waits in the world."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        world.loop = self
        self._selector = self
        self.is_woken = False
        self.runner: Thread | None = None
        self._now = 0.0
        self.set_exception_handler(self._failed)

    def _failed(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._world.fail(f"a callback failed: {context}", context.get("exception"))

    def time(self) -> float:
        return self._now

    def run_forever(self) -> None:
        self._run(super().run_forever)

    def call(self, function: Callable[[], object]) -> None:
        self._run(partial(super().call, function))

    def _run(self, runs: Callable[[], None]) -> None:
        self._world.check(self.runner is None, "two threads run the loop")
        self.runner = self._world.current
        try:
            runs()
        finally:
            self.runner = None

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.Handle:
        self._world.wait("wakes the loop", _always)
        return super().call_soon_threadsafe(callback, *args, context=context)

    def _write_to_self(self) -> None:
        self.is_woken = True

    def select(self, timeout: float | None) -> list[Any]:
        # Also without anything to wait for: what is posted in this moment is seen in this round or in the next.
        self._world.wait("looks for events", lambda: timeout is not None or self.is_woken)
        if timeout is not None and not self.is_woken:
            self._now += timeout
        self.is_woken = False
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        """`select` has none."""

    @property
    def waiting(self) -> list[Any]:
        """What is to be run, at once or later."""
        return [*self._first, *self._ready, *self._scheduled]  # type: ignore[attr-defined]


class Future(concurrent.futures.Future[Any]):
    """Blocks in the world."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def result(self, timeout: float | None = None) -> Any:
        self._world.wait("waits for a result", self.done)
        return super().result(0)


def _threading(world: World) -> SimpleNamespace:
    """In the place of the module."""
    return SimpleNamespace(
        Lock=lambda: Lock(world, "the turn"),
        Condition=partial(Condition, world),
        Thread=partial(Thread, world=world),
        main_thread=lambda: world.threads[0],
    )


class _Asyncio:
    """In the place of the module."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    def run_coroutine_threadsafe(self, work: Coroutine[Any, Any, Any], loop: Loop) -> Future:
        future = Future(self._world)

        def begin() -> None:
            asyncio.futures._chain_future(loop.create_task(work), future)  # type: ignore[attr-defined]

        loop.call_soon_threadsafe(begin)
        return future


class _Logger:
    """In the place of the driver's."""

    def __init__(self, world: World) -> None:
        self._world = world

    def exception(self, message: str) -> None:
        if not self._world.is_abandoned:
            self._world.events.append(message)


class World:
    """One run: threads, the choices made so far, and those to be made."""

    # How it came to where it is.
    not_of_the_state = ("choices", "options", "steps", "_seen", "_preemptions_left", "_ended", "_module")

    def __init__(self, search: Search, choices: Sequence[int]) -> None:
        self.threads: list[Thread] = []
        self.current: Thread
        self.loop: Loop
        self.driver: Any = None
        self.events: list[str] = []
        """What has happened, for the scenario to look at."""
        self.works: list[Any] = []
        self.is_abandoned = False
        self.failure: str | None = None
        self.cause: BaseException | None = None
        self.choices = list(choices)
        self.options: list[int] = []
        self.steps: list[str] = []
        self._seen = search.seen
        self._preemptions_left = search.preemptions
        self._has_ctrl_c = search.ctrl_c
        self.has_patience_ends = search.patience_ends
        self._may_interrupt = False
        self._handler: Any = signal.default_int_handler
        self._ended = threading.Event()
        self._module = _copy(search.source, self)

    # For scenarios

    def new_driver(self) -> Any:
        self.driver = self._module.Driver("background")
        return self.driver

    def call(self, work: Coroutine[Any, Any, Any]) -> Any:
        """What a caller does; whatever comes of it, the work is over then or handed to the loop's end."""
        self.works.append(work)
        return self.driver.call(work)

    def attempt(self, function: Callable[..., object], *args: Any) -> Any:
        """Calls it; Ctrl-C may come at any step of that."""
        self._may_interrupt = self._has_ctrl_c
        try:
            return function(*args)
        except KeyboardInterrupt:
            self.events.append("interrupted")
        finally:
            self._may_interrupt = False
        return None

    def thread(self, target: Callable[[], object], name: str) -> Thread:
        """Another caller; it has begun."""
        thread = Thread(target, name, world=self)
        thread.start()
        return thread

    def rest(self) -> None:
        """Until no other thread can go on: what the driver was given must have been done by itself."""
        me = self.current
        self.wait("rests", lambda: not any(each.can_go_on() for each in self._alive() if each is not me))

    def rest_of_threads(self) -> None:
        """As `rest`, where the background thread need not have come to run the loop."""
        me = self.current
        self.wait(
            "waits for the others",
            lambda: not any(each.can_go_on() for each in self._alive() if each is not me),
        )

    # Steps

    def wait(self, step: str, can_go_on: Callable[[], bool]) -> None:
        """Ends a step; the next one begins when it can and is chosen."""
        if self.is_abandoned:
            raise Abandoned
        me = self.current
        self._interrupted(me, step)
        me.step, me.can_go_on = step, can_go_on
        self._choose()
        if self.current is not me:
            self.current.go_on()
            me.pause()
        if self.is_abandoned:
            raise Abandoned
        me.can_go_on = _always

    def _alive(self) -> list[Thread]:
        return [thread for thread in self.threads if not thread.is_over]

    def _choose(self) -> None:
        # One that rests is asked last: it goes on only if all others are stuck.
        able = [thread for thread in self._alive() if thread.step != "rests" and thread.can_go_on()]
        able = able or [thread for thread in self._alive() if thread.can_go_on()]
        if not able:
            self._all_wait()
        if self.current in able:
            able.remove(self.current)
            able = [self.current, *able] if self._preemptions_left > 0 else [self.current]
        chosen = able[self._choice(len(able))]
        if self.current in able and chosen is not self.current:
            self._preemptions_left -= 1
        self.current = chosen
        self._note(f"{self.current.name} {self.current.step}")
        if all(thread.step == "rests" for thread in able):
            self._check_rest()

    def _choice(self, options: int) -> int:
        if options == 1:
            return 0
        at = len(self.options)
        if at == len(self.choices):
            self._go_no_further_if_known()
            self.choices.append(0)
        self.options.append(options)
        return self.choices[at]

    def _go_no_further_if_known(self) -> None:
        if self._seen is None:
            return
        try:
            state = fingerprint(self)
        except TypeError as error:
            self.fail(str(error), error)
            self.is_abandoned = True
            raise Abandoned from error
        if self._seen.get(state, -1) >= self._preemptions_left:
            self._abandon()
        self._seen[state] = self._preemptions_left

    def _note(self, step: str) -> None:
        self.steps.append(step)
        self.check(len(self.steps) < MOST_STEPS, f"not over after {MOST_STEPS} steps")

    def _all_wait(self) -> None:
        told = "; ".join(f"{thread.name} {thread.step}" for thread in self._alive())
        self.check(not self._alive(), f"nobody can go on: {told}")
        self._ended.set()
        raise Abandoned

    def _check_rest(self) -> None:
        """No thread but the one that rests can go on: somebody runs the loop, or it is closed."""
        told = "; ".join(f"{thread.name} {thread.step}" for thread in self._alive())
        if not self.loop.is_closed():
            self.check(self.loop.runner is not None, f"nobody runs the loop, and nobody will: {told}")
            self.check(not self.loop.waiting, f"left in the loop: {self.loop.waiting}; {told}")
        stuck = [thread.name for thread in self._alive() if thread.step == "waits for a result"]
        self.check(not stuck, f"{stuck} waits for a result that nobody works on: {told}")

    # Ctrl-C: at any step of the first thread, once

    def set_handler(self, number: int, handler: Any) -> None:
        self._handler = handler

    def getsignal(self, number: int) -> Any:
        return self._handler

    def _interrupted(self, me: Thread, step: str) -> None:
        # A state of its own, unlike that in which it waits to be chosen.
        me.step = f"is about to: {step}"
        if self._may_interrupt and me is self.threads[0] and self._choice(2):
            self._has_ctrl_c = self._may_interrupt = False
            self._note(f"{me.name} gets Ctrl-C")
            self._handler(signal.SIGINT, None)

    # The end

    def check(self, holds: bool, what: str) -> None:
        if not holds:
            self.fail(what)
            self._abandon()

    def fail(self, what: str, cause: BaseException | None = None) -> None:
        if self.failure is None and not self.is_abandoned:
            self.failure, self.cause = what, cause

    def _abandon(self) -> None:
        self.is_abandoned = True
        raise Abandoned

    def thread_is_over(self, thread: Thread) -> None:
        """Its last act: hands over to another one, or ends the run."""
        if self.failure is not None:
            self.is_abandoned = True
        try:
            if not self.is_abandoned:
                thread.can_go_on = _never
                self._choose()
                self.current.go_on()
                return
        except Abandoned:
            pass
        # One after the other, as before: what they unwind through is shared.
        if alive := self._alive():
            self.current = alive[0]
            self.current.go_on()
        else:
            self._ended.set()

    def run(self, scenario: Scenario) -> None:
        """Until all threads are over, or the run is not carried on."""
        main = Thread(lambda: scenario(self), "main", world=self)
        self.current = main
        main.start()
        main.go_on()
        assert self._ended.wait(60), f"the world is stuck after {self.steps}"
        if not self.is_abandoned:
            left = [work.__qualname__ for work in self.works if work.cr_frame is not None]
            if left:
                self.fail(f"begun or not, never ended: {left}")
        self._clear_up()

    def _clear_up(self) -> None:
        """Nothing is left for the garbage collector to tell of."""
        self.is_abandoned = True
        works: list[Any] = list(self.works)
        for task in asyncio.all_tasks(self.loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            works.append(task.get_coro())
        for work in works:
            if inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
                work.close()
        self.loop.close()


class Receipt:
    """Of a record, as the driver sees it; and a clock, for how long to wait for it."""

    def __init__(self, world: World) -> None:
        self._loop = world.loop
        self._callbacks: list[Callable[[Any], object]] = []
        self._is_done = False

    def done(self) -> bool:
        return self._is_done

    def add_done_callback(self, function: Callable[[Any], object]) -> None:
        if self._is_done:
            function(self)
        else:
            self._callbacks.append(function)

    def complete(self) -> None:
        self._is_done = True
        for function in self._callbacks:
            function(self)

    def call_later(self, seconds: float, function: Callable[[], object]) -> asyncio.TimerHandle:
        return self._loop.call_later(seconds, function)

    def monotonic(self) -> float:
        return self._loop.time()


def _always() -> bool:
    return True


def _never() -> bool:
    return False


# Fields that more than one thread touches; the lock that guards them is that of the condition.
_FIELDS: Final = (
    "_waiting_calls",
    "_posts",
    "_calls",
    "_background_runs",
    "_background_sleeps",
    "_has_successor",
    "_ended",
    "_exit",
    "is_over",
)


def _watched(name: str, world: World) -> property:
    """A field that ends a step where it is touched without the lock."""

    def touch(driver: Any) -> None:
        state = driver.__dict__.get("_state")
        if state is not None and hasattr(world, "current") and state.lock.owner is not world.current:
            world.wait(f"touches {name}", _always)

    def get(driver: Any) -> Any:
        touch(driver)
        return driver.__dict__[name]

    def put(driver: Any, value: Any) -> None:
        if name in driver.__dict__:
            touch(driver)
        driver.__dict__[name] = value

    return property(get, put)


_compiled: dict[str, Any] = {}


def _copy(source: str, world: World) -> ModuleType:
    """The module of the driver, with this world in the place of the system's threads."""
    module = ModuleType("ottla.client.driver_in_a_world")
    module.__file__ = "driver_in_a_world.py"
    if source not in _compiled:
        _compiled[source] = compile(source, module.__file__, "exec", dont_inherit=True)
        linecache.cache[module.__file__] = (len(source), None, source.splitlines(True), module.__file__)
    exec(_compiled[source], module.__dict__)
    names = module.__dict__
    names["threading"], names["asyncio"] = _threading(world), _Asyncio(world)
    names["ClientLoop"] = partial(Loop, world)
    names["this_thread"] = lambda: world.current.ident
    names["set_handler"], names["getsignal"] = world.set_handler, world.getsignal
    names["_logger"] = _Logger(world)
    for name in _FIELDS:
        setattr(names["Driver"], name, _watched(name, world))
    return module


@dataclass
class Search:
    """What is searched, and how."""

    source: str = SOURCE
    ctrl_c: bool = False
    """Whether the first thread is interrupted, once, at each of the steps where it may be."""
    preemptions: float = math.inf
    patience_ends: bool = True
    """Whether a wait with a timeout may end by that. If not, what happens does not have to wait for it."""
    seen: dict[int, float] | None = field(default_factory=dict)
    """The states, with how many preemptions were left there; None to go through all runs, known states or not."""


def explore(scenario: Scenario, search: Search | None = None) -> int:
    """Tries every interleaving; how many runs that took. A ScheduleError for the first that goes wrong."""
    search = search or Search()
    with warnings.catch_warnings():
        # Of coroutines that a run which is not carried on leaves behind.
        warnings.simplefilter("ignore", RuntimeWarning)
        runs, choices = 1, _run(scenario, search, [])
        while choices:
            choices[-1] += 1
            choices = _run(scenario, search, choices)
            runs += 1
        gc.collect()
    return runs


def _run(scenario: Scenario, search: Search, choices: Sequence[int]) -> list[int]:
    """The choices up to the last that has an alternative left."""
    world = World(search, choices)
    world.run(scenario)
    _raise(world)
    made = world.choices[: len(world.options)]
    while made and made[-1] + 1 == world.options[len(made) - 1]:
        made.pop()
    return made


def replay(scenario: Scenario, choices: Sequence[int], search: Search | None = None) -> list[str]:
    """One run, as a ScheduleError names it; its steps."""
    world = World(dataclasses.replace(search or Search(), seen=None), choices)
    world.run(scenario)
    _raise(world)
    return world.steps


def _raise(world: World) -> None:
    if world.failure is not None:
        raise ScheduleError(world.failure, world.choices, world.steps) from world.cause
