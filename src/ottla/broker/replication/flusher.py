"""Flushes logs beside the loop: an fsync may take as long as the disk likes, and no request waits for it.

A log goes on while a thread flushes it: it grows, is cut back, loses segments, is closed. What the thread has done
counts only as far as it still holds (`Log.flushed`), and a failure only if it was none of these.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.broker.log.log import Log
    from ottla.runtime import Runtime


class LogFlusher:
    """Flushes for one node; each log once at a time."""

    def __init__(self, runtime: Runtime, on_failure: Callable[[Log, OSError], None]) -> None:
        self._runtime = runtime
        self._on_failure = on_failure
        self._tasks: dict[Log, asyncio.Task[None]] = {}
        self._again: dict[Log, tuple[int, int]] = {}
        """How far a log wants to be flushed that is being flushed already, and as of when."""

    def flush_rolled(self, log: Log) -> None:
        """Flushes the segments before the active one."""
        self._begin(log, log.segments[-1].base_offset, log.last_flush_ms)

    def flush(self, log: Log, now_ms: int) -> None:
        """Flushes all that was appended."""
        self._begin(log, log.log_end_offset, now_ms)

    def _begin(self, log: Log, end_offset: int, now_ms: int) -> None:
        if log in self._tasks:
            self._again[log] = (end_offset, now_ms)
            return
        task = asyncio.get_running_loop().create_task(self._flush(log, end_offset, now_ms))
        self._tasks[log] = task
        task.add_done_callback(lambda _: self._ended(log))

    async def _flush(self, log: Log, end_offset: int, now_ms: int) -> None:
        unflushed = log.unflushed(end_offset)
        try:
            await self._runtime.run(unflushed.flush)
        except OSError as error:
            if log.flush_failed(unflushed, error):
                self._on_failure(log, error)
        else:
            log.flushed(unflushed, now_ms)

    def _ended(self, log: Log) -> None:
        del self._tasks[log]
        wanted = self._again.pop(log, None)
        if wanted is not None:
            self._begin(log, *wanted)

    async def close(self) -> None:
        """Returns when no thread flushes any more."""
        self._again.clear()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
