"""From a client's metrics to the numbers that Kafka's operators expect (KIP-714): names, units, windows.

Kafka knows averages, maxima and rates where a client here has distributions and totals; each covers the time since
the last push. Metrics that Kafka's own clients have go under Kafka's names, "org.apache.kafka." in front and
milliseconds for durations; the others keep their own. What is not known is not sent: metrics are sparse.

Invariant: a sum is counted once. With delta temporality a push covers what came after the last one that a broker
may have taken (`settle`); one that was refused is added to the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla.client.metrics import Distribution, Labels, Metric, MetricKind, MetricsSnapshot, merged
from ottla.client.telemetry.otlp import Point
from ottla.client.telemetry.subscription import TelemetrySubscription

_DOMAIN: Final = "org.apache.kafka."
_ROLES: Final = {"producer": "producer.record.send.total", "consumer": "consumer.fetch.manager.fetch.total"}
"""What a client does -> a metric that it has once it does so."""
_SAME_AS: Final = {
    'ottla.request.latency{api="OffsetCommit"}': "consumer.coordinator.commit.latency",
}
"""A metric of ours -> the name under which Kafka has it."""


class Points:
    """The metrics of a client as points, one push after the other."""

    def __init__(self, now: float) -> None:
        """`now`, as everywhere here, is seconds since 1970."""
        self.began_at = now
        """Since when sums count, with cumulative temporality."""
        self.settled_at = now
        """Since when they count with delta temporality."""
        self._settled = MetricsSnapshot(())
        self._pending = (self._settled, now)

    def collect(
        self, snapshot: MetricsSnapshot, now: float, subscription: TelemetrySubscription
    ) -> list[Point]:
        """The points of a push, the ones that Kafka names first."""
        self._pending = (snapshot, now)
        points = [
            *self._standard(snapshot, now, subscription.is_delta),
            *self._ours(snapshot, subscription.is_delta),
        ]
        return [point for point in points if subscription.includes(point.name)]

    def settle(self) -> None:
        """The last push was taken, or may have been."""
        self._settled, self.settled_at = self._pending

    def _standard(self, snapshot: MetricsSnapshot, now: float, is_delta: bool) -> Iterator[Point]:
        for metric in snapshot.values():
            name = _SAME_AS.get(metric.key)
            if name is not None:
                yield from self._points(_DOMAIN + name, (), metric, is_delta)
            elif not metric.name.startswith("ottla."):
                yield from self._points(_DOMAIN + metric.name, metric.labels, metric, is_delta)
        for role, begun in _ROLES.items():
            if begun in snapshot:
                yield from self._connections(f"{_DOMAIN}{role}.", snapshot, now, is_delta)
        if _ROLES["producer"] in snapshot:
            yield from self._throttling(f"{_DOMAIN}producer.produce.throttle.time", snapshot)
        yield from _greatest_lag(snapshot)

    def _ours(self, snapshot: MetricsSnapshot, is_delta: bool) -> Iterator[Point]:
        for metric in snapshot.values():
            if metric.name.startswith("ottla."):
                yield from self._points(metric.name, metric.labels, metric, is_delta)

    def _points(self, name: str, labels: Labels, metric: Metric, is_delta: bool) -> Iterator[Point]:
        value = metric.value
        scale, unit = (1000, "ms") if metric.unit == "s" and name.startswith(_DOMAIN) else (1, metric.unit)
        if isinstance(value, Distribution):
            recent = self._recent(metric.key, value)
            if recent.count:
                yield Point(f"{name}.avg", unit, labels, float(recent.avg * scale))
                yield Point(f"{name}.max", unit, labels, float(recent.max * scale))
        elif metric.kind is MetricKind.COUNTER:
            before = self._before(metric.key) if is_delta else 0
            yield Point(name, unit, labels, value - before, is_sum=True)
        else:
            yield Point(name, unit, labels, float(value * scale))

    def _connections(
        self, prefix: str, snapshot: MetricsSnapshot, now: float, is_delta: bool
    ) -> Iterator[Point]:
        """A client has one set of connections, whatever it does."""
        total = snapshot.number("ottla.connection.creation.total")
        new = total - self._before("ottla.connection.creation.total")
        elapsed = now - self.settled_at
        yield Point(f"{prefix}connection.creation.total", "1", (), new if is_delta else total, is_sum=True)
        yield Point(f"{prefix}connection.creation.rate", "1/s", (), new / elapsed if elapsed > 0 else 0.0)

    def _throttling(self, name: str, snapshot: MetricsSnapshot) -> Iterator[Point]:
        recent = merged(
            self._recent(metric.key, metric.value)
            for metric in snapshot.values()
            if metric.name == "ottla.throttle.time" and isinstance(metric.value, Distribution)
        )
        yield Point(f"{name}.avg", "ms", (), recent.avg * 1000)
        yield Point(f"{name}.max", "ms", (), recent.max * 1000)

    def _recent(self, key: str, value: Distribution) -> Distribution:
        before = self._settled.get(key)
        if before is None or not isinstance(before.value, Distribution):
            return value
        return value.since(before.value)

    def _before(self, key: str) -> float:
        before = self._settled.get(key)
        return 0 if before is None or isinstance(before.value, Distribution) else before.value


def _greatest_lag(snapshot: MetricsSnapshot) -> Iterator[Point]:
    name = "consumer.fetch.manager.records.lag"
    lags = [
        metric.value
        for metric in snapshot.values()
        if metric.name == name and not isinstance(metric.value, Distribution)
    ]
    if lags:
        yield Point(f"{_DOMAIN}{name}.max", "1", (), float(max(lags)))
