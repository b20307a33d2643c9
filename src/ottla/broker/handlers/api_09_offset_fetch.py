"""OffsetFetch: the committed offsets of groups, of which there are none: this cluster takes no commits yet.

That is what it responds, as Kafka does for a group that never committed: -1, and the consumer begins where
auto.offset.reset says. Consumers with assigned partitions and a group id send it, and librdkafka ends the process of
one that finds a coordinator without it. Only the group's coordinator serves it. Many groups since version 8, topic
ids since 10; the id of no topic is UNKNOWN_TOPIC_ID.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.coordinator.internal_topics import OFFSETS_TOPIC, coordinator_partition
from ottla.broker.server.registry import handles
from ottla.errors import BrokerError, NotCoordinatorError, UnknownTopicIdError
from ottla.wire.messages import OffsetFetchRequest, OffsetFetchResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import Call

_ERRORS_AT_THE_TOP_SINCE: Final = 2
_MANY_SINCE: Final = 8
_TOPIC_IDS_SINCE: Final = 10
_NOTHING: Final = -1

FetchedGroup = OffsetFetchResponse.OffsetFetchResponseGroup


def _refuse(request: OffsetFetchRequest, error: BrokerError) -> OffsetFetchResponse:
    if request.groups:
        return OffsetFetchResponse(
            groups=[FetchedGroup(group_id=group.group_id, error_code=error.code) for group in request.groups]
        )
    return OffsetFetchResponse(error_code=error.code)


@handles(OffsetFetchRequest, versions=range(1, 11), refuse=_refuse)
def offset_fetch(node: NodeContext, request: OffsetFetchRequest, call: Call) -> OffsetFetchResponse:
    if call.version >= _MANY_SINCE:
        return OffsetFetchResponse(groups=[_group(node, group, call.version) for group in request.groups])
    code = 0 if _coordinates(node, request.group_id) else NotCoordinatorError.code
    topics = [
        OffsetFetchResponse.OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponse.OffsetFetchResponsePartition(
                    partition_index=index, committed_offset=_NOTHING, metadata="", error_code=code
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in request.topics or []
    ]
    if call.version < _ERRORS_AT_THE_TOP_SINCE:
        return OffsetFetchResponse(topics=topics)
    return OffsetFetchResponse(topics=[] if code else topics, error_code=code)


def _group(
    node: NodeContext, group: OffsetFetchRequest.OffsetFetchRequestGroup, version: int
) -> FetchedGroup:
    if not _coordinates(node, group.group_id):
        return FetchedGroup(group_id=group.group_id, error_code=NotCoordinatorError.code)
    topics = []
    for topic in group.topics or []:
        unknown = version >= _TOPIC_IDS_SINCE and node.topic_name(topic.topic_id) is None
        topics.append(
            OffsetFetchResponse.OffsetFetchResponseTopics(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetFetchResponse.OffsetFetchResponsePartitions(
                        partition_index=index,
                        committed_offset=_NOTHING,
                        metadata="",
                        error_code=UnknownTopicIdError.code if unknown else 0,
                    )
                    for index in topic.partition_indexes
                ],
            )
        )
    return FetchedGroup(group_id=group.group_id, topics=topics)


def _coordinates(node: NodeContext, group_id: str) -> bool:
    known = node.image.topics.get(OFFSETS_TOPIC)
    if known is None:
        return False
    partition = known.partitions.get(coordinator_partition(group_id, len(known.partitions)))
    return partition is not None and partition.leader == node.id
