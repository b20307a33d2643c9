"""An asynchronous iterator that outlives what ends a generator.

A generator is over once something was raised in it: an error, or the cancellation of a wait, as by
`asyncio.wait_for(anext(records), 1)`. Whoever asks it again is told that there is nothing more, although there is.
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, Callable
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")


class Lasting(Generic[_T]):
    """Begins a new generator where the last one has ended, and ends itself only with one that gives nothing."""

    # A slot in place of a method: what `async for` calls for each record is the generator's own function, and no
    # frame of ours is between them (100 ns).
    __slots__ = ("__anext__", "__weakref__", "_begin", "_generator")

    __anext__: Any  # a function that gives an Awaitable[_T]

    def __init__(self, begin: Callable[[Callable[[], None]], AsyncGenerator[_T, None]]) -> None:
        """`begin(ended)` makes a generator that goes on where the one before it was, and calls `ended` at its end."""
        self._begin = begin
        self._renew()

    def _renew(self) -> None:
        # Weak, so that a loop that is left lets go of its generator at once.
        myself = weakref.ref(self)

        def ended() -> None:
            if (lasting := myself()) is not None:
                lasting._renew()

        self._generator = self._begin(ended)
        self.__anext__ = self._generator.__anext__

    def __aiter__(self) -> Lasting[_T]:
        return self

    async def aclose(self) -> None:
        """For contextlib.aclosing."""
        await self._generator.aclose()
