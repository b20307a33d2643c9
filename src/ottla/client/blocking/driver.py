"""The loop of a blocking client, and the thread that runs it.

A loop in a thread of its own would make every call wait for two threads to be woken, and beside a thread that
computes, each of these wakings takes an interval of the interpreter's lock (5 ms). So the calling thread runs the
loop: a call that blocks runs it until its result is there, an append that has something to send runs one iteration.
What is left, when no thread has called for `GRACE` seconds, is run by a background thread; a little later where they
have been calling often.

Invariants: at most one thread runs the loop at any time, the one that holds `_loop_lock`; whenever no thread holds
it, the background thread begins within GRACE, so every release of `_loop_lock` notifies it if it waits for that; and
Ctrl-C ends the call it interrupts, never the middle of a callback.

What a callback raises to end the program (SystemExit, KeyboardInterrupt) ends the call that runs the loop. In the
background thread it would end nothing: it is logged, and the next call of any thread raises it.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import asyncio
import logging
import signal
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar

from ottla.client.blocking.forks import forked_error
from ottla.client.blocking.loop import ClientLoop
from ottla.errors import ClientClosedError
from ottla.runtime import this_thread

if TYPE_CHECKING:
    from ottla.runtime import Clock

# Those of the module `signal` are these with enums around, which cost several times what they do.
set_handler, getsignal = _signal.signal, _signal.getsignal
_SIGINT: Final = int(signal.SIGINT)

_T = TypeVar("_T")

_logger = logging.getLogger("ottla.client")

GRACE: Final = 0.003
"""Long enough that a thread that produces a thousand records a second one by one keeps the loop to itself, short
enough that an acknowledgement which no thread waits for is not late."""
_SHORT_GRACE: Final = GRACE / 3
"""Where records wait for a response, and the calls that append more of them have no reason to run the loop."""
_BUSY_GRACE: Final = 4 * GRACE
"""While calls come one after the other, waking up to see that costs the background thread a tenth of what they do."""
_NEVER: Final = float("inf")


class Awaited(Protocol):
    """What a thread waits for without a coroutine: a receipt, or something to read."""

    def done(self) -> bool: ...

    def add_done_callback(self, function: Callable[..., object], /) -> object:
        """Calls it on the loop once this is done."""


_A = TypeVar("_A", bound=Awaited)


class Driver:
    """Runs coroutines for threads that block."""

    def __init__(self, name: str) -> None:
        self.loop = ClientLoop()
        self._loop_lock = threading.Lock()
        # Guards the fields below but `_posts`, `_calls` and `_hurries`; never held while the loop runs.
        self._state = threading.Condition(threading.Lock())
        # Calls that wait for a result while another thread runs the loop.
        self._waiting_calls = 0
        # What threads have handed over to the one that runs the loop, and that has not begun.
        self._posts: deque[Callable[[], object]] = deque()
        # Calls so far: the background thread sees by it that none came meanwhile. Who holds the loop lock counts.
        self._calls = 0
        self._grace = GRACE
        self._hurries = False
        self._background_runs = False
        self._background_sleeps = False
        # A calling thread waits for the background thread to leave, and takes the loop lock over from it.
        self._has_successor = False
        self._ended = False
        self._forked = False
        self.is_over = False
        """Closed, or of another process; a field, because a reader looks at it before each batch."""
        # What a callback has raised to end the program, in the background.
        self._exit: BaseException | None = None
        self._wait: _Wait | None = None
        # When the loop looks whether the time of the current wait is up; perhaps for one that is long over.
        self._alarm_at = _NEVER
        self._main_thread = threading.main_thread().ident
        self._thread = threading.Thread(target=self._background, name=name, daemon=True)
        self._thread.start()

    # Calls

    def call(self, work: Coroutine[Any, Any, _T], *, is_last: bool = False) -> _T:
        """The result of a coroutine; Ctrl-C cancels it."""
        # Around everything: a KeyboardInterrupt right behind taking a lock would leave it taken forever.
        with _CtrlC(self._main_thread) as ctrl_c:
            try:
                self.check()
                if self._exit is not None and not is_last:
                    self._raise_exit()
                owns_loop = self._acquire_loop()
            except BaseException:
                work.close()
                raise
            if not owns_loop:
                return self._run_by_another(work, ctrl_c)
            try:
                return self._run(work, ctrl_c)
            finally:
                self._release_loop()

    def now(self, function: Callable[[], _T]) -> _T:
        """`call` for a function that waits for nothing: without a task, and most times without an iteration."""
        with _CtrlC(self._main_thread) as ctrl_c:
            self.check()
            self._raise_exit()
            if not self._acquire_loop():
                return self._run_by_another(_called(function), ctrl_c)
            try:
                self.check()
                return self.loop.now(function)
            finally:
                self._release_loop()

    def wait(self, awaited: Awaited, seconds: float | None, clock: Clock) -> None:
        """Returns when something is done or the time is up: it says which itself."""
        # As `call`, without a coroutine: that would be a future, a task and two iterations of the loop.
        with _CtrlC(self._main_thread) as ctrl_c:
            if self.is_over:
                self.check()
            if self._exit is not None:
                self._raise_exit()
            if not self._acquire_loop():
                self._run_by_another(_done(awaited, seconds, clock), ctrl_c)
                return
            try:
                self._run_until_done(awaited, seconds, clock, ctrl_c)
            finally:
                self._release_loop()

    def begin_and_wait(
        self, begin: Callable[[], _A | None], seconds: float | None, clock: Clock
    ) -> _A | None:
        """`now`, and then `wait` for what that returns, unless it is None; both in one run of the loop."""
        with _CtrlC(self._main_thread) as ctrl_c:
            self.check()
            self._raise_exit()
            if not self._acquire_loop():
                awaited = self._run_by_another(_called(begin), ctrl_c)
                if awaited is not None:
                    self._run_by_another(_done(awaited, seconds, clock), ctrl_c)
                return awaited
            try:
                self.check()
                awaited = self.loop.now(begin)
                if awaited is not None:
                    self._run_until_done(awaited, seconds, clock, ctrl_c)
                return awaited
            finally:
                self._release_loop()

    def finish(self, work: Coroutine[Any, Any, object]) -> None:
        """The last call, and then the end: both happen, also if a callback has raised before."""
        try:
            self.call(work, is_last=True)
        finally:
            self.close()

    def post(self, function: Callable[[], object]) -> None:
        """Has a function called on the loop, soon; from any thread, also from inside of the loop.

        A thread that can runs the loop for that: the function, then one iteration unless that returns False.
        """
        with _CtrlC(self._main_thread):
            if asyncio._get_running_loop() is not None:
                self.check()
                self._hand_over(function)
                return
            if not self._loop_lock.acquire(blocking=False):
                self.check()
                self._hand_over(function)
                # The thread that had the lock may be past its last iteration, and have released it by now. If not,
                # it sees behind that what was handed over.
                if not self._loop_lock.acquire(blocking=False):
                    return
                function = _nothing
            try:
                if self.is_over:
                    self.check()
                self.loop.call(function)
            finally:
                self._release_loop()
            if self._exit is not None:
                self._raise_exit()

    def later(self, function: Callable[[], object]) -> None:
        """Has a function called by the thread that runs the loop next; one does within GRACE.

        For a reader that has got something: what is to be fetched behind it need not keep it from its user.
        """
        with _CtrlC(self._main_thread):
            if not self._loop_lock.acquire(blocking=False):
                self.check()
                self._call_soon(function)
                return
            # No thread runs the loop, so that none has to be woken.
            try:
                if self.is_over:
                    self.check()
                self.loop.call_first(function)
            finally:
                # Not counted: a reader that comes often would keep the background thread from what it leaves here.
                self._release_loop(calls=0)

    def soon(self, function: Callable[[], object]) -> None:
        """Has a function called on the loop, for a finalizer: it may run anywhere, so this takes no lock.

        Nothing at the end, which ends everything anyway.
        """
        if not self.is_over:
            # The loop is closed in another thread, perhaps just now.
            with suppress(RuntimeError):
                self.loop.call_soon_threadsafe(function)

    def hurry(self) -> None:
        """On the loop: a response is due that the next call may not come for, as it has nothing to send before it."""
        self._hurries = True

    def _hand_over(self, function: Callable[[], object]) -> None:
        """For a thread that cannot run the loop."""
        self._posts.append(function)
        self._call_soon(self._serve)

    def _serve(self) -> None:
        """For threads that could not run the loop. If the background does, it leaves: next time they can."""
        while self._posts:
            function = self._posts.popleft()
            function()
        if self._background_runs:
            self.loop.call_soon(self.loop.stop)

    def check(self) -> None:
        """Raises if the client is closed, or this process is a copy of its own."""
        if self._forked:
            raise forked_error()
        if self._ended:
            raise ClientClosedError("the client is closed")

    def _raise_exit(self) -> None:
        with self._state:
            error, self._exit = self._exit, None
        if error is not None:
            raise error

    def _check_outside(self) -> None:
        if asyncio._get_running_loop() is self.loop:
            raise RuntimeError(
                "a callback, hook or interceptor of the client has called what waits for the client: it would wait "
                "for itself. Hand this over to another thread"
            )

    def _call_soon(self, function: Callable[[], object]) -> None:
        """From a thread that does not run the loop."""
        try:
            self.loop.call_soon_threadsafe(function)
        except RuntimeError:
            # It has been closed since we looked; anything else is a bug.
            self.check()
            raise

    # Which thread runs the loop

    def _acquire_loop(self) -> bool:
        """Whether the caller is to run the loop; if not, another call runs it, for as long as that takes."""
        if _in_a_loop():
            self._check_outside()
            # A thread has one running loop only: this one is a coroutine's that blocks, wrongly but not our business.
            return False
        with self._state:
            if self._loop_lock.acquire(blocking=False):
                return True
            if not self._background_runs:
                return False
            self._background_runs = False
            self._calls += 1
            self._has_successor = True
            self.loop.call_soon_threadsafe(self.loop.stop)
            # The background thread leaves within a callback's time, and leaves the lock taken: a free one could be
            # gone before this thread is awake, to the background thread again or to another call, and those would
            # not be stopped.
            while self._has_successor:
                self._state.wait()
        return True

    def _release_loop(self, calls: int = 1) -> None:
        self._calls += calls
        self._loop_lock.release()
        # Not after each call: while one follows the other, the background thread need not wake up. It says that it
        # sleeps before it finds the lock taken, so that this thread, which had it, sees that here.
        if self._background_sleeps or self._waiting_calls or self._posts or self._hurries:
            with self._state:
                # Once: the next thread to release the lock may be quicker than the one that is being woken.
                self._background_sleeps = False
                self._state.notify_all()

    def _background(self) -> None:
        """Runs the loop while no calling thread does, and ends it."""
        while self._wait_until_needed():
            try:
                self._run_in_background()
            except BaseException:
                # The loop's own, as nothing that a callback raises comes here: the lock must be freed all the same.
                _logger.exception("the client's loop failed")
            with self._state:
                self._background_runs = False
                if self._has_successor:
                    self._has_successor = False
                    self._state.notify_all()
                else:
                    self._loop_lock.release()
        # Here, because a coroutine may be what closes, and in its thread no other loop can run.
        with self._loop_lock:
            self._finish()

    def _run_in_background(self) -> None:
        try:
            self.loop.run_forever()
        except (SystemExit, KeyboardInterrupt) as error:
            _logger.exception(
                "a callback on the client's loop ends the program: the client's next call raises this"
            )
            with self._state:
                self._exit = self._exit or error

    def _wait_until_needed(self) -> bool:
        """Until the loop is free and no thread has called for GRACE, or a call waits for it; False at the end."""
        with self._state:
            while not self.is_over:
                if self._is_quiet():
                    self._background_sleeps = True
                    if self._loop_lock.acquire(blocking=False):
                        self._background_sleeps = False
                        self._background_runs = True
                        return True
                    self._state.wait()
                    self._background_sleeps = False
            return False

    def _is_quiet(self) -> bool:
        """Waits for GRACE; whether no thread has called meanwhile. At once if the loop has to be run for a thread."""
        calls = self._calls
        grace, self._hurries = _SHORT_GRACE if self._hurries else self._grace, False
        if not (self._waiting_calls or self._posts):
            self._state.wait(grace)
        came = self._calls - calls
        self._grace = min(2 * self._grace, _BUSY_GRACE) if came > 1 else GRACE
        return not self.is_over and (came == 0 or self._waiting_calls > 0 or len(self._posts) > 0)

    # Running it

    def _run(self, work: Coroutine[Any, Any, _T], ctrl_c: _CtrlC) -> _T:
        # The client may have been closed since the call began, by a thread whose stop of the loop the background
        # thread has taken for this one's.
        if self._ended:
            work.close()
            raise ClientClosedError("the client is closed")
        task = self.loop.create_task(self._stopping(work))
        ctrl_c.ends(self.loop.stop, self.loop)
        raised: BaseException | None = None
        while not task.done():
            try:
                self.loop.run_forever()
            except (SystemExit, KeyboardInterrupt) as error:
                raised = raised or error
            except BaseException:
                task.cancel()
                raise
            if (raised is not None or ctrl_c.has_come or self._ended) and not task.done():
                task.cancel()
                # If it was never begun, `_stopping` stops nothing.
                task.add_done_callback(self._stop)
        work.close()  # it was never begun, if Ctrl-C was quick
        if raised is not None:
            if not task.cancelled():
                task.exception()  # asyncio is not to log that it was never retrieved
            raise raised
        return self._outcome(task)

    def _run_until_done(self, awaited: Awaited, seconds: float | None, clock: Clock, ctrl_c: _CtrlC) -> None:
        # Only the loop completes what is waited for, and it does not run now.
        if awaited.done():
            return
        wait = self._wait = _Wait(self.loop, clock, seconds)
        awaited.add_done_callback(wait.end)
        if wait.deadline < self._alarm_at:
            # On the loop, as a clock has no timers elsewhere.
            self.loop.call_soon(self._set_alarm, wait)
        ctrl_c.ends(self.loop.stop, self.loop)
        try:
            while not (wait.is_over or self._ended or ctrl_c.has_come):
                self.loop.run_forever()
        finally:
            self._wait = None
            wait.is_over = True
        if self._ended and not awaited.done():
            raise ClientClosedError("the client has been closed meanwhile")

    def _set_alarm(self, wait: _Wait) -> None:
        if wait.deadline < self._alarm_at and not wait.is_over:
            self._alarm_at = wait.deadline
            wait.clock.call_later(max(0.0, wait.deadline - wait.clock.monotonic()), self._ring)

    def _ring(self) -> None:
        """A wait that began since may have longer: a thread that waits often sets few alarms."""
        self._alarm_at = _NEVER
        wait = self._wait
        if wait is not None and wait.deadline <= wait.clock.monotonic():
            wait.end()
        elif wait is not None:
            self._set_alarm(wait)

    async def _stopping(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Stops the loop in the iteration that ends the work; a callback of its task would take another one."""
        try:
            return await work
        finally:
            self.loop.stop()

    def _stop(self, _: object) -> None:
        self.loop.stop()

    def _outcome(self, done: asyncio.Task[_T] | Future[_T]) -> _T:
        try:
            return done.result()
        except (CancelledError, asyncio.CancelledError):
            if self._ended:
                raise ClientClosedError("the client has been closed meanwhile") from None
            raise

    def _run_by_another(self, work: Coroutine[Any, Any, _T], ctrl_c: _CtrlC) -> _T:
        """Hands the work over to the thread that runs the loop, and waits."""
        with self._state:
            # Nothing is handed over behind the end, where no thread would run it.
            if self._ended:
                work.close()
                raise ClientClosedError("the client is closed")
            future = asyncio.run_coroutine_threadsafe(work, self.loop)
            self._waiting_calls += 1
            self._state.notify_all()
        ctrl_c.ends(future.cancel, self.loop)
        try:
            return self._outcome(future)
        finally:
            with self._state:
                self._waiting_calls -= 1
                self._state.notify_all()

    # The end

    def close(self) -> None:
        """Ends the loop; what is still on it is cancelled, and calls of other threads end. Once."""
        self._check_outside()
        with _CtrlC(self._main_thread), self._state:
            if self.is_over:
                return
            self._ended = self.is_over = True
            self._state.notify_all()
            self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        with _CtrlC(self._main_thread):
            if self._exit is not None:
                self._raise_exit()

    def _finish(self) -> None:
        """What is left on the loop ends, whatever it raises."""
        # One iteration first: it makes a task of what was handed over last, and takes a stop that is still to come.
        self.loop.call_soon(self.loop.stop)
        self._run_in_background()
        ending = self.loop.create_task(self._stopping(_end_all(self.loop)))
        while not ending.done():
            self._run_in_background()
        self.loop.close()

    def forked(self) -> None:
        """This process is a copy: the loop's files are shared with the original and must not be touched."""
        self._forked = self.is_over = True
        # The threads that held these are in the other process.
        self._loop_lock = threading.Lock()
        self._state = threading.Condition(threading.Lock())


class _CtrlC:
    """Inside, Ctrl-C raises nothing: it ends what is waited for, between two callbacks, and is raised at the end.

    Only where it would be: in the main thread, with Python's own handler.
    """

    __slots__ = ("_end", "_is_on", "_loop", "_main_thread", "has_come")

    def __init__(self, main_thread: int | None) -> None:
        self.has_come = False
        self._main_thread = main_thread
        self._end: Callable[[], object] | None = None
        self._is_on = False

    def __enter__(self) -> Self:
        if this_thread() == self._main_thread and getsignal(_SIGINT) is signal.default_int_handler:
            set_handler(_SIGINT, self._interrupt)
            self._is_on = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_on:
            set_handler(_SIGINT, signal.default_int_handler)
            if self.has_come:
                raise KeyboardInterrupt from None

    def ends(self, end: Callable[[], object], loop: asyncio.AbstractEventLoop) -> None:
        """What to call on the loop, also if Ctrl-C has come already."""
        self._loop, self._end = loop, end
        if self.has_come:
            loop.call_soon_threadsafe(end)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.has_come = True
        if self._end is not None:
            self._loop.call_soon_threadsafe(self._end)


class _Wait:
    """Ends the run of the loop when something is done, or the time is up."""

    __slots__ = ("_loop", "clock", "deadline", "is_over")

    def __init__(self, loop: ClientLoop, clock: Clock, seconds: float | None) -> None:
        self._loop = loop
        self.clock = clock
        self.deadline = _NEVER if seconds is None else clock.monotonic() + seconds
        self.is_over = False

    def end(self, *_: object) -> None:
        # What is done after the wait has nothing to stop.
        if not self.is_over:
            self.is_over = True
            self._loop.stop()


async def _called(function: Callable[[], _T]) -> _T:
    return function()


def _nothing() -> None:
    """What there is to do is in the loop."""


def _in_a_loop() -> bool:
    return asyncio._get_running_loop() is not None


async def _done(awaited: Awaited, seconds: float | None, clock: Clock) -> None:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def notify(*_: object) -> None:
        if not done.done():
            done.set_result(None)

    if awaited.done():
        return
    awaited.add_done_callback(notify)
    timer = None if seconds is None else clock.call_later(max(0.0, seconds), notify)
    try:
        await done
    finally:
        if timer is not None:
            timer.cancel()


async def _end_all(loop: asyncio.AbstractEventLoop) -> None:
    mine = asyncio.current_task()
    tasks = sorted((task for task in asyncio.all_tasks(loop) if task is not mine), key=asyncio.Task.get_name)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    # Threads that wait for tasks which were done before learn of that in the next iteration.
    await asyncio.sleep(0)
    await loop.shutdown_default_executor()
    await loop.shutdown_asyncgens()
