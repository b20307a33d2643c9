"""The same test on sockets and in memory: what runs over both transports is run over both."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from ottla.runtime import Runtime, SystemRuntime
from ottla.sim import run

_T = TypeVar("_T")

World = Callable[[Callable[[Runtime], Awaitable[_T]]], _T]


def sockets(main: Callable[[Runtime], Awaitable[_T]]) -> _T:
    async def bounded() -> _T:
        async with asyncio.timeout(60):
            return await main(SystemRuntime())

    return asyncio.run(bounded())


def memory(main: Callable[[Runtime], Awaitable[_T]]) -> _T:
    return run(main, seed=1)


both_worlds = pytest.mark.parametrize("world", [sockets, memory])
