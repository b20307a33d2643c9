"""Broker: one broker of the cluster as the client sees it, and the connections it has to it.

A connection is opened when it is first needed, one per purpose and lane; all callers that need it meanwhile wait for
the same attempt. Which brokers there are is brokers.py's; what happens on a connection is connection.py's.

Invariants: at most one attempt to connect is pending per (purpose, lane). A caller that gives up waiting for it harms
no other. After `close` every waiter has an error, and no connection is opened any more.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Final

from ottla.client.backoff import Backoff
from ottla.client.connections.connection import BrokerConnection
from ottla.client.connections.features import FinalizedFeatures
from ottla.client.connections.purposes import Purpose, purpose_of
from ottla.client.deadline import within
from ottla.client.tasks import Tasks
from ottla.config import ClientConfig
from ottla.config.addresses import Address
from ottla.errors import (
    BrokerError,
    ClientClosedError,
    ConnectionFailedError,
    ConnectionLostError,
    KafkaError,
    ProtocolError,
)
from ottla.hooks import Hooks
from ottla.runtime import Random, Runtime
from ottla.wire import Message

_log = logging.getLogger("ottla.client.connections")

_Key = tuple[Purpose, int]

_LONG: Final = 0.1
"""Seconds without a response after which that is a reason to be named."""


@dataclass(frozen=True, slots=True)
class BrokerContext:
    """What all brokers of a client share."""

    config: ClientConfig
    runtime: Runtime
    hooks: Hooks
    tasks: Tasks
    features: FinalizedFeatures = field(default_factory=FinalizedFeatures)
    alive: dict[BrokerConnection, None] = field(default_factory=dict)
    """Every connection that is not gone yet, whether or not its broker still is one."""
    connecting: dict[asyncio.Task[None], None] = field(default_factory=dict)
    """Every attempt to connect that has not ended yet, given up or not."""
    unreachable: dict[Address, None] = field(default_factory=dict)
    """Where the last attempt failed, which has been logged; seeds and nodes may be the same broker."""


@dataclass(slots=True)
class _Attempt:
    """An attempt to connect: the task that makes it, and what all its waiters get."""

    outcome: asyncio.Future[BrokerConnection]
    task: asyncio.Task[None]


class ReconnectBackoff:
    """When a broker may be connected to again, and how long an attempt may take (KIP-144, KIP-601).

    One per broker, for its connections of all purposes: they fail for the same reasons. Counts failures in a row; the
    first success ends the row. Time comes in, delays go out.
    """

    def __init__(self, config: ClientConfig, random: Random) -> None:
        self._backoff = Backoff(
            config.reconnect_backoff_ms / 1000, config.reconnect_backoff_max_ms / 1000, random
        )
        self._setup = Backoff(
            config.socket_connection_setup_timeout_ms / 1000,
            config.socket_connection_setup_timeout_max_ms / 1000,
            random,
        )
        self._failures = 0
        self._failed_at = float("-inf")
        self._not_before = float("-inf")

    @property
    def is_failing(self) -> bool:
        """Whether the last attempt failed."""
        return self._failures > 0

    def wait(self, now: float) -> float:
        """How many seconds to wait before the next attempt."""
        return max(0.0, self._not_before - now)

    def setup_timeout(self) -> float:
        """How many seconds the next attempt may take; longer after each failure."""
        return self._setup.delay(self._failures)

    def failed(self, started: float, now: float) -> None:
        """An attempt that began at `started` has failed. Attempts that ran side by side count as one."""
        if started < self._failed_at:
            return
        self._not_before = now + self._backoff.delay(self._failures)
        self._failed_at = now
        self._failures += 1

    def lost(self, now: float) -> None:
        """A connection that worked is gone; the next one waits a little, or a broker that hangs up is stormed."""
        self._not_before = max(self._not_before, now + self._backoff.delay(0))

    def succeeded(self) -> None:
        self._failures = 0


class Broker:
    """A broker by its id; bootstrap servers, whose ids are not known, have negative ones."""

    def __init__(self, node_id: int, host: str, port: int, rack: str | None, shared: BrokerContext) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack
        self._shared = shared
        self._clock = shared.runtime.clock
        self._backoff = ReconnectBackoff(shared.config, shared.runtime.random)
        self._open: dict[_Key, BrokerConnection] = {}
        self._attempts: dict[_Key, _Attempt] = {}
        # Waiters for a back-off or a pause to end.
        self._sleepers: dict[asyncio.Future[None], None] = {}
        self._closed: KafkaError | None = None
        self._failure: KafkaError | None = None
        """Why the last attempt to connect has failed; None after one that has not."""
        self._pending: dict[BrokerConnection, float] = {}
        """Connections that are being set up, and since when."""

    def __str__(self) -> str:
        name = f"broker {self.node_id}" if self.node_id >= 0 else "bootstrap server"
        return f"{name} ({self._address})"

    def __repr__(self) -> str:
        return f"<{self}>"

    @property
    def _address(self) -> Address:
        return Address(self.host, self.port)

    @property
    def is_connected(self) -> bool:
        """Whether any connection to it is open."""
        return any(not connection.is_closed for connection in self._open.values())

    @property
    def is_failing(self) -> bool:
        """Whether the last attempt to connect failed."""
        return self._backoff.is_failing

    def trouble(self, purpose: Purpose = Purpose.GENERAL) -> str | None:
        """Why it does not answer, for the error of a caller that gives up; None if nothing is known against it."""
        if self._failure is not None:
            return str(self._failure)
        long_ago = (now := self._clock.monotonic()) - _LONG
        for connection, since in self._pending.items():
            if since <= long_ago:
                what = "ApiVersions" if connection.was_connected else "the attempt to connect"
                return f"{self} has not answered {what} for {now - since:.3g} s"
        for (used_for, _), connection in self._open.items():
            sent = connection.pending_since
            if used_for is purpose and sent is not None and sent <= long_ago:
                return f"{self} is connected, and has not answered for {now - sent:.3g} s"
        return None

    # Sending

    async def connection(self, purpose: Purpose, lane: int = 0) -> BrokerConnection:
        """The open connection, or a new one once it is ready; ConnectionFailedError if there is none to be had.

        Waits until the back-off after a failure, and the broker's throttling of this connection, are over.
        """
        while True:
            connection = self._open.get((purpose, lane))
            if connection is None or connection.is_closed:
                connection = await self._connected((purpose, lane))
            if (
                not connection.paused_until
                or (pause := connection.paused_until - self._clock.monotonic()) <= 0
            ):
                return connection
            await self._sleep(pause)

    def open_connection(self, purpose: Purpose, lane: int = 0) -> BrokerConnection | None:
        """The connection if there is one that requests may go over now."""
        connection = self._open.get((purpose, lane))
        if connection is None or connection.is_closed:
            return None
        is_paused = connection.paused_until and connection.paused_until > self._clock.monotonic()
        return None if is_paused else connection

    async def request(
        self,
        request: Message,
        *,
        purpose: Purpose | None = None,
        version: int | None = None,
        timeout: float | None = None,
    ) -> Message:
        """The response to one request, sent once; `timeout` counts from when it is sent."""
        connection = await self.connection(purpose or purpose_of(request))
        chosen = connection.version(type(request)) if version is None else version
        return await connection.send(request, chosen, timeout)

    # Connecting

    async def _connected(self, key: _Key) -> BrokerConnection:
        self._check_usable()
        attempt = self._attempts.get(key)
        if attempt is None:
            attempt = self._begin(key)
        try:
            return await asyncio.shield(attempt.outcome)
        except ConnectionFailedError as error:
            # One for each waiter: a traceback is of one raise only.
            raise ConnectionFailedError(str(error)) from error.__cause__

    def _begin(self, key: _Key) -> _Attempt:
        outcome: asyncio.Future[BrokerConnection] = asyncio.get_running_loop().create_future()
        name = f"connect to {self} for {key[0].value}"
        task = self._shared.tasks.spawn(self._attempt(key, outcome), name)
        attempt = self._attempts[key] = _Attempt(outcome, task)
        self._shared.connecting[task] = None

        def end(_: asyncio.Task[None]) -> None:
            del self._shared.connecting[task]
            if self._attempts.get(key) is attempt:
                del self._attempts[key]
            # A task that is cancelled before it began has set no outcome.
            _fail(outcome, ClientClosedError())

        task.add_done_callback(end)
        return attempt

    async def _attempt(self, key: _Key, outcome: asyncio.Future[BrokerConnection]) -> None:
        try:
            connection = await self._connect(key[0])
        except KafkaError as error:
            _fail(outcome, error)
        else:
            # First: a caller that is woken looks there.
            self._open[key] = connection
            if not outcome.done():
                outcome.set_result(connection)

    async def _connect(self, purpose: Purpose) -> BrokerConnection:
        while (delay := self._backoff.wait(self._clock.monotonic())) > 0:
            await self._sleep(delay)
        started = self._clock.monotonic()
        shared = self._shared
        connection = BrokerConnection(
            self.node_id, purpose, shared.config, shared.runtime, shared.hooks, shared.features, self._ended
        )
        shared.alive[connection] = None
        self._pending[connection] = started
        try:
            await self._set_up(connection)
        except BaseException as error:
            connection.close()
            if not connection.was_connected:
                del shared.alive[connection]
            if isinstance(error, KafkaError):
                self._failed(started, error)
            raise
        finally:
            del self._pending[connection]
        self._backoff.succeeded()
        self._failure = None
        if self._address in shared.unreachable:
            del shared.unreachable[self._address]
            _log.info("%s can be reached again", self)
        self._notify_connect(started, None)
        return connection

    def _failed(self, started: float, error: KafkaError) -> None:
        self._backoff.failed(started, self._clock.monotonic())
        self._failure = error
        # Once for an outage: it is tried again and again, and each time would be a line.
        level = logging.DEBUG if self._address in self._shared.unreachable else logging.WARNING
        self._shared.unreachable[self._address] = None
        _log.log(level, "%s; it is tried again", error)
        self._notify_connect(started, error)

    async def _set_up(self, connection: BrokerConnection) -> None:
        """TCP, then what the broker speaks; any failure as a ConnectionFailedError with its reason."""
        limit = self._backoff.setup_timeout()
        reach = connection.connect(self._shared.runtime, self.host, self.port)
        try:
            await within(self._clock, limit, reach)
        except TimeoutError as error:
            # The system has a timeout as well, and says so; ours comes without words.
            reason = str(error) or (
                f"no answer within {limit:.3g} s (socket_connection_setup_timeout_ms); is it the right host, "
                "and does a firewall let the port through?"
            )
            raise ConnectionFailedError(f"cannot connect to {self}: {reason}") from error
        except ConnectionRefusedError as error:
            raise ConnectionFailedError(f"cannot connect to {self}: connection refused: {error}") from error
        except OSError as error:
            raise ConnectionFailedError(f"cannot connect to {self}: {error}") from error
        try:
            await connection.negotiate()
        except ConnectionLostError as error:
            raise ConnectionFailedError(
                f"{self} closed the connection instead of answering ApiVersions: {error}; is it a listener of "
                "Kafka, without TLS and SASL?"
            ) from error
        except ProtocolError as error:
            raise ConnectionFailedError(f"{self} does not speak Kafka's protocol: {error}") from error
        except (BrokerError, TimeoutError) as error:
            raise ConnectionFailedError(f"{self} does not say what it speaks: {error}") from error

    def _notify_connect(self, started: float, error: KafkaError | None) -> None:
        if (notify := self._shared.hooks.on_broker_connect) is not None:
            notify(self.node_id, self.host, self.port, self._clock.monotonic() - started, error)

    def _ended(self, connection: BrokerConnection, error: Exception | None) -> None:
        self._shared.alive.pop(connection, None)
        for key, each in self._open.items():
            if each is connection:
                del self._open[key]
                break
        if connection.is_ready and error is not None:
            self._backoff.lost(self._clock.monotonic())

    async def _sleep(self, seconds: float) -> None:
        """Until then, or until the broker is closed: then its error."""
        awake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self._clock.call_later(seconds, _wake, awake)
        self._sleepers[awake] = None
        try:
            await awake
        finally:
            timer.cancel()
            del self._sleepers[awake]
        self._check_usable()

    def _check_usable(self) -> None:
        if self._closed is not None:
            raise type(self._closed)(str(self._closed))

    # Changes

    def move(self, host: str, port: int, rack: str | None) -> None:
        """The broker has this address now; connections to another one are closed."""
        self.rack = rack
        if (host, port) == (self.host, self.port):
            return
        self.host, self.port = host, port
        self._failure = None
        self._backoff = ReconnectBackoff(self._shared.config, self._shared.runtime.random)
        self._drop(ConnectionFailedError(f"{self} has moved there while it was connected to"))

    def close(self, error: KafkaError | None = None) -> None:
        """Closes all connections; the error is raised to waiters and to later callers."""
        if self._closed is None:
            self._closed = error or ClientClosedError()
            self._drop(self._closed)

    def _drop(self, error: KafkaError) -> None:
        attempts, self._attempts = self._attempts, {}
        for attempt in attempts.values():
            _fail(attempt.outcome, error)
            attempt.task.cancel()
        for awake in self._sleepers:
            _wake(awake)
        for connection in list(self._open.values()):
            connection.close()
        self._open.clear()


def _fail(outcome: asyncio.Future[BrokerConnection], error: KafkaError) -> None:
    if not outcome.done():
        outcome.set_exception(error)
        outcome.exception()  # There may be no waiter left.


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)
