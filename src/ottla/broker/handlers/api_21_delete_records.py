"""DeleteRecords: move a partition's log start forward, so that what lies before it is gone (KIP-107).

Only the leader serves it. Offset -1 stands for the high watermark; beyond it is OFFSET_OUT_OF_RANGE, and a start that
is further on already stays. A topic that is only compacted is POLICY_VIOLATION, Kafka's own topics are
INVALID_TOPIC_EXCEPTION. A partition named twice is moved once, to the offset that comes last; a topic without
partitions has no result, known or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.coordinator.internal_topics import is_internal
from ottla.broker.server.registry import handles
from ottla.errors import (
    BrokerError,
    InvalidTopicError,
    PolicyViolationError,
    UnknownTopicOrPartitionError,
)
from ottla.wire.messages import DeleteRecordsRequest, DeleteRecordsResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import Call

_NO_WATERMARK: Final = -1

DeletedRecords = DeleteRecordsResponse.DeleteRecordsPartitionResult


def _refuse(request: DeleteRecordsRequest, error: BrokerError) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsResponse.DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_refused(partition.partition_index, error) for partition in topic.partitions],
            )
            for topic in request.topics
        ]
    )


@handles(DeleteRecordsRequest, versions=range(3), refuse=_refuse)
def delete_records(node: NodeContext, request: DeleteRecordsRequest, call: Call) -> DeleteRecordsResponse:
    offsets: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        partitions = offsets.setdefault(topic.name, {})
        partitions.update((partition.partition_index, partition.offset) for partition in topic.partitions)
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsResponse.DeleteRecordsTopicResult(
                name=name,
                partitions=[_result(node, call, name, index, offset) for index, offset in partitions.items()],
            )
            for name, partitions in offsets.items()
            if partitions
        ]
    )


def _result(node: NodeContext, call: Call, topic: str, index: int, offset: int) -> DeletedRecords:
    try:
        call.check(topic, index)
        return DeletedRecords(partition_index=index, low_watermark=_delete(node, topic, index, offset))
    except BrokerError as error:
        return _refused(index, error)


def _delete(node: NodeContext, topic: str, index: int, offset: int) -> int:
    if node.image.partition(topic, index) is None:
        raise UnknownTopicOrPartitionError(topic=topic, partition=index, broker=node.id)
    if is_internal(topic):
        raise InvalidTopicError(f"Cannot delete records of internal topic {topic}")
    partition = node.replicas.led(topic, index)
    config = partition.log.config
    if config.compact and not config.delete:
        raise PolicyViolationError(topic=topic, partition=index, broker=node.id)
    return node.replicas.delete_records(partition, offset)


def _refused(index: int, error: BrokerError) -> DeletedRecords:
    return DeletedRecords(partition_index=index, low_watermark=_NO_WATERMARK, error_code=error.code)
