"""The network of a simulation: seeded delays and pieces, links that can be cut, a trace of every delivery.

Transports and listeners are those of ottla/net; here is what happens in between. Nothing is ever lost for good,
as a connection of TCP loses nothing: behind a cut, packets wait until the link is healed.
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, Literal

from ottla._native.checksums import crc32c
from ottla.net.memory import WINDOW, Arrive, PacketKind
from ottla.net.memory_network import Endpoint, MemoryNetwork
from ottla.runtime import Listener, MessagePath, ProtocolFactory, Random
from ottla.sim.trace import Arrival, Trace

EndpointName = str | int
"""The name of a machine or of a host, or a port."""

CutMode = Literal["silent", "one way", "reset"]
"""How a link fails. Silent: nothing comes through, in either direction, and neither side learns of it. One way:
only from the first endpoint to the second. Reset: connections break at once, and new ones are refused."""

CONNECT_TIMEOUT: Final = 127.0
"""How long Linux tries to connect to an endpoint that does not answer."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What the network is like, in seconds and bytes."""

    min_latency: float = 0.0001
    max_latency: float = 0.001
    jitter: float = 0.0002
    """On average, for each packet, on top of the latency of its link."""
    cut_up: float = 0.1
    """How often data arrives in pieces instead of as it was sent."""
    window: int = WINDOW


class SimNetwork:
    """All machines of a simulation and the links between them."""

    def __init__(self, random: Random, conditions: Conditions | None = None) -> None:
        self.trace = Trace()
        self.conditions = conditions or Conditions()
        self._random = random
        self._memory = MemoryNetwork(self._make_path, self.conditions.window)
        self._latencies: dict[tuple[str, str], float] = {}
        # What is added to the latency of a link, from one machine to another.
        self._slowed: dict[tuple[str, str], float] = {}
        self._cuts: dict[tuple[EndpointName, EndpointName], CutMode] = {}
        # Paths with packets that a cut holds back, in the order in which they came upon it.
        self._blocked: dict[_SimPath, None] = {}
        # By the machine that sends, who waits for its next packet to arrive.
        self._awaited: dict[str, list[asyncio.Future[None]]] = {}

    async def listen(self, machine: str, host: str, port: int, factory: ProtocolFactory) -> Listener:
        return await self._memory.listen(machine, host, port, factory)

    async def connect(
        self, machine: str, host: str, port: int, factory: ProtocolFactory
    ) -> asyncio.BaseProtocol:
        server = self._memory.endpoint(host, port)
        if self.cut_mode(_Link(Endpoint(machine, machine, 0), server)) == "reset":
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"the link from {machine} to {server} is cut")
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                return await self._memory.connect(machine, host, port, factory)
        except TimeoutError:
            raise TimeoutError(errno.ETIMEDOUT, f"{server} does not answer {machine}") from None

    def cut(self, first: EndpointName, second: EndpointName, mode: CutMode = "silent") -> None:
        """Breaks the link between two endpoints, for the connections that are there and for new ones."""
        self._cuts[first, second] = mode
        if mode == "reset":
            self.reset(first, second)

    def reset(self, first: EndpointName, second: EndpointName) -> None:
        """Breaks the connections between two endpoints; new ones can be made at once."""
        for connection in list(self._memory.established.values()):
            ends = connection.client, connection.server
            if _joins(ends, (first, second)) or _joins(ends, (second, first)):
                for transport in connection.transports:
                    transport.break_off()

    def heal(self, first: EndpointName, second: EndpointName) -> None:
        """Mends what `cut` broke, named in the same order; what was held back arrives soon."""
        self._cuts.pop((first, second), None)
        blocked, self._blocked = self._blocked, {}
        for path in blocked:
            path.go_on()

    def hold_back(self, sender: str, receiver: str) -> Callable[[], None]:
        """What is on its way, and will be, on connections that are open now, from one machine to another.

        A client that waits in vain makes another connection, and its requests overtake those that are held back.
        These arrive when the caller calls what it gets here.
        """
        ports = [
            (connection.client.port, connection.server.port)
            for connection in self._memory.established.values()
            if (connection.client.machine, connection.server.machine) == (sender, receiver)
        ]
        for pair in ports:
            self.cut(*pair, "one way")

        def release() -> None:
            for pair in ports:
                self.heal(*pair)

        return release

    def slow_down(self, sender: str, receiver: str, seconds: float) -> None:
        """What one machine sends to another takes so much longer, until `speed_up`."""
        self._slowed[sender, receiver] = seconds

    def speed_up(self, sender: str, receiver: str) -> None:
        self._slowed.pop((sender, receiver), None)

    def heal_all(self) -> None:
        """Mends every link: none is cut, none is slow."""
        self._slowed.clear()
        for first, second in list(self._cuts):
            self.heal(first, second)

    def cut_mode(self, link: _Link) -> CutMode | None:
        """How a link is cut, in the direction from its sender to its receiver."""
        cuts = self._cuts
        if not cuts:
            return None
        for names in link.there:
            if names in cuts:
                return cuts[names]
        for names in link.back:
            if names in cuts and cuts[names] != "one way":
                return cuts[names]
        return None

    def _make_path(self, connection: int, sender: Endpoint, receiver: Endpoint) -> _SimPath:
        return _SimPath(self, connection, sender, receiver)

    def message_path(self, sender: str, receiver: str) -> MessagePath:
        """For messages that stay objects: they are delayed, held back by cuts and traced like packets."""
        return _SimMessagePath(
            _SimPath(self, 0, Endpoint(sender, sender, 0), Endpoint(receiver, receiver, 0))
        )

    def delay(self, link: _Link) -> float:
        """Of one packet: the latency between two machines, which stays, and some jitter."""
        machines = link.machines
        latency = self._latencies.get(machines)
        if latency is None:
            conditions = self.conditions
            latency = self._random.uniform(conditions.min_latency, conditions.max_latency)
            self._latencies[machines] = latency
        if self._slowed:
            latency += self._slowed.get(machines, 0.0)
        return latency + (
            self._random.expovariate(1 / self.conditions.jitter) if self.conditions.jitter else 0
        )

    def pieces(self, data: bytes) -> list[bytes]:
        if len(data) < 2 or self._random.random() >= self.conditions.cut_up:
            return [data]
        marks = sorted(self._random.randrange(1, len(data)) for _ in range(self._random.randint(1, 3)))
        return [
            data[start:stop]
            for start, stop in zip([0, *marks], [*marks, len(data)], strict=True)
            if start < stop
        ]

    def block(self, path: _SimPath) -> None:
        self._blocked[path] = None

    async def next_arrival_from(self, machine: str) -> None:
        """Returns when something arrives, wherever, that this machine has sent."""
        arrives: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._awaited.setdefault(machine, []).append(arrives)
        await arrives

    def arrived(self, link: _Link) -> None:
        for waiter in self._awaited.pop(link.machines[0], ()):
            if not waiter.done():
                waiter.set_result(None)


class _Link:
    """From one endpoint to another, with everything that the network asks of it for each packet."""

    __slots__ = ("back", "machines", "receiver", "sender", "there")

    def __init__(self, sender: Endpoint, receiver: Endpoint) -> None:
        self.machines = sender.machine, receiver.machine
        self.sender, self.receiver = str(sender), str(receiver)
        self.there = list(product(_names(sender), _names(receiver)))
        """By which names a cut may mean this link."""
        self.back = list(product(_names(receiver), _names(sender)))
        """The same of the opposite direction."""


class _SimPath:
    """One direction of a simulated connection: packets arrive in order, each in its time."""

    def __init__(self, network: SimNetwork, connection: int, sender: Endpoint, receiver: Endpoint) -> None:
        self._loop = asyncio.get_running_loop()
        self._network = network
        self._connection = connection
        self._link = _Link(sender, receiver)
        self._packets: deque[tuple[float, PacketKind, bytes, Arrive]] = deque()
        self._last_due = 0.0

    def carry(self, kind: PacketKind, data: bytes, arrive: Arrive) -> None:
        idle = not self._packets
        now = self._loop.time()
        for piece in [data] if kind == "message" else self._network.pieces(data):
            due = now + self._network.delay(self._link)
            self._last_due = max(self._last_due, due)
            self._packets.append((self._last_due, kind, piece, arrive))
        if idle:
            self._schedule()

    def go_on(self) -> None:
        """The cut that held packets back is gone."""
        self._loop.call_later(self._network.delay(self._link), self._deliver)

    def _schedule(self) -> None:
        self._loop.call_at(self._packets[0][0], self._deliver)

    def _deliver(self) -> None:
        if self._network.cut_mode(self._link) is not None:
            self._network.block(self)
            return
        _, kind, data, arrive = self._packets.popleft()
        self._network.trace.add(
            Arrival(
                self._loop.time(),
                self._connection,
                self._link.sender,
                self._link.receiver,
                kind,
                len(data),
                crc32c(data),
            )
        )
        self._network.arrived(self._link)
        if self._packets:
            self._schedule()
        arrive(data)


class _SimMessagePath:
    """Messages travel as their names; what arrives with one is kept here until then."""

    def __init__(self, path: _SimPath) -> None:
        self._path = path

    def carry(self, name: str, arrive: Callable[..., object], *args: Any) -> None:
        self._path.carry("message", name.encode(), lambda _: arrive(*args))


def _joins(ends: tuple[Endpoint, Endpoint], names: tuple[EndpointName, EndpointName]) -> bool:
    return names[0] in _names(ends[0]) and names[1] in _names(ends[1])


def _names(end: Endpoint) -> dict[EndpointName, None]:
    """What an endpoint may be called, each name once and in order."""
    return dict.fromkeys((end.machine, end.host, end.port))
