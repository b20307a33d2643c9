"""Waiting with a bound, by the Runtime's clock: what asyncio.timeout is for the loop's own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from ottla.runtime import Clock

_T = TypeVar("_T")


async def within(clock: Clock, seconds: float, coroutine: Coroutine[Any, Any, _T]) -> _T:
    """What the coroutine returns; after `seconds` it is cancelled, and a bare TimeoutError raised."""
    task = asyncio.get_running_loop().create_task(coroutine)
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
