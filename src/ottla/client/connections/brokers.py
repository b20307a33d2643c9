"""Brokers: all brokers that the client knows, by id, and the bootstrap servers it began with.

The metadata loop says which there are (`update`). Which of them a request goes to, how often, and when to begin again
with the bootstrap servers is decided elsewhere (metadata, requests).

Invariant: a Broker stays the same object as long as metadata names its id, also when its address changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from ottla.client.connections.broker import Broker, BrokerContext
from ottla.client.connections.purposes import Purpose
from ottla.client.tasks import Tasks
from ottla.config import ClientConfig
from ottla.errors import ClientClosedError, NoBrokersError, UnknownBrokerError
from ottla.hooks import Hooks
from ottla.runtime import Runtime

_MAX_ATTEMPT: Final = 5.0


class NamedBroker(Protocol):
    """A broker as metadata names it."""

    @property
    def node_id(self) -> int: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def rack(self) -> str | None: ...


class AttemptTimeout:
    """How long an attempt with one broker may take while there are others to try: connecting and all the rest."""

    def __init__(self, config: ClientConfig) -> None:
        self._most = min(_MAX_ATTEMPT, config.request_timeout_ms / 1000)
        self._call = config.default_api_timeout_ms / 1000

    def share(self, others: int) -> float:
        """In seconds; so few that a call still gets to the other brokers."""
        return min(self._most, self._call / (others + 1))


class Brokers:
    """The brokers of one client."""

    def __init__(self, config: ClientConfig, runtime: Runtime, hooks: Hooks, tasks: Tasks) -> None:
        self._shared = BrokerContext(config, runtime, hooks, tasks)
        self.features = self._shared.features
        """What the cluster has agreed to, as far as a connection has shown it."""
        self._random = runtime.random
        self._seeds = {
            -1 - position: Broker(-1 - position, address.host, address.port, None, self._shared)
            for position, address in enumerate(config.addresses)
        }
        self._known: dict[int, Broker] = {}
        self._closed = False

    def get(self, node_id: int) -> Broker:
        """The broker with this id; a negative one is a bootstrap server's."""
        self._check_open()
        broker = self._known.get(node_id) or self._seeds.get(node_id)
        if broker is None:
            ids = ", ".join(map(str, sorted(self._known)))
            others = f"the cluster's ids are: {ids}" if ids else "metadata has named no broker up to now"
            raise UnknownBrokerError(f"no broker with id {node_id} is known; {others}")
        return broker

    def candidates(self) -> list[Broker]:
        """The brokers to try, in order, with a request that any of them can serve.

        Shuffled, so that clients spread over the brokers; but connected ones first, and last those that could
        not be connected to a moment ago. The bootstrap servers count only while metadata has named no broker.
        """
        self._check_open()
        brokers = self.known() or list(self._seeds.values())
        self._random.shuffle(brokers)
        return sorted(brokers, key=lambda broker: (not broker.is_connected, broker.is_failing))

    def known(self) -> list[Broker]:
        """The brokers that metadata has named, by id."""
        return [self._known[node_id] for node_id in sorted(self._known)]

    def seeds(self) -> list[Broker]:
        """The bootstrap servers, in the order in which they were configured."""
        return list(self._seeds.values())

    def failure(self, what: str, purpose: Purpose) -> NoBrokersError | None:
        """Why `what` came to nothing, as far as brokers are to blame: each of those it could have gone to."""
        brokers = self.known() or self.seeds()
        troubled = [
            (broker, trouble) for broker in brokers if (trouble := broker.trouble(purpose)) is not None
        ]
        return no_brokers_error(what, troubled) if troubled else None

    def update(self, brokers: Iterable[NamedBroker]) -> None:
        """These are the cluster's brokers now."""
        if self._closed:
            return
        named = {broker.node_id: broker for broker in brokers}
        for node_id in [each for each in self._known if each not in named]:
            self._known.pop(node_id).close(UnknownBrokerError(f"broker {node_id} has left the cluster"))
        for node_id, broker in named.items():
            known = self._known.get(node_id)
            if known is None:
                self._known[node_id] = Broker(node_id, broker.host, broker.port, broker.rack, self._shared)
            else:
                known.move(broker.host, broker.port, broker.rack)

    def rebootstrap(self) -> None:
        """Forgets what metadata has named; the bootstrap servers are the candidates again (KIP-1102)."""
        self.update(())

    async def close(self) -> None:
        """Closes every connection and waits until all are gone, which takes a few seconds at most."""
        self._closed = True
        for broker in (*self._seeds.values(), *self._known.values()):
            broker.close()
        # They were cancelled; an attempt that is over has closed its connection.
        await asyncio.gather(*self._shared.connecting, return_exceptions=True)
        for connection in list(self._shared.alive):
            await connection.wait_closed()

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosedError


def no_brokers_error(what: str, tried: Sequence[tuple[Broker, BaseException | str]]) -> NoBrokersError:
    """`what` failed on each of these brokers; the last reason is the cause."""
    reasons = "; ".join(_reason(broker, error) for broker, error in tried)
    error = NoBrokersError(f"{what}: no broker could be reached: {reasons}")
    causes = [reason for _, reason in tried if isinstance(reason, BaseException)]
    error.__cause__ = causes[-1] if causes else None
    return error


def _reason(broker: Broker, error: BaseException | str) -> str:
    # Most errors say where they happened.
    return str(error) if str(broker) in str(error) else f"{broker}: {error}"
