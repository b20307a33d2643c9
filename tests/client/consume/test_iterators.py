"""An iterator that goes on where a generator would be over."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import pytest

from ottla.client.consume.iterators import Lasting


class Source:
    """Gives numbers; raises errors that are among them, waits at None."""

    def __init__(self, *given: int | Exception | None) -> None:
        self.left = deque(given)
        self.closed = 0

    async def each(self, ended: Callable[[], None]) -> AsyncGenerator[int, None]:
        try:
            while self.left:
                item = self.left.popleft()
                if isinstance(item, Exception):
                    raise item
                if item is None:
                    await asyncio.get_running_loop().create_future()
                else:
                    yield item
        finally:
            self.closed += 1
            ended()


def test_goes_on_after_errors_and_cancelled_waits_and_ends_at_the_end() -> None:
    async def body() -> None:
        numbers = Lasting(Source(1, ValueError("no number"), 2, None, 3).each)
        assert await anext(numbers) == 1
        with pytest.raises(ValueError, match="no number"):
            await anext(numbers)
        assert await anext(numbers) == 2
        waiting = asyncio.ensure_future(anext(numbers))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert [number async for number in numbers] == [3]
        assert [number async for number in numbers] == []

    asyncio.run(body())


def test_closing_closes_the_generator() -> None:
    async def body() -> None:
        source = Source(1, 2)
        async with aclosing(Lasting(source.each)) as numbers:
            assert await anext(numbers) == 1
        assert source.closed == 1

    asyncio.run(body())
