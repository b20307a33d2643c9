"""PushTelemetry: a client's metrics, which are kept for the test that reads them (KIP-714).

Checked in Kafka's order: after a client has said that it ends, INVALID_REQUEST; too early,
THROTTLING_QUOTA_EXCEEDED; for another subscription than the client has, UNKNOWN_SUBSCRIPTION_ID; then the codec
(UNSUPPORTED_COMPRESSION_TYPE), the size (TELEMETRY_TOO_LARGE), and whether it can be decompressed (INVALID_RECORD).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.server.registry import handles
from ottla.broker.server.telemetry import Push, check_instance_id
from ottla.errors import (
    BrokerError,
    DecodeError,
    InvalidRecordError,
    TelemetryTooLargeError,
    UnsupportedCompressionTypeError,
)
from ottla.wire.compression import Compression, decompress
from ottla.wire.messages import PushTelemetryRequest, PushTelemetryResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import ClientCall

_MOST_DECOMPRESSED: Final = 64 * 1024 * 1024


@handles(PushTelemetryRequest, versions=range(1))
def push_telemetry(
    node: NodeContext, request: PushTelemetryRequest, call: ClientCall
) -> PushTelemetryResponse:
    check_instance_id(request.client_instance_id)
    client = node.telemetry.client(node.id, request.client_instance_id, call.connection)
    try:
        client.push(request.subscription_id, request.terminating, node.now_ms())
        metrics = _metrics(request, node.configs.value("telemetry.max.bytes"))
    except BrokerError as error:
        client.refused(error)
        raise
    client.refused(None)
    if metrics:
        node.telemetry.keep(
            Push(node.id, request.client_instance_id, call.client_id, request.terminating, metrics)
        )
    return PushTelemetryResponse()


def _metrics(request: PushTelemetryRequest, limit: int) -> bytes:
    codec = request.compression_type
    if codec not in Compression.__members__.values():
        raise UnsupportedCompressionTypeError(f"there is no compression type {codec}")
    if len(request.metrics) > limit:
        raise TelemetryTooLargeError(f"{len(request.metrics)} bytes, telemetry.max.bytes are {limit}")
    if not request.metrics:
        return b""
    try:
        return bytes(decompress(codec, request.metrics, _MOST_DECOMPRESSED))
    except DecodeError as error:
        raise InvalidRecordError(str(error)) from None
