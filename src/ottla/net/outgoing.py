"""The sending half of a connection: buffers wait here, and go to the transport in pieces that suit it.

A transport of CPython 3.11 copies what its socket does not take at once, and moves the copy after each send; so
it is never given more than a piece beyond that. Small buffers are joined, since each costs a system call; large
ones are passed on as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ottla.wire.primitives import Buffer

PIECE: Final = 1024 * 1024
_SMALL: Final = 16 * 1024
_MANY: Final = 1000


class Outgoing:
    """Buffers that are not handed over yet, in order."""

    __slots__ = ("_first", "_queue", "size")

    def __init__(self) -> None:
        # A list and the place of its first buffer: an empty deque is as large as all the rest of a connection.
        self._queue: list[Buffer] = []
        self._first = 0
        self.size = 0

    def add(self, parts: Sequence[Buffer]) -> None:
        for buffer in _joined(parts):
            if buffer:
                self._queue.append(buffer)
                self.size += len(buffer)

    def take(self) -> Buffer:
        """The next piece; only while `size` is not 0."""
        buffer = self._queue[self._first]
        if len(buffer) > PIECE:
            view = memoryview(buffer)
            self._queue[self._first] = view[PIECE:]
            buffer = view[:PIECE]
        else:
            self._queue[self._first] = b""  # must not be kept alive until the whole queue is empty
            self._first += 1
        self.size -= len(buffer)
        if not self.size:
            self.clear()
        elif self._first >= _MANY:
            del self._queue[: self._first]
            self._first = 0
        return buffer

    def clear(self) -> None:
        self._queue.clear()
        self._first = 0
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
