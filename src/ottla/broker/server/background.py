"""What a server does beside its requests: loops, calls that a timer makes, work that a request sets off.

Invariant: none of them fails unseen. A loop or a timer that fails ends its owner, which learns what cannot go on: a
node that serves on without its heartbeats, its metadata or its retention would serve something else than it says.
Work that a request sets off is like a handler: its failure is logged, and the owner serves on.

It lies with the server, because a node and the controller have such work as servers, each with a failure that stops
it (`Fail`): idle connections, retention, broker sessions, the metadata log. Those rooms import this one, and nothing
is imported here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from ottla.errors import KafkaError

_log = logging.getLogger("ottla.broker.server.background")

Fail = Callable[[str, Exception], None]
"""Stops the owner: called with what cannot go on, and why."""


async def unending(work: Callable[[], Awaitable[None]], what: str, fail: Fail) -> None:
    """A loop, for a task."""
    try:
        await work()
    except Exception as error:  # noqa: BLE001 - whatever it is, the owner cannot do without
        fail(what, error)


def timed(work: Callable[[], None], what: str, fail: Fail) -> Callable[[], None]:
    """A call for a timer; the next one is part of `work`."""

    def call() -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - whatever it is, the owner cannot do without
            fail(what, error)

    return call


async def all_of(steps: Sequence[Awaitable[object]]) -> None:
    """Takes every step to its end, then raises the first failure: nothing goes on in the background."""
    results = await asyncio.gather(*steps, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


def reason(what: str, error: Exception) -> str:
    return f"{what}: {type(error).__name__}: {error}"


class BackgroundTasks:
    """The work that requests of a node set off; it ends with the node."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        # A dict, so that they are cancelled in the order of their coming.
        self._tasks: dict[asyncio.Task[None], None] = {}

    def spawn(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.get_running_loop().create_task(self._logged(work))
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _logged(self, work: Coroutine[Any, Any, object]) -> None:
        try:
            await work
        except KafkaError as error:
            _log.warning("%s: %s", self._owner, error)
        except Exception:  # noqa: BLE001 - like a bug in a handler: it is logged, and the node serves on
            _log.exception("%s: what it did beside its requests has failed", self._owner)
