"""Polling: when the program asks for more, and whether a rebalance has to wait until it does.

The thread that reads calls `asks` before it looks for more, `waits` while there is nothing, `hands_out` when it has
something. Iterating, that is once for each part that was fetched, and nothing is done for a record: whether a program
that iterates gets on is seen by the record that it got last.

With block_rebalance_on_poll a rebalance waits while the program works on what it got. A poll that comes back with an
error, or is called again, holds nothing up: only records that were handed out do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ottla.client.consume.fetch_queue import FetchQueue
from ottla.client.consume.reader import Reader


class Polling:
    """Of one consumer."""

    def __init__(
        self,
        reader: Reader,
        queue: FetchQueue,
        now: Callable[[], float],
        max_interval: float,
        *,
        blocks: bool,
        is_called_back: Callable[[], bool],
    ) -> None:
        """`is_called_back()`: whether it is a callback of a rebalance that asks."""
        self._reader = reader
        self._queue = queue
        self._now = now
        self._max_interval = max_interval
        self._blocks = blocks
        self._is_called_back = is_called_back
        self.asked_at = now()
        """When the program asked last; iterating, when it was last seen to get on."""
        self.is_waiting = False
        self._seen: Any = None
        self._is_held = False
        self._is_wanted = False
        self._allowed = asyncio.Event()
        self._passed = asyncio.Event()

    # By the thread that reads

    def asks(self) -> bool:
        """The program is done with what it got; whether a rebalance has waited for that, and is to be waited for."""
        if self._is_called_back():
            raise RuntimeError(
                "a callback of a rebalance has asked for records: the rebalance waits for the callback, and the "
                "records for the rebalance. Return from it, and read then"
            )
        self._reader.settle()
        self.asked_at = self._now()
        self.allow()
        return self._is_wanted

    @property
    def is_held(self) -> bool:
        """Whether a rebalance has to wait for the program."""
        return self._is_held

    def hands_out(self) -> None:
        if self._blocks:
            self._is_held = True

    def allow(self) -> None:
        """A rebalance may go on."""
        self._is_held = False
        if self._is_wanted:
            self._queue.wake(self._allowed.set)

    # On the loop

    async def asked(self) -> None:
        """Both, for a program that runs there."""
        if self.asks():
            await self.passed()

    async def passed(self) -> None:
        """Until the rebalance that has waited for the program has taken what it takes."""
        while self._is_wanted:
            await self._passed.wait()

    async def may_rebalance(self) -> None:
        """Until the program does not work on anything that it must not lose."""
        if not self._is_held:
            return
        self._passed.clear()
        self._allowed.clear()
        self._is_wanted = True
        # One that iterates comes back with its next record, and not only behind the part that it reads.
        self._reader.interrupt()
        try:
            while self._is_held:
                await self._allowed.wait()
                self._allowed.clear()
        except BaseException:
            self.rebalanced()
            raise

    def rebalanced(self) -> None:
        self._is_wanted = False
        self._passed.set()

    def is_overdue(self) -> bool:
        """Whether the program has taken too long for what it got."""
        last = self._reader.last
        if self.is_waiting or last is not self._seen:
            self._seen = last
            self.asked_at = self._now()
        return self._now() - self.asked_at > self._max_interval
