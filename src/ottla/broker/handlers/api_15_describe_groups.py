"""DescribeGroups: state, protocol and members of classic groups, from the coordinator of each.

What members sent is shown while the group is Stable, what they got always. A group that is not there, or is a
consumer group, is Dead, and GROUP_ID_NOT_FOUND since version 6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinator.groups import overview
from ottla.broker.security.acl import GROUP_OPERATIONS
from ottla.broker.server.registry import handles
from ottla.errors import BrokerError
from ottla.wire.messages import DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import Call

DescribedGroup = DescribeGroupsResponse.DescribedGroup


def _refuse(request: DescribeGroupsRequest, error: BrokerError) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=[DescribedGroup(group_id=group, error_code=error.code) for group in request.groups]
    )


@handles(DescribeGroupsRequest, versions=range(7), refuse=_refuse)
def describe_groups(node: NodeContext, request: DescribeGroupsRequest, call: Call) -> DescribeGroupsResponse:
    response = DescribeGroupsResponse(
        groups=[_described(node, group, call.version) for group in request.groups]
    )
    if request.include_authorized_operations:
        for group in response.groups:
            if group.error_code == 0:
                group.authorized_operations = GROUP_OPERATIONS
    return response


def _described(node: NodeContext, group_id: str, version: int) -> DescribedGroup:
    try:
        return node.groups.read(group_id, lambda shard: overview.described(shard, group_id, version))
    except BrokerError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code)
