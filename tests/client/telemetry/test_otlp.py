"""OTLP by hand, read by OpenTelemetry's own protobuf classes."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, MetricsData

from ottla.client.telemetry.otlp import Point, encode


def decoded(points: list[Point], is_delta: bool = True) -> MetricsData:
    data = encode(
        points, resource={"client_rack": "a"}, start=10.5, now=20.25, is_delta=is_delta, version="1.2"
    )
    read: MetricsData = MetricsData.FromString(data)
    return read


def test_a_sum_says_since_when_it_counts_and_a_gauge_only_when_it_was_read() -> None:
    data = decoded([Point("sent", "1", (), 12, is_sum=True), Point("age", "s", (), 0.5)])
    [resource] = data.resource_metrics
    assert [(each.key, each.value.string_value) for each in resource.resource.attributes] == [
        ("client_rack", "a")
    ]
    [scope] = resource.scope_metrics
    assert (scope.scope.name, scope.scope.version) == ("ottla", "1.2")
    total, gauge = scope.metrics
    assert (total.name, total.unit, total.sum.is_monotonic) == ("sent", "1", True)
    assert total.sum.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
    [point] = total.sum.data_points
    assert (point.as_int, point.start_time_unix_nano, point.time_unix_nano) == (
        12,
        10_500_000_000,
        20_250_000_000,
    )
    [point] = gauge.gauge.data_points
    assert (point.as_double, point.start_time_unix_nano, point.time_unix_nano) == (0.5, 0, 20_250_000_000)


def test_cumulative_sums_say_so() -> None:
    data = decoded([Point("sent", "1", (), 12, is_sum=True)], is_delta=False)
    [metric] = data.resource_metrics[0].scope_metrics[0].metrics
    assert metric.sum.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE


def test_points_of_one_name_are_one_metric_with_attributes() -> None:
    data = decoded([Point("latency", "ms", (("node_id", str(node)),), float(node)) for node in range(200)])
    [metric] = data.resource_metrics[0].scope_metrics[0].metrics
    assert [(each.attributes[0].value.string_value, each.as_double) for each in metric.gauge.data_points] == [
        (str(node), float(node)) for node in range(200)
    ]


def test_no_points_are_no_bytes() -> None:
    assert encode([], resource={"a": "b"}, start=0.0, now=1.0, is_delta=True, version="") == b""


@given(
    st.text(min_size=1),
    st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False)),
    st.lists(st.tuples(st.text(), st.text()), max_size=4),
    st.booleans(),
)
def test_whatever_the_names_and_numbers_are_they_come_through(
    name: str, value: float, labels: list[tuple[str, str]], is_sum: bool
) -> None:
    data = decoded([Point(name, "", tuple(labels), value, is_sum)])
    [metric] = data.resource_metrics[0].scope_metrics[0].metrics
    [point] = metric.sum.data_points if is_sum else metric.gauge.data_points
    assert metric.name == name
    assert [(each.key, each.value.string_value) for each in point.attributes] == labels
    read = point.as_int if isinstance(value, int) else point.as_double
    assert struct.pack("<d", read) == struct.pack("<d", value)
