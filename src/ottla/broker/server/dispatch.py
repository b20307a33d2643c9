"""Dispatch: from a frame to the handler of its API, and from the handler's response back to a frame.

A connection has one pending request at a time, so its responses leave in order (Kafka mutes a channel in the same
way). Handlers that need not wait respond within the call that brought the frame; one that waits, a long poll for
instance, holds up its own connection and no other. Requests queue only while the server is paused, and the queue
is bounded: when it is full, no connection is read.

Faulty requests get what they get from Kafka: one that cannot be decoded closes its connection, ApiVersions of an
unknown version gets a response of version 0, and an unexpected error in a handler is UNKNOWN_SERVER_ERROR and a log
line.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.broker.server.call import ClientCall
from ottla.broker.server.faults import Fault, Faults, set_error
from ottla.broker.server.registry import Handler, HandlerResult, PendingResponse
from ottla.errors import BrokerError, EncodeError, ProtocolError, UnknownServerError
from ottla.net.connection import Connection
from ottla.runtime import Runtime
from ottla.wire import Message, Uuid, decode_request_header, encode_response
from ottla.wire.apis import API_VERSIONS_KEY, api_for_key
from ottla.wire.messages import ApiVersionsResponse, RequestHeader

if TYPE_CHECKING:
    from ottla.broker.replication.partition import PartitionKey

_log = logging.getLogger("ottla.broker.server.dispatch")
_requests = logging.getLogger("ottla.broker.requests")

DEFAULT_QUEUE: Final = 500
"""Kafka's queued.max.requests."""
_UNSUPPORTED_VERSION: Final = 35


class Owner(Protocol):
    """What dispatch has to know of the server it works for; handlers get it as their context."""

    id: int
    runtime: Runtime

    def topic_name(self, topic_id: Uuid) -> str | None: ...

    def touched(self, request: Message) -> list[PartitionKey]:
        """The partitions that a request is about, those of its fetch session included."""
        ...


class Dispatcher:
    """Serves the requests of all connections of one server."""

    def __init__(
        self,
        owner: Owner,
        handlers: Mapping[int, Handler],
        faults: Faults,
        queue_limit: int = DEFAULT_QUEUE,
        *,
        listener: str,
    ) -> None:
        self.handlers = handlers
        self._owner = owner
        self._faults = faults
        self._queue: deque[tuple[Connection, memoryview]] = deque()
        self._queue_limit = queue_limit
        self._listener = listener
        # The task that works for a connection; one that has none may send its next request.
        self._working: dict[Connection, asyncio.Task[None]] = {}
        self._resumed: asyncio.Event | None = None

    @property
    def is_full(self) -> bool:
        return len(self._queue) >= self._queue_limit

    @property
    def pending_requests(self) -> int:
        """How many requests wait for something."""
        return len(self._working) + len(self._queue)

    def pause(self) -> None:
        """No request is served and no response leaves until `resume`, as in a process that is stopped."""
        if self._resumed is None:
            self._resumed = asyncio.Event()

    def resume(self) -> None:
        if self._resumed is None:
            return
        self._resumed.set()
        self._resumed = None
        while self._queue and self._resumed is None:
            connection, frame = self._queue.popleft()
            if not connection.is_closed:
                self._serve(connection, frame)
                self._continue(connection)

    def received(self, connection: Connection, frame: memoryview) -> bool:
        """A request has come in. While it is pending its connection is paused. Whether the queue is full with it."""
        if self._resumed is None:
            self._serve(connection, frame)
            return False
        self._queue.append((connection, frame))
        connection.pause()
        return self.is_full

    def lost(self, connection: Connection) -> None:
        """The peer does not wait for its response any more."""
        task = self._working.pop(connection, None)
        if task is not None:
            task.cancel()

    def drained(self, connection: Connection) -> None:
        self._continue(connection)

    def is_working_for(self, connection: Connection) -> bool:
        return connection in self._working

    async def close(self) -> None:
        """Gives up what is pending."""
        if self.pending_requests:
            _log.info("node %s gives up %s pending requests", self._owner.id, self.pending_requests)
        self._queue.clear()
        tasks = list(self._working.values())
        self._working.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _serve(self, connection: Connection, frame: memoryview) -> None:
        try:
            self._take_up(connection, frame)
        except Exception:  # noqa: BLE001 - a bug costs this connection, and no other
            # Often this runs in a callback of the loop, which would leave the connection open.
            _log.exception("node %s: closing %s after a failure", self._owner.id, connection.peer)
            connection.abort()

    def _take_up(self, connection: Connection, frame: memoryview) -> None:
        try:
            header, position = decode_request_header(frame)
            handler = self.handlers.get(header.request_api_key)
            if handler is None or header.request_api_version not in handler.versions:
                self._refuse_version(connection, header, handler)
                return
            decode = handler.api.request.decoder(header.request_api_version)
            # What stands behind a request is ignored, like in Kafka: librdkafka's telemetry requests have a tail.
            request, _ = decode(frame, position, len(frame))
        except ProtocolError as error:
            _log.warning(
                "node %s: closing %s: a request that cannot be read: %s",
                self._owner.id,
                connection.peer,
                error,
            )
            connection.abort()
            return
        call = ClientCall(connection, header, handler, request, listener=self._listener)
        if _requests.isEnabledFor(logging.DEBUG):
            _requests.debug("node %s <- %s v%s %r", self._owner.id, connection.peer, call.version, request)
        if self._faults.rules:
            self._work(call, self._with_faults(call))
            return
        result = self._invoke(call)
        if result is None or isinstance(result, Message):
            self._respond(call, result)
        else:
            self._work(call, self._later(call, result), result)

    def _refuse_version(self, connection: Connection, header: RequestHeader, handler: Handler | None) -> None:
        """The API is not served here, or not in this version."""
        key, version = header.request_api_key, header.request_api_version
        if key == API_VERSIONS_KEY and handler is not None:
            # KIP-511: in version 0, which every client can read, and with what it may send instead.
            listed = handler.advertised
            response = ApiVersionsResponse(
                error_code=_UNSUPPORTED_VERSION,
                api_keys=[
                    ApiVersionsResponse.ApiVersion(
                        api_key=key, min_version=listed.start, max_version=listed.stop - 1
                    )
                ],
            )
            connection.send(encode_response(response, 0, header.correlation_id))
            return
        name = api_for_key(key).name
        served = (
            f"versions {handler.versions.start} to {handler.versions.stop - 1}" if handler else "not at all"
        )
        _log.warning(
            "node %s: closing %s: it requested %s version %s, which is served %s here",
            *(self._owner.id, connection.peer, name, version, served),
        )
        connection.abort()

    def _invoke(self, call: ClientCall) -> HandlerResult:
        try:
            return call.handler.function(self._owner, call.request, call)
        except BrokerError as error:
            return self._refuse(call, error)
        except Exception:  # noqa: BLE001 - a bug in one handler is an error response, and the node serves on
            return self._unexpected(call)

    async def _result(self, call: ClientCall, pending: PendingResponse) -> Message | None:
        try:
            return await pending
        except BrokerError as error:
            return self._refuse(call, error)
        except Exception:  # noqa: BLE001 - a bug in one handler is an error response, and the node serves on
            return self._unexpected(call)

    def _refuse(self, call: ClientCall, error: BrokerError) -> Message | None:
        response = call.handler.refuse(call.request, error)
        if response is None:
            call.connection.close()
        return response

    def _unexpected(self, call: ClientCall) -> Message | None:
        _log.exception("node %s: %s version %s failed", self._owner.id, call.handler.api.name, call.version)
        return self._refuse(call, UnknownServerError())

    def _work(
        self, call: ClientCall, work: Coroutine[Any, Any, None], pending: PendingResponse | None = None
    ) -> None:
        connection = call.connection
        connection.pause()
        task = asyncio.get_running_loop().create_task(work)
        self._working[connection] = task
        task.add_done_callback(lambda done: self._worked(connection, done, pending))

    def _worked(
        self, connection: Connection, task: asyncio.Task[None], pending: PendingResponse | None
    ) -> None:
        if pending is not None:
            pending.close()  # not even begun, where the task was cancelled before its first step
        if self._working.get(connection) is task:
            del self._working[connection]
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("node %s: closing %s after a failure", self._owner.id, connection.peer, exc_info=error)
            connection.abort()
        self._continue(connection)

    def _continue(self, connection: Connection) -> None:
        """The next request of the connection, unless the last one is still pending or its response not yet gone."""
        if connection not in self._working and connection.is_writable and not connection.is_closed:
            connection.resume()

    async def _later(self, call: ClientCall, pending: PendingResponse) -> None:
        response = await self._result(call, pending)
        while self._resumed is not None:
            await self._resumed.wait()
        self._respond(call, response)

    def _respond(self, call: ClientCall, response: Message | None) -> None:
        connection = call.connection
        if response is None or connection.is_closed:
            return
        if _requests.isEnabledFor(logging.DEBUG):
            _requests.debug("node %s -> %s %r", self._owner.id, connection.peer, response)
        try:
            parts = self._encoded(call, response)
        except ProtocolError:
            _log.exception("node %s: a response that cannot be written: %r", self._owner.id, response)
            connection.abort()
            return
        connection.send(parts)
        if not connection.is_writable:
            # A slow reader: it gets its next response when it has taken this one.
            connection.pause()

    def _encoded(self, call: ClientCall, response: Message) -> list[Any]:
        """A response that has no room for what it should say, an error message of 40 kB, is an error like others."""
        try:
            return encode_response(response, call.version, call.header.correlation_id)
        except EncodeError as error:
            refused = call.handler.refuse(call.request, UnknownServerError())
            if refused is None:
                raise
            _log.warning("node %s: a response that cannot be written: %s", self._owner.id, error)
            return encode_response(refused, call.version, call.header.correlation_id)

    # With faults

    async def _with_faults(self, call: ClientCall) -> None:
        touched = self._owner.touched(call.request)
        response: Message | None
        struck = self._strike("before_append", call, touched)
        if struck is not None:
            fault, partitions = struck
            if fault.action.kind != "error":
                if not await self._act(call, fault):
                    return
            elif fault.is_about_partitions:
                call.refused = {partition: fault.action.as_error() for partition in partitions}
            else:
                self._respond(call, self._refuse(call, fault.action.as_error()))
                return
        result = self._invoke(call)
        if result is None or isinstance(result, Message):
            response = result
        else:
            response = await self._result(call, result)
        for stage in ("after_append", "response"):
            struck = self._strike(stage, call, touched)
            if struck is None:
                continue
            fault, partitions = struck
            if fault.action.kind != "error":
                if not await self._act(call, fault):
                    return
            elif response is not None and (
                fault.is_about_partitions or (partitions and stage == "after_append")
            ):
                # The offsets of what was appended stay beside the error, as Kafka has them.
                set_error(response, partitions, fault.action.code, self._owner.topic_name)
            elif response is not None:
                response = self._refuse(call, fault.action.as_error())
        while self._resumed is not None:
            await self._resumed.wait()
        self._respond(call, response)

    def _strike(
        self, stage: str, call: ClientCall, touched: list[PartitionKey]
    ) -> tuple[Fault, list[PartitionKey]] | None:
        return self._faults.strike(stage, call.handler.api.name, self._owner.id, call.client_id, touched)

    async def _act(self, call: ClientCall, fault: Fault) -> bool:
        """Drops, silences or delays; whether the request goes on."""
        _log.info(
            "node %s: %s of %s meets the fault %s",
            self._owner.id,
            call.handler.api.name,
            call.connection.peer,
            fault,
        )
        if fault.action.kind == "delay":
            await self._owner.runtime.clock.sleep(fault.action.seconds)
            return True
        if fault.action.kind == "never":
            await asyncio.get_running_loop().create_future()  # until the connection or the node goes
        call.connection.abort()
        return False
