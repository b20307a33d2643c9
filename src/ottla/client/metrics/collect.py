"""Metrics: the hook of every client that counts, and the snapshot it makes of what it has counted.

It listens to requests and batches, never to records: an event costs a microsecond, and a client that moves a
million records a second has a few thousand of them. States that the producer and the consumers keep (what is
buffered, how far readers are behind) are read when a snapshot is made, through functions given to `watch_buffer` and
`watch_lag`.

Invariant: only the client's loop records; `snapshot` may be called from any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from ottla._native.counters import Counters, Histogram, RequestCounts
from ottla.client.metrics.histogram import Distribution, distribution, merged
from ottla.client.metrics.snapshot import Labels, Metric, MetricsSnapshot
from ottla.client.topic_partition import TopicPartition
from ottla.hooks import ClusterState, Hook, ProducedBatch
from ottla.runtime import Clock
from ottla.wire import api_for_key

_PRODUCE: Final = 0
_FETCH: Final = 1

Lag = Callable[[], Mapping[TopicPartition, int]]


class Metrics(Counters, Hook):
    """Counts what a client does; with every request and every batch, natively."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.on_first_metadata: Callable[[], object] | None = None
        """Called once, when the client has come to know the cluster."""
        self._clock = clock
        self._connections = _Connections()
        self._throttle: dict[int, Histogram] = {}
        self._metadata = _Metadata()
        self._failed = 0
        self._resets = 0
        self._buffer: _Buffer | None = None
        self._lags: dict[Lag, None] = {}

    def watch_buffer(self, records: Callable[[], int], size: Callable[[], int], total: int) -> None:
        """How many records, and bytes of them, wait to be delivered; `total` is the limit of the bytes."""
        self._buffer = _Buffer(records, size, total)

    def watch_lag(self, lag: Lag) -> None:
        """How far a reader is behind, by topic and partition."""
        self._lags[lag] = None

    def unwatch_lag(self, lag: Lag) -> None:
        self._lags.pop(lag, None)

    # What happens

    def on_broker_connect(
        self, node_id: int, host: str, port: int, seconds: float, error: BaseException | None
    ) -> None:
        if error is None:
            self._connections.opened += 1
            self._connections.setup.record(seconds)
        else:
            self._connections.refused += 1

    def on_broker_disconnect(self, node_id: int, peer: str, error: BaseException | None) -> None:
        self._connections.closed += 1
        if error is not None:
            self._connections.lost += 1

    def on_broker_throttle(self, node_id: int, seconds: float) -> None:
        self._throttle.setdefault(node_id, Histogram()).record(seconds)

    def on_metadata(self, view: ClusterState, seconds: float, error: BaseException | None) -> None:
        if error is not None:
            self._metadata.errors += 1
            return
        self._metadata.refreshes += 1
        self._metadata.latency.record(seconds)
        self._metadata.refreshed_at = self._clock.time()
        if (notify := self.on_first_metadata) is not None:
            self.on_first_metadata = None
            notify()

    def on_batch_failed(self, batch: ProducedBatch, error: BaseException) -> None:
        self._failed += batch.records
        self.count_retries(batch.records, batch.attempts)

    def on_position_reset(self, topic: str, partition: int, old: int, new: int, reason: str) -> None:
        self._resets += 1

    # What it amounts to

    def snapshot(self) -> MetricsSnapshot:
        """Everything that was counted so far; what producing and reading count is there once they have begun."""
        return MetricsSnapshot(
            [
                *self._connections.metrics(),
                *(
                    metric
                    for key, each in self.requests.copy().items()
                    for metric in _request_metrics(key, each)
                ),
                *_by_node("ottla.throttle.time", self._throttle),
                *self._metadata.metrics(self._clock.time()),
                *self._producer_metrics(),
                *self._consumer_metrics(),
            ]
        )

    def _producer_metrics(self) -> Iterator[Metric]:
        requests = self.requests.get(_PRODUCE)
        # Every client has a buffer, but only one that produces has anything in it to measure.
        if self._buffer is not None and (requests is not None or self._buffer.records()):
            yield from self._buffer.metrics()
        if requests is not None:
            yield from self._produced_metrics()
            yield _metric("producer.request.latency", _all_latencies(requests))
            yield from _by_node("producer.node.request.latency", requests.latency)

    def _produced_metrics(self) -> Iterator[Metric]:
        yield _metric("producer.record.send.total", self.produced_records)
        yield _metric("producer.record.error.total", self._failed)
        yield _metric("producer.record.retry.total", self.retried_records)
        yield _metric("producer.record.queue.time", distribution(self.queue_times))
        yield _metric("producer.batch.size", distribution(self.batch_sizes))
        if self.bytes_raw:
            yield _metric("producer.compression.rate.avg", self.bytes_sent / self.bytes_raw)
        yield _metric("ottla.producer.batch.total", self.produced_batches)
        yield _metric("ottla.producer.byte.total", self.bytes_sent)
        yield _metric("ottla.producer.uncompressed.byte.total", self.bytes_raw)

    def _consumer_metrics(self) -> Iterator[Metric]:
        fetches = self.requests.get(_FETCH)
        if fetches is None:
            return
        yield _metric("consumer.fetch.manager.fetch.total", fetches.responses)
        yield _metric("consumer.fetch.manager.fetch.latency", _all_latencies(fetches))
        yield _metric("consumer.fetch.manager.records.consumed.total", self.consumed_records)
        yield _metric("consumer.fetch.manager.bytes.consumed.total", self.consumed_bytes)
        yield _metric("ottla.consumer.reset.total", self._resets)
        yield from _by_node("consumer.node.request.latency", fetches.latency)
        lags = {tp: behind for lag in self._lags.copy() for tp, behind in lag().items()}
        for (topic, partition), behind in lags.items():
            labels = (("partition", str(partition)), ("topic", topic))
            yield Metric("consumer.fetch.manager.records.lag", labels, behind)


@dataclass(slots=True)
class _Connections:
    opened: int = 0
    refused: int = 0
    closed: int = 0
    lost: int = 0
    setup: Histogram = field(default_factory=Histogram)

    def metrics(self) -> Iterator[Metric]:
        yield _metric("ottla.connection.open", max(self.opened - self.closed, 0))
        yield _metric("ottla.connection.creation.total", self.opened)
        yield _metric("ottla.connection.failure.total", self.refused)
        yield _metric("ottla.connection.loss.total", self.lost)
        yield _metric("ottla.connection.setup.time", distribution(self.setup))


@dataclass(slots=True)
class _Metadata:
    refreshes: int = 0
    errors: int = 0
    refreshed_at: float | None = None
    latency: Histogram = field(default_factory=Histogram)

    def metrics(self, now: float) -> Iterator[Metric]:
        if self.refreshed_at is not None:
            yield _metric("ottla.metadata.age", max(now - self.refreshed_at, 0.0))
        yield _metric("ottla.metadata.refresh.total", self.refreshes)
        yield _metric("ottla.metadata.error.total", self.errors)
        yield _metric("ottla.metadata.latency", distribution(self.latency))


@dataclass(frozen=True, slots=True)
class _Buffer:
    records: Callable[[], int]
    size: Callable[[], int]
    total: int

    def metrics(self) -> Iterator[Metric]:
        size = self.size()
        yield _metric("producer.buffer.total.bytes", self.total)
        yield _metric("producer.buffer.available.bytes", max(self.total - size, 0))
        yield _metric("ottla.producer.buffered.records", self.records())
        yield _metric("ottla.producer.buffered.bytes", size)


def _all_latencies(counts: RequestCounts) -> Distribution:
    return merged(distribution(each) for each in counts.latency.copy().values())


def _request_metrics(api_key: int, counts: RequestCounts) -> Iterator[Metric]:
    labels = (("api", _api_name(api_key)),)
    yield Metric("ottla.request.total", labels, counts.sent)
    yield Metric("ottla.request.error.total", labels, counts.errors)
    yield Metric("ottla.request.outgoing.byte.total", labels, counts.bytes_out)
    yield Metric("ottla.request.incoming.byte.total", labels, counts.bytes_in)
    yield Metric("ottla.request.latency", labels, _all_latencies(counts))


def _metric(name: str, value: float | Distribution) -> Metric:
    return Metric(name, (), value)


def _by_node(name: str, nodes: Mapping[int, Histogram]) -> Iterator[Metric]:
    for node_id, histogram in dict(nodes).items():
        labels: Labels = (("node_id", str(node_id)),)
        yield Metric(name, labels, distribution(histogram))


@cache
def _api_name(api_key: int) -> str:
    return api_for_key(api_key).name
