"""ListOffsets: the offsets at the ends of a log, or at a time.

Only the leader answers, except to a replica id of -2 (debugging). A time gives the first record with that timestamp
or a later one; below zero it has a meaning of its own, each since some version, else UNSUPPORTED_VERSION. What a
client may not read yet has no offset for it: the latest is the high watermark, with read_committed the last stable
offset. Nothing is tiered, so -5 and -6 find nothing. A partition asked for twice is INVALID_REQUEST.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from ottla.broker.handlers import handles
from ottla.errors import BrokerError, InvalidRequestError, UnknownServerError, UnsupportedVersionError
from ottla.wire.messages import ListOffsetsRequest, ListOffsetsResponse

if TYPE_CHECKING:
    from ottla.broker.cluster.node import Node
    from ottla.broker.replication.partition import Partition
    from ottla.broker.server.dispatch import Call

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
_SINCE: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,  # KIP-734
    EARLIEST_LOCAL: 8,  # KIP-405
    LATEST_TIERED: 9,  # KIP-1005
    EARLIEST_PENDING_UPLOAD: 11,  # KIP-1023
}
_EPOCHS_SINCE: Final = 4
_CONSUMER: Final = -1
_DEBUGGER: Final = -2
_READ_UNCOMMITTED: Final = 0
_READ_COMMITTED: Final = 1
_NOTHING: Final = (-1, -1, -1)
_NO_EPOCH: Final = -1
_NO_TIMESTAMP: Final = -1

Found = tuple[int, int, int]
"""Timestamp, offset, leader epoch."""
Topic = ListOffsetsRequest.ListOffsetsTopic
Wanted = ListOffsetsRequest.ListOffsetsPartition
Answer = ListOffsetsResponse.ListOffsetsPartitionResponse


def _refuse(request: ListOffsetsRequest, error: BrokerError) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponse.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    Answer(partition_index=wanted.partition_index, error_code=error.code)
                    for wanted in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


@handles(ListOffsetsRequest, versions=range(1, 12), refuse=_refuse)
def list_offsets(node: Node, request: ListOffsetsRequest, call: Call) -> ListOffsetsResponse:
    if request.isolation_level not in (_READ_UNCOMMITTED, _READ_COMMITTED):
        raise UnknownServerError(f"there is no isolation level {request.isolation_level}")
    named = Counter(
        (topic.name, wanted.partition_index) for topic in request.topics for wanted in topic.partitions
    )
    answers: dict[str, dict[int, Answer]] = {}
    for topic in request.topics:
        for wanted in topic.partitions:
            answer = Answer(partition_index=wanted.partition_index)
            answers.setdefault(topic.name, {})[wanted.partition_index] = answer
            try:
                if named[topic.name, wanted.partition_index] > 1:
                    raise InvalidRequestError("the partition is named more than once")
                answer.timestamp, answer.offset, epoch = _find(node, request, call, topic.name, wanted)
            except BrokerError as error:
                answer.error_code = error.code
            else:
                answer.leader_epoch = epoch if call.version >= _EPOCHS_SINCE else _NO_EPOCH
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponse.ListOffsetsTopicResponse(name=name, partitions=list(partitions.values()))
            for name, partitions in answers.items()
        ]
    )


def _find(node: Node, request: ListOffsetsRequest, call: Call, topic: str, wanted: Wanted) -> Found:
    call.check(topic, wanted.partition_index)
    if wanted.timestamp < 0 and call.version < _SINCE.get(wanted.timestamp, call.version + 1):
        raise UnsupportedVersionError(f"timestamp {wanted.timestamp} in version {call.version}")
    if request.replica_id == _DEBUGGER:
        partition = node.hosted(topic, wanted.partition_index)
        partition.check_epoch(wanted.current_leader_epoch)
    else:
        partition = node.led(topic, wanted.partition_index, wanted.current_leader_epoch)
    return _at(partition, wanted.timestamp, _last_fetchable(partition, request))


def _last_fetchable(partition: Partition, request: ListOffsetsRequest) -> int:
    """Where that ends which the asking one may see: replicas see everything."""
    if request.replica_id != _CONSUMER:
        return partition.log.log_end_offset
    if request.isolation_level == _READ_COMMITTED:
        return partition.last_stable_offset
    return partition.high_watermark


def _at(partition: Partition, timestamp: int, last_fetchable: int) -> Found:
    log = partition.log
    if timestamp == LATEST:
        return _NO_TIMESTAMP, last_fetchable, partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return _NO_TIMESTAMP, log.log_start_offset, _first_epoch(partition)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _NOTHING
    found = log.max_timestamp_offset() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    return _NOTHING if found is None or found[1] >= last_fetchable else found


def _first_epoch(partition: Partition) -> int:
    earliest = partition.log.epochs.earliest
    if earliest is None or earliest.start_offset > partition.log.log_start_offset:
        return _NO_EPOCH
    return earliest.epoch
