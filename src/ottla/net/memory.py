"""Transports without sockets: two ends in one process, with the flow control of a real connection.

How and when bytes get from one end to the other is up to the `Path` of each direction, which is injected; so a
simulation decides about delays, pieces and broken links. memory_network.py joins transports to a network.

Invariant: a protocol is never called from inside of a call that it makes itself, just as with sockets.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, Protocol

from ottla.wire.primitives import Buffer

WINDOW: Final = 256 * 1024
"""How many bytes may be on their way or unread at the other end, as in the buffers of two sockets."""

_DEFAULT_HIGH_WATER: Final = 64 * 1024

PacketKind = Literal["open", "accept", "refuse", "data", "end", "reset", "message"]
"""What travels along a path. Only data and messages have bytes; a reset may overtake nothing either."""

Arrive = Callable[[bytes], object]


class Path(Protocol):
    """One direction of one connection."""

    def carry(self, kind: PacketKind, data: bytes, arrive: Arrive) -> None:
        """Calls `arrive` with the data later, in one or more pieces, behind all that was carried before."""


class ImmediatePath:
    """Brings everything over in one piece and without delay."""

    def carry(self, kind: PacketKind, data: bytes, arrive: Arrive) -> None:
        asyncio.get_running_loop().call_soon(arrive, data)


class MemoryTransport(asyncio.Transport):
    """One end of a connection in memory. `joined` makes both, `start` gives each its protocol."""

    def __init__(
        self,
        path: Path,
        addresses: dict[str, tuple[str, int]],
        window: int,
        gone: Callable[[], None],
    ) -> None:
        super().__init__(dict(addresses))
        self._loop = asyncio.get_running_loop()
        self._path = path
        self._window = window
        self._gone = gone
        self._peer: MemoryTransport = self
        self._protocol: asyncio.BaseProtocol | None = None
        # Sending: what the window has no room for waits in the buffer, which is what the limits are about.
        self._buffer: deque[memoryview] = deque()
        self._buffer_size = 0
        self._in_flight = 0
        self._high, self._low = _DEFAULT_HIGH_WATER, _DEFAULT_HIGH_WATER // 4
        self._protocol_paused = False
        self._end_wanted = self._end_sent = False
        # Receiving: what has arrived and is not read; an empty piece is the end of the stream.
        self._arrived: deque[memoryview] = deque()
        self._reading = True
        self._closing = self._lost = False

    @classmethod
    def joined(
        cls,
        paths: tuple[Path, Path],
        addresses: tuple[tuple[str, int], tuple[str, int]],
        window: int = WINDOW,
        gone: Callable[[], None] | None = None,
    ) -> tuple[MemoryTransport, MemoryTransport]:
        """Both ends of a connection. `gone` is called once for each, behind the `connection_lost` of its protocol."""
        first, second = addresses
        ends = (
            cls(paths[0], {"sockname": first, "peername": second}, window, gone or _nothing),
            cls(paths[1], {"sockname": second, "peername": first}, window, gone or _nothing),
        )
        ends[0]._peer, ends[1]._peer = ends[1], ends[0]
        return ends

    def start(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
        self._loop.call_soon(protocol.connection_made, self)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None, "the connection is lost"
        return self._protocol

    # Sending

    def write(self, data: Buffer) -> None:
        if not data or self._closing:
            return
        if self._end_wanted:
            raise RuntimeError("nothing can be written after write_eof")
        if not self._buffer and len(data) <= self._window - self._in_flight:
            self._send(bytes(data))
            return
        self._buffer.append(memoryview(bytes(data)))
        self._buffer_size += len(data)
        self._flush()
        if self._buffer_size > self._high and not self._protocol_paused:
            self._protocol_paused = True
            self.get_protocol().pause_writing()

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        self._end_wanted = True
        self._flush()

    def can_write_eof(self) -> bool:
        return True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = _DEFAULT_HIGH_WATER if low is None else 4 * low
        self._high, self._low = high, high // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        return self._buffer_size

    def _flush(self) -> None:
        while self._buffer and (room := self._room()):
            data = self._buffer.popleft()
            if len(data) > room:
                self._buffer.appendleft(data[room:])
                data = data[:room]
            self._buffer_size -= len(data)
            self._send(bytes(data))
        if self._end_wanted and not self._buffer and not self._end_sent:
            self._end_sent = True
            self._path.carry("end", b"", self._peer._arrive)

    def _send(self, data: bytes) -> None:
        self._in_flight += len(data)
        self._path.carry("data", data, self._peer._arrive)

    def _room(self) -> int:
        """How much may be sent now. A large stream waits until half the window is free, or it would go over in
        ever smaller pieces (TCP's silly window)."""
        room = self._window - self._in_flight
        return room if room >= min(self._buffer_size, self._window // 2) else 0

    def _has_read(self, count: int) -> None:
        """The other end has read so much: what waits for that goes on, in a turn of its own."""
        self._in_flight -= count
        if self._buffer or self._closing or self._protocol_paused:
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        if self._lost:
            return
        self._flush()
        if self._closing and not self._buffer:
            self._finish()
        elif self._protocol_paused and self._buffer_size <= self._low:
            self._protocol_paused = False
            self.get_protocol().resume_writing()

    # Receiving

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if not self._reading:
            self._reading = True
            self._loop.call_soon(self._read)

    def _arrive(self, data: bytes) -> None:
        if not self._lost:
            self._arrived.append(memoryview(data))
            self._read()
        elif data:
            self._path.carry("reset", b"", self._peer._reset)

    def _read(self) -> None:
        while self._arrived and self._reading and not self._closing:
            data = self._arrived.popleft()
            try:
                if data:
                    self._read_some(data)
                elif not self._reader().eof_received():
                    self.close()
            except Exception as error:  # noqa: BLE001 -- whatever it is, it goes to the loop's handler
                self._fail(error)

    def _read_some(self, data: memoryview) -> None:
        reader = self._reader()
        if isinstance(reader, asyncio.BufferedProtocol):
            room = memoryview(reader.get_buffer(-1))
            count = min(len(room), len(data))
            room[:count] = data[:count]
            if count < len(data):
                self._arrived.appendleft(data[count:])
            reader.buffer_updated(count)
        else:
            count = len(data)
            reader.data_received(bytes(data))
        self._peer._has_read(count)

    def _reader(self) -> Any:
        """A Protocol or a BufferedProtocol, which share no class that can receive."""
        return self.get_protocol()

    def _fail(self, error: Exception) -> None:
        context = {"message": "a protocol failed to receive", "exception": error, "transport": self}
        self._loop.call_exception_handler(context)
        self._path.carry("reset", b"", self._peer._reset)
        self._lose(error)

    # The end

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        if not self._buffer:
            self._finish()

    def _finish(self) -> None:
        """All is sent. A system ends a connection with a reset if its peer sent what was never read."""
        if any(self._arrived):
            self._path.carry("reset", b"", self._peer._reset)
        elif not self._end_sent:
            self._path.carry("end", b"", self._peer._arrive)
        self._lose(None)

    def abort(self) -> None:
        """Ends the connection with a reset, the worst of what a peer may see when a process dies."""
        if not self._lost:
            self._path.carry("reset", b"", self._peer._reset)
            self._lose(None)

    def break_off(self) -> None:
        """Ends this side as if the network had failed; the other side learns nothing from it."""
        self._reset(b"")

    def _reset(self, _: bytes) -> None:
        self._lose(ConnectionResetError("the connection was reset by its peer"))

    def _lose(self, error: Exception | None) -> None:
        if self._lost:
            return
        self._lost = self._closing = True
        self._buffer.clear()
        self._buffer_size = 0
        self._arrived.clear()
        self._loop.call_soon(self._notify_lost, error)

    def _notify_lost(self, error: Exception | None) -> None:
        # A reference to this end must not keep the protocol alive.
        protocol, self._protocol = self._protocol, None
        gone, self._gone = self._gone, _nothing
        try:
            if protocol is not None:
                protocol.connection_lost(error)
        finally:
            gone()


def _nothing() -> None:
    """The `gone` of an end whose maker gave none."""
