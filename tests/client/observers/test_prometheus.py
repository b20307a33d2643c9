"""Prometheus: what a scrape of a client's registry looks like."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from ottla.client.metrics import CATALOG, Metrics, MetricsSnapshot
from ottla.client.observers import prometheus
from ottla.runtime import SystemClock
from tests.client.metrics.test_collect import everything


class Client:
    """As much of a client as is scraped."""

    def __init__(self) -> None:
        self._metrics = Metrics(SystemClock())
        everything(self._metrics)

    def metrics(self) -> MetricsSnapshot:
        return self._metrics.snapshot()


def scrape(registry: CollectorRegistry) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def test_counters_gauges_and_distributions_are_scraped() -> None:
    registry = CollectorRegistry()
    prometheus.register(Client(), registry)
    samples = scrape(registry)
    assert samples["producer_record_send_total", frozenset()] == 100
    assert samples["ottla_connection_open", frozenset()] == 1
    fetch = ("api", "Fetch")
    assert samples["ottla_request_total", frozenset({fetch})] == 1
    assert samples["ottla_request_latency_seconds_count", frozenset({fetch})] == 1
    assert samples["ottla_request_latency_seconds_sum", frozenset({fetch})] == 0.5
    assert samples["ottla_request_latency_seconds_bucket", frozenset({fetch, ("le", "0.25")})] == 0
    assert samples["ottla_request_latency_seconds_bucket", frozenset({fetch, ("le", "1.0")})] == 1
    assert samples["ottla_request_latency_seconds_bucket", frozenset({fetch, ("le", "+Inf")})] == 1


def test_every_metric_has_a_name_of_its_own() -> None:
    registry = CollectorRegistry(auto_describe=True)
    prometheus.register(Client(), registry)
    families = list(text_string_to_metric_families(generate_latest(registry).decode()))
    assert len({family.name for family in families}) == len(families) == len(CATALOG)


def test_several_clients_of_a_registry_are_told_apart_by_labels() -> None:
    registry = CollectorRegistry()
    prometheus.register(Client(), registry, {"client": "a"})
    prometheus.register(Client(), registry, {"client": "b"})
    samples = scrape(registry)
    for name in ("a", "b"):
        assert samples["producer_record_send_total", frozenset({("client", name)})] == 100
    with pytest.raises(ValueError, match="another client has these labels"):
        prometheus.register(Client(), registry, {"client": "b"})
    with pytest.raises(ValueError, match="give this one the same"):
        prometheus.register(Client(), registry, {"name": "c"})


def test_a_client_that_leaves_is_scraped_no_more_and_may_come_again() -> None:
    registry = CollectorRegistry()
    client = Client()
    registration = prometheus.register(client, registry)
    registration.close()
    registration.close()
    assert scrape(registry) == {}
    prometheus.register(client, registry)
    assert scrape(registry)
