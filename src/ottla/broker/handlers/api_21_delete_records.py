"""DeleteRecords: move a partition's log start forward, so that what lies before it is gone (KIP-107).

Only the leader serves it, and responds when the log of every replica that is alive begins there, or with
REQUEST_TIMED_OUT after `timeout_ms`. Offset -1 stands for the high watermark; beyond it is OFFSET_OUT_OF_RANGE, and
a start that is further on already stays. A topic that is only compacted is POLICY_VIOLATION, Kafka's own topics are
INVALID_TOPIC_EXCEPTION. A partition named twice is moved once, to the offset that comes last; a topic without
partitions has no result, known or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.coordinator.internal_topics import is_internal
from ottla.broker.replication.partition import Partition, PartitionKey
from ottla.broker.server.registry import handles
from ottla.errors import (
    BrokerError,
    InvalidTopicError,
    NotLeaderOrFollowerError,
    PolicyViolationError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
)
from ottla.wire.messages import DeleteRecordsRequest, DeleteRecordsResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.replication.delayed import DelayedRequest
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
def delete_records(
    node: NodeContext, request: DeleteRecordsRequest, call: Call
) -> DeleteRecordsResponse | DelayedRequest[DeleteRecordsResponse]:
    offsets: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        partitions = offsets.setdefault(topic.name, {})
        partitions.update((partition.partition_index, partition.offset) for partition in topic.partitions)
    waiting: dict[PartitionKey, _Deleting] = {}
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsResponse.DeleteRecordsTopicResult(
                name=name,
                partitions=[
                    _result(node, call, name, index, offset, waiting) for index, offset in partitions.items()
                ],
            )
            for name, partitions in offsets.items()
            if partitions
        ]
    )
    if not waiting:
        return response
    return _until_deleted(node, request, response, waiting)


class _Deleting:
    """A deletion that the followers have yet to follow."""

    def __init__(self, partition: Partition, offset: int, result: DeletedRecords) -> None:
        self.partition = partition
        self.offset = offset
        self.result = result

    @property
    def is_over(self) -> bool:
        return not self.partition.is_leader or self.partition.low_watermark >= self.offset

    def finish(self) -> None:
        """Completes the result, with where the log begins on every replica by now."""
        if not self.partition.is_leader:
            _fail(self.result, NotLeaderOrFollowerError())
        elif not self.is_over:
            _fail(self.result, RequestTimedOutError())
        else:
            self.result.low_watermark = self.partition.low_watermark


def _until_deleted(
    node: NodeContext,
    request: DeleteRecordsRequest,
    response: DeleteRecordsResponse,
    waiting: dict[PartitionKey, _Deleting],
) -> DelayedRequest[DeleteRecordsResponse]:
    def complete() -> DeleteRecordsResponse:
        for deleting in waiting.values():
            deleting.finish()
        return response

    return node.replicas.deletions.park(
        waiting,
        timeout=max(0, request.timeout_ms) / 1000,
        has_come=lambda key: waiting[key].is_over,
        complete=complete,
    )


def _result(
    node: NodeContext,
    call: Call,
    topic: str,
    index: int,
    offset: int,
    waiting: dict[PartitionKey, _Deleting],
) -> DeletedRecords:
    try:
        call.check(topic, index)
        partition = _deletable(node, topic, index)
        target = node.replicas.delete_records(partition, offset)
    except BrokerError as error:
        return _refused(index, error)
    result = DeletedRecords(partition_index=index, low_watermark=partition.low_watermark)
    if result.low_watermark < target:
        waiting[partition.key] = _Deleting(partition, target, result)
    return result


def _deletable(node: NodeContext, topic: str, index: int) -> Partition:
    if node.image.partition(topic, index) is None:
        raise UnknownTopicOrPartitionError(topic=topic, partition=index, broker=node.id)
    if is_internal(topic):
        raise InvalidTopicError(f"Cannot delete records of internal topic {topic}")
    partition = node.replicas.led(topic, index)
    config = partition.log.config
    if config.compact and not config.delete:
        raise PolicyViolationError(topic=topic, partition=index, broker=node.id)
    return partition


def _refused(index: int, error: BrokerError) -> DeletedRecords:
    result = DeletedRecords(partition_index=index)
    _fail(result, error)
    return result


def _fail(result: DeletedRecords, error: BrokerError) -> None:
    result.low_watermark, result.error_code = _NO_WATERMARK, error.code
