"""The loop of a blocking client, and whose thread runs it.

A loop in a thread of its own would make every call wait for two threads to be woken, and beside a thread that
computes, each of these wakings takes an interval of the interpreter's lock (5 ms). So whoever calls runs the loop
himself: a call that blocks runs it until its result is there, an append that has something to send runs it for a
moment. What is left, when nobody has called for `GRACE` seconds, is run by a background thread.

Invariants: at most one thread runs the loop at any time, the one that holds `_turn`; whenever nobody does, the
background thread begins within GRACE; and Ctrl-C ends the call it interrupts, never the middle of a callback.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, TypeVar

from ottla.client.forks import forked_error
from ottla.errors import ClientClosedError
from ottla.runtime import new_loop

_T = TypeVar("_T")

GRACE: Final = 0.003
"""Long enough that a thread that produces a thousand records a second one by one keeps the loop to itself, short
enough that an acknowledgement which nobody waits for is not late."""

_PASSES: Final = 4
"""How often the loop goes round for an append: what was handed over, the task that it starts, what that writes."""


class Driver:
    """Runs coroutines for threads that block."""

    def __init__(self, name: str) -> None:
        self.loop = new_loop()
        self._turn = threading.Lock()
        # Guards the fields below; never held while the loop runs.
        self._state = threading.Condition(threading.Lock())
        self._passengers = 0
        self._visits = 0
        self._background_runs = False
        self._background_sleeps = False
        self._ended = False
        self._forked = False
        self._thread = threading.Thread(target=self._background, name=name, daemon=True)
        self._thread.start()

    # Calls

    def call(self, work: Coroutine[Any, Any, _T]) -> _T:
        """The result of a coroutine; Ctrl-C cancels it."""
        try:
            self._check()
            own_turn = self._take_turn()
        except BaseException:
            work.close()
            raise
        if not own_turn:
            return self._ride_along(work)
        try:
            return self._run(work)
        finally:
            self._leave()

    def post(self, function: Callable[[], object]) -> None:
        """Has a function called on the loop, soon; from any thread, also from inside of the loop."""
        if _in_a_loop() or not self._turn.acquire(blocking=False):
            self._check()
            self.loop.call_soon_threadsafe(function)
            return
        try:
            self._check()
            self.loop.call_soon(function)
            self._go_round()
        finally:
            self._leave()

    def _check(self) -> None:
        if self._forked:
            raise forked_error()
        if self._ended:
            raise ClientClosedError("the client is closed")

    # Who runs the loop

    def _take_turn(self) -> bool:
        """Whether the caller is to run the loop; if not, another call runs it, for as long as that takes."""
        if _in_a_loop():
            # A thread has one running loop only: this one is a coroutine's that blocks, wrongly but not our business.
            return False
        with self._state:
            if self._turn.acquire(blocking=False):
                return True
            if not self._background_runs:
                return False
            self._background_runs = False
            self._visits += 1
            self.loop.call_soon_threadsafe(self.loop.stop)
        try:
            self._turn.acquire()
        except BaseException:
            self._notify()
            raise
        return True

    def _leave(self) -> None:
        with self._state:
            self._visits += 1
            self._turn.release()
            # Not at each visit: while one follows the other, the background thread need not know.
            if self._background_sleeps or self._passengers:
                self._state.notify_all()

    def _notify(self) -> None:
        with self._state:
            self._state.notify_all()

    def _background(self) -> None:
        """Runs the loop while nobody else does."""
        while self._wait_for_need():
            self.loop.run_forever()
            with self._state:
                self._background_runs = False
                self._turn.release()

    def _wait_for_need(self) -> bool:
        """Until the loop is free and nobody has come for GRACE, or somebody waits for it; False at the end."""
        with self._state:
            while not self.is_over:
                if self._is_quiet():
                    if self._turn.acquire(blocking=False):
                        self._background_runs = True
                        return True
                    self._background_sleeps = True
                    self._state.wait()
                    self._background_sleeps = False
            return False

    def _is_quiet(self) -> bool:
        """Waits for GRACE; whether nobody has come meanwhile. At once if somebody waits for the loop to be run."""
        visits = self._visits
        if not self._passengers:
            self._state.wait(GRACE)
        return not self.is_over and (self._visits == visits or self._passengers > 0)

    # Running it

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        task = self.loop.create_task(work)
        task.add_done_callback(self._stop)
        with _ctrl_c(self.loop) as interrupted:
            while not task.done():
                self.loop.run_forever()
                if interrupted and not task.done():
                    task.cancel()
        if interrupted:
            raise KeyboardInterrupt
        return task.result()

    def _stop(self, task: asyncio.Task[Any]) -> None:
        self.loop.stop()

    def _go_round(self) -> None:
        left = _PASSES

        def again() -> None:
            nonlocal left
            left -= 1
            if left:
                self.loop.call_soon(again)
            else:
                self.loop.stop()

        self.loop.call_soon(again)
        with _ctrl_c(self.loop) as interrupted:
            self.loop.run_forever()
        if interrupted:
            raise KeyboardInterrupt

    def _ride_along(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Another thread runs the loop: hand the work over and wait."""
        with self._state:
            self._passengers += 1
            self._state.notify_all()
        try:
            future = asyncio.run_coroutine_threadsafe(work, self.loop)
            try:
                return future.result()
            except CancelledError:
                raise ClientClosedError("the client has been closed meanwhile") from None
            except BaseException:
                future.cancel()
                raise
        finally:
            with self._state:
                self._passengers -= 1
                self._state.notify_all()

    # The end

    @property
    def is_over(self) -> bool:
        """Closed, or of another process."""
        return self._ended or self._forked

    def close(self) -> None:
        """Ends the loop; what is still on it is cancelled. A second call does nothing."""
        with self._state:
            if self._ended:
                return
            self._ended = True
            self._state.notify_all()
            if self._background_runs:
                self.loop.call_soon_threadsafe(self.loop.stop)
        if self._forked:
            return
        self._thread.join()
        with self._turn:
            _finish(self.loop)

    def forked(self) -> None:
        """This process is a copy: the loop's files are shared with the original and must not be touched."""
        self._forked = True
        # Whoever held them is in the other process.
        self._turn = threading.Lock()
        self._state = threading.Condition(threading.Lock())


@contextmanager
def _ctrl_c(loop: asyncio.AbstractEventLoop) -> Iterator[list[None]]:
    """While a call runs the loop in the main thread, Ctrl-C ends it between two callbacks. The list says whether."""
    interrupted: list[None] = []
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield interrupted
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        interrupted.append(None)
        loop.call_soon_threadsafe(loop.stop)

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _in_a_loop() -> bool:
    return asyncio._get_running_loop() is not None


def _finish(loop: asyncio.AbstractEventLoop) -> None:
    tasks = sorted(asyncio.all_tasks(loop), key=asyncio.Task.get_name)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
