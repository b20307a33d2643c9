"""ListGroups: the groups that this node coordinates; a client asks every node.

COORDINATOR_LOAD_IN_PROGRESS while one of its partitions is not loaded. States can be selected since version 4, types
since 5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinator.groups import overview
from ottla.broker.server.registry import handles
from ottla.wire.messages import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import Call


@handles(ListGroupsRequest, versions=range(6))
def list_groups(node: NodeContext, request: ListGroupsRequest, call: Call) -> ListGroupsResponse:
    shards = node.groups.read_all(
        lambda shard: overview.listed(shard, request.states_filter, request.types_filter)
    )
    return ListGroupsResponse(groups=[group for groups in shards for group in groups])
