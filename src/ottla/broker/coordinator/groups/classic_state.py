"""A classic group as its record says it and as its readers see it: state, generation, protocol, members.

What requests of members do to it is in classic.py. Every change of state goes through `_move`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol, Self

from ottla.broker.coordinator.groups.classic_members import ClassicMember, ClassicMembers
from ottla.broker.coordinator.groups.group import CommitAttempt, GroupType, PartitionCheck
from ottla.broker.coordinator.groups.records import GroupMetadataKey, GroupMetadataValue, encode
from ottla.broker.coordinator.shard import CoordinatorRecord, Result
from ottla.errors import (
    DecodeError,
    IllegalGenerationError,
    NonEmptyGroupError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from ottla.wire.messages import ConsumerProtocolSubscription

CONSUMER: Final = "consumer"
"""The protocol type of consumers; Connect and others have their own."""


class ClassicState(Enum):
    """In Kafka's spelling, as responses have it. Dead is a group that is not there."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


_MOVES: Final[Mapping[ClassicState, frozenset[ClassicState]]] = {
    ClassicState.EMPTY: frozenset({ClassicState.PREPARING_REBALANCE}),
    ClassicState.PREPARING_REBALANCE: frozenset({ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY}),
    ClassicState.COMPLETING_REBALANCE: frozenset({ClassicState.STABLE, ClassicState.PREPARING_REBALANCE}),
    ClassicState.STABLE: frozenset({ClassicState.PREPARING_REBALANCE}),
}


class GroupTimers(Protocol):
    def schedule(self, key: Hashable, delay: float, operation: Callable[[Any], Result[Any]]) -> None: ...

    def cancel(self, key: Hashable) -> None: ...


@dataclass(frozen=True, slots=True)
class ClassicRules:
    """What the group gets from its coordinator."""

    timers: GroupTimers
    now_ms: Callable[[], int]
    new_id: Callable[[], str]
    """A random part of a member id."""
    max_size: Callable[[], int]
    initial_delay_ms: Callable[[], int]


class RecordedGroup:
    """One group, without what its members request."""

    type = GroupType.CLASSIC

    def __init__(self, group_id: str, rules: ClassicRules) -> None:
        self.group_id = group_id
        self.state = ClassicState.EMPTY
        self.generation = 0
        self.protocol_type: str = ""
        self.protocol: str | None = None
        self.members = ClassicMembers()
        self.state_timestamp = rules.now_ms()
        """When the state last changed; -1 where an old record does not say it."""
        self._rules = rules
        self._before = ClassicState.EMPTY
        self._has_grown = False
        self._subscribed: frozenset[str] | None = None

    # Records

    @classmethod
    def load(cls, group_id: str, value: GroupMetadataValue, rules: ClassicRules) -> Self:
        """As its last record says. Timers begin with `start`."""
        group = cls(group_id, rules)
        group.generation = value.generation
        group.protocol_type = value.protocol_type
        group.protocol = value.protocol
        group.state_timestamp = value.current_state_timestamp
        for member in value.members:
            group.members.add(ClassicMember.of_record(member, value.protocol_type, value.protocol))
        group.members.leader = value.leader
        if value.members:
            group.state = ClassicState.STABLE
        group._subscribed = group._subscribed_topics()
        return group

    def record(self, assignments: Mapping[str, bytes] | None = None) -> CoordinatorRecord:
        """The group as it is, with these assignments, or those that the members have."""
        return encode(
            GroupMetadataKey(group=self.group_id),
            GroupMetadataValue(
                protocol_type=self.protocol_type,
                generation=self.generation,
                protocol=self.protocol,
                leader=self.members.leader,
                current_state_timestamp=self.state_timestamp,
                members=[
                    member.as_record(
                        self.protocol,
                        member.assignment if assignments is None else assignments.get(member.member_id, b""),
                    )
                    for member in self.members
                ],
            ),
        )

    def empty_record(self) -> CoordinatorRecord:
        """What a new group writes with its first join."""
        return encode(
            GroupMetadataKey(group=self.group_id),
            GroupMetadataValue(current_state_timestamp=self.state_timestamp),
        )

    def tombstones(self) -> Sequence[CoordinatorRecord]:
        return [encode(GroupMetadataKey(group=self.group_id), None)]

    # What others ask

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    @property
    def is_simple(self) -> bool:
        """It never had members: it is a name for offsets."""
        return not self.protocol_type

    def is_subscribed_to(self, topic: str) -> bool:
        if self._subscribed is None:
            return self.protocol_type == CONSUMER
        return topic in self._subscribed

    def validate_commit(self, attempt: CommitAttempt) -> PartitionCheck | None:
        if attempt.generation < 0 and self.state is ClassicState.EMPTY:
            return None
        if attempt.generation >= 0 or attempt.member_id or attempt.instance_id is not None:
            self.members.check(attempt.member_id, attempt.instance_id)
            if attempt.generation != self.generation:
                raise IllegalGenerationError
        elif not attempt.transactional:
            raise UnknownMemberIdError
        if not attempt.transactional and self.state is ClassicState.COMPLETING_REBALANCE:
            raise RebalanceInProgressError
        return None

    def validate_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Anyone may."""

    def validate_offset_delete(self) -> None:
        if self.state is not ClassicState.EMPTY and self.protocol_type != CONSUMER:
            raise NonEmptyGroupError

    def validate_delete(self) -> None:
        if self.state is not ClassicState.EMPTY:
            raise NonEmptyGroupError

    def offset_expires_from(self, commit_timestamp: int) -> int | None:
        if self.is_simple:
            return commit_timestamp
        if self.state is ClassicState.EMPTY:
            return commit_timestamp if self.state_timestamp == -1 else self.state_timestamp
        if (
            self.protocol_type == CONSUMER
            and self._subscribed is not None
            and self.state is ClassicState.STABLE
        ):
            return commit_timestamp
        return None

    def _move(self, state: ClassicState) -> None:
        assert state in _MOVES[self.state], f"{self.group_id}: from {self.state} to {state}"
        self._before, self.state = self.state, state
        self.state_timestamp = self._rules.now_ms()

    def _subscribed_topics(self) -> frozenset[str] | None:
        """Those of all members, where they are consumers and send what consumers send."""
        if self.protocol_type != CONSUMER:
            return None
        if not len(self.members):
            return frozenset()
        if self.protocol is None:
            return None
        topics: set[str] = set()
        try:
            for member in self.members:
                topics.update(subscription_topics(member.metadata(self.protocol)))
        except DecodeError:
            return None
        return frozenset(topics)


_SUBSCRIPTION_VERSION: Final = struct.Struct(">h")


def subscription_topics(metadata: bytes) -> list[str]:
    """What a consumer subscribes to: version 0 is how every version begins."""
    if len(metadata) < _SUBSCRIPTION_VERSION.size:
        raise DecodeError("a subscription without a version")
    decode = ConsumerProtocolSubscription.decoder(0)
    subscription, _ = decode(metadata, _SUBSCRIPTION_VERSION.size, len(metadata))
    topics: list[str] = subscription.topics
    return topics
