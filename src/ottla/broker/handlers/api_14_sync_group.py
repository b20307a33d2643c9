"""SyncGroup: the leader of a classic group says who gets what, and every member gets its part.

Only the group's coordinator serves it. Members are parked until the leader's assignment is on all replicas in sync.
Since version 5 a member says which protocol it believes in; none, or another than the group's, is
INCONSISTENT_GROUP_PROTOCOL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.server.registry import handles
from ottla.errors import InconsistentGroupProtocolError, InvalidGroupIdError
from ottla.wire.messages import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import Call


_PROTOCOL_SINCE: Final = 5


@handles(SyncGroupRequest, versions=range(6))
async def sync_group(node: NodeContext, request: SyncGroupRequest, call: Call) -> SyncGroupResponse:
    if call.version >= _PROTOCOL_SINCE and None in (request.protocol_type, request.protocol_name):
        raise InconsistentGroupProtocolError
    if not request.group_id:
        raise InvalidGroupIdError
    return await node.groups.write(request.group_id, lambda shard: shard.sync(request))
