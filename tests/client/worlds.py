"""Where the client's tests run: on sockets and real time, or in a simulation. The same bodies, by the same names."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla import sim
from ottla.broker.cluster.cluster import AsyncCluster
from ottla.client.connections.brokers import Brokers
from ottla.client.tasks import Tasks
from ottla.config import ClientConfig
from ottla.hooks import Hooks
from ottla.runtime import MovableClock, Runtime, SystemRuntime

if TYPE_CHECKING:
    from ottla.client.client import AsyncClient

CHAOS_SEEDS = int(os.environ.get("OTTLA_CHAOS_SEEDS", "12"))
"""How many seeds a chaos test runs; `make chaos` sets it."""
_LONGEST = 300.0
"""How many seconds a test on sockets may take before it counts as one that hangs."""


@dataclass(frozen=True)
class Parts:
    """The lower parts of a client, for tests of what is built on them."""

    config: ClientConfig
    runtime: Runtime
    hooks: Hooks
    tasks: Tasks
    brokers: Brokers


class World:
    """One of the two; makes clusters and clients in it, and closes the clients at the end.

    `runtime` is the clients'; in a simulation they are on the machine "client", whose links can be cut.
    """

    def __init__(self, runtime: Runtime, clock: MovableClock, simulated: bool) -> None:
        self.runtime = runtime.at("client")
        self.clock = clock
        self.simulated = simulated
        self._everywhere = runtime
        self._clients: list[AsyncClient] = []
        self._parts: list[Parts] = []

    def cluster(self, brokers: int = 1, **options: Any) -> AsyncCluster:
        """To be started, or entered. On sockets it has a clock of its own, so that clients can be moved alone."""
        return AsyncCluster(brokers, runtime=self._everywhere if self.simulated else None, **options)

    def client(self, cluster: AsyncCluster | str, **options: Any) -> AsyncClient:
        """A client of this cluster, or of these bootstrap servers."""
        from ottla.client.client import AsyncClient

        client = AsyncClient(_bootstrap(cluster), runtime=self.runtime, **options)
        self._clients.append(client)
        return client

    def parts(self, cluster: AsyncCluster | str, *hooks: object, **options: Any) -> Parts:
        """The parts that a client would be made of, without the client."""
        config = ClientConfig(bootstrap_servers=_bootstrap(cluster), **options)
        told, tasks = Hooks(hooks), Tasks()
        parts = Parts(config, self.runtime, told, tasks, Brokers(config, self.runtime, told, tasks))
        self._parts.append(parts)
        return parts

    async def close(self) -> None:
        for client in reversed(self._clients):
            await client.close()
        for parts in reversed(self._parts):
            await parts.brokers.close()
            await parts.tasks.close()


def _bootstrap(cluster: AsyncCluster | str) -> str:
    return cluster if isinstance(cluster, str) else cluster.bootstrap


Body = Callable[[World], Awaitable[None]]


def on_sockets(body: Body) -> None:
    async def main() -> None:
        clock = MovableClock()
        async with asyncio.timeout(_LONGEST):
            await _run(body, World(SystemRuntime(clock), clock, simulated=False))

    asyncio.run(main())


def in_simulation(body: Body, seed: int = 1) -> str:
    """Runs it; the digest of everything that was delivered."""

    async def main(runtime: sim.SimRuntime) -> str:
        await _run(body, World(runtime, runtime.clock, simulated=True))
        return runtime.network.trace.digest()

    return sim.run(main, seed=seed)


async def _run(body: Body, world: World) -> None:
    try:
        await body(world)
    finally:
        await world.close()
