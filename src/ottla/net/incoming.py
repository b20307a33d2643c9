"""The receiving half of a connection: bytes as they come, frames as they were sent.

Pure bookkeeping over memory: `free` says where the next bytes belong, `written` that they came, `next` takes
frames out. All connections of a loop receive into one scratch buffer, so a silent connection holds no memory. A
frame leaves in memory of its own; one that is larger than what has come is received in its place.

Invariant: the memory of an unfinished frame is at most twice what has really arrived of it, or `_FIRST`: a peer
that only claims to send 100 MB costs little.
"""

from __future__ import annotations

import struct
from typing import Final

from ottla._native.memory import Memory
from ottla.errors import DecodeError

SCRATCH_SIZE: Final = 256 * 1024

_FIRST: Final = 1024 * 1024
"""Where the memory of a large frame begins: the usual limit of a produce request fits without growing."""

_DIRECT: Final = 64 * 1024
"""What is missing of a frame is received in place from this size on. Below, one read of the scratch buffer that
also brings the following frames is worth more than the copy that it costs."""

_SIZE: Final = struct.Struct(">i")
_NOTHING: Final = memoryview(b"")


class Incoming:
    """The bytes of one connection that are not handed on yet."""

    __slots__ = (
        "_data",
        "_end",
        "_filled",
        "_frame",
        "_in_place",
        "_max_frame_size",
        "_pos",
        "_scratch",
        "_size",
    )

    def __init__(self, scratch: memoryview, max_frame_size: int) -> None:
        self._scratch = scratch
        self._max_frame_size = max_frame_size
        # What has come and is not looked at yet: data[pos:end], in the scratch buffer until `keep` moves it.
        self._data = _NOTHING
        self._pos = self._end = 0
        # The frame that has come in part: its size, and how much of its memory is filled.
        self._frame: memoryview | None = None
        self._size = self._filled = 0
        self._in_place = False

    def free(self) -> memoryview:
        """Where to receive; asked again before each time. `next` has no frame left when this is called."""
        frame = self._frame
        if frame is not None and len(frame) - self._filled >= _DIRECT:
            self._in_place = True
            return frame[self._filled :]
        self._in_place = False
        # At most three bytes: the beginning of a size.
        if unread := self._unread:
            self._scratch[:unread] = self._data[self._pos : self._end]
        return self._scratch[unread:]

    def written(self, count: int) -> None:
        """So many bytes were received where `free` said."""
        if self._in_place:
            self._filled += count
            return
        self._end = self._unread + count
        self._pos = 0
        self._data = self._scratch

    def next(self) -> memoryview | None:
        """The next frame that is whole, without its size; DecodeError if a size is out of bounds."""
        if self._frame is None:
            start = self._pos + _SIZE.size
            if start > self._end:
                return None
            (size,) = _SIZE.unpack_from(self._data, self._pos)
            if not 0 <= size <= self._max_frame_size:
                raise DecodeError(f"a frame claims {size} bytes, {self._max_frame_size} are allowed")
            self._pos = stop = start + size
            if stop <= self._end:
                return memoryview(bytearray(self._data[start:stop]))
            self._pos = start
            self._begin(size)
        return self._fill()

    def keep(self) -> None:
        """Takes what is unread out of the scratch buffer, before another connection receives into it."""
        if self._data is self._scratch:
            self._data = memoryview(bytes(self._scratch[self._pos : self._end])) if self._unread else _NOTHING
            self._end = self._unread
            self._pos = 0

    def clear(self) -> None:
        self._data, self._frame = _NOTHING, None
        self._pos = self._end = 0

    @property
    def is_empty(self) -> bool:
        """Whether all that has come is handed on."""
        return self._frame is None and self._pos == self._end

    @property
    def unfinished(self) -> str | None:
        """What has come of a frame that is not whole, in words."""
        if self._frame is not None:
            return f"{self._filled} of the {self._size} bytes of a frame"
        if self._unread:
            return f"{self._unread} of the {_SIZE.size} bytes of a frame's size"
        return None

    @property
    def _unread(self) -> int:
        return self._end - self._pos

    def _begin(self, size: int) -> None:
        self._size, self._filled = size, 0
        self._frame = _memory(min(size, _FIRST))

    def _fill(self) -> memoryview | None:
        """Moves what is unread into the unfinished frame, as far as it belongs there."""
        frame = self._frame
        assert frame is not None
        while True:
            count = min(len(frame) - self._filled, self._end - self._pos)
            if count:
                frame[self._filled : self._filled + count] = self._data[self._pos : self._pos + count]
                self._filled += count
                self._pos += count
            if self._filled == self._size:
                self._frame = None
                return frame
            if self._filled < len(frame):
                return None
            self._frame = larger = _memory(min(self._size, 2 * len(frame)))
            larger[: self._filled] = frame
            frame = larger


def _memory(size: int) -> memoryview:
    # A pooled block is not zeroed first, which for a megabyte costs as much as receiving it.
    return memoryview(Memory(size) if size >= _DIRECT else bytearray(size))
