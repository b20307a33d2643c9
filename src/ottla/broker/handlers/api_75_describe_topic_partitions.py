"""DescribeTopicPartitions: topics and their partitions, page by page (KIP-966).

Topics come sorted by name, all of them where none is named; one that is not there is an error of its own, but not
where all were requested. A page has at most as many partitions as the client and max.request.partition.size.limit
allow, and at least one; where it ends before the last, a cursor says where the next begins. A cursor on a topic that
the request leaves out, or below partition 0, is INVALID_REQUEST. No replica is ever in the ELR.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinator.internal_topics import is_internal
from ottla.broker.metadata.describe import leader_of, offline_replicas
from ottla.broker.metadata.image import MetadataImage, PartitionImage
from ottla.broker.metadata.names import why_invalid
from ottla.broker.security.acl import TOPIC_OPERATIONS
from ottla.broker.server.faults import NO_PARTITION
from ottla.broker.server.registry import handles
from ottla.errors import (
    BrokerError,
    InvalidRequestError,
    InvalidTopicError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)
from ottla.wire.messages import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import Call

TopicPage = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
PagedPartition = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition


def _refuse(request: DescribeTopicPartitionsRequest, error: BrokerError) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[TopicPage(name=topic.name, error_code=error.code) for topic in request.topics]
    )


@handles(DescribeTopicPartitionsRequest, versions=range(1), refuse=_refuse)
def describe_topic_partitions(
    node: NodeContext, request: DescribeTopicPartitionsRequest, call: Call
) -> DescribeTopicPartitionsResponse:
    limit = min(node.configs.value("max.request.partition.size.limit"), request.response_partition_limit)
    remaining = max(limit, 1)
    response = DescribeTopicPartitionsResponse()
    for name in _names(node.image, request):
        if not remaining:
            response.next_cursor = DescribeTopicPartitionsResponse.Cursor(topic_name=name, partition_index=0)
            break
        try:
            call.check(name, NO_PARTITION)
            topic, behind = _page(node.image, name, _first_partition(request, name), remaining)
        except BrokerError as error:
            response.topics.append(_missing(name, error))
            continue
        response.topics.append(topic)
        if behind is not None:
            response.next_cursor = DescribeTopicPartitionsResponse.Cursor(
                topic_name=name, partition_index=behind
            )
            break
        remaining -= len(topic.partitions)
    return response


def _page(image: MetadataImage, name: str, first: int, most: int) -> tuple[TopicPage, int | None]:
    """Some partitions of a topic, and which is the next, if there is one."""
    topic = image.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartitionError(topic=name) if why_invalid(name) is None else InvalidTopicError
    behind = min(len(topic.partitions), first + most)
    page = TopicPage(
        name=name,
        topic_id=topic.id,
        is_internal=is_internal(name),
        partitions=[_partition(image, index, topic.partitions[index]) for index in range(first, behind)],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )
    return page, behind if behind < len(topic.partitions) else None


def _names(image: MetadataImage, request: DescribeTopicPartitionsRequest) -> list[str]:
    """What is to be described, in its order, from the cursor on."""
    cursor = request.cursor
    requested = {topic.name: None for topic in request.topics} or dict.fromkeys(image.topics)
    if cursor is None and "" in requested:
        raise UnknownServerError(
            "an empty name"
        )  # which Kafka takes for that of the cursor that is not there
    if cursor is not None and request.topics and cursor.topic_name not in requested:
        raise InvalidRequestError(
            f"DescribeTopicPartitionsRequest topic list should contain the cursor topic: {cursor.topic_name}"
        )
    if cursor is not None and cursor.partition_index < 0:
        raise InvalidRequestError(f"DescribeTopicPartitionsRequest cursor partition must be valid: {cursor}")
    return sorted(name for name in requested if cursor is None or name >= cursor.topic_name)


def _first_partition(request: DescribeTopicPartitionsRequest, name: str) -> int:
    cursor = request.cursor
    return cursor.partition_index if cursor is not None and cursor.topic_name == name else 0


def _missing(name: str, error: BrokerError) -> TopicPage:
    return TopicPage(
        error_code=error.code,
        name=name,
        is_internal=is_internal(name),
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _partition(image: MetadataImage, index: int, partition: PartitionImage) -> PagedPartition:
    return PagedPartition(
        partition_index=index,
        leader_id=leader_of(image, partition),
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        # Where there are none Kafka sends an empty list, though the protocol has null for that.
        eligible_leader_replicas=list(partition.elr),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=offline_replicas(image, partition),
    )
