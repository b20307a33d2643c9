"""A network in memory: listeners by host and port, and connections to them.

The transports are in memory.py; delays and failures are in the paths that the network is given a maker of.
Ports and connections are numbered in the order of their making, so the same program gets the same numbers.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ottla.net.memory import WINDOW, ImmediatePath, MemoryTransport, Path
from ottla.runtime import Listener, ProtocolFactory

_FIRST_FREE_PORT: Final = 32768
_FIRST_CLIENT_PORT: Final = 49152
_LAST_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One end of a connection: the machine it is on, and its address."""

    machine: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.machine}/{self.host}:{self.port}"

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.port


PathMaker = Callable[[int, Endpoint, Endpoint], Path]
"""Makes the path of one direction of a connection, from its number and the two ends."""


@dataclass(frozen=True, slots=True)
class Established:
    """A connection that has been accepted: its two ends, and the transport at each."""

    client: Endpoint
    server: Endpoint
    transports: tuple[MemoryTransport, MemoryTransport]


class MemoryNetwork:
    """Connects protocols of one process with each other."""

    def __init__(self, make_path: PathMaker = lambda *_: ImmediatePath(), window: int = WINDOW) -> None:
        self.established: dict[int, Established] = {}
        """The connections that are open at one end at least, by number."""
        self._make_path = make_path
        self._window = window
        self._listeners: dict[tuple[str, int], _MemoryListener] = {}
        # Also of listeners that are closed: a packet to them still goes to that machine.
        self._machines: dict[tuple[str, int], str] = {}
        self._connections = 0

    def endpoint(self, host: str, port: int) -> Endpoint:
        """Where a connection to this address would end; a host without listener is a machine by itself."""
        return Endpoint(self._machines.get((host, port), host), host, port)

    async def listen(self, machine: str, host: str, port: int, factory: ProtocolFactory) -> Listener:
        if port == 0:
            port = self._free_port(host)
        if (host, port) in self._listeners:
            raise OSError(errno.EADDRINUSE, f"{host}:{port} is in use")
        self._machines[host, port] = machine
        listener = self._listeners[host, port] = _MemoryListener(self._listeners, host, port, factory)
        return listener

    async def connect(
        self, machine: str, host: str, port: int, factory: ProtocolFactory
    ) -> asyncio.BaseProtocol:
        """Takes a round trip along the paths; ConnectionRefusedError if there is no listener at the far end."""
        number, self._connections = self._connections, self._connections + 1
        client = Endpoint(machine, machine, self._client_port(number))
        opening = _Opening(self, number, client, self.endpoint(host, port), factory)
        return await opening.result()

    def _free_port(self, host: str) -> int:
        for port in range(_FIRST_FREE_PORT, _FIRST_CLIENT_PORT):
            # Not one that was in use before: a client that still knows the old listener must not find a new one.
            if (host, port) not in self._machines:
                return port
        raise OSError(errno.EADDRINUSE, f"{host} has no port left")

    def _client_port(self, number: int) -> int:
        return _FIRST_CLIENT_PORT + number % (_LAST_PORT - _FIRST_CLIENT_PORT + 1)


class _Opening:
    """A connection on its way: a packet to the listener, and one back."""

    def __init__(
        self,
        network: MemoryNetwork,
        number: int,
        client: Endpoint,
        server: Endpoint,
        factory: ProtocolFactory,
    ) -> None:
        self._network = network
        self._number = number
        self._client = client
        self._server = server
        self._factory = factory
        self._there = network._make_path(number, client, server)
        self._back = network._make_path(number, server, client)
        self._connected: asyncio.Future[asyncio.BaseProtocol] = asyncio.get_running_loop().create_future()
        self._open_ends = 2

    async def result(self) -> asyncio.BaseProtocol:
        self._there.carry("open", b"", self._at_listener)
        return await self._connected

    def _at_listener(self, _: bytes) -> None:
        listener = self._network._listeners.get(self._server.address)
        if listener is None:
            self._back.carry("refuse", b"", self._refused)
            return
        ends = MemoryTransport.joined(
            (self._there, self._back),
            (self._client.address, self._server.address),
            self._network._window,
            self._gone,
        )
        self._network.established[self._number] = Established(self._client, self._server, ends)
        self._back.carry("accept", b"", lambda _: self._accepted(ends[0]))
        ends[1].start(listener.factory())

    def _refused(self, _: bytes) -> None:
        if not self._connected.done():
            self._connected.set_exception(
                ConnectionRefusedError(errno.ECONNREFUSED, f"there is no listener on {self._server}")
            )

    def _accepted(self, transport: MemoryTransport) -> None:
        if self._connected.done():  # the caller of `connect` has given up
            transport.abort()
            return
        if transport.is_closing():
            self._connected.set_exception(ConnectionResetError(errno.ECONNRESET, f"{self._server} was reset"))
            return
        protocol = self._factory()
        transport.start(protocol)
        asyncio.get_running_loop().call_soon(self._hand_over, protocol, transport)

    def _hand_over(self, protocol: asyncio.BaseProtocol, transport: MemoryTransport) -> None:
        """Behind `connection_made`, as with sockets."""
        if self._connected.done():
            transport.abort()
        else:
            self._connected.set_result(protocol)

    def _gone(self) -> None:
        self._open_ends -= 1
        if not self._open_ends:
            del self._network.established[self._number]


class _MemoryListener:
    def __init__(
        self,
        listeners: dict[tuple[str, int], _MemoryListener],
        host: str,
        port: int,
        factory: ProtocolFactory,
    ) -> None:
        self._listeners = listeners
        self.host = host
        self.port = port
        self.factory = factory

    async def close(self) -> None:
        if self._listeners.get((self.host, self.port)) is self:
            del self._listeners[self.host, self.port]
