"""Deadline: the moment when a call with all its retries has to be over, on the runtime's clock."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from ottla.runtime import Clock

_T = TypeVar("_T")


class DeadlinePassed(Exception):  # noqa: N818  no error: whoever set the deadline says what it means
    """What was awaited took too long, and was cancelled."""


class Deadline:
    """Seconds from now."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self.seconds = seconds
        self._end = clock.monotonic() + seconds

    def left(self) -> float:
        """Seconds that remain; 0 afterwards."""
        return max(0.0, self._end - self._clock.monotonic())

    async def bound(self, work: Coroutine[Any, Any, _T] | asyncio.Future[_T]) -> _T:
        """The result of `work`, which is cancelled when time is up; DeadlinePassed then."""
        task = asyncio.ensure_future(work)
        passed = False

        def expire() -> None:
            nonlocal passed
            passed = not task.done()
            task.cancel()

        timer = self._clock.call_later(self.left(), expire)
        try:
            return await task
        except asyncio.CancelledError:
            # The caller's own cancellation goes on as one, even where both came together.
            caller = asyncio.current_task()
            if passed and (caller is None or not caller.cancelling()):
                raise DeadlinePassed from None
            raise
        finally:
            timer.cancel()
