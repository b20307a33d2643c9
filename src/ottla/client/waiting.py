"""Waiting with a bound, by the Runtime's clock: what asyncio.timeout is for the loop's own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from ottla.client.deadline import Deadline, DeadlinePassed
from ottla.runtime import Clock

_T = TypeVar("_T")


async def within(clock: Clock, seconds: float, awaited: Coroutine[Any, Any, _T] | asyncio.Future[_T]) -> _T:
    """What is awaited; after `seconds` it is cancelled, and a bare TimeoutError raised."""
    try:
        return await Deadline(clock, seconds).bound(awaited)
    except DeadlinePassed:
        raise TimeoutError from None
