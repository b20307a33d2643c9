"""Waiting with a bound, by the Runtime's clock: what asyncio.timeout is for the loop's own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from ottla.runtime import Clock

_T = TypeVar("_T")


async def within(clock: Clock, seconds: float, awaited: Coroutine[Any, Any, _T] | asyncio.Future[_T]) -> _T:
    """What is awaited; after `seconds` it is cancelled, and a bare TimeoutError raised."""
    task = asyncio.ensure_future(awaited)
    expired = False

    def expire() -> None:
        nonlocal expired
        expired = task.cancel()

    timer = clock.call_later(seconds, expire)
    try:
        return await task
    except asyncio.CancelledError:
        me = asyncio.current_task()
        if not expired or (me is not None and me.cancelling()):
            raise
        raise TimeoutError from None
    finally:
        timer.cancel()
