"""The event loop that a client belongs to, and how threads reach it.

An AsyncClient belongs to the loop that it is first used on, with everything that it makes. A blocking client has a
loop of its own, which its calling threads run (blocking/driver.py).

What is awaited on another loop waits for callbacks that no thread runs, or that run in another thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from ottla.runtime import this_thread


@dataclass(frozen=True, slots=True)
class CallingThreads:
    """How the threads of a blocking client reach its loop, and wait for it."""

    post: Callable[[Callable[[], object]], None]
    """Has a function called on the loop, soon."""
    later: Callable[[Callable[[], object]], None]
    """The same, when the loop is run the next time."""
    hurry: Callable[[], None]
    """On the loop: it is to be run soon also if no thread calls."""
    wait: Callable[[Any, float | None], None]
    """Blocks until a receipt is done, or so many seconds have passed."""


class HomeLoop:
    """The loop that runs where this is made; a RuntimeError where none does."""

    __slots__ = ("loop", "thread")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.thread = this_thread()
        """Where it was last seen to run."""

    def check(self) -> None:
        """Raises on another loop, and without one."""
        here = asyncio._get_running_loop()
        if here is not self.loop:
            self._refuse(here)
        self.thread = this_thread()

    def call(self, function: Callable[[], object]) -> None:
        """Calls it on the loop: at once where that runs, soon from another one, where a receipt is awaited."""
        if asyncio._get_running_loop() is self.loop:
            function()
        else:
            self.check_running()
            self.loop.call_soon_threadsafe(function)

    def check_running(self) -> None:
        """Raises if no thread runs the loop: what comes from there could be awaited forever."""
        if not self.loop.is_running():
            self._refuse(asyncio._get_running_loop())

    def _refuse(self, here: asyncio.AbstractEventLoop | None) -> NoReturn:
        state = ", which is closed," if self.loop.is_closed() else ""
        found = "none is running here" if here is None else f"this is another one, {here!r}"
        raise RuntimeError(
            f"this AsyncClient belongs to the event loop that it was first used on, {self.loop!r}{state} "
            f"and {found}: make a client for each loop, inside of the coroutine that runs on it"
        )


def check_there_is_a_loop() -> None:
    """A RuntimeError where an AsyncClient is first used outside of a coroutine."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            "an AsyncClient is used inside a coroutine, where a loop runs: put this into an async def that "
            "asyncio.run() runs, or use ottla.Client, which blocks"
        ) from None
