"""What a client counts and measures about itself.

`Metrics` (collect.py) is the first of a client's hooks and makes a `MetricsSnapshot` on demand; catalog.py lists
every metric. Not here: sending them anywhere (client/telemetry, client/observers).
"""

from ottla._native.counters import Histogram
from ottla.client.metrics.catalog import CATALOG, Description, MetricKind
from ottla.client.metrics.collect import Metrics
from ottla.client.metrics.histogram import Distribution, distribution, merged
from ottla.client.metrics.snapshot import Labels, Metric, MetricsProvider, MetricsSnapshot

__all__ = [
    "CATALOG",
    "Description",
    "Distribution",
    "Histogram",
    "Labels",
    "Metric",
    "MetricKind",
    "Metrics",
    "MetricsProvider",
    "MetricsSnapshot",
    "distribution",
    "merged",
]
