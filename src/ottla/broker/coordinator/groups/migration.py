"""Groups in use that change their protocol (KIP-848): from the classic one to the new one and back, members and all.

Upwards it happens when a member of the new protocol joins a classic group of consumers. Its members stay, with what
they have, and go on with JoinGroup, SyncGroup and Heartbeat; the generation becomes the epoch. Downwards it happens
when the last member of the new protocol is gone: the epoch becomes the generation, and those that are left rebalance.
A group without members has nothing to keep: it is replaced.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from ottla.assignors.protocol import decode_assignment, decode_subscription, encode_assignment
from ottla.broker.coordinator.groups.classic import ClassicGroup
from ottla.broker.coordinator.groups.classic_members import ClassicMember, ClassicMembers
from ottla.broker.coordinator.groups.consumer_group import PROTOCOL_TYPE, ConsumerGroup
from ottla.broker.coordinator.groups.consumer_member import (
    NO_TARGET,
    ClassicMetadata,
    ConsumerMember,
    OfferedProtocol,
    Target,
    TopicPartition,
)
from ottla.broker.coordinator.groups.consumer_records import (
    assignment_record,
    epoch_record,
    subscription_record,
    target_epoch_record,
    target_record,
)
from ottla.broker.coordinator.groups.records import GroupMetadataValue
from ottla.broker.coordinator.groups.target import metadata_hash
from ottla.errors import DecodeError, GroupIdNotFoundError

if TYPE_CHECKING:
    from ottla.broker.coordinator.groups.classic_state import ClassicRules
    from ottla.broker.coordinator.groups.consumer_configs import ConsumerGroupConfigs
    from ottla.broker.coordinator.shard import CoordinatorRecord
    from ottla.broker.metadata.image import MetadataImage


# Upwards


def check_upgrade(classic: ClassicGroup, configs: ConsumerGroupConfigs) -> None:
    """Raises the GROUP_ID_NOT_FOUND with which a classic group in use refuses members of the new protocol."""
    if not configs.allows_upgrade:
        raise _refused_upgrade(classic, "online upgrade is disabled.")
    if classic.protocol_type != PROTOCOL_TYPE:
        raise _refused_upgrade(classic, "the group does not use the consumer embedded protocol.")
    if len(classic.members) > configs.max_size:
        raise _refused_upgrade(classic, "the group size exceeds the consumer group maximum size.")


def _refused_upgrade(classic: ClassicGroup, why: str) -> GroupIdNotFoundError:
    return GroupIdNotFoundError(
        f"Cannot upgrade classic group {classic.group_id} to consumer group because {why}"
    )


def to_consumer(classic: ClassicGroup, image: MetadataImage) -> ConsumerGroup:
    """The same group with the new protocol: every member Stable, with what its last assignment gave it."""
    group = ConsumerGroup(classic.group_id, image)
    # As if it had been computed long ago, so that the next one need not wait.
    group.replay_target_epoch(classic.generation, 0)
    for member in classic.members:
        upgraded = _upgraded(classic, member, image)
        group.replay_target(upgraded.id, frozenset(upgraded.assigned))
        group.replay_member(upgraded)
    group.replay_epoch(classic.generation, metadata_hash(image, group.subscribed_topics))
    return group


def _upgraded(classic: ClassicGroup, member: ClassicMember, image: MetadataImage) -> ConsumerMember:
    try:
        subscription = decode_subscription(member.metadata(classic.protocol), member.member_id)
        assigned, user_data = decode_assignment(member.assignment)
    except DecodeError:
        raise _refused_upgrade(classic, "the embedded consumer protocol is malformed.") from None
    if user_data:
        raise _refused_upgrade(
            classic,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
            "assignor before re-attempting the upgrade.",
        )
    return ConsumerMember(
        member.member_id,
        epoch=classic.generation,
        previous_epoch=classic.generation,
        instance_id=member.instance_id,
        rack=subscription.rack,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=frozenset(subscription.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMetadata(
            member.session_timeout_ms,
            tuple(OfferedProtocol(name, metadata) for name, metadata in member.protocols),
        ),
        assigned=dict.fromkeys(by_id(assigned, image), classic.generation),
    )


def upgrade_records(group: ConsumerGroup) -> list[CoordinatorRecord]:
    """A group that was made from a classic one, from nothing: what it asks for, its target, what it has."""
    group_id, members = group.group_id, group.members.values()
    return [
        *(subscription_record(group_id, member) for member in members),
        epoch_record(group_id, group.epoch, group.metadata_hash),
        *(target_record(group_id, member.id, group.target(member.id)) for member in members),
        target_epoch_record(group_id, group.target_epoch, group.target_timestamp_ms),
        *(assignment_record(group_id, member) for member in members),
    ]


# Downwards


def becomes_classic(
    gone: Iterable[ConsumerMember], remaining: Collection[ConsumerMember], configs: ConsumerGroupConfigs
) -> bool:
    """Whether a group in use goes on as a classic one: the last members of the new protocol are among the gone."""
    return (
        bool(remaining)
        and all(member.classic is not None for member in remaining)
        and any(member.classic is None for member in gone)
        and configs.allows_downgrade
        and len(remaining) <= configs.classic_max_size
    )


def to_classic(
    group: ConsumerGroup,
    members: Iterable[ConsumerMember],
    image: MetadataImage,
    rules: ClassicRules,
    *,
    targets: dict[str, Target] | None = None,
) -> ClassicGroup:
    """The same group with the classic protocol, Stable, with the targets for assignments."""
    known = group.targets if targets is None else targets
    downgraded = ClassicMembers()
    for member in members:
        downgraded.add(_downgraded(member, known.get(member.id, NO_TARGET), image))
    protocol = downgraded.choose_protocol()
    classic = ClassicGroup.load(
        group.group_id,
        GroupMetadataValue(
            protocol_type=PROTOCOL_TYPE,
            generation=group.epoch,
            protocol=protocol,
            leader=downgraded.leader,
            current_state_timestamp=rules.now_ms(),
            members=[member.as_record(protocol, member.assignment) for member in downgraded],
        ),
        rules,
    )
    for each in downgraded:
        # A record has the chosen protocol only, and the next rebalance may choose another.
        classic.members.update(
            classic.members[each.member_id],
            each.protocols,
            each.rebalance_timeout_ms,
            each.session_timeout_ms,
        )
    return classic


def _downgraded(member: ConsumerMember, target: Target, image: MetadataImage) -> ClassicMember:
    assert member.classic is not None, "a member of the new protocol has no place in a classic group"
    return ClassicMember(
        member.id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.classic.session_timeout_ms,
        PROTOCOL_TYPE,
        tuple((protocol.name, protocol.metadata) for protocol in member.classic.protocols),
        assignment_bytes(target, image, member.classic.protocols[0].metadata),
    )


# Partitions in the bytes of the classic protocol have names for topics


def by_id(partitions: Iterable[tuple[str, int]], image: MetadataImage) -> list[TopicPartition]:
    """Without those of topics that are gone."""
    return [(topic.id, index) for name, index in partitions if (topic := image.topics.get(name)) is not None]


def assignment_bytes(
    partitions: Iterable[TopicPartition], image: MetadataImage, subscription: bytes
) -> bytes:
    """An assignment in the version in which the member has written its subscription."""
    named = [
        (topic.name, index)
        for topic_id, index in sorted(partitions)
        if (topic := image.topics_by_id.get(topic_id)) is not None
    ]
    version = int.from_bytes(subscription[:2], "big", signed=True)
    return encode_assignment(named, version=min(max(version, 0), 3))
