"""MetricsSnapshot: the metrics of a client at one moment, as `client.metrics()` returns them.

metrics = client.metrics()
metrics["producer.record.send.total"].value                        # 1200
metrics.distribution("ottla.request.latency", api="Produce").p99   # 0.0041
for metric in metrics.values(): ...
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Protocol

from ottla.client.metrics.catalog import CATALOG, MetricKind
from ottla.client.metrics.histogram import Distribution

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric with its value; of those that are kept by API, broker or partition there is one for each."""

    name: str
    labels: Labels
    value: float | Distribution

    @property
    def description(self) -> str:
        return CATALOG[self.name].text

    @property
    def kind(self) -> MetricKind:
        return CATALOG[self.name].kind

    @property
    def unit(self) -> str:
        return CATALOG[self.name].unit

    @property
    def key(self) -> str:
        """The name, with the labels behind it if there are any: `name{api="Fetch"}`."""
        return key_of(self.name, self.labels)


class MetricsSnapshot(Mapping[str, Metric]):
    """Metrics by their keys: names, and `name{label="value"}` for those that have labels."""

    __slots__ = ("_metrics",)

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = {metric.key: metric for metric in metrics}

    def __getitem__(self, key: str) -> Metric:
        return self._metrics[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._metrics)

    def __len__(self) -> int:
        return len(self._metrics)

    def __repr__(self) -> str:
        return f"<MetricsSnapshot of {len(self._metrics)} metrics>"

    def number(self, name: str, **labels: str) -> float:
        """The value of a counter or gauge; 0 if it has none yet, a KeyError for a name that no metric has."""
        value = self._value(name, labels)
        if isinstance(value, Distribution):
            raise TypeError(f"{name} is a distribution: call distribution({name!r})")
        return 0.0 if value is None else value

    def distribution(self, name: str, **labels: str) -> Distribution:
        """The value of a distribution; an empty one if nothing was recorded yet."""
        value = self._value(name, labels)
        if isinstance(value, float | int):
            raise TypeError(f"{name} is a {CATALOG[name].kind.value}: call number({name!r})")
        return Distribution() if value is None else value

    def _value(self, name: str, labels: Mapping[str, str]) -> float | Distribution | None:
        if name not in CATALOG:
            close = get_close_matches(name, CATALOG, 1)
            raise KeyError(f"no metric is called {name}" + (f": did you mean {close[0]}?" if close else ""))
        metric = self._metrics.get(key_of(name, tuple(sorted(labels.items()))))
        return None if metric is None else metric.value


class MetricsProvider(Protocol):
    """A client, as what exports metrics sees it."""

    def metrics(self) -> MetricsSnapshot: ...


def key_of(name: str, labels: Labels) -> str:
    if not labels:
        return name
    inner = ",".join(f'{label}="{value}"' for label, value in labels)
    return f"{name}{{{inner}}}"
