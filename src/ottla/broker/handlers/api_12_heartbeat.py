"""Heartbeat: a member of a classic group is alive, and learns whether it has to join again.

Only the group's coordinator serves it. While that is loading, a heartbeat succeeds: members must not leave for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.server.registry import handles
from ottla.errors import CoordinatorLoadInProgressError, InvalidGroupIdError
from ottla.wire.messages import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import Call


@handles(HeartbeatRequest, versions=range(5))
async def heartbeat(node: NodeContext, request: HeartbeatRequest, call: Call) -> HeartbeatResponse:
    if not request.group_id:
        raise InvalidGroupIdError
    try:
        return await node.groups.write(request.group_id, lambda shard: shard.heartbeat(request))
    except CoordinatorLoadInProgressError:
        return HeartbeatResponse()
