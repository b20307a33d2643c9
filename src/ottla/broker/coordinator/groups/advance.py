"""What every heartbeat of a member does to its KIP-848 group, and every join of a classic member in one.

1. What the member asks for is written down if it has changed. If that, a regular expression or the topics themselves
   want another assignment, the group gets its next epoch.
2. A target that is behind the group's epoch is computed anew, though not more often than the group's config allows.
3. The member takes a step towards its target.

All of it comes back as records; the group changes when they are replayed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ottla.broker.coordinator.groups.consumer_group import ConsumerGroup, preferred_assignor
from ottla.broker.coordinator.groups.consumer_member import (
    JOINING,
    ConsumerMember,
    ResolvedRegex,
    Target,
    TopicPartition,
)
from ottla.broker.coordinator.groups.consumer_records import (
    assignment_record,
    epoch_record,
    regex_tombstone,
    subscription_record,
    target_epoch_record,
    target_record,
)
from ottla.broker.coordinator.groups.reconciliation import Owned, reconcile
from ottla.broker.coordinator.groups.target import compute_target, metadata_hash

if TYPE_CHECKING:
    from ottla.broker.coordinator.groups.consumer_configs import ConsumerGroupConfigs
    from ottla.broker.coordinator.shard import CoordinatorRecord
    from ottla.broker.metadata.image import MetadataImage


@dataclass(frozen=True, slots=True)
class Change:
    """A member as its request found it, and as it leaves it."""

    old: ConsumerMember
    new: ConsumerMember
    replaces: str | None = None
    """The id that the member had before: it is static, and has come back under another one."""

    @property
    def topics_changed(self) -> bool:
        return self.new.topics != self.old.topics

    @property
    def regex_changed(self) -> bool:
        return self.new.regex != self.old.regex


def advance(
    group: ConsumerGroup,
    change: Change,
    owned: Owned,
    *,
    image: MetadataImage,
    configs: ConsumerGroupConfigs,
    now_ms: int,
    records: list[CoordinatorRecord],
) -> ConsumerMember:
    """The member after the three steps; what is to be written is added to `records`."""
    if change.new != change.old:
        records.append(subscription_record(group.group_id, change.new))
    wants_epoch = change.topics_changed
    if change.regex_changed:
        wants_epoch |= _change_regex(group, change, records)
    epoch = next_epoch(group, _members_with(group, change), wants_epoch, image, records)
    target_epoch, target = _target(group, change, epoch, image, configs, now_ms, records)
    subscribed = group.topics_of(change.new)

    def is_subscribed(partition: TopicPartition) -> bool:
        topic = image.topics_by_id.get(partition[0])
        return topic is not None and topic.name in subscribed

    member = reconcile(
        change.new,
        target_epoch=target_epoch,
        target=target,
        is_owned=group.is_owned,
        is_subscribed=is_subscribed,
        subscription_changed=change.topics_changed or change.regex_changed,
        owned=owned,
    )
    if member is not change.new and member != change.new:
        records.append(assignment_record(group.group_id, member))
    return member


def next_epoch(
    group: ConsumerGroup,
    members: Collection[ConsumerMember],
    wanted: bool,
    image: MetadataImage,
    records: list[CoordinatorRecord],
    resolved: Mapping[str, ResolvedRegex] | None = None,
) -> int:
    """The epoch of the group with these members: another one if it is wanted, or if their topics have changed.

    `resolved` are regular expressions whose records are still to be replayed.
    """
    if not wanted and group.metadata_is_fresh:
        return group.epoch
    topics = frozenset().union(*(group.topics_of(member, resolved) for member in members))
    known = group.known_hash(topics)
    found = metadata_hash(image, topics) if known is None else known
    epoch = group.epoch + (wanted or found != group.metadata_hash)
    if epoch != group.epoch:
        records.append(epoch_record(group.group_id, epoch, found))
    group.refreshed_metadata(epoch, topics)
    return epoch


def _change_regex(group: ConsumerGroup, change: Change, records: list[CoordinatorRecord]) -> bool:
    """Whether the group needs another target now. Not for an expression that is still to be resolved: it matches
    nothing until then."""
    old, new = change.old.regex, change.new.regex
    if old is not None and group.subscribers_of_regex(old) == 1:
        records.append(regex_tombstone(group.group_id, old))
    return new is None or new in group.regexes


def _members_with(group: ConsumerGroup, change: Change) -> Collection[ConsumerMember]:
    """The members of the group as they are with this change."""
    members = dict(group.members)
    if change.replaces is not None:
        members.pop(change.replaces, None)
    members[change.new.id] = change.new
    return members.values()


def _target(
    group: ConsumerGroup,
    change: Change,
    epoch: int,
    image: MetadataImage,
    configs: ConsumerGroupConfigs,
    now_ms: int,
    records: list[CoordinatorRecord],
) -> tuple[int, Target]:
    """The epoch of the target, and the member's part of it."""
    known = dict(group.targets)
    if change.replaces is not None:
        known[change.new.id] = known.pop(change.replaces, frozenset())
    due = group.target_timestamp_ms + configs.assignment_interval_ms(group.group_id)
    if epoch == group.target_epoch or now_ms < due:
        return group.target_epoch, known.get(change.new.id, frozenset())
    members = _members_with(group, change)
    targets = compute_target(
        preferred_assignor(members, configs.default_assignor),
        members,
        {member.id: group.topics_of(member) for member in members},
        known,
        image,
    )
    records += [
        target_record(group.group_id, member_id, target)
        for member_id, target in targets.items()
        if known.get(member_id) != target
    ]
    records.append(target_epoch_record(group.group_id, epoch, now_ms))
    return epoch, targets[change.new.id]


def replacement(member: ConsumerMember, member_id: str) -> ConsumerMember:
    """A static member that comes back under another id, with what it had."""
    return replace(member, id=member_id, epoch=JOINING, previous_epoch=JOINING)
