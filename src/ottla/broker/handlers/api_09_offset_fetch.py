"""OffsetFetch: the committed offsets of groups, from the coordinator of each.

A group or a partition without one is -1, and the consumer begins where auto.offset.reset says. Without topics, all
that the group has. RequireStable (version 7, KIP-447) waits for what is not yet on all replicas in sync, and refuses
what an open transaction may replace: UNSTABLE_OFFSET_COMMIT. Many groups since version 8, member epochs since 9,
topic ids since 10; the id of no topic is UNKNOWN_TOPIC_ID.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.coordinator.groups import offset_requests
from ottla.broker.coordinator.shard import Result
from ottla.broker.server.registry import handles
from ottla.errors import (
    BrokerError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
    UnknownTopicIdError,
)
from ottla.wire import ZERO_UUID
from ottla.wire.messages import OffsetFetchRequest, OffsetFetchResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import Call

_ERRORS_AT_THE_TOP_SINCE: Final = 2
_MANY_SINCE: Final = 8
_TOPIC_IDS_SINCE: Final = 10
_NO_OFFSET: Final = -1

RequestedGroup = OffsetFetchRequest.OffsetFetchRequestGroup
RequestedTopic = OffsetFetchRequest.OffsetFetchRequestTopics
FetchedGroup = OffsetFetchResponse.OffsetFetchResponseGroup
FetchedTopic = OffsetFetchResponse.OffsetFetchResponseTopics
FetchedPartition = OffsetFetchResponse.OffsetFetchResponsePartitions
OldPartition = OffsetFetchResponse.OffsetFetchResponsePartition


def _refuse(request: OffsetFetchRequest, error: BrokerError) -> OffsetFetchResponse:
    if request.groups:
        return OffsetFetchResponse(
            groups=[FetchedGroup(group_id=group.group_id, error_code=error.code) for group in request.groups]
        )
    return OffsetFetchResponse(error_code=error.code)


@handles(OffsetFetchRequest, versions=range(1, 11), refuse=_refuse)
def offset_fetch(
    node: NodeContext, request: OffsetFetchRequest, call: Call
) -> OffsetFetchResponse | Coroutine[Any, Any, OffsetFetchResponse]:
    groups = request.groups if call.version >= _MANY_SINCE else [_as_group(request)]
    if request.require_stable:
        return _stable(node, request, groups, call.version)
    fetched = [_group(node, group, call.version) for group in groups]
    return _response(request, fetched, call.version)


def _as_group(request: OffsetFetchRequest) -> RequestedGroup:
    topics = None
    if request.topics is not None:
        topics = [
            RequestedTopic(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return RequestedGroup(group_id=request.group_id, topics=topics)


def _group(node: NodeContext, group: RequestedGroup, version: int) -> FetchedGroup:
    known, unknown = _named(node, group, version)
    try:
        fetched = node.groups.read(
            group.group_id, lambda shard: offset_requests.fetch(shard, known, stable=False)
        )
    except BrokerError as error:
        return FetchedGroup(group_id=group.group_id, error_code=error.code)
    return _finished(node, fetched, unknown, version)


async def _stable(
    node: NodeContext, request: OffsetFetchRequest, groups: list[RequestedGroup], version: int
) -> OffsetFetchResponse:
    fetched = await asyncio.gather(*(_stable_group(node, group, version) for group in groups))
    return _response(request, fetched, version)


async def _stable_group(node: NodeContext, group: RequestedGroup, version: int) -> FetchedGroup:
    known, unknown = _named(node, group, version)
    try:
        fetched = await node.groups.write(
            group.group_id, lambda shard: Result([], offset_requests.fetch(shard, known, stable=True))
        )
    except CoordinatorNotAvailableError:
        # Consumers do not expect that it can take too long; with this code they look for the coordinator again.
        return FetchedGroup(group_id=group.group_id, error_code=NotCoordinatorError.code)
    except BrokerError as error:
        return FetchedGroup(group_id=group.group_id, error_code=error.code)
    return _finished(node, fetched, unknown, version)


def _named(
    node: NodeContext, group: RequestedGroup, version: int
) -> tuple[RequestedGroup, list[FetchedTopic]]:
    """The group with the names of its topics, and the topics whose ids no topic has."""
    if version < _TOPIC_IDS_SINCE or group.topics is None:
        return group, []
    known: list[RequestedTopic] = []
    unknown: list[FetchedTopic] = []
    for topic in group.topics:
        name = node.topic_name(topic.topic_id)
        if name is not None:
            topic.name = name
            known.append(topic)
            continue
        unknown.append(
            FetchedTopic(
                topic_id=topic.topic_id,
                partitions=[
                    FetchedPartition(
                        partition_index=index,
                        committed_offset=_NO_OFFSET,
                        metadata="",
                        error_code=UnknownTopicIdError.code,
                    )
                    for index in topic.partition_indexes
                ],
            )
        )
    named = RequestedGroup(
        group_id=group.group_id, member_id=group.member_id, member_epoch=group.member_epoch, topics=known
    )
    return named, unknown


def _finished(
    node: NodeContext, fetched: FetchedGroup, unknown: list[FetchedTopic], version: int
) -> FetchedGroup:
    if version >= _TOPIC_IDS_SINCE:
        for topic in fetched.topics:
            if topic.topic_id == ZERO_UUID and topic.name in node.image.topics:
                topic.topic_id = node.image.topics[topic.name].id
        # Of a topic that is gone there is no id to put into the response.
        fetched.topics = [topic for topic in fetched.topics if topic.topic_id != ZERO_UUID] + unknown
    return fetched


def _response(request: OffsetFetchRequest, groups: list[FetchedGroup], version: int) -> OffsetFetchResponse:
    if version >= _MANY_SINCE:
        return OffsetFetchResponse(groups=groups)
    (group,) = groups
    if group.error_code and version < _ERRORS_AT_THE_TOP_SINCE:
        return OffsetFetchResponse(
            topics=[
                OffsetFetchResponse.OffsetFetchResponseTopic(
                    name=topic.name,
                    partitions=[
                        OldPartition(
                            partition_index=index,
                            committed_offset=_NO_OFFSET,
                            metadata="",
                            error_code=group.error_code,
                        )
                        for index in topic.partition_indexes
                    ],
                )
                for topic in request.topics or []
            ]
        )
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponse.OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OldPartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )
