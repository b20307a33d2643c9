"""Client telemetry (KIP-714): which metrics the cluster requests of its clients, and what they have pushed.

None is requested by default. A test subscribes, and reads what came in:

    cluster.telemetry.subscribe("*", interval_ms=100)       # every metric; or prefixes, "org.apache.kafka.producer."
    ...
    cluster.telemetry.pushes[0].metrics                     # OTLP, uncompressed

Here are the rules of both requests as well: who has to wait, and whose subscription is out of date. Time comes with
each call, in milliseconds; the two handlers have the messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from ottla._native.checksums import crc32c
from ottla.errors import (
    BrokerError,
    InvalidRequestError,
    ThrottlingQuotaExceededError,
    UnknownSubscriptionIdError,
    UnsupportedCompressionTypeError,
)
from ottla.runtime import Random
from ottla.wire import ZERO_UUID, Uuid

ALL_METRICS: Final = "*"
DEFAULT_INTERVAL_MS: Final = 300_000
_SHORTEST_INTERVAL_MS: Final = 100
_LONGEST_INTERVAL_MS: Final = 3_600_000
MOST_PUSHES_KEPT: Final = 10_000
MOST_CLIENTS_KNOWN: Final = 16_384
"""Of all nodes; Kafka keeps as many per broker."""
_RESERVED: Final = (ZERO_UUID, Uuid(bytes(15) + b"\x01"))
_LONG_AGO: Final = -(1 << 62)


class ClientConnection(Protocol):
    """The connection of a client."""

    @property
    def is_closed(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Push:
    """What one client pushed once."""

    node: int
    client_instance_id: Uuid
    client_id: str | None
    terminating: bool
    metrics: bytes
    """OTLP MetricsData, as protobuf, decompressed."""


@dataclass(frozen=True, slots=True)
class MetricsSubscription:
    """What the cluster wants of its clients."""

    metrics: tuple[str, ...] = ()
    interval_ms: int = DEFAULT_INTERVAL_MS

    def id_for(self, client_instance_id: Uuid) -> int:
        """Changes with what is requested, and differs between clients: Kafka's formula."""
        text = f"[{', '.join(self.metrics)}]{self.interval_ms}"
        high, low = client_instance_id[:8], client_instance_id[8:]
        folded = int.from_bytes(high) ^ int.from_bytes(low)
        number = crc32c(text.encode()) ^ (folded >> 32) ^ (folded & 0xFFFFFFFF)
        return number - (1 << 32) if number >= 1 << 31 else number


class TelemetryClient:
    """What one node remembers of one client, as long as the connection is open on which it came to know it."""

    def __init__(
        self, client_instance_id: Uuid, peer: ClientConnection, subscription: MetricsSubscription
    ) -> None:
        self.subscription = subscription
        self.subscription_id = subscription.id_for(client_instance_id)
        self.peer = peer
        self._requested_at = _LONG_AGO
        self._pushed_at = _LONG_AGO
        self._terminated = False
        self._last_error: BrokerError | None = None

    def request_subscription(self, now_ms: int) -> None:
        """The client requests its subscription: once per interval, or when its last push was out of date."""
        if now_ms - max(self._requested_at, self._pushed_at) >= self.subscription.interval_ms:
            self._requested_at = now_ms
        elif not isinstance(self._last_error, UnknownSubscriptionIdError | UnsupportedCompressionTypeError):
            raise ThrottlingQuotaExceededError
        self._last_error = None

    def push(self, subscription_id: int, terminating: bool, now_ms: int) -> None:
        """The client pushes: at once with a new subscription, then once per interval, and when it ends."""
        was_terminated, self._terminated = self._terminated, terminating
        if was_terminated:
            raise InvalidRequestError("the client has said before that it ends")
        if self._requested_at > self._pushed_at or now_ms - self._pushed_at >= self.subscription.interval_ms:
            self._pushed_at = now_ms
        elif not terminating:
            raise ThrottlingQuotaExceededError
        if subscription_id != self.subscription_id:
            raise UnknownSubscriptionIdError

    def refused(self, error: BrokerError | None) -> None:
        """How the last push went."""
        self._last_error = error


class ClusterTelemetry:
    """The subscription of a cluster and what it has brought; one for all nodes."""

    def __init__(self) -> None:
        self.subscription = MetricsSubscription()
        self.is_offered = False
        """Whether clients see that there is telemetry: like Kafka's, once a test receives it."""
        self.pushes: list[Push] = []
        # The client that was silent for the longest comes first, and is the first to be forgotten.
        self._clients: dict[tuple[int, Uuid], TelemetryClient] = {}

    def subscribe(self, *prefixes: str, interval_ms: int = DEFAULT_INTERVAL_MS) -> None:
        """Requests the metrics whose names begin like this; "*" is all of them, no prefix at all is none."""
        if not _SHORTEST_INTERVAL_MS <= interval_ms <= _LONGEST_INTERVAL_MS:
            limits = f"{_SHORTEST_INTERVAL_MS} to {_LONGEST_INTERVAL_MS}"
            raise ValueError(f"interval_ms={interval_ms}: Kafka takes {limits}")
        self.is_offered = True
        metrics = (ALL_METRICS,) if ALL_METRICS in prefixes else tuple(dict.fromkeys(prefixes))
        self.subscription = MetricsSubscription(metrics, interval_ms)

    def client(self, node: int, client_instance_id: Uuid, peer: ClientConnection) -> TelemetryClient:
        """The client with this id, a new one where the subscription has changed since or its connection is gone."""
        known = self._clients.pop((node, client_instance_id), None)
        if known is None or known.peer.is_closed or known.subscription != self.subscription:
            self._forget_the_gone()
            known = TelemetryClient(client_instance_id, peer, self.subscription)
        self._clients[node, client_instance_id] = known
        return known

    def _forget_the_gone(self) -> None:
        self._clients = {key: client for key, client in self._clients.items() if not client.peer.is_closed}
        if len(self._clients) >= MOST_CLIENTS_KNOWN:
            del self._clients[next(iter(self._clients))]

    def keep(self, push: Push) -> None:
        self.pushes.append(push)
        del self.pushes[:-MOST_PUSHES_KEPT]


def new_instance_id(random: Random) -> Uuid:
    """For a client that has none yet: a random id of version 4, like Kafka's."""
    number = random.getrandbits(128) & ~(0xF << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62
    return Uuid(number.to_bytes(16))


def check_instance_id(client_instance_id: Uuid) -> None:
    """A push names its client, and no client has one of Kafka's reserved ids."""
    if client_instance_id in _RESERVED:
        raise InvalidRequestError(f"no client has the instance id {client_instance_id}")
