"""GetTelemetrySubscriptions: which metrics a client should push, how often, and compressed with what (KIP-714).

A client that has no instance id yet is given one. Another request before the push interval has passed is
THROTTLING_QUOTA_EXCEEDED, unless the subscription has changed or the last push was refused as out of date.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.server.registry import handles
from ottla.broker.server.telemetry import new_instance_id
from ottla.wire import ZERO_UUID
from ottla.wire.compression import Compression
from ottla.wire.messages import GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import ClientCall

# In the order in which clients should prefer them.
_CODECS: Final = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)


@handles(GetTelemetrySubscriptionsRequest, versions=range(1))
def get_telemetry_subscriptions(
    node: NodeContext, request: GetTelemetrySubscriptionsRequest, call: ClientCall
) -> GetTelemetrySubscriptionsResponse:
    instance_id = request.client_instance_id
    if instance_id == ZERO_UUID:
        instance_id = new_instance_id(node.runtime.random)
    client = node.telemetry.client(node.id, instance_id, call.connection)
    client.request_subscription(node.now_ms())
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=client.subscription_id,
        accepted_compression_types=[int(codec) for codec in _CODECS],
        push_interval_ms=client.subscription.interval_ms,
        telemetry_max_bytes=node.configs.value("telemetry.max.bytes"),
        delta_temporality=True,
        requested_metrics=list(client.subscription.metrics),
    )
