"""The one connection type of clients and brokers: frames in, frames out, with flow control in both directions.

A `Connection` is the protocol of an asyncio transport; what is done with its frames is its Receiver's business.
`FrameReader` makes frames of the bytes that come, `WriteQueue` makes pieces that suit the transport of the buffers
that are sent; both are bookkeeping over memory and know no transport.

Invariants: frames are delivered one at a time, in order, and never while paused or after `close`; `lost` is the
last call that a Receiver gets, and it gets it exactly once. The memory of an unfinished frame is at most twice what
has really arrived of it, or `_FIRST`: a peer that only claims to send 100 MB costs little.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, cast
from weakref import WeakKeyDictionary

from ottla._native.memory import Memory
from ottla.errors import ConnectionLostError, DecodeError
from ottla.wire.frames import DEFAULT_MAX_FRAME_SIZE
from ottla.wire.primitives import Buffer

_logger = logging.getLogger("ottla.net")

_HIGH_WATER: Final = 1
"""The transport pauses writing as soon as its socket does not take everything: what waits, waits here. Not 0,
because asyncio's TLS transport compares with `>=` and would pause for nothing."""

SCRATCH_SIZE: Final = 256 * 1024

_FIRST: Final = 1024 * 1024
"""Where the memory of a large frame begins: the usual limit of a produce request fits without growing."""

_DIRECT: Final = 64 * 1024
"""What is missing of a frame is received in place from this size on. Below, one read of the scratch buffer that
also brings the following frames is worth more than the copy that it costs."""

PIECE: Final = 1024 * 1024
_SMALL: Final = 16 * 1024
_MANY: Final = 1000

_SIZE: Final = struct.Struct(">i")
_NOTHING: Final = memoryview(b"")

# One scratch buffer per loop: between get_buffer and buffer_updated nothing else runs on it.
_scratches: WeakKeyDictionary[asyncio.AbstractEventLoop, memoryview] = WeakKeyDictionary()


class Receiver(Protocol):
    """What happens on a connection is reported to it. All calls come from the loop, none from inside of `send`."""

    def connected(self, connection: Connection) -> None: ...

    def received(self, connection: Connection, frame: memoryview) -> None:
        """A whole frame, without its size. The memory is writable and belongs to this frame alone."""

    def drained(self, connection: Connection) -> None:
        """Everything sent has gone to the system; comes whenever `is_writable` had become false."""

    def lost(self, connection: Connection, error: Exception | None) -> None:
        """The end. No error if either side closed the connection between two frames."""


class Connection(asyncio.BufferedProtocol):
    """Frames over a transport; `Runtime.connect` and `Runtime.listen` take `lambda: Connection(receiver)`."""

    __slots__ = (
        "__weakref__",
        "_closing",
        "_delivering",
        "_error",
        "_max_frame_size",
        "_on_closed",
        "_paused",
        "_queue",
        "_reader",
        "_reading",
        "_receiver",
        "_transport",
        "_transport_full",
        "is_closed",
        "peer",
        "peer_host",
    )

    _transport: asyncio.Transport
    _reader: FrameReader

    def __init__(
        self,
        receiver: Receiver,
        max_frame_size: int = DEFAULT_MAX_FRAME_SIZE,
        on_closed: Callable[[], object] | None = None,
    ) -> None:
        """`on_closed` is called once, as soon as `is_closed` is true; `lost` comes when the transport is gone too."""
        self._receiver = receiver
        self._max_frame_size = max_frame_size
        self._on_closed = on_closed
        self._queue = WriteQueue()
        self._paused = False
        self._reading = True
        self._delivering = False
        self._transport_full = False
        self._closing = False
        self._error: Exception | None = None
        self.is_closed = False
        """No more frames will be delivered and nothing more can be sent."""
        self.peer = self.peer_host = ""
        """The other end, as `host:port` and as its host alone."""

    # Sending

    def send(self, parts: Sequence[Buffer]) -> int:
        """Sends buffers one after the other, such as those of `encode_request`. They must not change any more.

        Never waits; a sender of much looks at `is_writable`. Returns how many bytes they are; a closed connection
        sends nothing, and says 0.
        """
        if self.is_closed:
            return 0
        if not self._queue.size and not self._transport_full:
            size = sum(map(len, parts))
            if 0 < size < _SMALL:
                # Most requests and responses: one piece, which nothing precedes. A peer that is gone gets nothing.
                if not self._transport.is_closing():
                    self._transport.write(b"".join(parts))
                return size
        size = self._queue.add(parts)
        self._pump()
        return size

    @property
    def is_writable(self) -> bool:
        """Whether all that was sent has gone to the system. If not, `drained` comes when it has."""
        return not self._queue.size and not self._transport_full

    @property
    def pending_bytes(self) -> int:
        """How much of what was sent the system has not taken yet."""
        return self._queue.size + self._transport.get_write_buffer_size()

    def pause_writing(self) -> None:
        self._transport_full = True

    def resume_writing(self) -> None:
        self._transport_full = False
        self._pump()
        if self.is_writable and not self.is_closed:
            self._receiver.drained(self)

    def _pump(self) -> None:
        queue, transport = self._queue, self._transport
        while queue.size and not self._transport_full:
            if transport.is_closing():  # the peer is gone; connection_lost is on its way
                queue.clear()
                return
            transport.write(queue.take())
        if self._closing and not queue.size:
            transport.close()

    # Receiving

    def pause(self) -> None:
        """Delivers no more frames, also not those that have arrived.

        The transport reads on until something arrives that cannot be delivered: most peers wait for a response
        before they send more, and then a pause costs no system call and still notices that they are gone.
        """
        self._paused = True

    def resume(self) -> None:
        """Delivers again, before it returns what has arrived in the meantime.

        A Receiver may call it inside of `received`; the next frame is delivered when that returns.
        """
        self._paused = False
        if self._delivering or self.is_closed:
            return
        self._deliver()
        if not self._reading and not self._paused and not self.is_closed:
            self._reading = True
            self._transport.resume_reading()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.free()

    def buffer_updated(self, nbytes: int) -> None:
        self._reader.written(nbytes)
        self._deliver()
        if self._paused and not self._reader.is_empty:
            self._stop_reading()

    def _deliver(self) -> None:
        reader, received = self._reader, self._receiver.received
        self._delivering = True
        try:
            while not self._paused and not self.is_closed:
                try:
                    frame = reader.next()
                except DecodeError as error:
                    _logger.warning("%s sends no frames of Kafka's protocol: %s", self.peer, error)
                    self.abort(error)
                    return
                if frame is None:
                    break
                received(self, frame)
                if reader.is_empty:
                    break
        finally:
            self._delivering = False
            if not reader.is_empty:
                reader.keep()

    def _stop_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._transport.pause_reading()

    # Beginning and end

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Every stream transport goes both ways; the signature is older than that.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_HIGH_WATER)
        self._reader = FrameReader(_scratch(), self._max_frame_size)
        self.peer_host, self.peer = _address(transport.get_extra_info("peername"))
        self._receiver.connected(self)

    def close(self) -> None:
        """Closes the connection once everything sent is on its way."""
        if self.is_closed:
            return
        self._closing = True
        self._set_closed()
        if not self._queue.size:
            self._transport.close()
        else:
            self._stop_reading()

    def abort(self, error: Exception | None = None) -> None:
        """Closes the connection now; `lost` gets the error."""
        self._error = self._error or error
        self._set_closed()
        self._queue.clear()
        self._transport.abort()

    def eof_received(self) -> None:
        """Like Kafka, take the end of the peer's sending for the end of the connection."""
        if (unfinished := self._reader.unfinished) is not None:
            self._error = self._error or ConnectionLostError(
                f"{self.peer} closed the connection after {unfinished}"
            )

    def connection_lost(self, exc: Exception | None) -> None:
        self._set_closed()
        self._queue.clear()
        self._receiver.lost(self, self._error or exc)

    def _set_closed(self) -> None:
        self.is_closed = True
        self._reader.clear()
        if self._on_closed is not None:
            on_closed, self._on_closed = self._on_closed, None
            on_closed()


def _scratch() -> memoryview:
    loop = asyncio.get_running_loop()
    scratch = _scratches.get(loop)
    if scratch is None:
        scratch = _scratches[loop] = memoryview(bytearray(SCRATCH_SIZE))
    return scratch


def _address(name: Any) -> tuple[str, str]:
    """Host, and host with port; unknown if the peer is gone already, or the transport has no addresses."""
    if not isinstance(name, tuple):
        return "", "unknown"
    host, port = name[:2]
    return host, f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class FrameReader:
    """The bytes of one connection that are not handed on yet: as they come, and as frames.

    `free` says where the next bytes belong, `written` that they came, `next` takes frames out. All connections of a
    loop receive into one scratch buffer, so a silent connection holds no memory. A frame leaves in memory of its own;
    one that is larger than what has come is received in its place.
    """

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
        "is_empty",
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
        self.is_empty = True
        """Whether all that has come is handed on."""

    def free(self) -> memoryview:
        """Where to receive; called before every read, when `next` has no frame left."""
        frame = self._frame
        if frame is not None and len(frame) - self._filled >= _DIRECT:
            self._in_place = True
            return frame[self._filled :]
        self._in_place = False
        unread = self._end - self._pos
        if not unread:
            return self._scratch
        # At most three bytes: the beginning of a size.
        self._scratch[:unread] = self._data[self._pos : self._end]
        return self._scratch[unread:]

    def written(self, count: int) -> None:
        """So many bytes were received where `free` said."""
        self.is_empty = False
        if self._in_place:
            self._filled += count
            return
        self._end += count - self._pos
        self._pos = 0
        self._data = self._scratch

    def next(self) -> memoryview | None:
        """The next frame that is whole, without its size; DecodeError if a size is out of bounds."""
        if self._frame is None:
            start = self._pos + _SIZE.size
            if start > self._end:
                self.is_empty = self._pos == self._end
                return None
            (size,) = _SIZE.unpack_from(self._data, self._pos)
            if not 0 <= size <= self._max_frame_size:
                raise DecodeError(f"a frame claims {size} bytes, {self._max_frame_size} are allowed")
            self._pos = stop = start + size
            if stop <= self._end:
                self.is_empty = stop == self._end
                return memoryview(bytearray(self._data[start:stop]))
            self._pos = start
            self._begin(size)
        return self._fill()

    def keep(self) -> None:
        """Takes what is unread out of the scratch buffer, before another connection receives into it.

        Where nothing is, it need not be called.
        """
        if self._data is self._scratch:
            self._data = memoryview(bytes(self._scratch[self._pos : self._end])) if self._unread else _NOTHING
            self._end = self._unread
            self._pos = 0

    def clear(self) -> None:
        self._data, self._frame = _NOTHING, None
        self._pos = self._end = 0
        self.is_empty = True

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
                self.is_empty = self._pos == self._end
                return frame
            if self._filled < len(frame):
                return None
            self._frame = larger = _memory(min(self._size, 2 * len(frame)))
            larger[: self._filled] = frame
            frame = larger


def _memory(size: int) -> memoryview:
    # A pooled block is not zeroed first, which for a megabyte costs as much as receiving it.
    return memoryview(Memory(size) if size >= _DIRECT else bytearray(size))


class WriteQueue:
    """Buffers that are not handed to the transport yet, in order.

    A transport of CPython 3.11 copies what its socket does not take at once, and moves the copy after each send; so
    it is never given more than a piece beyond that. Small buffers are joined, since each costs a system call; large
    ones are passed on as they are.
    """

    __slots__ = ("_first", "_queue", "size")

    def __init__(self) -> None:
        # A list and the index of its first buffer: an empty deque is as large as all the rest of a connection.
        self._queue: list[Buffer] = []
        self._first = 0
        self.size = 0

    def add(self, parts: Sequence[Buffer]) -> int:
        """Queues them, and returns how many bytes they are."""
        before, small = self.size, 0
        for position, size in enumerate(map(len, parts)):
            if size >= _SMALL:
                self._join(parts[small:position])
                self._append(parts[position])
                small = position + 1
        self._join(parts[small:] if small else parts)
        return self.size - before

    def _join(self, parts: Sequence[Buffer]) -> None:
        if parts:
            self._append(b"".join(parts))

    def _append(self, buffer: Buffer) -> None:
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
