"""Alarm: what a worker waits for: somebody who rings, or a moment by the Runtime's clock.

A ring while nobody waits is kept, so that whoever looks first and then waits misses nothing.
"""

from __future__ import annotations

import asyncio

from ottla.runtime import Clock


class Alarm:
    """For one waiter."""

    __slots__ = ("_clock", "_rung", "_waiter")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rung = False
        self._waiter: asyncio.Future[None] | None = None

    def ring(self) -> None:
        self._rung = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, until: float | None = None) -> None:
        """Until it rings, or it is `until`."""
        if not self._rung:
            self._waiter = asyncio.get_running_loop().create_future()
            timer = None
            if until is not None:
                timer = self._clock.call_later(max(0.0, until - self._clock.monotonic()), self.ring)
            try:
                await self._waiter
            finally:
                self._waiter = None
                if timer is not None:
                    timer.cancel()
        self._rung = False
