"""Calls that wait for something in the metadata: each has a condition, a future and a time when it gives up.

Invariant: every waiter ends: with what its condition found or raised, at its time, or when the client closes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from ottla.client.metadata.view import ClusterView
from ottla.runtime import Clock

_T = TypeVar("_T")


class Waiters:
    """The calls that wait, in the order in which they came."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._count = 0
        # By number; a number is never used again, so that each call is a reason of its own to hurry.
        self._waiting: dict[int, tuple[str, Callable[[ClusterView], Any], asyncio.Future[Any]]] = {}

    def reasons(self) -> Iterator[str]:
        """Why metadata should be requested again soon."""
        return (
            f"call {number} waits for {what}"
            for number, (what, _, found) in self._waiting.items()
            if not found.done()  # the others have their result, and have yet to wake up
        )

    async def wait(
        self,
        what: str,
        until: Callable[[ClusterView], _T | None],
        seconds: float,
        timeout_error: Callable[[], Exception],
    ) -> _T:
        """What `until` finds in a later view; raises what `timeout_error` makes after `seconds`."""
        found: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        self._count = number = self._count + 1
        self._waiting[number] = (what, until, found)

        def expire() -> None:
            if not found.done():
                found.set_exception(timeout_error())

        timer = self._clock.call_later(seconds, expire)
        try:
            return await found
        finally:
            timer.cancel()
            del self._waiting[number]

    def notify(self, view: ClusterView) -> None:
        """Wakes the calls whose condition holds, or raises: what a condition raises is raised by its call."""
        for _, until, found in list(self._waiting.values()):
            if found.done():
                continue
            try:
                value = until(view)
            except Exception as error:  # noqa: BLE001 -- whatever it is, it goes to the call that waits
                found.set_exception(error)
            else:
                if value is not None:
                    found.set_result(value)

    def fail(self, error: Callable[[], Exception]) -> None:
        for _, _, found in self._waiting.values():
            if not found.done():
                found.set_exception(error())
