"""The program's callbacks: partitions assigned, revoked, lost. One at a time, each before the loop goes on.

For asyncio they may be plain or asynchronous functions, and run on the loop; those of a blocking client run in a
thread of their own, so that they may call whatever blocks. What one raises, the program's next poll raises.

The group waits for a callback: what waits for the group in turn would wait for itself. So a callback that reads, or
that closes the client, is refused, and a consumer that it closes is closed when it has returned.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ottla.client.topic_partition import TopicPartition
from ottla.errors import ConfigurationError

_logger = logging.getLogger("ottla.client.group")

OnPartitions: TypeAlias = Callable[[Any, list[TopicPartition]], object]
"""Called with the consumer and the partitions that have come, or go."""
_CALLER: Final[ContextVar[object]] = ContextVar("what has called back", default=None)
RunCallback: TypeAlias = Callable[[OnPartitions, list[TopicPartition]], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class RebalanceListeners:
    """What a program wants to know."""

    on_assigned: OnPartitions | None = None
    """Partitions have come: their positions are known, nothing of them has been fetched yet."""
    on_revoked: OnPartitions | None = None
    """Partitions go to other members as soon as this returns; what was done with them can be committed here."""
    on_lost: OnPartitions | None = None
    """Partitions are gone already: other members may be reading them, and commits for them would fail."""

    def __post_init__(self) -> None:
        for name in ("on_assigned", "on_revoked", "on_lost"):
            given = getattr(self, name)
            if given is not None and not callable(given):
                raise ConfigurationError(
                    f"{name}={given!r}: it is called with the consumer and a list of partitions", option=name
                )


class RebalanceCallbacks:
    """Runs them; `failed` gets what they raise."""

    def __init__(
        self, listeners: RebalanceListeners, run: RunCallback, failed: Callable[[Exception], None]
    ) -> None:
        self._listeners = listeners
        self._run = run
        self._failed = failed
        self.is_running = False
        """Whether the group waits for one."""
        self._has_returned = asyncio.Event()
        self._has_returned.set()

    @property
    def call_now(self) -> bool:
        """Whether it is one of these that asks, in whatever thread it runs."""
        return self.is_running and _CALLER.get() is self

    async def returned(self) -> None:
        """Until none runs."""
        await self._has_returned.wait()

    async def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        await self._call(self._listeners.on_assigned, partitions)

    async def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        await self._call(self._listeners.on_revoked, partitions)

    async def lost(self, partitions: Sequence[TopicPartition]) -> None:
        # As in Java: a program that does not tell the two apart wants to know all the same.
        await self._call(self._listeners.on_lost or self._listeners.on_revoked, partitions)

    async def _call(self, callback: OnPartitions | None, partitions: Sequence[TopicPartition]) -> None:
        if callback is None or not partitions:
            return
        self.is_running = True
        self._has_returned.clear()
        token = _CALLER.set(self)
        try:
            await self._run(callback, sorted(partitions))
        except Exception as error:
            _logger.exception("%s failed; the next poll raises this", getattr(callback, "__name__", callback))
            self._failed(error)
        finally:
            _CALLER.reset(token)
            self.is_running = False
            self._has_returned.set()


async def run_on_loop(consumer: object, callback: OnPartitions, partitions: list[TopicPartition]) -> None:
    """As asyncio's consumer does."""
    result = callback(consumer, partitions)
    if inspect.isawaitable(result):
        await result
