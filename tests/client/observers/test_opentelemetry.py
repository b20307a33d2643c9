"""OpenTelemetry: spans and numbers as an SDK receives them."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

from ottla.client.observers.opentelemetry import BatchSpans, RecordSpans, context_of, observe
from ottla.errors import NotLeaderOrFollowerError
from ottla.hooks import Hooks, ProducerInterceptor, ProducerRecord, overrides
from tests.client.metrics.test_collect import BATCH
from tests.client.observers.test_prometheus import Client


class Read:
    """A record that was read."""

    topic = "orders"
    partition = 3
    offset = 42

    def __init__(self, headers: list[tuple[str, bytes | None]]) -> None:
        self.headers = headers


class Tracing:
    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))


@pytest.fixture
def tracing() -> Tracing:
    return Tracing()


def test_a_batch_is_a_span_from_its_first_record_to_its_acknowledgement(tracing: Tracing) -> None:
    tell = Hooks([BatchSpans(tracing.provider)]).on_batch_acknowledged
    assert tell is not None
    tell(BATCH)
    [span] = tracing.exporter.get_finished_spans()
    assert (span.name, span.kind) == ("send orders", SpanKind.CLIENT)
    assert span.attributes is not None
    assert span.attributes["messaging.system"] == "kafka"
    assert span.attributes["messaging.destination.partition.id"] == "0"
    assert span.attributes["messaging.batch.message_count"] == 100
    assert span.end_time is not None
    assert span.start_time is not None
    assert (span.end_time - span.start_time) / 1e9 == pytest.approx(0.5, abs=1e-6)


def test_a_batch_that_failed_is_a_span_with_its_error(tracing: Tracing) -> None:
    tell = Hooks([BatchSpans(tracing.provider)]).on_batch_failed
    assert tell is not None
    tell(BATCH._replace(acknowledged_at=None), NotLeaderOrFollowerError(topic="orders", partition=0))
    [span] = tracing.exporter.get_finished_spans()
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes is not None
    assert span.attributes["error.type"] == "NotLeaderOrFollowerError"
    assert [event.name for event in span.events] == ["exception"]


def test_the_context_of_a_record_travels_in_its_headers(tracing: Tracing) -> None:
    spans = RecordSpans(tracing.provider)
    tracer = tracing.provider.get_tracer("test")
    with tracer.start_as_current_span("request") as request:
        sent = spans.on_send(ProducerRecord("orders", b"1", headers=[("own", b"x"), ("traceparent", b"old")]))
    assert [name for name, _ in sent.headers] == ["own", "traceparent"]
    record = Read(sent.headers)
    assert spans.on_consume([record]) == [record]
    created, _, received = tracing.exporter.get_finished_spans()
    assert (created.name, created.kind) == ("create orders", SpanKind.PRODUCER)
    assert created.parent is not None
    assert created.parent.span_id == request.get_span_context().span_id
    assert (received.name, received.kind) == ("receive orders", SpanKind.CONSUMER)
    assert [link.context.span_id for link in received.links] == [created.context.span_id]
    assert received.attributes is not None
    assert received.attributes["messaging.kafka.offset"] == 42
    assert get_current_span(context_of(record)).get_span_context().span_id == created.context.span_id


def test_a_record_without_a_context_is_read_without_a_link(tracing: Tracing) -> None:
    RecordSpans(tracing.provider).on_consume([Read([("own", None), ("traceparent", b"\xff")])])
    [span] = tracing.exporter.get_finished_spans()
    assert list(span.links) == []


def test_a_table_is_one_span_and_stays_a_table(tracing: Tracing) -> None:
    spans, table = RecordSpans(tracing.provider), object()
    assert overrides(spans, ProducerInterceptor, "on_send_batch")
    assert spans.on_send_batch("orders", table) is table
    assert [span.name for span in tracing.exporter.get_finished_spans()] == ["create orders"]


def test_metrics_are_read_when_they_are_exported() -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    observe(Client(), provider, {"client": "a"})
    data = reader.get_metrics_data()
    assert data is not None
    values = {
        metric.name: (point.value, dict(point.attributes or {}))
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
        for point in metric.data.data_points
        if hasattr(point, "value")
    }
    assert values["producer.record.send.total"] == (100, {"client": "a"})
    assert values["ottla.connection.open"] == (1, {"client": "a"})
    assert values["producer.batch.size.count"] == (1, {"client": "a"})
    assert values["producer.batch.size.max"] == (500, {"client": "a"})
    assert values["ottla.throttle.time.sum"] == (0.25, {"client": "a", "node_id": "1"})
    provider.shutdown()
