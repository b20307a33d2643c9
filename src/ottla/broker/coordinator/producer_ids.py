"""Producer ids: a node takes them from blocks of a thousand that the controller hands out (KIP-730)."""

from __future__ import annotations

import asyncio
from typing import Protocol


class ProducerIdSource(Protocol):
    """The controller, as far as producer ids go."""

    async def allocate_producer_ids(self) -> tuple[int, int]:
        """A block of ids: the first, and the one behind the last."""
        ...


class ProducerIdBlock:
    """The block of one node. What is left of it when the node stops is lost, and is never given twice."""

    def __init__(self, controller: ProducerIdSource) -> None:
        self._controller = controller
        self._next = self._end = 0
        self._one_at_a_time = asyncio.Lock()

    async def next(self) -> int:
        """An id that no producer of the cluster has; a BrokerError where the controller cannot be reached."""
        async with self._one_at_a_time:
            if self._next == self._end:
                self._next, self._end = await self._controller.allocate_producer_ids()
            self._next += 1
            return self._next - 1
