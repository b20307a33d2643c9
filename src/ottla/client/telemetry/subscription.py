"""Which request telemetry sends next, and when (KIP-714): the rules, without a connection.

    get the subscription  ->  push its metrics, after 0.5 to 1.5 intervals  ->  push again every interval
            ^                                                                |
            +---- the subscription has changed, or the push was refused -----+

Events come with the time, in seconds of any monotonic clock; `due` and `next_push` say what follows. Nothing
follows any more (`due` is None) when a broker cannot make sense of what this client sends: Kafka's clients give up
on the same errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ottla.errors import (
    BrokerError,
    TelemetryTooLargeError,
    ThrottlingQuotaExceededError,
    UnknownSubscriptionIdError,
    UnsupportedCompressionTypeError,
    from_code,
)
from ottla.wire import ZERO_UUID, Uuid
from ottla.wire.compression import Compression
from ottla.wire.messages import GetTelemetrySubscriptionsResponse

DEFAULT_INTERVAL: Final = 300.0
EVERYTHING: Final = "*"
_CODECS: Final = frozenset((Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD))
_FIRST_PUSH: Final = (0.5, 1.5)
"""Of the interval: clients that started together do not push together."""


@dataclass(frozen=True, slots=True)
class TelemetrySubscription:
    """Which metrics a broker wants, and how often."""

    id: int
    interval: float
    max_bytes: int
    is_delta: bool
    prefixes: tuple[str, ...]
    codecs: tuple[int, ...]
    """Those that the broker accepts and this client has, in the broker's order of preference."""

    def includes(self, name: str) -> bool:
        return self.prefixes == (EVERYTHING,) or name.startswith(self.prefixes)


class TelemetryState:
    """One client's telemetry."""

    def __init__(self) -> None:
        self.instance_id: Uuid = ZERO_UUID
        """Given by the first broker that responds, and kept for the life of the client."""
        self.subscription: TelemetrySubscription | None = None
        """The last one, also when it has to be requested again."""
        self.due: float | None = None
        """When the next request is to be made; None: not at all."""
        self._is_stale = True
        self._has_pushed = False
        self._refused_codecs: dict[int, None] = {}

    def begin(self, now: float) -> None:
        self.due = now

    @property
    def next_push(self) -> TelemetrySubscription | None:
        """What the next request pushes for; None if it is the one for a subscription."""
        last = self.subscription
        return last if last is not None and last.prefixes and not self._is_stale else None

    @property
    def codec(self) -> int:
        """What the next push is compressed with."""
        accepted = () if self.subscription is None else self.subscription.codecs
        return next((each for each in accepted if each not in self._refused_codecs), int(Compression.NONE))

    def subscribed(
        self, response: GetTelemetrySubscriptionsResponse, now: float, chance: float
    ) -> BrokerError | None:
        """A broker said what it wants, or why not; `chance`, from 0 to 1, spreads the first pushes."""
        error = from_code(response.error_code)
        if error is not None:
            self._refused(error, now)
            return error
        self.instance_id = response.client_instance_id
        self.subscription = _subscription(response)
        self._is_stale = False
        if self._has_pushed or self.next_push is None:
            self.due = now + self._interval
        else:
            low, high = _FIRST_PUSH
            self.due = now + self._interval * (low + (high - low) * chance)
        return None

    def pushed(self, error_code: int, now: float) -> BrokerError | None:
        """A broker took a push, or refused it."""
        self._has_pushed = True
        error = from_code(error_code)
        if error is not None:
            self._refused(error, now)
        else:
            self.due = now + self._interval
        return error

    def failed(self, now: float) -> None:
        """No broker responded, or the one that did has no telemetry: tried again later, perhaps with another."""
        self._is_stale = True
        self.due = now + self._interval

    def _refused(self, error: BrokerError, now: float) -> None:
        match error:
            case UnknownSubscriptionIdError():
                self.due = now
            case UnsupportedCompressionTypeError():
                self._refused_codecs[self.codec] = None
                self.due = now
            case TelemetryTooLargeError() | ThrottlingQuotaExceededError():
                self.due = now + self._interval
            case _:
                self.due = None
        self._is_stale = True

    @property
    def _interval(self) -> float:
        return DEFAULT_INTERVAL if self.subscription is None else self.subscription.interval


def _subscription(response: GetTelemetrySubscriptionsResponse) -> TelemetrySubscription:
    interval = response.push_interval_ms / 1000 if response.push_interval_ms > 0 else DEFAULT_INTERVAL
    return TelemetrySubscription(
        id=response.subscription_id,
        interval=interval,
        max_bytes=response.telemetry_max_bytes,
        is_delta=response.delta_temporality,
        prefixes=_prefixes(response.requested_metrics),
        codecs=tuple(each for each in response.accepted_compression_types if each in _CODECS),
    )


def _prefixes(requested: Sequence[str]) -> tuple[str, ...]:
    return (EVERYTHING,) if EVERYTHING in requested else tuple(requested)
