"""The tasks of one client: kept until they are done, logged when they crash, ended in order.

asyncio holds tasks weakly, and logs an exception that is never awaited only when the task is collected. Here a task
lives until it ends, and a crash is logged at once and handed to `on_crash`, with which the core stops the client.

Invariant: after `close` no task of the client runs, and none is begun any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ottla.errors import ClientClosedError

_logger = logging.getLogger("ottla.client")

_T = TypeVar("_T")


class Tasks:
    """What a client runs in the background."""

    def __init__(self) -> None:
        # In the order in which they were begun: `close` ends them in that order.
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._closed = False
        self.on_crash: Callable[[str, BaseException], object] | None = None
        """Called with the name of a task that ended with an exception, and the exception."""

    def spawn(self, coroutine: Coroutine[Any, Any, _T], name: str) -> asyncio.Task[_T]:
        """Begins a task; its name is for logs."""
        if self._closed:
            coroutine.close()
            raise ClientClosedError
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    async def close(self) -> None:
        """Cancels every task but the one that calls, the oldest first, and waits for each to end."""
        self._closed = True
        mine = asyncio.current_task()
        # A task that is being cancelled may make others end, but none begins: the list stays complete.
        for task in [each for each in self._tasks if each is not mine]:
            task.cancel()
            await _ended(task)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if task.cancelled() or (error := task.exception()) is None:
            return
        # A task that has found the client closed ends with it: its connections go before it does.
        if not isinstance(error, ClientClosedError):
            self.crashed(task.get_name(), error)

    def crashed(self, name: str, error: BaseException) -> None:
        """A task ended with an exception, or something that runs in one did and must not end it."""
        _logger.error("the task %s crashed", name, exc_info=error)
        if self.on_crash is not None:
            self.on_crash(name, error)


async def _ended(task: asyncio.Task[Any]) -> None:
    """Waits without taking over the task's end: its exception is `Tasks`' affair, our cancellation our own."""
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def set_ended(_: asyncio.Task[Any]) -> None:
        if not ended.done():
            ended.set_result(None)

    task.add_done_callback(set_ended)
    await ended
