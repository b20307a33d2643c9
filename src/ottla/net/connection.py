"""The one connection type of clients and brokers: frames in, frames out, with flow control in both directions.

A `Connection` is the protocol of an asyncio transport; what is done with its frames is its Receiver's business.
How bytes become frames is in incoming.py, how buffers become writes in outgoing.py.

Invariants: frames are delivered one at a time, in order, and never while paused or after `close`; `lost` is the
last call that a Receiver gets, and it gets it exactly once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, cast
from weakref import WeakKeyDictionary

from ottla.errors import ConnectionLostError, DecodeError
from ottla.net.incoming import SCRATCH_SIZE, Incoming
from ottla.net.outgoing import Outgoing
from ottla.wire.frames import DEFAULT_MAX_FRAME_SIZE
from ottla.wire.primitives import Buffer

_logger = logging.getLogger("ottla.net")

_HIGH_WATER: Final = 1
"""The transport asks for a pause as soon as its socket does not take everything: what waits, waits here. Not 0,
because asyncio's TLS transport compares with `>=` and would pause for nothing."""

# One scratch buffer per loop: between get_buffer and buffer_updated nothing else runs on it.
_scratches: WeakKeyDictionary[asyncio.AbstractEventLoop, memoryview] = WeakKeyDictionary()


class Receiver(Protocol):
    """Who is told what happens on a connection. All calls come from the loop, none from inside of `send`."""

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
        "_incoming",
        "_max_frame_size",
        "_on_closed",
        "_outgoing",
        "_paused",
        "_reading",
        "_receiver",
        "_transport",
        "_transport_full",
        "is_closed",
        "peer",
        "peer_host",
    )

    _transport: asyncio.Transport
    _incoming: Incoming

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
        self._outgoing = Outgoing()
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

    def send(self, parts: Sequence[Buffer]) -> None:
        """Sends buffers one after the other, such as those of `encode_request`. They must not change any more.

        Never waits; whoever sends much looks at `is_writable`. On a closed connection it does nothing.
        """
        if self.is_closed:
            return
        self._outgoing.add(parts)
        self._pump()

    @property
    def is_writable(self) -> bool:
        """Whether all that was sent has gone to the system. If not, `drained` will tell when it has."""
        return not self._outgoing.size and not self._transport_full

    @property
    def pending_bytes(self) -> int:
        """How much of what was sent the system has not taken yet."""
        return self._outgoing.size + self._transport.get_write_buffer_size()

    def pause_writing(self) -> None:
        self._transport_full = True

    def resume_writing(self) -> None:
        self._transport_full = False
        self._pump()
        if self.is_writable and not self.is_closed:
            self._receiver.drained(self)

    def _pump(self) -> None:
        outgoing, transport = self._outgoing, self._transport
        while outgoing.size and not self._transport_full:
            if transport.is_closing():  # the peer is gone; connection_lost is on its way
                outgoing.clear()
                return
            transport.write(outgoing.take())
        if self._closing and not outgoing.size:
            transport.close()

    # Receiving

    def pause(self) -> None:
        """Delivers no more frames, also not those that have arrived.

        The transport reads on until something arrives that cannot be delivered: most peers wait for an answer
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
        return self._incoming.free()

    def buffer_updated(self, nbytes: int) -> None:
        self._incoming.written(nbytes)
        self._deliver()
        if self._paused and not self._incoming.is_empty:
            self._stop_reading()

    def _deliver(self) -> None:
        incoming, received = self._incoming, self._receiver.received
        self._delivering = True
        try:
            while not self._paused and not self.is_closed:
                try:
                    frame = incoming.next()
                except DecodeError as error:
                    _logger.warning("%s sends no frames of Kafka's protocol: %s", self.peer, error)
                    self.abort(error)
                    return
                if frame is None:
                    break
                received(self, frame)
        finally:
            self._delivering = False
            incoming.keep()

    def _stop_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._transport.pause_reading()

    # Beginning and end

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Every stream transport goes both ways; the signature is older than that.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_HIGH_WATER)
        self._incoming = Incoming(_scratch(), self._max_frame_size)
        self.peer_host, self.peer = _address(transport.get_extra_info("peername"))
        self._receiver.connected(self)

    def close(self) -> None:
        """Closes the connection once everything sent is on its way."""
        if self.is_closed:
            return
        self._closing = True
        self._set_closed()
        if not self._outgoing.size:
            self._transport.close()
        else:
            self._stop_reading()

    def abort(self, error: Exception | None = None) -> None:
        """Closes the connection now; `lost` gets the error."""
        self._error = self._error or error
        self._set_closed()
        self._outgoing.clear()
        self._transport.abort()

    def eof_received(self) -> None:
        """Like Kafka, take the end of the peer's sending for the end of the connection."""
        if (unfinished := self._incoming.unfinished) is not None:
            self._error = self._error or ConnectionLostError(
                f"{self.peer} closed the connection after {unfinished}"
            )

    def connection_lost(self, exc: Exception | None) -> None:
        self._set_closed()
        self._outgoing.clear()
        self._receiver.lost(self, self._error or exc)

    def _set_closed(self) -> None:
        self.is_closed = True
        self._incoming.clear()
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
