"""Producer ids: a node takes them from blocks of a thousand that the controller hands out (KIP-730)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.broker.metadata.controller_channel import ControllerChannel


class ProducerIds:
    """The block of one node. What is left of it when the node stops is lost, and is never given twice."""

    def __init__(self, link: ControllerChannel) -> None:
        self._link = link
        self._next = self._end = 0
        self._one_at_a_time = asyncio.Lock()

    async def next(self) -> int:
        """An id that no producer of the cluster has; a BrokerError where the controller cannot be reached."""
        async with self._one_at_a_time:
            if self._next == self._end:
                self._next, self._end = await self._link.allocate_producer_ids()
            self._next += 1
            return self._next - 1
