"""OffsetDelete: removes single offsets of a group (KIP-496); only the group's coordinator does.

A group with members keeps those of topics that they subscribe to: GROUP_SUBSCRIBED_TO_TOPIC. One whose members are
no consumers has to be without members: NON_EMPTY_GROUP. A topic or partition that is not there is refused first.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinator.groups import offset_requests
from ottla.broker.server.registry import handles
from ottla.errors import InvalidGroupIdError, UnknownTopicOrPartitionError
from ottla.wire.messages import OffsetDeleteRequest, OffsetDeleteResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import Call

DeletedTopic = OffsetDeleteResponse.OffsetDeleteResponseTopic


@handles(OffsetDeleteRequest, versions=range(1))
def offset_delete(
    node: NodeContext, request: OffsetDeleteRequest, call: Call
) -> OffsetDeleteResponse | Coroutine[Any, Any, OffsetDeleteResponse]:
    refused: list[DeletedTopic] = []
    known: list[OffsetDeleteRequest.OffsetDeleteRequestTopic] = []
    for topic in request.topics:
        partitions = []
        missing = DeletedTopic(name=topic.name)
        for partition in topic.partitions:
            if node.image.partition(topic.name, partition.partition_index) is not None:
                partitions.append(partition)
                continue
            missing.partitions.append(
                OffsetDeleteResponse.OffsetDeleteResponsePartition(
                    partition_index=partition.partition_index, error_code=UnknownTopicOrPartitionError.code
                )
            )
        if missing.partitions:
            refused.append(missing)
        if partitions:
            known.append(OffsetDeleteRequest.OffsetDeleteRequestTopic(name=topic.name, partitions=partitions))
    if not known:
        return OffsetDeleteResponse(topics=refused)
    return _delete(node, OffsetDeleteRequest(group_id=request.group_id, topics=known), refused)


async def _delete(
    node: NodeContext, request: OffsetDeleteRequest, refused: list[DeletedTopic]
) -> OffsetDeleteResponse:
    if not request.group_id:
        raise InvalidGroupIdError
    response = await node.groups.write(request.group_id, lambda shard: offset_requests.delete(shard, request))
    merged = {topic.name: topic for topic in refused}
    for topic in response.topics:
        known = merged.setdefault(topic.name, topic)
        if known is not topic:
            known.partitions += topic.partitions
    response.topics = list(merged.values())
    return response
