"""TelemetryReporter: gets from a broker which metrics it wants of this client, and pushes them (KIP-714).

It begins when the client knows the cluster and keeps to one broker as long as that is reachable, over the
connection for general requests. Which metrics are pushed and when is the state's (subscription.py), what is sent is
made by points.py and otlp.py.

Invariant: telemetry is a guest. Whatever goes wrong with it is logged, never raised, and holds nothing up: closing
takes no longer than it is given.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from ottla.client.connections.broker import Broker
from ottla.client.connections.brokers import Brokers
from ottla.client.connections.purposes import Purpose
from ottla.client.metrics import Metrics
from ottla.client.tasks import Tasks
from ottla.client.telemetry.otlp import Point, encode
from ottla.client.telemetry.points import Points
from ottla.client.telemetry.subscription import TelemetryState, TelemetrySubscription
from ottla.config import ClientConfig
from ottla.errors import (
    BrokerError,
    ConnectionLostError,
    KafkaError,
    RequestTimeoutError,
)
from ottla.runtime import Runtime, Timer
from ottla.wire import ZERO_UUID, Uuid
from ottla.wire.compression import compress
from ottla.wire.messages import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)

logger = logging.getLogger(__name__)

TIME_TO_CLOSE: Final = 1.0
"""How long the last push may hold up the closing of a client, in seconds."""


class TelemetryReporter:
    """The telemetry of one client."""

    def __init__(
        self,
        config: ClientConfig,
        runtime: Runtime,
        brokers: Brokers,
        tasks: Tasks,
        metrics: Metrics,
        version: str = "",
    ) -> None:
        """`version` is that of this library."""
        self.resource: dict[str, str] = {"client_rack": config.client_rack} if config.client_rack else {}
        """What every push says about the client; a group and a transaction add their names (KIP-714)."""
        self._is_enabled = config.enable_metrics_push
        self._runtime = runtime
        self._clock = runtime.clock
        self._brokers = brokers
        self._tasks = tasks
        self._metrics = metrics
        self._version = version
        self._state = TelemetryState()
        self._points = Points(self._clock.time())
        self._node_id: int | None = None
        self._task: asyncio.Task[None] | None = None
        self._awake: asyncio.Future[None] | None = None
        self._ended: asyncio.Future[None] | None = None
        self._is_closing = False

    @property
    def client_instance_id(self) -> Uuid | None:
        """The name that brokers gave this client for its metrics; None until one has."""
        return None if self._state.instance_id == ZERO_UUID else self._state.instance_id

    def start(self) -> None:
        """Begins as soon as the client has come to know the cluster; not at all without enable_metrics_push."""
        if self._is_enabled:
            self._metrics.on_first_metadata = self._begin

    async def close(self, within: float = TIME_TO_CLOSE) -> None:
        """Pushes a last time, if a broker wants metrics, and ends; `within` so many seconds."""
        self._metrics.on_first_metadata = None
        self._is_closing = True
        if self._task is None or self._ended is None:
            return
        self._wake()
        timer = self._clock.call_later(within, self._task.cancel)
        try:
            # Not the task itself: its cancellation is not ours.
            await asyncio.shield(self._ended)
        finally:
            timer.cancel()

    def _begin(self) -> None:
        if self._is_closing:
            return
        self._state.begin(self._clock.monotonic())
        self._ended = asyncio.get_running_loop().create_future()
        self._task = self._tasks.spawn(self._run(), "telemetry")
        self._task.add_done_callback(self._has_ended)

    def _has_ended(self, task: asyncio.Task[None]) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    async def _run(self) -> None:
        while not self._is_closing and self._state.due is not None:
            await self._sleep_until(self._state.due)
            if not self._is_closing:
                await self._send_next()
        if self._is_closing and (subscription := self._state.next_push) is not None:
            await self._attempt(self._push(subscription, terminating=True))

    async def _send_next(self) -> None:
        subscription = self._state.next_push
        await self._attempt(
            self._request_subscription()
            if subscription is None
            else self._push(subscription, terminating=False)
        )

    async def _sleep_until(self, due: float) -> None:
        delay = due - self._clock.monotonic()
        if delay <= 0:
            return
        self._awake = asyncio.get_running_loop().create_future()
        timer: Timer = self._clock.call_later(delay, self._wake)
        try:
            await self._awake
        finally:
            timer.cancel()

    def _wake(self) -> None:
        if self._awake is not None and not self._awake.done():
            self._awake.set_result(None)

    # Requests

    async def _attempt(self, request: Coroutine[Any, Any, None]) -> None:
        try:
            await request
        except KafkaError as error:
            # UnsupportedApiError is the usual case: a cluster that is not set up to collect metrics.
            logger.debug("telemetry: %s", error)
            self._state.failed(self._clock.monotonic())
            self._node_id = None

    async def _request_subscription(self) -> None:
        request = GetTelemetrySubscriptionsRequest(client_instance_id=self._state.instance_id)
        response = await self._broker().request(request, purpose=Purpose.GENERAL)
        assert isinstance(response, GetTelemetrySubscriptionsResponse)
        error = self._state.subscribed(response, self._clock.monotonic(), self._runtime.random.random())
        self._log_refusal("the request for a subscription", error)

    async def _push(self, subscription: TelemetrySubscription, *, terminating: bool) -> None:
        codec = self._state.codec
        request = PushTelemetryRequest(
            client_instance_id=self._state.instance_id,
            subscription_id=subscription.id,
            terminating=terminating,
            compression_type=codec,
            metrics=self._payload(subscription, codec),
        )
        try:
            response = await self._broker().request(request, purpose=Purpose.GENERAL)
        except (ConnectionLostError, RequestTimeoutError):
            # It may have arrived. A number that is missing is better than one that is counted twice.
            self._points.settle()
            raise
        assert isinstance(response, PushTelemetryResponse)
        error = self._state.pushed(response.error_code, self._clock.monotonic())
        if error is None:
            self._points.settle()
        self._log_refusal("a push", error)

    def _payload(self, subscription: TelemetrySubscription, codec: int) -> bytes:
        now = self._clock.time()
        points = self._points.collect(self._metrics.snapshot(), now, subscription)
        while True:
            payload = bytes(compress(codec, self._encoded(points, subscription, now)))
            if len(payload) <= subscription.max_bytes or not points:
                return payload
            # Those that every Kafka client has come first: half of the others is not missed as much.
            logger.debug("telemetry: %d metrics are more than %d bytes", len(points), subscription.max_bytes)
            points = points[: len(points) // 2]

    def _encoded(self, points: Sequence[Point], subscription: TelemetrySubscription, now: float) -> bytes:
        start = self._points.settled_at if subscription.is_delta else self._points.began_at
        return encode(
            points,
            resource=self.resource,
            start=start,
            now=now,
            is_delta=subscription.is_delta,
            version=self._version,
        )

    def _broker(self) -> Broker:
        """The one of the last request, as long as it responds: brokers remember their clients."""
        candidates = self._brokers.candidates()
        same = next((broker for broker in candidates if broker.node_id == self._node_id), None)
        broker = candidates[0] if same is None else same
        self._node_id = broker.node_id
        return broker

    def _log_refusal(self, what: str, error: BrokerError | None) -> None:
        if error is None:
            return
        if self._state.due is None:
            logger.warning("telemetry ends: broker %s refused %s: %s", self._node_id, what, error)
        else:
            logger.debug("telemetry: broker %s refused %s: %s", self._node_id, what, error)
