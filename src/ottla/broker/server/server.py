"""The server of a node: its listener and its connections, and the limits on both.

A connection that says nothing costs a few kilobytes and is closed after connections.max.idle.ms; one beyond
max.connections is closed at once. What the frames mean is dispatch.py's business.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from ottla.broker.server.background import Fail, timed
from ottla.broker.server.dispatch import Dispatcher
from ottla.net.connection import Connection
from ottla.runtime import Clock, Listener, Runtime, Timer

_log = logging.getLogger("ottla.broker.server.server")

_SWEEPS_PER_IDLE_TIME: Final = 10


@dataclass(frozen=True, slots=True)
class Limits:
    """Kafka's socket.request.max.bytes, max.connections and connections.max.idle.ms."""

    max_request_bytes: int = 100 * 1024 * 1024
    max_connections: int = 0x7FFFFFFF
    max_idle_seconds: float = 600.0


class Server:
    """Accepts connections and hands their frames to a dispatcher."""

    def __init__(
        self, runtime: Runtime, dispatcher: Dispatcher, limits: Limits, name: str, fail: Fail
    ) -> None:
        self._runtime = runtime
        self._clock: Clock = runtime.clock
        self._dispatcher = dispatcher
        self._limits = limits
        self._name = name
        # When each was last heard of: a dict, so that they are visited in the order of their coming.
        self._connections: dict[Connection, float] = {}
        self._listener: Listener | None = None
        self._closed = False
        self._sweep: Timer | None = None
        self._swept = timed(self._close_idle, "it cannot close idle connections", fail)
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def connections(self) -> list[Connection]:
        """Those that are open, in the order of their coming."""
        return list(self._connections)

    async def listen(self, host: str, port: int) -> int:
        """Begins to accept; the port, which was chosen freely where `port` is 0."""
        listener = await self._runtime.listen(host, port, self._accept)
        if self._closed:
            await listener.close()
            raise ConnectionAbortedError(f"{self._name} has been stopped")
        self._listener = listener
        self._schedule_sweep()
        return listener.port

    async def close(self) -> None:
        """Closes everything at once, as a process that ends."""
        self._closed = True
        if self._listener is not None:
            await self._listener.close()
            self._listener = None
        if self._sweep is not None:
            self._sweep.cancel()
        # Connections first: a request that came after the last task was given up would be one more.
        for connection in list(self._connections):
            connection.abort()
        await self._dispatcher.close()
        await self._empty.wait()

    def _accept(self) -> Connection:
        return Connection(self, self._limits.max_request_bytes)

    def connected(self, connection: Connection) -> None:
        self._connections[connection] = self._clock.monotonic()
        self._empty.clear()
        if self._closed:
            connection.abort()
        elif len(self._connections) > self._limits.max_connections:
            _log.warning("%s: closing %s: max.connections are open", self._name, connection.peer)
            connection.abort()

    def received(self, connection: Connection, frame: memoryview) -> None:
        self._connections[connection] = self._clock.monotonic()
        if self._dispatcher.received(connection, frame):
            for other in self._connections:
                other.pause()

    def drained(self, connection: Connection) -> None:
        self._dispatcher.drained(connection)

    def resume(self) -> None:
        """Serves on after a pause: what has queued, then whatever else has come."""
        self._dispatcher.resume()
        for connection in list(self._connections):
            self._dispatcher.drained(connection)

    def lost(self, connection: Connection, error: Exception | None) -> None:
        self._connections.pop(connection, None)
        self._dispatcher.lost(connection)
        if error is not None:
            _log.info("%s: %s is gone: %s", self._name, connection.peer, error)
        if not self._connections:
            self._empty.set()

    def _schedule_sweep(self) -> None:
        delay = self._limits.max_idle_seconds / _SWEEPS_PER_IDLE_TIME
        self._sweep = self._clock.call_later(delay, self._swept)

    def _close_idle(self) -> None:
        longest = self._clock.monotonic() - self._limits.max_idle_seconds
        for connection, heard in list(self._connections.items()):
            if heard < longest and not self._dispatcher.is_working_for(connection):
                _log.info("%s: closing %s: idle", self._name, connection.peer)
                connection.abort()  # without waiting for a peer that does not take its response
        self._schedule_sweep()
