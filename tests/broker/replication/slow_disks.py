"""Disks that take their time, for the tests beside this file: what they are asked for ends when the test says so."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from ottla.broker.log.fs.faulty import FaultyFileSystem
from ottla.runtime import SystemRuntime
from tests.broker.worlds import TIMEOUT

_T = TypeVar("_T")


class HeldRuntime(SystemRuntime):
    """Work off the loop ends when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[asyncio.Future[None]] = []
        self._begun = asyncio.Semaphore(0)
        self.failure: OSError | None = None

    async def run(self, function: Callable[..., _T], *args: Any) -> _T:
        held: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.held.append(held)
        self._begun.release()
        await held
        if self.failure is not None:
            raise self.failure
        return function(*args)

    async def begun(self) -> None:
        """Until the next work has begun."""
        await self._begun.acquire()


class SlowDisk:
    """Its flushes end when the test says so."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.threads: list[int] = []
        self.fs = FaultyFileSystem(random.Random(1), delayed=self._wait)

    def _wait(self, seconds: float) -> None:
        self.threads.append(threading.get_ident())
        assert self.go_on.wait(TIMEOUT)
