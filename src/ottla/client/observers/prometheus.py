"""Prometheus: the metrics of clients in a registry of `prometheus-client`, read when it is scraped.

    from ottla.client.observers import prometheus

    registration = prometheus.register(client)
    ...
    registration.close()

The names are those of `client.metrics()` with underscores: `producer_record_send_total`. All clients of a registry
share one collector, since a registry takes each name once; labels distinguish them.

Invariant: every sample has all the labels of its client, and no two clients have the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from ottla._extras import require
from ottla.client.metrics import CATALOG, Description, Distribution, Labels, MetricKind, MetricsProvider

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric as Family

_UNITS: Final = {"s": "seconds", "By": "bytes"}
# Fixed, so that scrapes can be compared and added up: powers of two, from a tenth of a millisecond to two minutes
# for durations, from 64 bytes to 16 MiB for sizes.
_BOUNDS: Final = {
    "s": tuple(2.0**power for power in range(-13, 8)),
    "By": tuple(2.0**power for power in range(6, 25, 2)),
}


class Registration:
    """What `register` returns: takes the client out of the registry again."""

    def __init__(self, leave: Callable[[], None]) -> None:
        self._leave = leave

    def close(self) -> None:
        """The client is scraped no more; before or after it is closed."""
        self._leave()


def register(
    client: MetricsProvider,
    registry: CollectorRegistry | None = None,
    labels: Mapping[str, str] | None = None,
) -> Registration:
    """Adds a client's metrics to a registry, by default to the one of the process.

    `labels` go to every sample; several clients of one registry need different ones: `labels={"client": "orders"}`.
    """
    library = require("prometheus_client", extra="telemetry", purpose="metrics for Prometheus")
    target = library.REGISTRY if registry is None else registry
    collector = _collectors.get(target)
    if collector is None:
        collector = _collectors[target] = _Collector(target, _core())
    key = tuple(sorted((labels or {}).items()))
    collector.add(key, client)
    return Registration(lambda: collector.remove(key, client))


class _Collector:
    """What a registry calls at each scrape: `collect` has the metrics of all its clients."""

    def __init__(self, registry: Any, core: Any) -> None:
        self._registry = registry
        self._core = core
        self._clients: dict[Labels, MetricsProvider] = {}

    def add(self, labels: Labels, client: MetricsProvider) -> None:
        if labels in self._clients:
            described = ", ".join(f"{name}={value}" for name, value in labels) or "none"
            raise ValueError(
                f"another client has these labels ({described}): pass others with labels={{...}}"
            )
        names = [tuple(name for name, _ in each) for each in self._clients]
        mine = tuple(name for name, _ in labels)
        if any(each != mine for each in names):
            raise ValueError(
                f"the clients of a registry have labels {names[0]}: give this one the same, not {mine}"
            )
        if not self._clients:
            self._registry.register(self)
        self._clients[labels] = client

    def remove(self, labels: Labels, client: MetricsProvider) -> None:
        if self._clients.get(labels) is client:
            del self._clients[labels]
            if not self._clients:
                self._registry.unregister(self)

    def describe(self) -> Iterable[Family]:
        """The names, so that a registry can refuse others of the same name without a look at the clients."""
        return [self._family(each, ()) for each in CATALOG.values()]

    def collect(self) -> Iterable[Family]:
        families: dict[str, Any] = {}
        for own, client in self._clients.copy().items():
            for metric in client.metrics().values():
                labels = (*own, *metric.labels)
                names = tuple(name for name, _ in labels)
                family = families.get(metric.name)
                if family is None:
                    family = families[metric.name] = self._family(CATALOG[metric.name], names)
                _add(family, metric.unit, [value for _, value in labels], metric.value)
        return families.values()

    def _family(self, described: Description, label_names: tuple[str, ...]) -> Any:
        kinds = {
            MetricKind.COUNTER: self._core.CounterMetricFamily,
            MetricKind.GAUGE: self._core.GaugeMetricFamily,
            MetricKind.DISTRIBUTION: self._core.HistogramMetricFamily,
        }
        name = _name(described)
        return kinds[described.kind](name, described.text, labels=label_names)


def _core() -> Any:
    return require("prometheus_client.metrics_core", extra="telemetry", purpose="metrics for Prometheus")


# One collector per registry; a registry that is gone takes its collector with it.
_collectors: WeakKeyDictionary[Any, _Collector] = WeakKeyDictionary()


def _name(described: Description) -> str:
    """As Prometheus spells it: the unit at the end, before `_total`, once."""
    name = described.name.replace(".", "_")
    unit = _UNITS.get(described.unit)
    if unit is None or described.kind is not MetricKind.DISTRIBUTION or name.endswith(unit):
        return name
    return f"{name}_{unit}"


def _add(family: Any, unit: str, labels: list[str], value: float | Distribution) -> None:
    if not isinstance(value, Distribution):
        family.add_metric(labels, value)
        return
    bounds = _BOUNDS[unit]
    buckets: list[tuple[str, float]] = [(str(bound), value.at_most(bound)) for bound in bounds]
    family.add_metric(labels, [*buckets, ("+Inf", value.count)], sum_value=value.sum)
