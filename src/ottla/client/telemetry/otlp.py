"""OTLP: numbers as OpenTelemetry's protobuf message `MetricsData`, which is what a push carries (KIP-714).

Five nested messages with a dozen fields between them do not need a protobuf library in every install. The
comments name the message and the field that each number stands for (opentelemetry/proto/metrics/v1/metrics.proto).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.client.metrics import Labels

_DELTA: Final = 1
_CUMULATIVE: Final = 2
_FIXED64: Final = struct.Struct("<Q")
_SFIXED64: Final = struct.Struct("<q")
_DOUBLE: Final = struct.Struct("<d")


@dataclass(frozen=True, slots=True)
class Point:
    """One number to be sent. A sum grows, and says since when; a gauge is a state."""

    name: str
    unit: str
    labels: Labels
    value: float
    is_sum: bool = False


def encode(
    points: Iterable[Point],
    *,
    resource: Mapping[str, str],
    start: float,
    now: float,
    is_delta: bool,
    version: str,
) -> bytes:
    """`MetricsData` with all points; times are seconds since 1970, and sums count from `start` on."""
    grouped: dict[tuple[str, str, bool], list[Point]] = {}
    for point in points:
        grouped.setdefault((point.name, point.unit, point.is_sum), []).append(point)
    if not grouped:
        return b""
    times = _time(2, start), _time(3, now)  # NumberDataPoint: start_time_unix_nano, time_unix_nano
    metrics = b"".join(
        _message(2, _metric(name, unit, is_sum, each, times, is_delta))  # ScopeMetrics.metrics
        for (name, unit, is_sum), each in grouped.items()
    )
    scope = _message(1, _text(1, "ottla") + _text(2, version))  # ScopeMetrics.scope: name, version
    attributes = b"".join(_attribute(1, key, value) for key, value in resource.items())
    # MetricsData.resource_metrics: ResourceMetrics.resource, .scope_metrics
    return _message(1, _message(1, attributes) + _message(2, scope + metrics))


def _metric(
    name: str, unit: str, is_sum: bool, points: Sequence[Point], times: tuple[bytes, bytes], is_delta: bool
) -> bytes:
    start, now = times
    data = b"".join(_message(1, _data_point(each, start if is_sum else b"", now)) for each in points)
    if is_sum:
        # Metric.sum: data_points, aggregation_temporality, is_monotonic
        data += _number(2, _DELTA if is_delta else _CUMULATIVE) + _number(3, 1)
        kind = _message(7, data)
    else:
        kind = _message(5, data)  # Metric.gauge: data_points
    return _text(1, name) + _text(3, unit) + kind  # Metric: name, unit


def _data_point(point: Point, start: bytes, now: bytes) -> bytes:
    # NumberDataPoint: attributes, as_int or as_double
    attributes = b"".join(_attribute(7, key, value) for key, value in point.labels)
    if isinstance(point.value, int):
        value = b"\x31" + _SFIXED64.pack(point.value)
    else:
        value = b"\x21" + _DOUBLE.pack(point.value)
    return attributes + start + now + value


def _attribute(field: int, key: str, value: str) -> bytes:
    # KeyValue: key, value; AnyValue.string_value, which is written even when it is empty
    return _message(field, _text(1, key) + _message(2, _message(1, value.encode())))


def _time(field: int, seconds: float) -> bytes:
    return bytes((field << 3 | 1,)) + _FIXED64.pack(int(seconds * 1e9))


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode()) if text else b""


def _message(field: int, content: bytes) -> bytes:
    return bytes((field << 3 | 2,)) + _varint(len(content)) + content


def _number(field: int, value: int) -> bytes:
    return bytes((field << 3,)) + _varint(value)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
