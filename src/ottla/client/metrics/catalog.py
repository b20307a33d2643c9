"""Every metric that a client has: its name, kind, unit and description.

Kafka's clients have a metric of the same meaning for each name that begins with "producer." or "consumer.": that is
the name under which Kafka's metrics reporters know it (KIP-714), where a distribution stands for an average and a
maximum. Names that begin with "ottla." are ours.

Invariant: `Metrics` has no metric that is not listed here, so that exporters can announce all of them beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final


class MetricKind(Enum):
    """How a metric behaves: a sum that only grows, a state that goes up and down, or many values."""

    COUNTER = "counter"
    GAUGE = "gauge"
    DISTRIBUTION = "distribution"


@dataclass(frozen=True, slots=True)
class Description:
    """What a metric is, whatever its value."""

    name: str
    kind: MetricKind
    unit: str
    """As OpenTelemetry writes it (UCUM): "s", "By", or "1" for numbers without one."""
    text: str


def _all(*described: tuple[str, MetricKind, str, str]) -> Mapping[str, Description]:
    return MappingProxyType({each[0]: Description(*each) for each in described})


_C, _G, _D = MetricKind.COUNTER, MetricKind.GAUGE, MetricKind.DISTRIBUTION

CATALOG: Final = _all(
    # Connections
    ("ottla.connection.open", _G, "1", "Connections that are open."),
    ("ottla.connection.creation.total", _C, "1", "Connections that were opened."),
    ("ottla.connection.failure.total", _C, "1", "Attempts to connect that failed."),
    ("ottla.connection.loss.total", _C, "1", "Connections that ended with an error."),
    ("ottla.connection.setup.time", _D, "s", "How long it took to connect."),
    # Requests
    ("ottla.request.total", _C, "1", "Requests that were sent, by API."),
    ("ottla.request.error.total", _C, "1", "Requests that could not be sent or got no response, by API."),
    ("ottla.request.outgoing.byte.total", _C, "By", "Bytes of requests, by API."),
    ("ottla.request.incoming.byte.total", _C, "By", "Bytes of responses, by API."),
    ("ottla.request.latency", _D, "s", "From sending a request to its response, by API."),
    ("ottla.throttle.time", _D, "s", "How long brokers throttled the client, by broker."),
    # Metadata
    ("ottla.metadata.age", _G, "s", "How old the metadata is."),
    ("ottla.metadata.refresh.total", _C, "1", "Requests for metadata that got a response."),
    ("ottla.metadata.error.total", _C, "1", "Requests for metadata that failed."),
    ("ottla.metadata.latency", _D, "s", "How long a request for metadata took, with its retries."),
    # Producing
    ("producer.record.send.total", _C, "1", "Records that were delivered."),
    ("producer.record.error.total", _C, "1", "Records that were given up."),
    ("producer.record.retry.total", _C, "1", "Records that were sent again."),
    ("producer.record.queue.time", _D, "s", "From a batch's first record to its being sent."),
    ("producer.request.latency", _D, "s", "From sending a produce request to its response."),
    ("producer.batch.size", _D, "By", "Bytes of a batch as it is sent."),
    (
        "producer.compression.rate.avg",
        _G,
        "1",
        "Bytes sent per byte of the records: below 1 with compression.",
    ),
    ("producer.buffer.total.bytes", _G, "By", "How much may wait to be delivered: buffer_memory."),
    ("producer.buffer.available.bytes", _G, "By", "How much of it is free."),
    ("producer.node.request.latency", _D, "s", "From sending a produce request to its response, by broker."),
    ("ottla.producer.batch.total", _C, "1", "Batches that were delivered."),
    ("ottla.producer.byte.total", _C, "By", "Bytes of batches that were delivered, as they were sent."),
    ("ottla.producer.uncompressed.byte.total", _C, "By", "The same bytes before compression."),
    ("ottla.producer.buffered.records", _G, "1", "Records that wait to be delivered."),
    ("ottla.producer.buffered.bytes", _G, "By", "Their bytes."),
    # Consuming
    ("consumer.fetch.manager.fetch.total", _C, "1", "Fetch requests that got a response."),
    ("consumer.fetch.manager.fetch.latency", _D, "s", "From sending a fetch request to its response."),
    ("consumer.fetch.manager.records.consumed.total", _C, "1", "Records that were fetched."),
    ("consumer.fetch.manager.bytes.consumed.total", _C, "By", "Their bytes, as they were stored."),
    ("consumer.fetch.manager.records.lag", _G, "1", "Records behind the reader's position, by partition."),
    ("consumer.node.request.latency", _D, "s", "From sending a fetch request to its response, by broker."),
    ("ottla.consumer.reset.total", _C, "1", "Times that a reader had to go on elsewhere."),
)
