"""ConsumerGroupHeartbeat: a member of a KIP-848 group joins, stays, says what it owns, or leaves.

Only the group's coordinator serves it, and what it decides is in coordinator/groups/heartbeat.py. What no group can
make sense of is INVALID_REQUEST or UNSUPPORTED_ASSIGNOR before any is looked at. Version 1 has regular expressions,
and members make ids of their own; in version 0 the coordinator makes the id. UNSUPPORTED_VERSION where the cluster's
group.version is 0, or the broker's group.coordinator.rebalance.protocols leave the protocol out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinator.groups.classic import Sender
from ottla.broker.coordinator.groups.heartbeat import check_request, heartbeat
from ottla.broker.handlers.api_11_join_group import client_host
from ottla.broker.metadata.features import GROUP_VERSION
from ottla.broker.server.refusals import error_message
from ottla.broker.server.registry import handles
from ottla.errors import BrokerError, UnsupportedVersionError
from ottla.wire.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import Call


def _refuse(request: ConsumerGroupHeartbeatRequest, error: BrokerError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error_message(error))


@handles(ConsumerGroupHeartbeatRequest, versions=range(2), refuse=_refuse)
async def consumer_group_heartbeat(
    node: NodeContext, request: ConsumerGroupHeartbeatRequest, call: Call
) -> ConsumerGroupHeartbeatResponse:
    check_protocol(node)
    check_request(request, call.version, node.configs.value("group.consumer.assignors"))
    sender = Sender(call.client_id or "", client_host(call), call.version)
    return await node.groups.write(
        request.group_id, lambda shard: heartbeat(shard.consumer_groups, request, sender)
    )


def check_protocol(node: NodeContext) -> None:
    """Raises UNSUPPORTED_VERSION where this protocol is switched off."""
    is_on = node.image.features.get(GROUP_VERSION.name, 0) > 0
    if not is_on or "consumer" not in node.configs.value("group.coordinator.rebalance.protocols"):
        raise UnsupportedVersionError
