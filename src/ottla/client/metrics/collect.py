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

from ottla.client.metrics.histogram import Distribution, Histogram, merged
from ottla.client.metrics.snapshot import Labels, Metric, MetricsSnapshot
from ottla.client.topic_partition import TopicPartition
from ottla.hooks import ClusterState, FetchedPartition, Hook, ProducedBatch
from ottla.runtime import Clock
from ottla.wire import api_for_key

_PRODUCE: Final = 0
_FETCH: Final = 1

Lag = Callable[[], Mapping[TopicPartition, int]]


class Metrics(Hook):
    """Counts what a client does."""

    def __init__(self, clock: Clock) -> None:
        self.on_first_metadata: Callable[[], object] | None = None
        """Called once, when the client has come to know the cluster."""
        self._clock = clock
        self._connections = _Connections()
        self._requests: dict[int, _Requests] = {}
        self._throttle: dict[int, Histogram] = {}
        self._metadata = _Metadata()
        self._produced = _Produced()
        self._consumed = _Consumed()
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

    def on_broker_write(self, node_id: int, api_key: int, size: int, error: BaseException | None) -> None:
        requests = self._requests.get(api_key) or self._first_request(api_key)
        if error is None:
            requests.sent += 1
            requests.bytes_out += size
        else:
            requests.errors += 1

    def on_broker_read(
        self, node_id: int, api_key: int, size: int, seconds: float, error: BaseException | None
    ) -> None:
        requests = self._requests.get(api_key) or self._first_request(api_key)
        if error is not None:
            requests.errors += 1
            return
        requests.responses += 1
        requests.bytes_in += size
        latency = requests.latency.get(node_id)
        if latency is None:
            latency = requests.latency[node_id] = Histogram()
        latency.record(seconds)

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

    def on_batch_acknowledged(self, batch: ProducedBatch) -> None:
        produced = self._produced
        produced.batches += 1
        produced.records += batch.records
        produced.bytes_sent += batch.compressed_bytes
        produced.bytes_raw += batch.bytes
        produced.sizes.record(batch.compressed_bytes)
        if batch.attempts > 1:
            produced.retried += batch.records * (batch.attempts - 1)
        written = batch.written_at
        if written is not None:
            produced.queued.record(written - batch.opened_at)

    def on_batch_failed(self, batch: ProducedBatch, error: BaseException) -> None:
        self._produced.failed += batch.records
        if batch.attempts > 1:
            self._produced.retried += batch.records * (batch.attempts - 1)

    def on_fetch_read(self, fetched: FetchedPartition) -> None:
        self._consumed.records += fetched.records
        self._consumed.bytes += fetched.bytes

    def on_position_reset(self, topic: str, partition: int, old: int, new: int, reason: str) -> None:
        self._consumed.resets += 1

    def _first_request(self, api_key: int) -> _Requests:
        return self._requests.setdefault(api_key, _Requests())

    # What it amounts to

    def snapshot(self) -> MetricsSnapshot:
        """Everything that was counted so far; what producing and reading count is there once they have begun."""
        return MetricsSnapshot(
            [
                *self._connections.metrics(),
                *(metric for key, each in self._requests.copy().items() for metric in each.metrics(key)),
                *_by_node("ottla.throttle.time", self._throttle),
                *self._metadata.metrics(self._clock.time()),
                *self._producer_metrics(),
                *self._consumer_metrics(),
            ]
        )

    def _producer_metrics(self) -> Iterator[Metric]:
        requests = self._requests.get(_PRODUCE)
        # Every client has a buffer, but only one that produces has anything in it to measure.
        if self._buffer is not None and (requests is not None or self._buffer.records()):
            yield from self._buffer.metrics()
        if requests is not None:
            yield from self._produced.metrics()
            yield _metric("producer.request.latency", requests.all_latencies())
            yield from _by_node("producer.node.request.latency", requests.latency)

    def _consumer_metrics(self) -> Iterator[Metric]:
        fetches = self._requests.get(_FETCH)
        if fetches is None:
            return
        yield _metric("consumer.fetch.manager.fetch.total", fetches.responses)
        yield _metric("consumer.fetch.manager.fetch.latency", fetches.all_latencies())
        yield from self._consumed.metrics()
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
        yield _metric("ottla.connection.setup.time", self.setup.distribution())


@dataclass(slots=True)
class _Requests:
    """Of one API."""

    sent: int = 0
    responses: int = 0
    errors: int = 0
    bytes_out: int = 0
    bytes_in: int = 0
    latency: dict[int, Histogram] = field(default_factory=dict)
    """By broker, as operators need it of produce and of fetch requests."""

    def all_latencies(self) -> Distribution:
        return merged(each.distribution() for each in self.latency.copy().values())

    def metrics(self, api_key: int) -> Iterator[Metric]:
        labels = (("api", _api_name(api_key)),)
        yield Metric("ottla.request.total", labels, self.sent)
        yield Metric("ottla.request.error.total", labels, self.errors)
        yield Metric("ottla.request.outgoing.byte.total", labels, self.bytes_out)
        yield Metric("ottla.request.incoming.byte.total", labels, self.bytes_in)
        yield Metric("ottla.request.latency", labels, self.all_latencies())


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
        yield _metric("ottla.metadata.latency", self.latency.distribution())


@dataclass(slots=True)
class _Produced:
    records: int = 0
    failed: int = 0
    retried: int = 0
    batches: int = 0
    bytes_sent: int = 0
    bytes_raw: int = 0
    sizes: Histogram = field(default_factory=Histogram)
    queued: Histogram = field(default_factory=Histogram)

    def metrics(self) -> Iterator[Metric]:
        yield _metric("producer.record.send.total", self.records)
        yield _metric("producer.record.error.total", self.failed)
        yield _metric("producer.record.retry.total", self.retried)
        yield _metric("producer.record.queue.time", self.queued.distribution())
        yield _metric("producer.batch.size", self.sizes.distribution())
        if self.bytes_raw:
            yield _metric("producer.compression.rate.avg", self.bytes_sent / self.bytes_raw)
        yield _metric("ottla.producer.batch.total", self.batches)
        yield _metric("ottla.producer.byte.total", self.bytes_sent)
        yield _metric("ottla.producer.uncompressed.byte.total", self.bytes_raw)


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


@dataclass(slots=True)
class _Consumed:
    records: int = 0
    bytes: int = 0
    resets: int = 0

    def metrics(self) -> Iterator[Metric]:
        yield _metric("consumer.fetch.manager.records.consumed.total", self.records)
        yield _metric("consumer.fetch.manager.bytes.consumed.total", self.bytes)
        yield _metric("ottla.consumer.reset.total", self.resets)


def _metric(name: str, value: float | Distribution) -> Metric:
    return Metric(name, (), value)


def _by_node(name: str, nodes: Mapping[int, Histogram]) -> Iterator[Metric]:
    for node_id, histogram in dict(nodes).items():
        labels: Labels = (("node_id", str(node_id)),)
        yield Metric(name, labels, histogram.distribution())


@cache
def _api_name(api_key: int) -> str:
    return api_for_key(api_key).name
