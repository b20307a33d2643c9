"""OffsetCommit: stores offsets of a group in the offsets topic; only the group's coordinator does.

What the metadata does not have is refused first, partition by partition: UNKNOWN_TOPIC_OR_PARTITION, and
UNKNOWN_TOPIC_ID since version 10, which has ids instead of names. If anything is left, the group checks who commits,
and its refusal stands at every partition that is left. Versions 2 to 4 can say how long the offsets are kept.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.coordinator.groups import offset_requests
from ottla.broker.server.registry import handles
from ottla.errors import BrokerError, UnknownTopicIdError, UnknownTopicOrPartitionError
from ottla.wire.messages import OffsetCommitRequest, OffsetCommitResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import Call

_TOPIC_IDS_SINCE: Final = 10

RequestedTopic = OffsetCommitRequest.OffsetCommitRequestTopic
RequestedPartition = OffsetCommitRequest.OffsetCommitRequestPartition
CommittedTopic = OffsetCommitResponse.OffsetCommitResponseTopic
CommittedPartition = OffsetCommitResponse.OffsetCommitResponsePartition


def _refuse(request: OffsetCommitRequest, error: BrokerError) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[_refused_topic(topic, topic.partitions, error.code) for topic in request.topics]
    )


def _refused_topic(topic: RequestedTopic, partitions: list[RequestedPartition], code: int) -> CommittedTopic:
    return CommittedTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            CommittedPartition(partition_index=partition.partition_index, error_code=code)
            for partition in partitions
        ],
    )


@handles(OffsetCommitRequest, versions=range(2, 11), refuse=_refuse)
def offset_commit(
    node: NodeContext, request: OffsetCommitRequest, call: Call
) -> OffsetCommitResponse | Coroutine[Any, Any, OffsetCommitResponse]:
    refused: list[CommittedTopic] = []
    known: list[RequestedTopic] = []
    for topic in request.topics:
        if call.version >= _TOPIC_IDS_SINCE:
            name = node.topic_name(topic.topic_id)
            if name is None:
                refused.append(_refused_topic(topic, topic.partitions, UnknownTopicIdError.code))
                continue
            topic.name = name
        partitions: list[RequestedPartition] = []
        missing: list[RequestedPartition] = []
        for each in topic.partitions:
            is_known = node.image.partition(topic.name, each.partition_index) is not None
            (partitions if is_known else missing).append(each)
        if missing:
            refused.append(_refused_topic(topic, missing, UnknownTopicOrPartitionError.code))
        if partitions:
            topic_id = node.image.topics[
                topic.name
            ].id  # stored with the offset, also where a client named the topic
            known.append(RequestedTopic(name=topic.name, topic_id=topic_id, partitions=partitions))
    if not known:
        return OffsetCommitResponse(topics=refused)
    request.topics = known
    return _commit(node, request, call.version, refused)


async def _commit(
    node: NodeContext, request: OffsetCommitRequest, version: int, refused: list[CommittedTopic]
) -> OffsetCommitResponse:
    try:
        response = await node.groups.write(
            request.group_id, lambda shard: offset_requests.commit(shard, request, version)
        )
    except BrokerError as error:
        response = _refuse(request, error)
    return OffsetCommitResponse(topics=_merged(refused, response.topics))


def _merged(first: list[CommittedTopic], second: list[CommittedTopic]) -> list[CommittedTopic]:
    """A topic of which only some partitions were refused is one topic of the response."""
    merged = {(topic.name, topic.topic_id if not topic.name else None): topic for topic in first}
    for topic in second:
        known = merged.setdefault((topic.name, None), topic)
        if known is not topic:
            known.partitions += topic.partitions
    return list(merged.values())
