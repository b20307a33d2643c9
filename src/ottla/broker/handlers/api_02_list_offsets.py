"""ListOffsets: the offsets at the ends of a log, or at a time.

Only the leader serves it, except to a replica id of -2 (debugging). A time gives the first record with that
timestamp or a later one; below zero it has a meaning of its own, each since some version, else UNSUPPORTED_VERSION.
What a client may not read yet has no offset for it: the latest is the high watermark, with read_committed the last
stable offset. A leader that has not heard from its followers yet may know a lower one than its predecessor has told:
until then it has none to tell (KIP-207). Nothing is tiered, so -5 and -6 find nothing. A partition that is named
twice is INVALID_REQUEST.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from ottla.broker.log.log import TimestampedOffset
from ottla.broker.server.registry import handles
from ottla.errors import (
    BrokerError,
    InvalidRequestError,
    LeaderNotAvailableError,
    OffsetNotAvailableError,
    UnknownServerError,
    UnsupportedVersionError,
)
from ottla.wire.messages import ListOffsetsRequest, ListOffsetsResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.replication.partition import Partition
    from ottla.broker.server.call import Call

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
_TIERED: Final = (LATEST_TIERED, EARLIEST_PENDING_UPLOAD)
_SINCE: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,  # KIP-734
    EARLIEST_LOCAL: 8,  # KIP-405
    LATEST_TIERED: 9,  # KIP-1005
    EARLIEST_PENDING_UPLOAD: 11,  # KIP-1023
}
_EPOCHS_SINCE: Final = 4
_NOT_AVAILABLE_SINCE: Final = 5
_CONSUMER: Final = -1
_DEBUGGER: Final = -2
_READ_UNCOMMITTED: Final = 0
_READ_COMMITTED: Final = 1
_NOTHING: Final = TimestampedOffset(-1, -1, -1)
_NO_EPOCH: Final = -1
_NO_TIMESTAMP: Final = -1

OffsetQuery = ListOffsetsRequest.ListOffsetsPartition
OffsetResult = ListOffsetsResponse.ListOffsetsPartitionResponse


def _refuse(request: ListOffsetsRequest, error: BrokerError) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponse.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    OffsetResult(partition_index=query.partition_index, error_code=error.code)
                    for query in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


@handles(ListOffsetsRequest, versions=range(1, 12), refuse=_refuse)
def list_offsets(node: NodeContext, request: ListOffsetsRequest, call: Call) -> ListOffsetsResponse:
    if request.isolation_level not in (_READ_UNCOMMITTED, _READ_COMMITTED):
        raise UnknownServerError(f"there is no isolation level {request.isolation_level}")
    named = Counter(
        (topic.name, query.partition_index) for topic in request.topics for query in topic.partitions
    )
    results: dict[str, dict[int, OffsetResult]] = {}
    for topic in request.topics:
        for query in topic.partitions:
            result = OffsetResult(partition_index=query.partition_index)
            results.setdefault(topic.name, {})[query.partition_index] = result
            try:
                if named[topic.name, query.partition_index] > 1:
                    raise InvalidRequestError("the partition is named more than once")
                result.timestamp, result.offset, epoch = _find(node, request, call, topic.name, query)
            except BrokerError as error:
                result.error_code = error.code
            else:
                result.leader_epoch = epoch if call.version >= _EPOCHS_SINCE else _NO_EPOCH
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponse.ListOffsetsTopicResponse(name=name, partitions=list(partitions.values()))
            for name, partitions in results.items()
        ]
    )


def _find(
    node: NodeContext, request: ListOffsetsRequest, call: Call, topic: str, query: OffsetQuery
) -> TimestampedOffset:
    call.check(topic, query.partition_index)
    if query.timestamp < 0 and call.version < _SINCE.get(query.timestamp, call.version + 1):
        raise UnsupportedVersionError(f"timestamp {query.timestamp} in version {call.version}")
    if request.replica_id == _DEBUGGER:
        partition = node.replicas.hosted(topic, query.partition_index)
        partition.check_epoch(query.current_leader_epoch)
    else:
        partition = node.replicas.led(topic, query.partition_index, query.current_leader_epoch)
    found = _at(partition, query.timestamp, _last_fetchable(partition, request))
    if request.replica_id == _CONSUMER and partition.high_watermark < partition.epoch_start_offset:
        is_missing = found is _NOTHING and query.timestamp not in _TIERED
        if query.timestamp == LATEST or is_missing:
            later = call.version >= _NOT_AVAILABLE_SINCE
            error = OffsetNotAvailableError if later else LeaderNotAvailableError
            raise error(topic=topic, partition=query.partition_index, broker=node.id)
    return found


def _last_fetchable(partition: Partition, request: ListOffsetsRequest) -> int:
    """Where that ends which the reader may see: replicas see everything."""
    if request.replica_id != _CONSUMER:
        return partition.log.log_end_offset
    if request.isolation_level == _READ_COMMITTED:
        return partition.last_stable_offset
    return partition.high_watermark


def _at(partition: Partition, timestamp: int, last_fetchable: int) -> TimestampedOffset:
    log = partition.log
    if timestamp == LATEST:
        return TimestampedOffset(_NO_TIMESTAMP, last_fetchable, partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return TimestampedOffset(_NO_TIMESTAMP, log.log_start_offset, _first_epoch(partition))
    if timestamp in _TIERED:
        return _NOTHING
    found = log.max_timestamp_offset() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    return _NOTHING if found is None or found.offset >= last_fetchable else found


def _first_epoch(partition: Partition) -> int:
    earliest = partition.log.epochs.earliest
    if earliest is None or earliest.start_offset > partition.log.log_start_offset:
        return _NO_EPOCH
    return earliest.epoch
