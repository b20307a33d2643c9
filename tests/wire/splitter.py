"""A stream of bytes cut into frames, for tests that read a socket themselves."""

from __future__ import annotations

import struct
from typing import Final

from ottla.errors import DecodeError
from ottla.wire import DEFAULT_MAX_FRAME_SIZE
from ottla.wire.primitives import Buffer

_SIZE: Final = struct.Struct(">i")


class FrameSplitter:
    """Cuts a stream of bytes into frames.

    Memory is bounded by the largest frame plus what is fed at once. A size that is negative or above the bound
    is an error at once, before any of it is waited for; nothing can be read from the stream after that.
    """

    def __init__(self, max_frame_size: int = DEFAULT_MAX_FRAME_SIZE) -> None:
        self._max_frame_size = max_frame_size
        self._buffer = bytearray()
        self._error: str | None = None

    def feed(self, data: Buffer) -> list[bytes]:
        """The frames that are whole now, without their sizes."""
        if self._error is not None:
            raise DecodeError(self._error)
        self._buffer += data
        frames: list[bytes] = []
        pos = 0
        while len(self._buffer) - pos >= _SIZE.size:
            (size,) = _SIZE.unpack_from(self._buffer, pos)
            if not 0 <= size <= self._max_frame_size:
                if frames:
                    break  # what was whole before is handed out first
                self._error = f"a frame claims {size} bytes, {self._max_frame_size} are allowed"
                self._buffer.clear()
                raise DecodeError(self._error)
            stop = pos + _SIZE.size + size
            if stop > len(self._buffer):
                break
            frames.append(bytes(self._buffer[pos + _SIZE.size : stop]))
            pos = stop
        del self._buffer[:pos]
        return frames

    @property
    def pending(self) -> int:
        """How many bytes wait for the rest of their frame."""
        return len(self._buffer)
