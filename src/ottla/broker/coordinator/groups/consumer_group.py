"""A group of the KIP-848 protocol: its epochs, its members, the target of each, and who has which partition.

All of it is in records of the group, and changes only when one is replayed. What has to be done is decided elsewhere:
heartbeat.py for members of this protocol, classic_members.py for those of the old one, migration.py for groups that
change from one to the other.

Three epochs follow one another. The group's grows with every change that wants another assignment, the target's
becomes the group's when that is computed, and each member's becomes the target's when it has given up what it must.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Final

from ottla.broker.configs.names import hash_order
from ottla.broker.coordinator.groups.consumer_member import (
    LEAVING,
    NO_TARGET,
    ConsumerMember,
    ResolvedRegex,
    Target,
    TopicPartition,
)
from ottla.broker.coordinator.groups.consumer_records import (
    ConsumerGroupKey,
    group_tombstones,
    with_assignment,
    with_subscription,
)
from ottla.broker.coordinator.groups.group import CommitAttempt, GroupType, PartitionCheck
from ottla.broker.coordinator.groups.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    RecordValue,
)
from ottla.errors import (
    BrokerError,
    IllegalGenerationError,
    NonEmptyGroupError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnsupportedVersionError,
)

if TYPE_CHECKING:
    from ottla.broker.coordinator.shard import CoordinatorRecord
    from ottla.broker.metadata.image import MetadataImage

FIRST_EPOCH: Final = 1
"""A group without a record of its epoch, which is one that has never had a subscription, is at the first."""
PROTOCOL_TYPE: Final = "consumer"
"""The protocol type of classic groups whose members' assignors are Kafka's own, and that of every KIP-848 group."""


_EPOCHS_IN_COMMITS_SINCE: Final = 9
"""The version of OffsetCommit from which on it has a member epoch and says STALE_MEMBER_EPOCH."""


class ConsumerGroupState(Enum):
    """By the names that clients see."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup:
    """One group. The methods that change it are those that replay a record."""

    type = GroupType.CONSUMER
    protocol_type = PROTOCOL_TYPE

    def __init__(self, group_id: str, image: MetadataImage) -> None:
        self.group_id = group_id
        self._image = image
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        """Of the topics that the group is subscribed to, as they were when the group got its epoch."""
        self.target_epoch = FIRST_EPOCH
        self.target_timestamp_ms = 0
        """When the target was computed."""
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, Target] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self._fresh_epoch: int | None = None
        self._fresh_topics = frozenset[str]()
        self._static_ids: dict[str, str] = {}
        self._owners: dict[TopicPartition, str] = {}
        self._subscribed_topics: frozenset[str] | None = None

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.target_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return not self.members

    def member(self, member_id: str) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberIdError(f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """The member of an instance, whatever its id."""
        member_id = None if instance_id is None else self._static_ids.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def target(self, member_id: str) -> Target:
        return self.targets.get(member_id, NO_TARGET)

    def is_owned(self, partition: TopicPartition) -> bool:
        """Whether some member has it, to read or to give up."""
        return partition in self._owners

    def owner(self, partition: TopicPartition) -> str | None:
        return self._owners.get(partition)

    def assignor(self, default: str) -> str:
        """The assignor that most members ask for; members that ask for none have no vote."""
        return preferred_assignor(self.members.values(), default)

    def topics_of(
        self, member: ConsumerMember, resolved: Mapping[str, ResolvedRegex] | None = None
    ) -> frozenset[str]:
        """What a member is subscribed to: by name, and by a regular expression that has been resolved."""
        regexes = self.regexes if resolved is None else resolved
        found = None if member.regex is None else regexes.get(member.regex)
        return member.topics if found is None else member.topics | found.topics

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """The topics of all members."""
        if self._subscribed_topics is None:
            self._subscribed_topics = frozenset().union(
                *(self.topics_of(member) for member in self.members.values())
            )
        return self._subscribed_topics

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed_topics

    def subscribers_of_regex(self, regex: str) -> int:
        return sum(member.regex == regex for member in self.members.values())

    @property
    def subscribed_regexes(self) -> set[str]:
        return {member.regex for member in self.members.values() if member.regex}

    @property
    def metadata_is_fresh(self) -> bool:
        """Whether the hash is that of the topics as they are. Not known after a load: topics may have changed.

        Not a part of the records. An epoch that was computed and then could not be written leaves it unknown.
        """
        return self._fresh_epoch is not None and self.epoch >= self._fresh_epoch

    def refreshed_metadata(self, epoch: int, topics: frozenset[str]) -> None:
        """The hash has been compared with these topics, which gave this epoch."""
        self._fresh_epoch = epoch
        self._fresh_topics = topics

    def known_hash(self, topics: frozenset[str]) -> int | None:
        """The hash of these topics, where it is that of the group."""
        return self.metadata_hash if self.metadata_is_fresh and topics == self._fresh_topics else None

    def request_metadata_refresh(self) -> None:
        """A topic of the group has changed."""
        self._fresh_epoch = None

    def classic_members(self) -> Iterator[ConsumerMember]:
        return (member for member in self.members.values() if member.classic is not None)

    # What the shard asks of any group

    def validate_commit(self, attempt: CommitAttempt) -> PartitionCheck | None:
        if attempt.generation < 0 and self.is_empty:
            return None
        if attempt.transactional and attempt.names_nobody:
            return None
        member = self.member(attempt.member_id)
        is_classic = member.classic is not None
        if not attempt.transactional and not is_classic and attempt.version < _EPOCHS_IN_COMMITS_SINCE:
            raise UnsupportedVersionError(
                "OffsetCommit version 9 or above must be used by members using the modern group protocol"
            )
        if attempt.generation == member.epoch:
            return None
        stale = _stale(attempt.generation, member, transactional=attempt.transactional)
        if is_classic or attempt.generation > member.epoch:
            raise stale

        # An older epoch is that of a member that has not heard of its next one; what it held then and still holds
        # it may commit (KIP-1251).
        def check(topic: str, partition: int) -> None:
            known = self._image.topics.get(topic)
            since = None if known is None else member.assigned_at((known.id, partition))
            if since is None or attempt.generation < since:
                raise stale

        return check

    def validate_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        member = self.member(member_id or "")
        if member_epoch != member.epoch:
            raise _stale(member_epoch, member)

    def validate_offset_delete(self) -> None:
        """Any, but of topics that are read: the shard sees to that."""

    def validate_delete(self) -> None:
        if not self.is_empty:
            raise NonEmptyGroupError

    def offset_expires_from(self, commit_timestamp: int) -> int | None:
        return commit_timestamp

    def tombstones(self) -> Sequence[CoordinatorRecord]:
        return list(group_tombstones(self.group_id, list(self.members), list(self.regexes)))

    # Replay: the only way in which the state above changes.

    def replay(self, key: ConsumerGroupKey, value: RecordValue | None) -> None:
        """Applies a record. The end of the group, a tombstone of its epoch, is the shard's affair."""
        match key, value:
            case ConsumerGroupMetadataKey(), ConsumerGroupMetadataValue():
                self.replay_epoch(value.epoch, value.metadata_hash)
            case ConsumerGroupTargetAssignmentMetadataKey(), ConsumerGroupTargetAssignmentMetadataValue():
                self.replay_target_epoch(value.assignment_epoch, value.assignment_timestamp)
            case ConsumerGroupTargetAssignmentMemberKey(), ConsumerGroupTargetAssignmentMemberValue():
                topics = value.topic_partitions
                target = frozenset((each.topic_id, index) for each in topics for index in each.partitions)
                self.replay_target(key.member_id, target)
            case ConsumerGroupTargetAssignmentMemberKey(), None:
                self.replay_target(key.member_id, None)
            case ConsumerGroupRegularExpressionKey(), ConsumerGroupRegularExpressionValue():
                resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
                self.replay_regex(key.regular_expression, resolved)
            case ConsumerGroupRegularExpressionKey(), None:
                self.replay_regex(key.regular_expression, None)
            case ConsumerGroupMemberMetadataKey(), ConsumerGroupMemberMetadataValue():
                self.replay_member(with_subscription(self._known(key.member_id), value))
            case ConsumerGroupMemberMetadataKey(), None:
                self.replay_removal(key.member_id)
            case ConsumerGroupCurrentMemberAssignmentKey(), ConsumerGroupCurrentMemberAssignmentValue():
                self.replay_member(with_assignment(self._known(key.member_id), value))
            case ConsumerGroupCurrentMemberAssignmentKey(), None if key.member_id in self.members:
                member = self._known(key.member_id)
                self.replay_member(
                    replace(member, epoch=LEAVING, previous_epoch=LEAVING, assigned={}, pending={})
                )

    def _known(self, member_id: str) -> ConsumerMember:
        return self.members.get(member_id) or ConsumerMember(member_id)

    def replay_epoch(self, epoch: int, metadata_hash: int) -> None:
        self.epoch = epoch
        self.metadata_hash = metadata_hash

    def replay_target_epoch(self, epoch: int, timestamp_ms: int) -> None:
        self.target_epoch = epoch
        self.target_timestamp_ms = timestamp_ms

    def replay_target(self, member_id: str, target: Target | None) -> None:
        if target is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = target

    def replay_regex(self, regex: str, resolved: ResolvedRegex | None) -> None:
        if resolved is None:
            self.regexes.pop(regex, None)
        else:
            self.regexes[regex] = resolved
        self._subscribed_topics = None

    def replay_member(self, member: ConsumerMember) -> None:
        """Adds a member or replaces it by its next value."""
        old = self.members.get(member.id)
        if old is not None:
            self._release(old)
        self.members[member.id] = member
        for partition in (*member.assigned, *member.pending):
            self._owners[partition] = member.id
        if member.instance_id is not None:
            self._static_ids[member.instance_id] = member.id
        if old is None or (old.topics, old.regex) != (member.topics, member.regex):
            self._subscribed_topics = None

    def replay_removal(self, member_id: str) -> None:
        old = self.members.pop(member_id, None)
        if old is None:
            return
        self._release(old)
        # A static member that was replaced is removed after its instance has passed to another id.
        if old.instance_id is not None and self._static_ids.get(old.instance_id) == member_id:
            del self._static_ids[old.instance_id]
        self._subscribed_topics = None

    def _release(self, member: ConsumerMember) -> None:
        # A partition that has another owner by now stays with it: a compacted log may have the record by which a
        # member gave up a partition behind the one by which the next member got it.
        for partition in (*member.assigned, *member.pending):
            if self._owners.get(partition) == member.id:
                del self._owners[partition]


def preferred_assignor(members: Iterable[ConsumerMember], default: str) -> str:
    """The assignor that most of the members ask for; of two with as many votes the first in Java's hash order."""
    votes = Counter(member.assignor for member in members if member.assignor is not None)
    return max(hash_order(votes), key=votes.__getitem__, default=default)


def _stale(epoch: int, member: ConsumerMember, *, transactional: bool = False) -> BrokerError:
    if member.classic is not None:
        return IllegalGenerationError(
            f"The received generation id {epoch} does not match the expected member epoch {member.epoch}."
        )
    message = f"The received member epoch {epoch} does not match the expected member epoch {member.epoch}."
    # The responses of transactional commits know no stale epochs.
    return IllegalGenerationError(message) if transactional else StaleMemberEpochError(message)
