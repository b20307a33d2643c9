"""The records of a KIP-848 group: what is written for each change of it, and what they say about a member.

Both stand side by side because one undoes the other: a group that is loaded from its records is the group that wrote
them. A member has three records: what it asked for, its target, and what it has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from ottla.broker.coordinator.groups.consumer_member import (
    ClassicMetadata,
    ConsumerMember,
    MemberState,
    OfferedProtocol,
    ResolvedRegex,
    Target,
    TopicPartition,
    topics_of,
)
from ottla.broker.coordinator.groups.records import (
    AssignedTopicPartitions,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TargetTopicPartitions,
    encode,
)
from ottla.broker.coordinator.shard import CoordinatorRecord

ConsumerGroupKey = (
    ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupRegularExpressionKey
)


# Writing


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    return encode(
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def subscription_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """What a member asked for."""
    return encode(
        ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.id),
        ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.topics),
            subscribed_topic_regex=member.regex or "",
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.assignor,
            classic_member_metadata=_classic_record(member.classic),
        ),
    )


def target_record(group_id: str, member_id: str, target: Target) -> CoordinatorRecord:
    return encode(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                TargetTopicPartitions(topic_id=topic, partitions=partitions)
                for topic, partitions in topics_of(target).items()
            ]
        ),
    )


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    return encode(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms),
    )


def assignment_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """What a member has."""
    return encode(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.id),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=member.state,
            assigned_partitions=_topics_record(member.assigned),
            partitions_pending_revocation=_topics_record(member.pending),
        ),
    )


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> CoordinatorRecord:
    return encode(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex),
        ConsumerGroupRegularExpressionValue(
            topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
        ),
    )


def regex_tombstone(group_id: str, regex: str) -> CoordinatorRecord:
    return encode(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None)


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """The end of a member; what it asked for goes last, since that is what makes it a member."""
    return [
        encode(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        encode(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        encode(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def group_tombstones(
    group_id: str, members: Collection[str], regexes: Collection[str]
) -> Iterator[CoordinatorRecord]:
    """The end of a group, from what members have up to the epoch."""
    for member in members:
        yield encode(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member), None)
    for member in members:
        yield encode(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member), None)
    yield encode(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None)
    for member in members:
        yield encode(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member), None)
    for regex in regexes:
        yield regex_tombstone(group_id, regex)
    # A release before 4.1 may have written one.
    yield encode(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)
    yield encode(ConsumerGroupMetadataKey(group_id=group_id), None)


def _classic_record(classic: ClassicMetadata | None) -> ClassicMemberMetadata | None:
    if classic is None:
        return None
    return ClassicMemberMetadata(
        session_timeout_ms=classic.session_timeout_ms,
        supported_protocols=[
            ClassicProtocol(name=protocol.name, metadata=protocol.metadata) for protocol in classic.protocols
        ],
    )


def _topics_record(partitions: Mapping[TopicPartition, int]) -> list[AssignedTopicPartitions]:
    return [
        AssignedTopicPartitions(
            topic_id=topic,
            partitions=indexes,
            assignment_epochs=[partitions[topic, index] for index in indexes],
        )
        for topic, indexes in topics_of(partitions).items()
    ]


# Reading


def with_subscription(member: ConsumerMember, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
    """The member that has asked for this."""
    classic = value.classic_member_metadata
    return replace(
        member,
        instance_id=value.instance_id,
        rack=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topics=frozenset(value.subscribed_topic_names),
        regex=value.subscribed_topic_regex or None,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        assignor=value.server_assignor,
        classic=None
        if classic is None
        else ClassicMetadata(
            classic.session_timeout_ms,
            tuple(OfferedProtocol(each.name, each.metadata) for each in classic.supported_protocols),
        ),
    )


def with_assignment(
    member: ConsumerMember, value: ConsumerGroupCurrentMemberAssignmentValue
) -> ConsumerMember:
    """The member that has come so far."""
    return replace(
        member,
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=MemberState(value.state),
        assigned=_partitions(value.assigned_partitions, value.member_epoch),
        pending=_partitions(value.partitions_pending_revocation, value.member_epoch),
    )


def _partitions(topics: Sequence[AssignedTopicPartitions], member_epoch: int) -> dict[TopicPartition, int]:
    """By a release that wrote no epochs of assignments, a partition is held at least since the member's epoch."""
    return {
        (topic.topic_id, index): epoch
        for topic in topics
        for index, epoch in zip(
            topic.partitions,
            topic.assignment_epochs
            if topic.assignment_epochs is not None
            else [member_epoch] * len(topic.partitions),
            strict=True,
        )
    }
