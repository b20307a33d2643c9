"""The asking side of a connection: requests go out, each gets its answer.

Many requests may be under way at once; answers are matched by correlation id. What to ask, which version, and
what to do about an error is for whoever asks.

Invariant: every question that was asked ends: with its answer, its timeout, or the loss of the connection.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from typing import Final, Self

from ottla.errors import ConnectionLostError, KafkaError, ProtocolError
from ottla.net.connection import Connection
from ottla.runtime import Clock, Runtime
from ottla.wire.apis import api_for_key
from ottla.wire.frames import DEFAULT_MAX_FRAME_SIZE, correlation_id_of, decode_response, encode_request
from ottla.wire.message import Message
from ottla.wire.primitives import Buffer

_MAX_CORRELATION_ID: Final = 0x7FFFFFFF
_CORRELATION_ID: Final = struct.Struct(">8xi")
"""In a request with its size: behind the size, the key and the version."""


class Channel:
    """Requests and answers over one connection; made by `Channel.open`."""

    def __init__(self, clock: Clock, client_id: str | None, max_frame_size: int) -> None:
        self._clock = clock
        self._client_id = client_id
        self._connection = Connection(self, max_frame_size)
        self._last_correlation_id = -1
        # By correlation id. One that nobody waits for any more stays until its answer comes.
        self._waiting: dict[int, asyncio.Future[memoryview]] = {}
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reason: Exception | None = None

    @classmethod
    async def open(
        cls,
        runtime: Runtime,
        host: str,
        port: int,
        *,
        client_id: str | None = None,
        max_frame_size: int = DEFAULT_MAX_FRAME_SIZE,
    ) -> Self:
        """Connects; an OSError where nobody answers."""
        channel = cls(runtime.clock, client_id, max_frame_size)
        await runtime.connect(host, port, lambda: channel._connection)
        return channel

    @property
    def closed(self) -> bool:
        return self._connection.is_closed

    @property
    def peer(self) -> str:
        return self._connection.peer

    async def ask(
        self,
        request: Message,
        version: int,
        timeout: float | None = None,  # noqa: ASYNC109 -- of the Runtime's clock, not of the loop's
    ) -> Message:
        """The answer to a request; TimeoutError if it takes more than `timeout` seconds."""
        self._check_open()
        correlation_id = self._next_correlation_id()
        parts = encode_request(request, version, correlation_id, self._client_id)
        frame = await self._exchange(correlation_id, parts, timeout)
        return decode_response(api_for_key(request.API_KEY), version, frame)[1]

    async def exchange(
        self,
        parts: Sequence[Buffer],
        timeout: float | None = None,  # noqa: ASYNC109 -- of the Runtime's clock, not of the loop's
    ) -> memoryview:
        """The frame that answers a request which is encoded already, size first.

        Its correlation id is the caller's, and must not be one that is under way.
        """
        self._check_open()
        correlation_id = _correlation_id_in(parts)
        if correlation_id in self._waiting:
            raise ProtocolError(f"a request with correlation id {correlation_id} is under way already")
        return await self._exchange(correlation_id, parts, timeout)

    def tell(self, request: Message, version: int) -> None:
        """Sends a request that has no answer: a Produce with acks=0."""
        self._check_open()
        self._connection.send(encode_request(request, version, self._next_correlation_id(), self._client_id))

    def close(self) -> None:
        """Closes the connection; whoever still waits gets a ConnectionLostError."""
        self._connection.close()

    async def wait_closed(self) -> None:
        """Until the connection is gone, whoever ended it."""
        await asyncio.shield(self._lost)

    async def _exchange(
        self, correlation_id: int, parts: Sequence[Buffer], seconds: float | None
    ) -> memoryview:
        answer: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = answer
        self._connection.send(parts)
        if seconds is None:
            return await answer
        timer = self._clock.call_later(seconds, self._time_out, answer, seconds)
        try:
            return await answer
        finally:
            timer.cancel()

    def _time_out(self, answer: asyncio.Future[memoryview], seconds: float) -> None:
        if not answer.done():
            answer.set_exception(TimeoutError(f"{self.peer} did not answer within {seconds} seconds"))

    def _next_correlation_id(self) -> int:
        while True:
            self._last_correlation_id = (self._last_correlation_id + 1) & _MAX_CORRELATION_ID
            if self._last_correlation_id not in self._waiting:
                return self._last_correlation_id

    def _check_open(self) -> None:
        if self.closed:
            raise self._lost_error()

    def _lost_error(self) -> KafkaError:
        reason = "closed" if self._reason is None else str(self._reason)
        error = ConnectionLostError(f"the connection to {self.peer} is lost: {reason}")
        error.__cause__ = self._reason
        return error

    # Receiver

    def connected(self, connection: Connection) -> None:
        """Nothing is asked before somebody asks."""

    def received(self, connection: Connection, frame: memoryview) -> None:
        try:
            answer = self._waiting.pop(correlation_id_of(frame))
        except (ProtocolError, KeyError) as error:
            connection.abort(ProtocolError(f"{connection.peer} answers what was not asked: {error}"))
            return
        # A request that timed out has its answer dropped.
        if not answer.done():
            answer.set_result(frame)

    def drained(self, connection: Connection) -> None:
        """Requests wait in the connection as long as they have to."""

    def lost(self, connection: Connection, error: Exception | None) -> None:
        self._reason = error
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(self._lost_error())
        self._lost.set_result(None)


def _correlation_id_in(parts: Sequence[Buffer]) -> int:
    head = b""
    for part in parts:
        head += part[: _CORRELATION_ID.size]
        if len(head) >= _CORRELATION_ID.size:
            correlation_id: int = _CORRELATION_ID.unpack_from(head)[0]
            return correlation_id
    raise ProtocolError(f"{len(head)} bytes are no request")
