"""Which broker a metadata request goes to: one after the other until one responds, else the bootstrap servers.

Kafka's clients rebootstrap, that is begin again with the bootstrap servers (KIP-899, KIP-1102), when no known broker
can be reached, when metadata_recovery_rebootstrap_trigger_ms pass without a response, and when a broker responds with
REBOOTSTRAP_REQUIRED. As long as there are others to try, a broker has its share of a few seconds, so that one which
hangs does not hold up the client; the last one has request_timeout_ms, so that slow brokers get to respond.

Not here: what is requested (tracked.py), and what becomes of the response (merge.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ottla.client.connections.broker import Broker
from ottla.client.connections.brokers import AttemptTimeout, Brokers, no_brokers_error
from ottla.client.connections.purposes import Purpose
from ottla.client.deadline import Deadline, DeadlinePassed
from ottla.client.metadata.tracked import TopicsQuery
from ottla.config import ClientConfig
from ottla.errors import (
    KafkaError,
    NoBrokersError,
    ProtocolError,
    RebootstrapRequiredError,
    RequestTimeoutError,
    raise_for_code,
)
from ottla.runtime import Clock
from ottla.wire.messages import MetadataRequest, MetadataResponse

_log = logging.getLogger("ottla.client.metadata")

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class QueryResponse:
    """What a broker said, to which query, in which version."""

    query: TopicsQuery
    message: MetadataResponse
    version: int


class BrokerChoice:
    """Chooses brokers for the loop and for admin calls; both may be at it at the same time."""

    def __init__(self, config: ClientConfig, clock: Clock, brokers: Brokers) -> None:
        self._may_rebootstrap = config.metadata_recovery_strategy == "rebootstrap"
        self._trigger = config.metadata_recovery_rebootstrap_trigger_ms / 1000
        self._request_timeout = config.request_timeout_ms / 1000
        self._attempt_timeout = AttemptTimeout(config)
        self._clock = clock
        self._brokers = brokers
        self._failing_since: float | None = None
        # A broker that did not respond the last time is tried last.
        self._unresponsive: dict[tuple[str, int], None] = {}
        self._tried: dict[tuple[str, int], tuple[Broker, Exception]] = {}

    @property
    def is_failing(self) -> bool:
        return bool(self._tried)

    def error(self) -> NoBrokersError | None:
        """Why no broker has responded since the last one that did; None if none has failed."""
        reasons: dict[tuple[str, int], tuple[Broker, Exception | str]] = {**self._tried}
        for broker in self._brokers.known() or self._brokers.seeds():
            # One with a pending request has not failed yet, and a call that gives up now waits for it.
            if _address(broker) not in reasons and (trouble := broker.trouble()) is not None:
                reasons[_address(broker)] = broker, trouble
        if not reasons:
            return None
        what = "requesting metadata (see bootstrap_servers, and the brokers' advertised.listeners)"
        return no_brokers_error(what, list(reasons.values()))

    async def first_response(self, attempt: Callable[[Broker], Coroutine[Any, Any, _T]]) -> _T:
        """What `attempt` returns for the first broker for which it does; NoBrokersError when all have failed."""
        waiting = self._in_order()
        while waiting:
            broker = waiting.pop(0)
            try:
                limit = self._attempt_timeout.share(len(waiting)) if waiting else self._request_timeout
                response = await self._bounded(broker, attempt(broker), limit)
            except (KafkaError, OSError) as error:
                rebootstrapped = self._failed(broker, error)
                if rebootstrapped or (not waiting and self._rebootstrap("no known broker responds")):
                    waiting = self._in_order()
            else:
                self._responded(broker)
                return response
        raise self.error() or NoBrokersError("requesting metadata: there is no broker to send it to")

    async def _bounded(self, broker: Broker, attempt: Coroutine[Any, Any, _T], limit: float) -> _T:
        # Cancelled, not closed: the connection may have other pending requests.
        deadline = Deadline(self._clock, limit)
        try:
            return await deadline.bound(attempt)
        except DeadlinePassed:
            # A broker that could not be connected to is in its back-off, and that is not the reason.
            late = f"{broker} has not answered within {deadline.seconds:g} seconds"
            raise RequestTimeoutError(broker.trouble() or late) from None

    def _in_order(self) -> list[Broker]:
        return sorted(self._brokers.candidates(), key=lambda broker: _address(broker) in self._unresponsive)

    def _failed(self, broker: Broker, error: Exception) -> bool:
        """Keeps the reason; whether the known brokers were given up for the bootstrap servers."""
        _log.debug("%s does not respond to a request for metadata: %s", broker, error)
        now = self._clock.monotonic()
        self._tried[_address(broker)] = (broker, error)
        self._unresponsive[_address(broker)] = None
        if self._failing_since is None:
            self._failing_since = now
        if isinstance(error, RebootstrapRequiredError):
            return self._rebootstrap(f"{broker} requires it")
        if now - self._failing_since > self._trigger:
            return self._rebootstrap(f"no metadata came for {now - self._failing_since:.0f} seconds")
        return False

    def _rebootstrap(self, why: str) -> bool:
        if not self._may_rebootstrap or not self._brokers.known():
            return False
        _log.info("begins again with the bootstrap servers: %s", why)
        self._failing_since = None
        self._brokers.rebootstrap()
        return True

    def _responded(self, broker: Broker) -> None:
        self._failing_since = None
        self._unresponsive.pop(_address(broker), None)
        self._tried.clear()


async def send_queries(broker: Broker, queries: Callable[[], Sequence[TopicsQuery]]) -> list[QueryResponse]:
    """Sends them to a broker; `queries` is called when the connection is there, so that it knows the latest."""
    connection = await broker.connection(Purpose.GENERAL)
    version = connection.version(MetadataRequest)
    sent = queries()
    responses = await asyncio.gather(*[connection.send(query.request(version), version) for query in sent])
    return [
        QueryResponse(query, _checked(response, broker), version)
        for query, response in zip(sent, responses, strict=True)
    ]


def _checked(response: object, broker: Broker) -> MetadataResponse:
    if not isinstance(response, MetadataResponse):
        raise ProtocolError(f"{broker} responds to a request for metadata with {type(response).__name__}")
    raise_for_code(response.error_code, broker=broker.node_id)
    if not response.brokers:
        # A broker that has just started and knows nothing yet; Kafka's clients ignore its response, too.
        raise KafkaError(f"{broker} knows no brokers yet, not even itself")
    return response


def _address(broker: Broker) -> tuple[str, int]:
    """Seeds and nodes may be the same broker."""
    return broker.host, broker.port
