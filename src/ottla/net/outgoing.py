"""The sending half of a connection: buffers wait here, and go to the transport in pieces that suit it.

A transport of CPython 3.11 copies what its socket does not take at once, and moves the copy after each send; so
it is never given more than a piece beyond that. Small buffers are joined, since each costs a system call; large
ones are passed on as they are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from ottla.wire.primitives import Buffer

PIECE: Final = 256 * 1024
_SMALL: Final = 16 * 1024


class Outgoing:
    """Buffers that are not handed over yet, in order."""

    __slots__ = ("_queue", "size")

    def __init__(self) -> None:
        self._queue: deque[Buffer] = deque()
        self.size = 0

    def add(self, parts: Sequence[Buffer]) -> None:
        for buffer in _joined(parts):
            if buffer:
                self._queue.append(buffer)
                self.size += len(buffer)

    def take(self) -> Buffer:
        """The next piece; only while `size` is not 0."""
        buffer = self._queue.popleft()
        if len(buffer) > PIECE:
            view = memoryview(buffer)
            self._queue.appendleft(view[PIECE:])
            buffer = view[:PIECE]
        self.size -= len(buffer)
        return buffer

    def clear(self) -> None:
        self._queue.clear()
        self.size = 0


def _joined(parts: Sequence[Buffer]) -> Iterator[Buffer]:
    small: list[Buffer] = []
    for part in parts:
        if len(part) < _SMALL:
            small.append(part)
            continue
        if small:
            yield b"".join(small)
            small = []
        yield part
    if small:
        yield b"".join(small)
