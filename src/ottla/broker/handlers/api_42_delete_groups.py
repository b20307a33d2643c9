"""DeleteGroups: removes groups without members, with their offsets. Only the coordinator of each does."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.broker.coordinator.groups import overview
from ottla.broker.server.registry import handles
from ottla.errors import BrokerError
from ottla.wire.messages import DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import Call

DeletedGroup = DeleteGroupsResponse.DeletableGroupResult


def _refuse(request: DeleteGroupsRequest, error: BrokerError) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[DeletedGroup(group_id=group, error_code=error.code) for group in request.groups_names]
    )


@handles(DeleteGroupsRequest, versions=range(3), refuse=_refuse)
async def delete_groups(node: NodeContext, request: DeleteGroupsRequest, call: Call) -> DeleteGroupsResponse:
    groups = dict.fromkeys(request.groups_names)
    return DeleteGroupsResponse(results=await asyncio.gather(*(_delete(node, group) for group in groups)))


async def _delete(node: NodeContext, group_id: str) -> DeletedGroup:
    try:
        await node.groups.write(group_id, lambda shard: overview.delete(shard, group_id))
    except BrokerError as error:
        return DeletedGroup(group_id=group_id, error_code=error.code)
    return DeletedGroup(group_id=group_id)
