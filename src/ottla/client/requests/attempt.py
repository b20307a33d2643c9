"""One attempt to get the response to one request: from a given broker, or from the first that can be reached.

Retries, routing and merging are client/requests/requests.py's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ottla.client.connections.broker import Broker
from ottla.client.connections.brokers import AttemptTimeout, Brokers, no_brokers_error
from ottla.client.connections.connection import BrokerConnection
from ottla.client.connections.purposes import purpose_of, purpose_of_class
from ottla.client.deadline import within
from ottla.client.requests.sharding import at_version, check_version, from_version, max_version, route_of
from ottla.config import ClientConfig
from ottla.errors import ConnectionFailedError, NoBrokersError, UnsupportedApiError
from ottla.net import OnDone
from ottla.runtime import Clock
from ottla.wire import Message, api_for_key

_ALLOWED: Final = ("timeout_ms", "max_wait_ms", "rebalance_timeout_ms")
"""Fields by which a request says how long the broker may wait."""

NO_BROKER: Final = -1
"""Kafka's id for none."""


@dataclass(frozen=True, slots=True)
class BrokerResponse:
    """What a broker said."""

    broker: int
    message: Message


class RequestSender:
    """Sends requests over the connections of `brokers`."""

    def __init__(self, config: ClientConfig, clock: Clock, brokers: Brokers) -> None:
        self._request_timeout = config.request_timeout_ms / 1000
        self._attempt_timeout = AttemptTimeout(config)
        self._clock = clock
        self._brokers = brokers

    async def send(
        self, node_id: int, request: Message, version: int | None = None, lane: int = 0
    ) -> BrokerResponse:
        """The response of this broker; UnknownBrokerError if there is none of this id."""
        broker = self._brokers.get(node_id)
        return await self._send(await broker.connection(purpose_of(request), lane), broker, request, version)

    async def send_built(
        self,
        node_id: int,
        request_class: type[Message],
        build: Callable[[int], Message],
        least: int = 0,
        most: int | None = None,
    ) -> tuple[Message, int]:
        """The response of this broker to what `build(version)` gives, and the version; one between the two given."""
        broker = self._brokers.get(node_id)
        connection = await broker.connection(purpose_of_class(request_class))
        version = connection.version(request_class, most)
        if version < least:
            raise UnsupportedApiError(
                f"this needs version {least} of {api_for_key(request_class.API_KEY).name}, and {broker} has "
                f"{version} at most: its Kafka is too old"
            )
        return await self._submit(connection, build(version), version), version

    def begin_built(
        self,
        node_id: int,
        request_class: type[Message],
        build: Callable[[int], Message],
        on_done: OnDone,
        least: int = 0,
        most: int | None = None,
    ) -> bool:
        """`send_built` if nothing has to be waited for: whether it was sent. What becomes of it, `on_done` hears."""
        connection = self._brokers.get(node_id).open_connection(purpose_of_class(request_class))
        if connection is None or (version := connection.version(request_class, most)) < least:
            return False
        connection.begin(build(version), version, on_done)
        return True

    async def send_to_any(
        self, request: Message, version: int | None = None, avoid: int | None = None
    ) -> BrokerResponse:
        """The response of the first broker that a connection can be had to; `avoid` is tried last.

        One that is connected but gives no response ends the attempt: what was requested may be done.
        """
        tried: list[tuple[Broker, BaseException]] = []
        brokers = sorted(self._brokers.candidates(), key=lambda broker: broker.node_id == avoid)
        for position, broker in enumerate(brokers):
            try:
                connection = await self._connected(broker, request, len(brokers) - position - 1)
                return await self._send(connection, broker, request, version)
            except ConnectionFailedError as error:
                tried.append((broker, error))
        raise no_brokers_error(api_for_key(request.API_KEY).name, tried)

    def failure(self, request: Message) -> NoBrokersError | None:
        """Why there is no response to it yet, if that is because of brokers that cannot be reached."""
        return self._brokers.failure(api_for_key(request.API_KEY).name, purpose_of(request))

    async def _connected(self, broker: Broker, request: Message, others: int) -> BrokerConnection:
        """Its connection; while there are others to try, one that does not respond is not waited for long."""
        if not others:
            return await broker.connection(purpose_of(request))
        seconds = self._attempt_timeout.share(others)
        try:
            return await within(self._clock, seconds, broker.connection(purpose_of(request)))
        except TimeoutError:
            late = f"{broker} could not be connected to within {seconds:.3g} s"
            raise ConnectionFailedError(broker.trouble() or late) from None

    async def _send(
        self, connection: BrokerConnection, broker: Broker, request: Message, version: int | None
    ) -> BrokerResponse:
        if version is not None:
            return BrokerResponse(broker.node_id, await self._submit(connection, request, version))
        version = connection.version(type(request), max_version(request))
        check_version(request, version, broker.node_id)
        responses = []
        for sent in at_version(request, version):
            response = await self._submit(connection, sent, version)
            responses.append(from_version(sent, response, version))
        return BrokerResponse(broker.node_id, route_of(request).items.merge(request, responses))

    async def _submit(self, connection: BrokerConnection, request: Message, version: int) -> Message:
        # A broker may take as long as the request allows it to, before it is late with the response.
        allowed = max(getattr(request, field, 0) for field in _ALLOWED)
        return await connection.send(request, version, self._request_timeout + allowed / 1000)
