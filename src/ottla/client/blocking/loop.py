"""The event loop of a blocking client: asyncio's own, made to be entered and left once per call of its user.

`run_forever` is meant to be called once in a program's life. Before and after each run it sets hooks for asynchronous
generators, of which a client has none, and it is left by a callback that has to be scheduled first: together as much
as the callbacks of a whole request. Here a run is the loop's iterations and nothing else.

It relies on names that asyncio keeps to itself, `_run_once`, `_ready`, `_stopping` and `_thread_id`: the same in
every Python from 3.6 to 3.13.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from ottla.runtime import PreciseSelector, this_thread

_T = TypeVar("_T")

_set_running_loop = asyncio._set_running_loop


class QuickRuns(asyncio.BaseEventLoop):
    """How the loop is run; the rest is that of the class beside it."""

    _stopping: bool
    _thread_id: int | None
    _run_once: Callable[[], None]
    _ready: deque[asyncio.Handle]

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self._first: deque[Callable[[], object]] = deque()

    def call_first(self, function: Callable[[], object]) -> None:
        """Has it called when the loop is run the next time, before anything else and without an iteration for it.

        For the thread that could run the loop, and leaves that to the next one.
        """
        self._first.append(function)

    def _call_first(self) -> None:
        while self._first:
            self._call(self._first.popleft())

    def _call(self, function: Callable[[], object]) -> object:
        try:
            return function()
        except Exception as error:  # noqa: BLE001  as the loop does with what a callback raises
            self.call_exception_handler({"message": f"{function} failed", "exception": error})
            return None

    def run_forever(self) -> None:
        """Until `stop`; what a callback raises to end the program ends the run."""
        self._thread_id = this_thread()
        _set_running_loop(self)
        try:
            if self._first:
                self._call_first()
            self._run_once()
            while not self._stopping:
                self._run_once()
        finally:
            self._stopping = False
            self._thread_id = None
            _set_running_loop(None)

    def now(self, function: Callable[[], _T]) -> _T:
        """What it returns, or raises; with an iteration behind it if there is something to call."""
        self._thread_id = this_thread()
        _set_running_loop(self)
        try:
            if self._first:
                self._call_first()
            result = function()
            if self._ready:
                self._stopping = True
                self._run_once()
            return result
        finally:
            self._stopping = False
            self._thread_id = None
            _set_running_loop(None)

    def call(self, function: Callable[[], object]) -> None:
        """Calls it as a callback, then runs one iteration; none if it returns False: there is nothing to look at.

        So what the function has to send goes out first, and what has come in is looked at behind that.
        """
        self._thread_id = this_thread()
        _set_running_loop(self)
        try:
            if self._first:
                self._call_first()
            if self._call(function) is not False:
                # One that has been stopped does not wait for events.
                self._stopping = True
                self._run_once()
        finally:
            self._stopping = False
            self._thread_id = None
            _set_running_loop(None)


class ClientLoop(QuickRuns, asyncio.SelectorEventLoop):
    """On the system's selector.

    Not uvloop: whenever it is run in the main thread it makes a socket pair for signals, which costs more than a
    whole iteration of asyncio's own loop, and large reads and writes take the same time in both.
    """

    def __init__(self) -> None:
        super().__init__(PreciseSelector())
