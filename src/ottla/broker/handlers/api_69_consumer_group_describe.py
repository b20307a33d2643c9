"""ConsumerGroupDescribe: epochs, members and assignments of KIP-848 groups, from the coordinator of each.

A classic group is GROUP_ID_NOT_FOUND, as one that is not there. Version 1 says which protocol each member uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinator.groups.consumer_describe import DescribedGroup, describe_group
from ottla.broker.handlers.api_68_consumer_group_heartbeat import check_protocol
from ottla.broker.security.acl import GROUP_OPERATIONS
from ottla.broker.server.registry import handles
from ottla.errors import BrokerError, InvalidGroupIdError
from ottla.wire.messages import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse

if TYPE_CHECKING:
    from ottla.broker.coordinator.groups.manager import GroupShard
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import Call


def _refuse(request: ConsumerGroupDescribeRequest, error: BrokerError) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(groups=[_refused(group, error) for group in request.group_ids])


def _refused(group_id: str, error: BrokerError) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)


@handles(ConsumerGroupDescribeRequest, versions=range(2), refuse=_refuse)
def consumer_group_describe(
    node: NodeContext, request: ConsumerGroupDescribeRequest, call: Call
) -> ConsumerGroupDescribeResponse:
    check_protocol(node)
    response = ConsumerGroupDescribeResponse(groups=[_described(node, group) for group in request.group_ids])
    if request.include_authorized_operations:
        for group in response.groups:
            if group.error_code == 0:
                group.authorized_operations = GROUP_OPERATIONS
    return response


def _described(node: NodeContext, group_id: str) -> DescribedGroup:
    def describe(shard: GroupShard) -> DescribedGroup:
        groups = shard.consumer_groups
        return describe_group(groups.known(group_id), node.image, groups.configs.default_assignor)

    try:
        if not group_id:
            raise InvalidGroupIdError
        return node.groups.read(group_id, describe)
    except BrokerError as error:
        return _refused(group_id, error)
