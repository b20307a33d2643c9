"""The asking side of a connection: requests go out, each gets its answer.

Many requests may be under way at once; answers are matched by correlation id and decoded as they arrive. What to
ask, which version, and what to do about an error is for whoever asks.

Invariant: every pending that was asked ends: with its answer, its timeout, or the loss of the connection.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol, Self

from ottla.errors import ConnectionLostError, EncodeError, KafkaError, ProtocolError
from ottla.net.connection import Connection
from ottla.runtime import Buffers, Clock, Runtime
from ottla.wire.apis import Api, api_for_key
from ottla.wire.frames import DEFAULT_MAX_FRAME_SIZE, correlation_id_of, decode_response, encode_request
from ottla.wire.message import Message
from ottla.wire.primitives import Buffer

_MAX_CORRELATION_ID: Final = 0x7FFFFFFF
_CORRELATION_ID: Final = struct.Struct(">8xi")
"""In a request with its size: behind the size, the key and the version."""


class PendingRequest:
    """A request that is under way, and the future that gets its answer.

    `size` is how many bytes it had; `sent_at` and `deadline` are for whoever keeps times.
    """

    __slots__ = ("api", "deadline", "response", "sent_at", "size", "version")

    def __init__(self, api: Api | None, version: int, size: int) -> None:
        # A decoded message, or the frame itself where there is no API to read it by.
        self.response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.api = api
        self.version = version
        self.size = size
        self.sent_at = self.deadline = 0.0


class Observer(Protocol):
    """Who is told what happens on a channel, before those who asked learn of it."""

    def settled(self, pending: PendingRequest, size: int, error: KafkaError | None) -> None:
        """A pending is over: a frame of so many bytes came for it, or will not come.

        The answer of a pending that was given up is not read, and is no error.
        """

    def drained(self) -> None:
        """Everything sent has gone to the system; comes when something had to wait for that."""

    def closed(self) -> None:
        """Nothing more can be sent; comes once, before those who wait for responses learn of it."""

    def ended(self, error: Exception | None) -> None:
        """The connection is gone; no error if either side closed it between two frames."""


class Channel:
    """Requests and answers over one connection; made by `Channel.open`."""

    def __init__(
        self, clock: Clock, client_id: str | None, max_frame_size: int, observer: Observer | None = None
    ) -> None:
        self._clock = clock
        self._client_id = client_id
        self._observer = observer
        self._connection = Connection(self, max_frame_size, self._closed)
        self.is_closed = False
        self._last_correlation_id = -1
        # By correlation id. One that nobody waits for any more stays until its answer comes.
        self._waiting: dict[int, PendingRequest] = {}
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reason: Exception | None = None
        self.was_connected = False

    @classmethod
    async def open(
        cls,
        runtime: Runtime,
        host: str,
        port: int,
        *,
        client_id: str | None = None,
        max_frame_size: int = DEFAULT_MAX_FRAME_SIZE,
        observer: Observer | None = None,
    ) -> Self:
        """Connects; an OSError where nobody answers."""
        channel = cls(runtime.clock, client_id, max_frame_size, observer)
        await channel.connect(runtime, host, port)
        return channel

    async def connect(self, runtime: Runtime, host: str, port: int, buffers: Buffers | None = None) -> None:
        """What `open` does, for whoever made the channel: once, and before anything is asked."""
        await runtime.connect(host, port, lambda: self._connection, buffers or Buffers())

    @property
    def peer(self) -> str:
        return self._connection.peer

    @property
    def pending_bytes(self) -> int:
        """How much of what was sent the system has not taken yet."""
        return self._connection.pending_bytes

    @property
    def under_way(self) -> Iterable[PendingRequest]:
        """What has no answer yet, the oldest first."""
        return self._waiting.values()

    def send(self, request: Message, version: int, max_size: int | None = None) -> PendingRequest:
        """Sends a request before it returns: the order of calls is the order on the wire.

        A request of more than `max_size` bytes is an EncodeError, and is not sent.
        """
        self._check_open()
        correlation_id = self._next_correlation_id()
        parts = encode_request(request, version, correlation_id, self._client_id)
        size = _bounded_size(request, parts, max_size)
        return self._ask(correlation_id, PendingRequest(api_for_key(request.API_KEY), version, size), parts)

    async def ask(
        self,
        request: Message,
        version: int,
        timeout: float | None = None,
    ) -> Message:
        """The answer to a request; TimeoutError if it takes more than `timeout` seconds."""
        answer: Message = await self._answer(self.send(request, version), timeout)
        return answer

    async def exchange(
        self,
        parts: Sequence[Buffer],
        timeout: float | None = None,
    ) -> memoryview:
        """The frame that answers a request which is encoded already, size first.

        Its correlation id is the caller's, and must not be one that is under way.
        """
        self._check_open()
        correlation_id = _correlation_id_in(parts)
        if correlation_id in self._waiting:
            raise ProtocolError(f"a request with correlation id {correlation_id} is under way already")
        pending = self._ask(correlation_id, PendingRequest(None, 0, sum(map(len, parts))), parts)
        frame: memoryview = await self._answer(pending, timeout)
        return frame

    def send_oneway(self, request: Message, version: int, max_size: int | None = None) -> int:
        """Sends a request that has no answer, a Produce with acks=0; returns how many bytes it had."""
        self._check_open()
        parts = encode_request(request, version, self._next_correlation_id(), self._client_id)
        size = _bounded_size(request, parts, max_size)
        self._connection.send(parts)
        return size

    def close(self) -> None:
        """Closes the connection once everything told is on its way; who waits gets a ConnectionLostError now."""
        self._connection.close()
        self._fail_waiting()

    def abort(self, error: Exception | None = None) -> None:
        """Closes the connection now; whoever waits gets a ConnectionLostError with this as its reason."""
        self._reason = self._reason or error
        self._connection.abort(error)
        self._fail_waiting()

    async def wait_closed(self) -> None:
        """Until the connection is gone, whoever ended it."""
        await asyncio.shield(self._lost)

    def _ask(self, correlation_id: int, pending: PendingRequest, parts: Sequence[Buffer]) -> PendingRequest:
        self._waiting[correlation_id] = pending
        self._connection.send(parts)
        return pending

    async def _answer(self, pending: PendingRequest, seconds: float | None) -> Any:
        if seconds is None:
            return await pending.response
        timer = self._clock.call_later(seconds, self._time_out, pending.response, seconds)
        try:
            return await pending.response
        finally:
            timer.cancel()

    def _time_out(self, answer: asyncio.Future[Any], seconds: float) -> None:
        if not answer.done():
            answer.set_exception(TimeoutError(f"{self.peer} did not answer within {seconds} seconds"))

    def _next_correlation_id(self) -> int:
        while True:
            self._last_correlation_id = (self._last_correlation_id + 1) & _MAX_CORRELATION_ID
            if self._last_correlation_id not in self._waiting:
                return self._last_correlation_id

    def _check_open(self) -> None:
        if self.is_closed:
            raise self._lost_error()

    def _lost_error(self) -> KafkaError:
        reason = "closed" if self._reason is None else str(self._reason)
        error = ConnectionLostError(f"the connection to {self.peer} is lost: {reason}")
        error.__cause__ = self._reason
        return error

    def _fail_waiting(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for pending in waiting.values():
            error = self._lost_error()
            if not pending.response.done():
                pending.response.set_exception(error)
            self._tell_settled(pending, 0, error)

    def _tell_settled(self, pending: PendingRequest, size: int, error: KafkaError | None) -> None:
        if self._observer is not None:
            self._observer.settled(pending, size, error)

    # Receiver

    def connected(self, connection: Connection) -> None:
        self.was_connected = True

    def received(self, connection: Connection, frame: memoryview) -> None:
        try:
            pending = self._waiting.pop(correlation_id_of(frame))
        except (ProtocolError, KeyError) as error:
            self.abort(ProtocolError(f"{connection.peer} answers what was not asked: {error}"))
            return
        failure = None
        # A request that timed out or was given up has its answer dropped.
        if not pending.response.done():
            try:
                pending.response.set_result(_read(pending, frame))
            except ProtocolError as error:
                failure = error
                pending.response.set_exception(error)
        self._tell_settled(pending, len(frame), failure)

    def drained(self, connection: Connection) -> None:
        if self._observer is not None:
            self._observer.drained()

    def _closed(self) -> None:
        self.is_closed = True
        if self._observer is not None:
            self._observer.closed()

    def lost(self, connection: Connection, error: Exception | None) -> None:
        self._reason = self._reason or error
        self._fail_waiting()
        self._lost.set_result(None)
        if self._observer is not None:
            self._observer.ended(self._reason)


def _read(pending: PendingRequest, frame: memoryview) -> Message | memoryview:
    return frame if pending.api is None else decode_response(pending.api, pending.version, frame)[1]


def _bounded_size(request: Message, parts: Sequence[Buffer], max_size: int | None) -> int:
    size = sum(map(len, parts))
    if max_size is not None and size > max_size:
        raise EncodeError(
            f"a {type(request).__name__} of {size} bytes is not sent: brokers refuse more than {max_size}"
        )
    return size


def _correlation_id_in(parts: Sequence[Buffer]) -> int:
    head = b""
    for part in parts:
        head += part[: _CORRELATION_ID.size]
        if len(head) >= _CORRELATION_ID.size:
            correlation_id: int = _CORRELATION_ID.unpack_from(head)[0]
            return correlation_id
    raise ProtocolError(f"{len(head)} bytes are no request")
