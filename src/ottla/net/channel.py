"""The requesting side of a connection: requests go out, each gets its response.

Many requests may be pending at once; responses are matched by correlation id and decoded as they arrive. What to
send, at which version, and what to do about an error is the caller's.

Invariant: every pending request ends: with its response, its timeout, or the loss of the connection.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol, Self

from ottla.errors import ConnectionLostError, KafkaError, ProtocolError
from ottla.net.connection import Connection
from ottla.runtime import Buffers, Clock, Runtime
from ottla.wire.apis import Api, api_for_key
from ottla.wire.frames import (
    CORRELATION_ID,
    DEFAULT_MAX_FRAME_SIZE,
    PROTOCOL_MAX_SIZE,
    correlation_id_of,
    decode_response,
    encode_request,
)
from ottla.wire.message import Message

_MAX_CORRELATION_ID: Final = 0x7FFFFFFF


class PendingRequest:
    """A request that was sent. What becomes of it goes to `on_done`, or where there is none into `future`.

    `size` is how many bytes it had; `sent_at` and `deadline` are for an observer that keeps times.
    """

    __slots__ = (
        "_on_done",
        "api",
        "deadline",
        "decode",
        "error",
        "future",
        "response",
        "sent_at",
        "size",
        "version",
    )

    future: asyncio.Future[Message]

    def __init__(self, api: Api, version: int, on_done: OnDone | None, decode: Decode | None = None) -> None:
        self.api = api
        self.version = version
        self.decode = decode
        self.response: Any = None
        self.error: KafkaError | None = None
        self.size = 0
        self.sent_at = self.deadline = 0.0
        self._on_done = on_done
        if on_done is None:
            self.future = asyncio.get_running_loop().create_future()

    @property
    def is_done(self) -> bool:
        """Whether it has its response or its error, or its caller has given it up."""
        if self._on_done is None:
            return self.future.done()
        return self.response is not None or self.error is not None

    def succeed(self, response: Any) -> None:
        self.response = response
        if self._on_done is not None:
            self._on_done(self)
        else:
            self.future.set_result(response)

    def give_up(self) -> None:
        """Its caller waits no more: its response is dropped when it comes."""
        if not self.is_done:
            self.error = ConnectionLostError("nobody waits for the response any more")

    def fail(self, error: KafkaError) -> None:
        if self.is_done:
            return
        self.error = error
        if self._on_done is not None:
            # Soon: the caller may be closing the channel, and is not to be called back while it does.
            asyncio.get_running_loop().call_soon(self._on_done, self)
        else:
            self.future.set_exception(error)


OnDone = Callable[[PendingRequest], object]
"""Called once, on the loop: with the response at once when it is read, with an error soon."""

Decode = Callable[[memoryview], Any]
"""Recognizes the response that nearly always comes, and gives what it says. None: it has to be decoded as usual."""


class Observer(Protocol):
    """What happens on a channel is reported to it, before a caller that waits for a response learns of it."""

    def request_done(
        self, pending: PendingRequest, size: int, response: Any, error: KafkaError | None
    ) -> None:
        """A request is over: a response of so many bytes came, or will not come.

        The response to a request that was given up is not read: neither a response nor an error.
        """

    def drained(self) -> None:
        """Everything sent has gone to the system; comes when something had to wait for that."""

    def closed(self) -> None:
        """Nothing more can be sent; comes once, before a caller that waits for a response learns of it."""

    def ended(self, error: Exception | None) -> None:
        """The connection is gone; no error if either side closed it between two frames."""


class Channel:
    """Requests and responses over one connection; made by `Channel.open`."""

    def __init__(
        self, clock: Clock, client_id: str | None, max_frame_size: int, observer: Observer | None = None
    ) -> None:
        self._clock = clock
        self._client_id = client_id
        self._observer = observer
        self._connection = Connection(self, max_frame_size, self._closed)
        self._last_correlation_id = -1
        # By correlation id. One that was given up stays until its response comes.
        self._pending: dict[int, PendingRequest] = {}
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reason: Exception | None = None
        self.is_closed = False
        """Whether nothing more can be sent."""
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
        """Connects; an OSError where nothing listens."""
        channel = cls(runtime.clock, client_id, max_frame_size, observer)
        await channel.connect(runtime, host, port)
        return channel

    async def connect(self, runtime: Runtime, host: str, port: int, buffers: Buffers | None = None) -> None:
        """What `open` does, for a channel that is made already: once, and before anything is sent."""
        await runtime.connect(host, port, lambda: self._connection, buffers or Buffers())

    @property
    def peer(self) -> str:
        return self._connection.peer

    @property
    def pending_bytes(self) -> int:
        """How much of what was sent the system has not taken yet."""
        return self._connection.pending_bytes

    @property
    def pending(self) -> Iterable[PendingRequest]:
        """What has no response yet, the oldest first."""
        return self._pending.values()

    def send(
        self,
        request: Message,
        version: int,
        max_size: int = PROTOCOL_MAX_SIZE,
        on_done: OnDone | None = None,
    ) -> PendingRequest:
        """Sends a request before it returns: the order of calls is the order on the wire.

        A request of more than `max_size` bytes is an EncodeError, and is not sent.
        """
        if self.is_closed:
            raise self._lost_error()
        pending = PendingRequest(api_for_key(request.API_KEY), version, on_done)
        correlation_id = self._next_correlation_id()
        parts = encode_request(request, version, correlation_id, self._client_id, max_size)
        self._pending[correlation_id] = pending
        pending.size = self._connection.send(parts)
        return pending

    def send_encoded(
        self,
        api: Api,
        version: int,
        encode: Callable[[int], bytes],
        on_done: OnDone,
        decode: Decode | None = None,
    ) -> PendingRequest:
        """`send` for a small request that `encode(correlation_id)` gives as it goes over the wire."""
        if self.is_closed:
            raise self._lost_error()
        pending = PendingRequest(api, version, on_done, decode)
        correlation_id = self._next_correlation_id()
        data = encode(correlation_id)
        self._pending[correlation_id] = pending
        pending.size = self._connection.send((data,))
        return pending

    async def request(self, request: Message, version: int, timeout: float | None = None) -> Message:
        """The response to a request; TimeoutError if it takes more than `timeout` seconds."""
        response = self.send(request, version).future
        if timeout is None:
            return await response
        timer = self._clock.call_later(timeout, self._time_out, response, timeout)
        try:
            return await response
        finally:
            timer.cancel()

    def send_oneway(self, request: Message, version: int, max_size: int = PROTOCOL_MAX_SIZE) -> int:
        """Sends a request that has no response, a Produce with acks=0; returns how many bytes it had."""
        if self.is_closed:
            raise self._lost_error()
        parts = encode_request(request, version, self._next_correlation_id(), self._client_id, max_size)
        return self._connection.send(parts)

    def close(self) -> None:
        """Closes the connection once what was sent is on its way; what is pending ends in ConnectionLostError now."""
        self._connection.close()
        self._fail_pending()

    def abort(self, error: Exception | None = None) -> None:
        """Closes the connection now; what is pending ends in a ConnectionLostError with this as its reason."""
        self._reason = self._reason or error
        self._connection.abort(error)
        self._fail_pending()

    async def wait_closed(self) -> None:
        """Until the connection is gone, whichever side ended it."""
        await asyncio.shield(self._lost)

    def _time_out(self, response: asyncio.Future[Any], seconds: float) -> None:
        if not response.done():
            response.set_exception(TimeoutError(f"{self.peer} did not answer within {seconds} seconds"))

    def _next_correlation_id(self) -> int:
        while True:
            self._last_correlation_id = (self._last_correlation_id + 1) & _MAX_CORRELATION_ID
            if self._last_correlation_id not in self._pending:
                return self._last_correlation_id

    def _lost_error(self) -> KafkaError:
        reason = "closed" if self._reason is None else str(self._reason)
        error = ConnectionLostError(f"the connection to {self.peer} is lost: {reason}")
        error.__cause__ = self._reason
        return error

    def _fail_pending(self) -> None:
        failed, self._pending = self._pending, {}
        for pending in failed.values():
            error = self._lost_error()
            if self._observer is not None:
                self._observer.request_done(pending, 0, None, error)
            pending.fail(error)

    def _closed(self) -> None:
        self.is_closed = True
        if self._observer is not None:
            self._observer.closed()

    # Receiver

    def connected(self, connection: Connection) -> None:
        self.was_connected = True

    def received(self, connection: Connection, frame: memoryview) -> None:
        try:
            pending = self._pending.pop(CORRELATION_ID.unpack_from(frame)[0])
        except (struct.error, KeyError):
            self._abort_unexpected(frame)
            return
        response: Any = None
        failure: KafkaError | None = None
        # A request that timed out or was given up has its response dropped.
        if not pending.is_done:
            try:
                if pending.decode is not None:
                    response = pending.decode(frame)
                if response is None:
                    response = decode_response(pending.api, pending.version, frame)
            except ProtocolError as error:
                failure = error
        if self._observer is not None:
            self._observer.request_done(pending, len(frame), response, failure)
        if failure is not None:
            pending.fail(failure)
        elif response is not None:
            pending.succeed(response)

    def _abort_unexpected(self, frame: memoryview) -> None:
        try:
            reason = str(correlation_id_of(frame))
        except ProtocolError as error:
            reason = str(error)
        self.abort(ProtocolError(f"{self.peer} responds to no pending request: {reason}"))

    def drained(self, connection: Connection) -> None:
        if self._observer is not None:
            self._observer.drained()

    def lost(self, connection: Connection, error: Exception | None) -> None:
        self._reason = self._reason or error
        self._fail_pending()
        self._lost.set_result(None)
        if self._observer is not None:
            self._observer.ended(self._reason)
