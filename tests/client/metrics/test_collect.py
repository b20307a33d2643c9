"""Metrics: what a client counts, by hand and against a cluster."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.client.metadata import ClusterView
from ottla.client.metrics import CATALOG, MetricKind, Metrics
from ottla.client.topic_partition import TopicPartition
from ottla.errors import ConnectionLostError
from ottla.hooks import FetchedPartition, Hooks, ProducedBatch
from ottla.runtime import SystemClock
from ottla.wire.messages import ApiVersionsRequest
from tests.client.worlds import Body, World

VIEW = ClusterView("cluster", 1, {}, {})
BATCH = ProducedBatch(
    1, "orders", 0, 100, 2000, 500, opened_at=1.0, sealed_at=1.1, written_at=1.2, acknowledged_at=1.5
)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(SystemClock())


def everything(metrics: Metrics) -> None:
    """Each hook once, so that every metric has a value."""
    metrics.on_broker_connect(1, "host", 9092, 0.01, None)
    metrics.on_broker_write(1, 0, 100, None)
    metrics.on_broker_read(1, 0, 50, 0.02, None)
    metrics.on_broker_write(1, 1, 60, None)
    metrics.on_broker_read(1, 1, 5000, 0.5, None)
    metrics.on_broker_throttle(1, 0.25)
    metrics.on_metadata(VIEW, 0.003, None)
    metrics.on_batch_acknowledged(BATCH)
    metrics.on_fetch_read(FetchedPartition(1, "orders", 0, 40, 4000, 90, read_at=2.0))
    metrics.watch_buffer(lambda: 3, lambda: 300, 1000)
    metrics.watch_lag(lambda: {TopicPartition("orders", 0): 50})


def test_a_new_client_has_counted_nothing(metrics: Metrics) -> None:
    snapshot = metrics.snapshot()
    assert snapshot.number("ottla.connection.creation.total") == 0
    assert snapshot.number("producer.record.send.total") == 0
    assert snapshot.distribution("ottla.request.latency", api="Fetch").count == 0


def test_every_metric_of_the_catalog_has_a_value_once_everything_has_happened(metrics: Metrics) -> None:
    everything(metrics)
    assert {each.name for each in metrics.snapshot().values()} == set(CATALOG)


def test_requests_are_counted_by_api(metrics: Metrics) -> None:
    everything(metrics)
    metrics.on_broker_read(1, 1, 0, 0.1, ConnectionLostError("gone"))
    snapshot = metrics.snapshot()
    assert snapshot.number("ottla.request.total", api="Produce") == 1
    assert snapshot.number("ottla.request.outgoing.byte.total", api="Produce") == 100
    assert snapshot.number("ottla.request.incoming.byte.total", api="Fetch") == 5000
    assert snapshot.number("ottla.request.error.total", api="Fetch") == 1
    assert snapshot.distribution("ottla.request.latency", api="Fetch").max == 0.5
    assert snapshot['ottla.request.total{api="Fetch"}'].labels == (("api", "Fetch"),)


def test_batches_are_counted_when_their_fate_is_known(metrics: Metrics) -> None:
    metrics.on_broker_write(1, 0, 600, None)
    metrics.on_batch_acknowledged(BATCH._replace(attempts=3))
    metrics.on_batch_failed(BATCH._replace(records=7, attempts=1), ConnectionLostError("gone"))
    snapshot = metrics.snapshot()
    assert snapshot.number("producer.record.send.total") == 100
    assert snapshot.number("producer.record.retry.total") == 200
    assert snapshot.number("producer.record.error.total") == 7
    assert snapshot.number("producer.compression.rate.avg") == 0.25
    assert snapshot.distribution("producer.record.queue.time").max == pytest.approx(0.2)
    assert snapshot.distribution("producer.batch.size").max == 500


def test_states_that_others_keep_are_read_when_asked_for(metrics: Metrics) -> None:
    everything(metrics)
    lag = {TopicPartition("orders", 1): 9}

    def read() -> dict[TopicPartition, int]:
        return lag

    metrics.watch_lag(read)
    lag[TopicPartition("orders", 1)] = 10
    snapshot = metrics.snapshot()
    assert snapshot.number("consumer.fetch.manager.records.lag", topic="orders", partition="1") == 10
    assert snapshot.number("producer.buffer.available.bytes") == 700
    metrics.unwatch_lag(read)
    assert 'consumer.fetch.manager.records.lag{partition="1",topic="orders"}' not in metrics.snapshot()


def test_a_name_that_no_metric_has_is_an_error_and_not_zero(metrics: Metrics) -> None:
    everything(metrics)
    snapshot = metrics.snapshot()
    with pytest.raises(KeyError, match=r"producer\.record\.sent.*: did you mean producer\."):
        snapshot.number("producer.record.sent")
    with pytest.raises(TypeError, match=r"call distribution"):
        snapshot.number("producer.batch.size")
    with pytest.raises(TypeError, match=r"call number"):
        snapshot.distribution("producer.record.send.total")


def test_only_requests_and_batches_are_listened_to_never_records(metrics: Metrics) -> None:
    assert Hooks([metrics]).on_record_buffered is None
    assert Hooks([metrics]).on_batch_sealed is None


def test_every_metric_is_described() -> None:
    for described in CATALOG.values():
        assert described.text.endswith("."), described.name
        assert described.name.endswith(".total") == (described.kind is MetricKind.COUNTER), described.name


def test_metadata_grows_old(run: Callable[[Body], object]) -> None:
    async def body(world: World) -> None:
        metrics = Metrics(world.clock)
        metrics.on_metadata(VIEW, 0.1, None)
        world.clock.advance(60)
        assert metrics.snapshot().number("ottla.metadata.age") == pytest.approx(60, abs=5)

    run(body)


def test_what_a_connection_does_is_counted(run: Callable[[Body], object]) -> None:
    async def body(world: World) -> None:
        metrics = Metrics(world.clock)
        async with world.cluster() as cluster:
            parts = world.parts(cluster, metrics)
            await parts.brokers.candidates()[0].request(ApiVersionsRequest())
            snapshot = metrics.snapshot()
            assert snapshot.number("ottla.connection.creation.total") == 1
            assert snapshot.number("ottla.connection.open") == 1
            # One of them is the first request of every connection.
            assert snapshot.number("ottla.request.total", api="ApiVersions") == 2
            assert snapshot.distribution("ottla.request.latency", api="ApiVersions").count == 2
            await parts.brokers.close()
        assert metrics.snapshot().number("ottla.connection.open") == 0

    run(body)


def test_latencies_are_kept_by_broker_and_together(metrics: Metrics) -> None:
    for node_id, seconds in ((1, 0.1), (1, 0.3), (2, 0.2)):
        metrics.on_broker_read(node_id, 0, 10, seconds, None)
    snapshot = metrics.snapshot()
    assert snapshot.distribution("producer.node.request.latency", node_id="1").max == 0.3
    assert snapshot.distribution("producer.node.request.latency", node_id="2").max == 0.2
    together = snapshot.distribution("producer.request.latency")
    assert (together.count, together.max) == (3, 0.3)
