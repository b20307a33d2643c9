"""Deadline: the moment when a call with all its retries has to be over, on the runtime's clock.

`within` is one for a single wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from numbers import Real
from typing import Any, TypeVar

from ottla.runtime import Clock

_T = TypeVar("_T")


def check_timeout(timeout: object) -> None:
    """A TypeError or ValueError for what no caller can mean by a number of seconds; None is for "not given"."""
    if timeout is None or (timeout.__class__ is float and timeout >= 0):
        return
    if isinstance(timeout, bool) or not isinstance(timeout, Real):
        raise TypeError(f"a timeout is a number of seconds or None, not {type(timeout).__name__}")
    if not float(timeout) >= 0:
        raise ValueError(f"a timeout is 0 seconds or more, not {timeout}; leave it out to wait without one")


class DeadlinePassed(Exception):  # noqa: N818  no error: the caller that set the deadline says what it means
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
        caller = asyncio.current_task()
        if caller is None or isinstance(work, asyncio.Future):
            return await self._bound_future(caller, asyncio.ensure_future(work))
        # A coroutine runs in the caller's own task, which the timer interrupts: a task of its own would cost more
        # than most of what is bounded.
        cancelled_before = caller.cancelling()
        passed = False

        def interrupt() -> None:
            nonlocal passed
            passed = True
            caller.cancel()

        timer = self._clock.call_later(self.left(), interrupt)
        try:
            return await work
        except asyncio.CancelledError:
            # The caller's own cancellation goes on as one, even where both came together.
            if passed and caller.cancelling() == cancelled_before + 1:
                raise DeadlinePassed from None
            raise
        finally:
            timer.cancel()
            if passed:
                caller.uncancel()

    async def _bound_future(self, caller: asyncio.Task[Any] | None, work: asyncio.Future[_T]) -> _T:
        """A future that is done in time keeps its result, also where time is up before its waiter runs."""
        passed = False

        def expire() -> None:
            nonlocal passed
            passed = not work.done()
            work.cancel()

        timer = self._clock.call_later(self.left(), expire)
        try:
            return await work
        except asyncio.CancelledError:
            if passed and (caller is None or not caller.cancelling()):
                raise DeadlinePassed from None
            raise
        finally:
            timer.cancel()


async def within(clock: Clock, seconds: float, awaited: Coroutine[Any, Any, _T] | asyncio.Future[_T]) -> _T:
    """What is awaited; after `seconds` it is cancelled, and a bare TimeoutError raised.

    What asyncio.timeout is for the loop's clock, by the Runtime's.
    """
    try:
        return await Deadline(clock, seconds).bound(awaited)
    except DeadlinePassed:
        raise TimeoutError from None
