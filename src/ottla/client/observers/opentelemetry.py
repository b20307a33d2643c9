"""OpenTelemetry: spans for what a client sends and reads, and its metrics through the API.

    from ottla.client.observers import opentelemetry

    ottla.Client(..., hooks=[opentelemetry.BatchSpans()])               # a span per batch: cheap
    ottla.Client(..., interceptors=[opentelemetry.RecordSpans()])       # a span per record, linked across processes
    opentelemetry.observe(client)                                       # metrics

A span per record carries the trace on: its context goes into the record's headers, and the consumer of the record
finds it there (`context_of`). Names and attributes are OpenTelemetry's for messaging. The API alone does nothing: the
program brings an SDK, and chooses where everything goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from ottla._extras import require
from ottla.client.metrics import CATALOG, Description, Distribution, MetricKind, MetricsProvider
from ottla.hooks import ConsumerInterceptor, Hook, ProducedBatch, ProducerInterceptor, ProducerRecord
from ottla.runtime import Clock, SystemClock

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation
    from opentelemetry.trace import Tracer, TracerProvider

_SCOPE: Final = "ottla"
_Table = TypeVar("_Table")


class Readable(Protocol):
    """A record that was read."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...


def _require(module: str) -> Any:
    return require(f"opentelemetry.{module}", extra="telemetry", purpose="OpenTelemetry")


class BatchSpans(Hook):
    """A hook: one span for each batch, from its first record to the broker's response."""

    def __init__(self, tracer_provider: TracerProvider | None = None, clock: Clock | None = None) -> None:
        """`clock` is that of the client's runtime, if it has one of its own."""
        self._trace = _require("trace")
        self._tracer: Tracer = self._trace.get_tracer(_SCOPE, tracer_provider=tracer_provider)
        self._clock = clock or SystemClock()

    def on_batch_acknowledged(self, batch: ProducedBatch) -> None:
        self._span(batch, None)

    def on_batch_failed(self, batch: ProducedBatch, error: BaseException) -> None:
        self._span(batch, error)

    def _span(self, batch: ProducedBatch, error: BaseException | None) -> None:
        # A batch knows durations; the moment is now.
        end = self._clock.time()
        took = 0.0 if batch.acknowledged_at is None else batch.acknowledged_at - batch.opened_at
        span = self._tracer.start_span(
            f"send {batch.topic}",
            kind=self._trace.SpanKind.CLIENT,
            start_time=_nanoseconds(end - took),
            attributes={
                **_about("send", batch.topic),
                "messaging.destination.partition.id": str(batch.partition),
                "messaging.batch.message_count": batch.records,
                "messaging.message.body.size": batch.compressed_bytes,
                "ottla.broker.id": batch.node_id,
                "ottla.attempts": batch.attempts,
            },
        )
        if error is not None:
            span.record_exception(error)
            span.set_status(self._trace.StatusCode.ERROR, str(error))
            span.set_attribute("error.type", type(error).__qualname__)
        span.end(_nanoseconds(end))


class RecordSpans(ProducerInterceptor, ConsumerInterceptor):
    """An interceptor: one span for each record that is produced or read, the second linked to the first.

    Opt in: it costs a hundred times what a record costs else. A table is one span, and carries no context.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        self._trace = _require("trace")
        self._propagate = _require("propagate")
        self._tracer: Tracer = self._trace.get_tracer(_SCOPE, tracer_provider=tracer_provider)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        span = self._started("create", record.topic, self._trace.SpanKind.PRODUCER)
        carrier: dict[str, str] = {}
        self._propagate.inject(carrier, context=self._trace.set_span_in_context(span))
        record.headers = [
            *(header for header in record.headers if header[0] not in carrier),
            *((name, value.encode()) for name, value in carrier.items()),
        ]
        span.end()
        return record

    def on_send_batch(self, topic: str, table: _Table) -> _Table:
        self._started("create", topic, self._trace.SpanKind.PRODUCER).end()
        return table

    def on_consume(self, records: list[Any]) -> list[Any]:
        for record in records:
            origin = self._trace.get_current_span(context_of(record)).get_span_context()
            links = [self._trace.Link(origin)] if origin.is_valid else []
            span = self._started("receive", record.topic, self._trace.SpanKind.CONSUMER, links)
            span.set_attribute("messaging.destination.partition.id", str(record.partition))
            span.set_attribute("messaging.kafka.offset", record.offset)
            span.end()
        return records

    def _started(self, operation: str, topic: str, kind: Any, links: Sequence[Any] = ()) -> Any:
        return self._tracer.start_span(
            f"{operation} {topic}", kind=kind, attributes=_about(operation, topic), links=links
        )


def context_of(record: Readable) -> Context:
    """The context that the producer of a record has put into its headers; an empty one without any.

    with tracer.start_as_current_span("process", context=context_of(record)): ...
    """
    carrier = {name: value.decode(errors="replace") for name, value in record.headers if value is not None}
    context: Context = _require("propagate").extract(carrier, context=_require("context").Context())
    return context


def observe(
    client: MetricsProvider,
    meter_provider: MeterProvider | None = None,
    attributes: Mapping[str, str] | None = None,
) -> None:
    """Makes an instrument for each metric of a client; `attributes` go to every value and distinguish clients.

    A distribution becomes four: `.count` and `.sum`, `.p99` and `.max`.
    """
    meter: Meter = _require("metrics").get_meter(_SCOPE, meter_provider=meter_provider)
    for described in CATALOG.values():
        for suffix in _SUFFIXES if described.kind is MetricKind.DISTRIBUTION else ("",):
            _instrument(meter, client, described, suffix, dict(attributes or {}))


_SUFFIXES: Final = (".count", ".sum", ".p99", ".max")


def _instrument(
    meter: Meter, client: MetricsProvider, described: Description, suffix: str, attributes: dict[str, str]
) -> None:
    observation = _require("metrics").Observation

    def read(options: CallbackOptions) -> Iterable[Observation]:
        return [
            observation(_part(metric.value, suffix), {**attributes, **dict(metric.labels)})
            for metric in client.metrics().values()
            if metric.name == described.name
        ]

    grows = described.kind is MetricKind.COUNTER or suffix in (".count", ".sum")
    create = meter.create_observable_counter if grows else meter.create_observable_gauge
    unit = "1" if suffix == ".count" else described.unit
    create(described.name + suffix, callbacks=[read], unit=unit, description=described.text)


def _part(value: float | Distribution, suffix: str) -> float:
    if not isinstance(value, Distribution):
        return value
    parts = {".count": value.count, ".sum": value.sum, ".p99": value.p99, ".max": value.max}
    return parts[suffix]


def _about(operation: str, topic: str) -> dict[str, Any]:
    return {
        "messaging.system": "kafka",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": topic,
    }


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
