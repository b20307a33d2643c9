"""What requests do with committed offsets: commit, fetch, delete. Whether a topic exists is the handlers' business.

A commit is checked by its group: who is a member, of which generation or epoch. One for a group that is not there
makes a simple group, if it comes from no member. Each partition is a record of its own, and all of a request are one
batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.coordinator.groups.classic import ClassicGroup
from ottla.broker.coordinator.groups.group import CommitAttempt
from ottla.broker.coordinator.groups.offsets import CommittedOffset, OffsetKey, tombstone
from ottla.broker.coordinator.groups.records import OffsetCommitKey, OffsetCommitValue, encode
from ottla.broker.coordinator.shard import CoordinatorRecord, Result
from ottla.errors import (
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    IllegalGenerationError,
    OffsetMetadataTooLargeError,
    UnstableOffsetCommitError,
)
from ottla.wire import ZERO_UUID, Uuid
from ottla.wire.messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

if TYPE_CHECKING:
    from ottla.broker.coordinator.groups.manager import GroupShard

_GROUP_NOT_FOUND_SINCE: Final = 9
_NO_OFFSET: Final = -1
_NEVER: Final = -1
"""As the time of expiry: the retention of the broker applies."""

CommittedPartition = OffsetCommitResponse.OffsetCommitResponsePartition
FetchedGroup = OffsetFetchResponse.OffsetFetchResponseGroup
FetchedTopic = OffsetFetchResponse.OffsetFetchResponseTopics
FetchedPartition = OffsetFetchResponse.OffsetFetchResponsePartitions


def commit(shard: GroupShard, request: OffsetCommitRequest, version: int) -> Result[OffsetCommitResponse]:
    """The topics of the request are named, whatever its version."""
    group = shard.groups.get(request.group_id)
    attempt = CommitAttempt(
        request.member_id, request.group_instance_id, request.generation_id_or_member_epoch, version
    )
    if group is not None:
        check = group.validate_commit(attempt)
        if check is not None:
            for topic in request.topics:
                for partition in topic.partitions:
                    check(topic.name, partition.partition_index)
        if isinstance(group, ClassicGroup):
            group.committed(request.member_id)
    elif attempt.generation >= 0:
        raise GroupIdNotFoundError if version >= _GROUP_NOT_FOUND_SINCE else IllegalGenerationError
    now = shard.context.now_ms()
    expires = _NEVER if request.retention_time_ms == -1 else now + request.retention_time_ms
    longest = shard.context.configs.value("offset.metadata.max.bytes")
    records: list[CoordinatorRecord] = []
    response = OffsetCommitResponse()
    for topic in request.topics:
        committed = OffsetCommitResponse.OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        response.topics.append(committed)
        for partition in topic.partitions:
            metadata = partition.committed_metadata or ""
            if len(metadata) > longest:
                committed.partitions.append(
                    CommittedPartition(
                        partition_index=partition.partition_index,
                        error_code=OffsetMetadataTooLargeError.code,
                    )
                )
                continue
            committed.partitions.append(CommittedPartition(partition_index=partition.partition_index))
            key = (request.group_id, topic.name, partition.partition_index)
            records.append(_record(key, partition, now, expires, topic.topic_id))
    if not records:
        _remember(shard, request.group_id)
    return Result(records, response)


def commit_transactional(
    shard: GroupShard, request: TxnOffsetCommitRequest, version: int
) -> Result[TxnOffsetCommitResponse]:
    """The same in a transaction: its records are pending until the marker comes.

    Other than a plain commit, it is taken while members wait for their assignments; who names neither member nor
    generation, as producers below version 3 do, is not checked.
    """
    group = shard.groups.get(request.group_id)
    attempt = CommitAttempt(
        request.member_id, request.group_instance_id, request.generation_id, version, transactional=True
    )
    if group is None:
        if attempt.generation >= 0:
            raise IllegalGenerationError
    else:
        check = group.validate_commit(attempt)
        if check is not None:
            for topic in request.topics:
                for partition in topic.partitions:
                    check(topic.name, partition.partition_index)
    now = shard.context.now_ms()
    longest = shard.context.configs.value("offset.metadata.max.bytes")
    records: list[CoordinatorRecord] = []
    response = TxnOffsetCommitResponse()
    for topic in request.topics:
        committed = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic(name=topic.name)
        response.topics.append(committed)
        for partition in topic.partitions:
            result = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition(
                partition_index=partition.partition_index
            )
            committed.partitions.append(result)
            if len(partition.committed_metadata or "") > longest:
                result.error_code = OffsetMetadataTooLargeError.code
                continue
            key = (request.group_id, topic.name, partition.partition_index)
            records.append(_record(key, partition, now, _NEVER, ZERO_UUID))
    if not records:
        _remember(shard, request.group_id)
    return Result(records, response)


def _remember(shard: GroupShard, group_id: str) -> None:
    """Nothing of the request is written, and yet, as in Kafka, there is a simple group from now on.

    It is not there any more after the shard has moved. Where something is written, the record makes the group.
    """
    shard.simple_group(group_id)


def _record(
    key: OffsetKey,
    partition: OffsetCommitRequest.OffsetCommitRequestPartition
    | TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition,
    now: int,
    expires: int,
    topic_id: Uuid,
) -> CoordinatorRecord:
    group, topic, index = key
    return encode(
        OffsetCommitKey(group=group, topic=topic, partition=index),
        OffsetCommitValue(
            offset=partition.committed_offset,
            leader_epoch=partition.committed_leader_epoch,
            metadata=partition.committed_metadata or "",
            commit_timestamp=now,
            expire_timestamp=expires,
            topic_id=topic_id,
        ),
    )


def fetch(
    shard: GroupShard, request: OffsetFetchRequest.OffsetFetchRequestGroup, *, stable: bool
) -> FetchedGroup:
    """The offsets of some partitions, or of all; the topics are named, whatever the version of the request.

    With `stable`, the caller waits until all that was appended is committed, and gets no offset that an open
    transaction may replace; without, what is committed by now.
    """
    group = shard.groups.get(request.group_id)
    if group is not None:
        group.validate_fetch(request.member_id, request.member_epoch)
    wanted: list[FetchedTopic] = []
    if request.topics is not None:
        for topic in request.topics:
            fetched = FetchedTopic(name=topic.name, topic_id=topic.topic_id)
            wanted.append(fetched)
            for index in topic.partition_indexes:
                fetched.partitions.append(_fetched(shard, request.group_id, fetched, index, stable=stable))
        return FetchedGroup(group_id=request.group_id, topics=wanted)
    topics: dict[str, FetchedTopic] = {}
    for name, index in shard.offsets.partitions_of(request.group_id):
        fetched = topics.setdefault(name, FetchedTopic(name=name))
        result = _fetched(shard, request.group_id, fetched, index, stable=stable)
        if result.committed_offset != _NO_OFFSET or result.error_code:
            fetched.partitions.append(result)
    return FetchedGroup(
        group_id=request.group_id, topics=[topic for topic in topics.values() if topic.partitions]
    )


def _fetched(
    shard: GroupShard, group_id: str, topic: FetchedTopic, index: int, *, stable: bool
) -> FetchedPartition:
    offsets = shard.offsets
    committed: CommittedOffset | None
    if stable:
        if offsets.is_pending(group_id, topic.name, index):
            return FetchedPartition(
                partition_index=index,
                committed_offset=_NO_OFFSET,
                metadata="",
                error_code=UnstableOffsetCommitError.code,
            )
        committed = offsets.latest(group_id, topic.name, index)
    else:
        committed = offsets.committed(group_id, topic.name, index)
    if committed is None or not committed.belongs_to(topic.topic_id):
        return FetchedPartition(partition_index=index, committed_offset=_NO_OFFSET, metadata="")
    return FetchedPartition(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def delete(shard: GroupShard, request: OffsetDeleteRequest) -> Result[OffsetDeleteResponse]:
    group = shard.groups.get(request.group_id)
    if group is None:
        raise GroupIdNotFoundError
    group.validate_offset_delete()
    records: list[CoordinatorRecord] = []
    response = OffsetDeleteResponse()
    for topic in request.topics:
        code = GroupSubscribedToTopicError.code if group.is_subscribed_to(topic.name) else 0
        deleted = OffsetDeleteResponse.OffsetDeleteResponseTopic(name=topic.name)
        response.topics.append(deleted)
        for partition in topic.partitions:
            index = partition.partition_index
            deleted.partitions.append(
                OffsetDeleteResponse.OffsetDeleteResponsePartition(partition_index=index, error_code=code)
            )
            is_known = shard.offsets.latest(
                request.group_id, topic.name, index
            ) is not None or shard.offsets.is_pending(request.group_id, topic.name, index)
            if not code and is_known:
                records.append(tombstone((request.group_id, topic.name, index)))
    return Result(records, response)
