"""From metrics to Kafka's names: averages since the last push, sums that are counted once."""

from __future__ import annotations

import pytest

from ottla.client.metrics import Metrics
from ottla.client.telemetry.otlp import Point
from ottla.client.telemetry.points import Points
from ottla.client.telemetry.subscription import TelemetrySubscription
from ottla.runtime import SystemClock
from tests.client.metrics.test_collect import BATCH, everything

DELTA = TelemetrySubscription(1, 10.0, 1 << 20, True, ("*",), ())
CUMULATIVE = TelemetrySubscription(1, 10.0, 1 << 20, False, ("*",), ())

# What KIP-714 asks of every client, as far as a client without a group has it.
STANDARD = [
    "producer.connection.creation.rate",
    "producer.connection.creation.total",
    "producer.node.request.latency.avg",
    "producer.node.request.latency.max",
    "producer.produce.throttle.time.avg",
    "producer.produce.throttle.time.max",
    "producer.record.queue.time.avg",
    "producer.record.queue.time.max",
    "consumer.connection.creation.rate",
    "consumer.connection.creation.total",
    "consumer.fetch.manager.fetch.latency.avg",
    "consumer.fetch.manager.fetch.latency.max",
    "consumer.node.request.latency.avg",
    "consumer.node.request.latency.max",
]


@pytest.fixture
def metrics() -> Metrics:
    metrics = Metrics(SystemClock())
    everything(metrics)
    return metrics


def by_name(points: list[Point]) -> dict[str, Point]:
    return {point.name: point for point in points}


def test_the_metrics_that_kafka_asks_for_are_there_under_kafkas_names(metrics: Metrics) -> None:
    found = by_name(Points(0.0).collect(metrics.snapshot(), 10.0, DELTA))
    missing = [name for name in STANDARD if f"org.apache.kafka.{name}" not in found]
    assert missing == []
    queued = found["org.apache.kafka.producer.record.queue.time.max"]
    assert queued.unit == "ms"
    assert queued.value == pytest.approx(200.0)
    assert found["org.apache.kafka.producer.connection.creation.rate"].value == 0.1
    assert found["org.apache.kafka.producer.produce.throttle.time.max"].value == 250.0
    assert found["org.apache.kafka.consumer.fetch.manager.records.lag.max"].value == 50


def test_a_client_that_only_reads_has_no_metrics_of_a_producer() -> None:
    metrics = Metrics(SystemClock())
    metrics.watch_buffer(lambda: 0, lambda: 0, 1000)
    metrics.on_broker_write(1, 1, 60, None)
    names = by_name(Points(0.0).collect(metrics.snapshot(), 10.0, DELTA))
    assert not [name for name in names if ".producer." in name]


def test_deltas_count_from_the_last_push_that_was_taken(metrics: Metrics) -> None:
    points, name = Points(0.0), "org.apache.kafka.producer.record.send.total"
    assert by_name(points.collect(metrics.snapshot(), 10.0, DELTA))[name].value == 100
    points.settle()
    metrics.on_batch_acknowledged(BATCH)
    assert by_name(points.collect(metrics.snapshot(), 20.0, DELTA))[name].value == 100
    metrics.on_batch_acknowledged(BATCH)
    # The last push was refused: it is part of the next.
    assert by_name(points.collect(metrics.snapshot(), 30.0, DELTA))[name].value == 200
    assert points.settled_at == 10.0
    points.settle()
    assert by_name(points.collect(metrics.snapshot(), 40.0, DELTA))[name].value == 0
    assert by_name(points.collect(metrics.snapshot(), 40.0, CUMULATIVE))[name].value == 300


def test_averages_and_maxima_are_of_the_time_since_the_last_push(metrics: Metrics) -> None:
    points, name = Points(0.0), "org.apache.kafka.producer.record.queue.time"
    points.collect(metrics.snapshot(), 10.0, DELTA)
    points.settle()
    assert f"{name}.max" not in by_name(points.collect(metrics.snapshot(), 20.0, DELTA))
    metrics.on_batch_acknowledged(BATCH._replace(written_at=1.1))
    found = by_name(points.collect(metrics.snapshot(), 20.0, CUMULATIVE))
    assert found[f"{name}.avg"].value == pytest.approx(100.0)
    assert found[f"{name}.max"].value == pytest.approx(100.0, rel=0.04)


def test_only_what_is_wanted_is_sent_and_kafkas_own_metrics_come_first(metrics: Metrics) -> None:
    wanted = TelemetrySubscription(
        1, 10.0, 1 << 20, True, ("org.apache.kafka.consumer.", "ottla.request."), ()
    )
    names = [point.name for point in Points(0.0).collect(metrics.snapshot(), 10.0, wanted)]
    assert names == sorted(names, key=lambda name: name.startswith("ottla."))
    assert {name.split(".")[3 if name.startswith("org") else 1] for name in names} == {"consumer", "request"}


def test_the_latency_of_commits_is_that_of_their_requests() -> None:
    metrics = Metrics(SystemClock())
    metrics.on_broker_read(1, 8, 20, 0.04, None)
    found = by_name(Points(0.0).collect(metrics.snapshot(), 10.0, DELTA))
    assert found["org.apache.kafka.consumer.coordinator.commit.latency.max"].value == pytest.approx(40.0)
