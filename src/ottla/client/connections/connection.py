"""BrokerConnection: one connection to one broker, for one purpose, from its first request to its end.

Correlation ids, futures and bytes are net's (`Channel`). Here are versions, deadlines, idleness, throttling and
hooks. When to connect, and how often, is the broker's (broker.py).

Invariants: the response to ApiVersions is there before anything else is sent. A request that was not sent ends in
ConnectionFailedError or EncodeError; one that was, in its response, RequestTimeoutError or ConnectionLostError.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from ottla.client.connections.api_versions import ApiVersions, first_request, retry_version
from ottla.client.connections.features import FinalizedFeatures
from ottla.client.connections.purposes import Purpose
from ottla.config import ClientConfig
from ottla.errors import (
    ConnectionFailedError,
    ConnectionLostError,
    KafkaError,
    ProtocolError,
    RequestTimeoutError,
)
from ottla.hooks import Hooks
from ottla.net import Channel, Decode, OnDone, PendingRequest
from ottla.runtime import Buffers, Runtime, Timer
from ottla.wire import DEFAULT_MAX_FRAME_SIZE, Message, api_key
from ottla.wire.apis import Api
from ottla.wire.messages import ApiVersionsResponse

_MAX_REQUEST: Final = DEFAULT_MAX_FRAME_SIZE
_HEADROOM: Final = 16 * 1024 * 1024
"""What a response may have beyond fetch_max_bytes: a first batch that is larger, and what is around the records."""
_TIME_TO_DRAIN: Final = 5.0
"""How long a closed connection may take to pass on what was sent over it, in seconds."""
_NEVER: Final = float("inf")

# From which version on a broker responds first and expects the client to pause (KIP-219). Older versions get their
# response after the pause, so that the time in it is over when it arrives. APIs not named here are younger than that.
_THROTTLED_SINCE: Final = {
    "Produce": 6,
    "Fetch": 8,
    "ListOffsets": 3,
    "Metadata": 6,
    "OffsetCommit": 4,
    "OffsetFetch": 4,
    "FindCoordinator": 2,
    "JoinGroup": 3,
    "Heartbeat": 2,
    "LeaveGroup": 2,
    "SyncGroup": 2,
    "DescribeGroups": 2,
    "ListGroups": 2,
    "ApiVersions": 2,
    "CreateTopics": 3,
    "DeleteTopics": 2,
    "DeleteRecords": 1,
    "InitProducerId": 1,
    "AddPartitionsToTxn": 1,
    "AddOffsetsToTxn": 1,
    "EndTxn": 1,
    "TxnOffsetCommit": 1,
    "DescribeAcls": 1,
    "CreateAcls": 1,
    "DeleteAcls": 1,
    "DescribeConfigs": 2,
    "AlterConfigs": 1,
    "AlterReplicaLogDirs": 1,
    "DescribeLogDirs": 1,
    "CreatePartitions": 1,
    "CreateDelegationToken": 1,
    "RenewDelegationToken": 1,
    "ExpireDelegationToken": 1,
    "DescribeDelegationToken": 1,
    "DeleteGroups": 1,
}
_THROTTLED_SINCE_BY_KEY: Final = {api_key(name): version for name, version in _THROTTLED_SINCE.items()}


class BrokerConnection:
    """Requests to one broker; a `Broker` makes it, connects it and has it negotiate."""

    def __init__(
        self,
        node_id: int,
        purpose: Purpose,
        config: ClientConfig,
        runtime: Runtime,
        hooks: Hooks,
        features: FinalizedFeatures,
        on_end: Callable[[BrokerConnection, Exception | None], object],
    ) -> None:
        """`on_end` is called once when the connection is gone; without an error it was closed here."""
        self.node_id = node_id
        self.purpose = purpose
        self._clock = runtime.clock
        self._hooks = hooks
        self._features = features
        self._on_end = on_end
        self._request_timeout = config.request_timeout_ms / 1000
        self._idle = _NEVER if config.connections_max_idle_ms < 0 else config.connections_max_idle_ms / 1000
        self._channel = Channel(
            runtime.clock,
            config.client_id,
            max(DEFAULT_MAX_FRAME_SIZE, config.fetch_max_bytes + _HEADROOM),
            observer=self,
        )
        self._buffers = Buffers(config.send_buffer_bytes, config.receive_buffer_bytes)
        self._versions: ApiVersions
        # The results of `version`, by its arguments: every request needs one.
        self._chosen: dict[tuple[type[Message], int | None], int] = {}
        self.is_closed = False
        """Whether nothing more can be sent over it."""
        self.is_ready = False
        """Whether the broker's versions are known; until then only `negotiate` sends."""
        self._closed_here = False
        self._on_drained: Callable[[], object] | None = None
        self._used_at = self._clock.monotonic()
        self.paused_until = 0.0
        """Until when the broker throttles this connection, by the monotonic clock; most never do."""
        # One timer for all deadlines and for idleness: it looks at `_check_at`, and again when it has to.
        self._timer: Timer | None = None
        self._check_at = _NEVER

    async def connect(self, runtime: Runtime, host: str, port: int) -> None:
        """Connects, and sends nothing; an OSError where nothing listens."""
        await self._channel.connect(runtime, host, port, self._buffers)

    async def negotiate(self) -> None:
        """Learns what the broker speaks; before that nothing else may be sent."""
        request, version = first_request()
        while True:
            response = await self.send(request, version)
            assert isinstance(response, ApiVersionsResponse)
            older = retry_version(response, version)
            if older is None:
                break
            version = older
        self._versions = ApiVersions(response, f"broker {self.node_id} ({self.peer})")
        self._features.learn(response)
        self.is_ready = True
        self._check()

    @property
    def was_connected(self) -> bool:
        """Whether `ended` comes, or has come."""
        return self._channel.was_connected

    @property
    def peer(self) -> str:
        return self._channel.peer

    @property
    def pending_since(self) -> float | None:
        """When the oldest request without a response was sent; None if there is none."""
        return next((pending.sent_at for pending in self._channel.pending), None)

    @property
    def pending_bytes(self) -> int:
        """How much of what was sent the system has not taken yet."""
        return self._channel.pending_bytes

    def when_drained(self, callback: Callable[[], object]) -> None:
        """Calls it once, when the system has taken everything that is pending, or the connection is gone.

        For a sender of requests that have no response: nothing else holds it back. Only the last callback counts.
        """
        self._on_drained = callback

    def version(self, request_class: type[Message], most: int | None = None) -> int:
        """The highest version that both sides know, and not above `most`; else UnsupportedApiError."""
        chosen = self._chosen.get((request_class, most))
        if chosen is None:
            chosen = self._chosen[request_class, most] = self._versions.best(request_class, most)
        return chosen

    # Sending

    def send(self, request: Message, version: int, timeout: float | None = None) -> asyncio.Future[Message]:
        """Sends a request before it returns; whatever becomes of it is in the future.

        ConnectionFailedError and EncodeError: nothing was sent. RequestTimeoutError, ConnectionLostError: the request
        may be carried out. After a timeout the connection is closed, as its responses come in order: none would come
        any more. Cancelling the future forgets this response and harms no other.
        """
        try:
            return self.begin(request, version, None, timeout).future
        except KafkaError as error:
            failed: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
            failed.set_exception(error)
            return failed

    def begin(
        self, request: Message, version: int, on_done: OnDone | None, timeout: float | None = None
    ) -> PendingRequest:
        """`send` without a future; ConnectionFailedError and EncodeError are raised: nothing was sent."""
        try:
            pending = self._channel.send(request, version, _MAX_REQUEST, on_done)
        except KafkaError as error:
            raise self._why_not_sent(request.API_KEY, error) from error
        self._begun(pending, self._request_timeout if timeout is None else timeout)
        return pending

    def begin_encoded(
        self,
        api: Api,
        version: int,
        encode: Callable[[int], bytes],
        on_done: OnDone,
        decode: Decode | None = None,
    ) -> PendingRequest:
        """`begin` for a small request that `encode(correlation_id)` gives as it goes over the wire."""
        try:
            pending = self._channel.send_encoded(api, version, encode, on_done, decode)
        except KafkaError as error:
            raise self._why_not_sent(api.key, error) from error
        self._begun(pending, self._request_timeout)
        return pending

    def _begun(self, pending: PendingRequest, timeout: float) -> None:
        now = self._used_at = pending.sent_at = self._clock.monotonic()
        pending.deadline = now + timeout
        if pending.deadline < self._check_at:
            self._check_in(timeout)
        if (notify := self._hooks.on_broker_write) is not None:
            notify(self.node_id, pending.api.key, pending.size, None)

    def send_oneway(self, request: Message, version: int) -> None:
        """Sends a request that has no response, a Produce with acks=0; raises what `send` would if it cannot."""
        try:
            size = self._channel.send_oneway(request, version, _MAX_REQUEST)
        except KafkaError as error:
            raise self._why_not_sent(request.API_KEY, error) from error
        self._used_at = self._clock.monotonic()
        if (notify := self._hooks.on_broker_write) is not None:
            notify(self.node_id, request.API_KEY, size, None)

    def _why_not_sent(self, api_key: int, error: KafkaError) -> KafkaError:
        if not isinstance(error, ProtocolError):
            reason = str(error)
            error = ConnectionFailedError(f"nothing was sent to broker {self.node_id}: {reason}")
        if (notify := self._hooks.on_broker_write) is not None:
            notify(self.node_id, api_key, 0, error)
        return error

    # Time

    def _check_in(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._check_at = self._clock.monotonic() + seconds
        self._timer = self._clock.call_later(seconds, self._check)

    def _check(self) -> None:
        if self._timer is not None:
            # Where it is not the timer that calls: left alone, it would keep the client for its request timeout.
            self._timer.cancel()
        self._timer, self._check_at = None, _NEVER
        if self.is_closed:
            return
        now = self._clock.monotonic()
        next_check = _NEVER
        for pending in self._channel.pending:
            if pending.deadline <= now:
                self._give_up(pending, now)
                return
            next_check = min(next_check, pending.deadline)
        if next_check == _NEVER:
            # Nothing is pending: then it is idleness that counts.
            next_check = self._used_at + self._idle
            if next_check <= now:
                self.close()
                return
        if next_check != _NEVER:
            self._check_in(next_check - now)

    def _give_up(self, pending: PendingRequest, now: float) -> None:
        error = RequestTimeoutError(
            f"broker {self.node_id} ({self.peer}) did not answer {pending.api.name} within "
            f"{now - pending.sent_at:.3g} s; raise request_timeout_ms if it is only slow"
        )
        pending.fail(error)
        self._channel.abort(error)

    # The end

    def close(self) -> None:
        """Closes the connection once what was sent is on its way; what is pending ends in ConnectionLostError."""
        if self.is_closed or not self.was_connected:
            return
        self._closed_here = True
        self._channel.close()
        # The peer may never read what is left to send.
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_later(_TIME_TO_DRAIN, self._channel.abort)

    async def wait_closed(self) -> None:
        """Until the connection is gone; soon after `close`, in any case."""
        await self._channel.wait_closed()

    # Observer of the channel

    def request_done(
        self, pending: PendingRequest, size: int, response: Any, error: KafkaError | None
    ) -> None:
        now = self._used_at = self._clock.monotonic()
        if (notify := self._hooks.on_broker_read) is not None:
            notify(self.node_id, pending.api.key, size, now - pending.sent_at, error)
        if isinstance(error, ProtocolError):
            # A peer that wrote this is not to be trusted with the next response.
            self._channel.abort(error)
        # Hardly any response throttles, and some have no such field.
        elif response is not None and getattr(response, "throttle_time_ms", 0) > 0:
            self._throttle(throttle_seconds(response, pending.version), now)

    def _throttle(self, pause: float, now: float) -> None:
        if pause <= 0:
            return
        self.paused_until = max(self.paused_until, now + pause)
        if (notify := self._hooks.on_broker_throttle) is not None:
            notify(self.node_id, pause)

    def drained(self) -> None:
        callback, self._on_drained = self._on_drained, None
        if callback is not None:
            callback()

    def closed(self) -> None:
        self.is_closed = True

    def ended(self, error: Exception | None) -> None:
        self.drained()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._closed_here and error is None:
            error = ConnectionLostError(f"broker {self.node_id} ({self.peer}) closed the connection")
        if self.is_ready and (notify := self._hooks.on_broker_disconnect) is not None:
            notify(self.node_id, self.peer, error)
        self._on_end(self, error)


def throttle_seconds(response: Message, version: int) -> float:
    """How long the broker throttles the client; 0 for most responses."""
    milliseconds: int = getattr(response, "throttle_time_ms", 0)
    if milliseconds <= 0 or version < _THROTTLED_SINCE_BY_KEY.get(response.API_KEY, 0):
        return 0.0
    return milliseconds / 1000
