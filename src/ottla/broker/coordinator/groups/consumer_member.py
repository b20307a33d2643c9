"""A member of a KIP-848 group, as its coordinator knows it: what it asked for, and how far it has come.

Members are values: a record of the group replaces one, nothing changes it. What a member asked for and what it has
come in records of their own, so that `subscribed` and `assigned` each keep the other half.

A member has a partition from the heartbeat that gave it until the coordinator knows that it was given up:
`assigned` and `pending` together, which share no partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final

from ottla.wire import Uuid

TopicPartition = tuple[Uuid, int]
"""A partition by its topic's id: a topic that is deleted and made again is another one."""

JOINING: Final = 0
LEAVING: Final = -1
LEAVING_STATIC: Final = -2
"""The epochs that members send, or have, outside of the group's: the last for a static member that will be back."""


Target = frozenset[TopicPartition]
"""What a member is to have."""
NO_TARGET: Final[Target] = frozenset()


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that a regular expression had at some time, in some state of the cluster's metadata."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class MemberState(IntEnum):
    """How far a member is on its way to its target, with the numbers of the records."""

    STABLE = 0
    UNREVOKED = 1
    """It has partitions to give up, and has not said that it did."""
    UNRELEASED = 2
    """It waits for partitions that other members have to give up."""


@dataclass(frozen=True, slots=True)
class OfferedProtocol:
    """An assignor that a member of the classic protocol has, and the bytes that it would hand to it."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True)
class ClassicMetadata:
    """What there is to know of a member that uses the classic protocol in a KIP-848 group."""

    session_timeout_ms: int
    protocols: tuple[OfferedProtocol, ...]


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    id: str
    epoch: int = JOINING
    previous_epoch: int = JOINING
    """The epoch before this one, which a member has that did not get the last response."""
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str | None = None
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMetadata | None = None
    assigned: Mapping[TopicPartition, int] = field(default_factory=dict)
    """What the member may read, each with the epoch at which it got it (KIP-1251)."""
    pending: Mapping[TopicPartition, int] = field(default_factory=dict)
    """What it has been told to give up, and may still read."""

    @property
    def has_left(self) -> bool:
        """A static member that will be back: its partitions wait for it until its session ends."""
        return self.epoch == LEAVING_STATIC

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def assigned_at(self, partition: TopicPartition) -> int | None:
        """The epoch at which it got a partition that it has; None for any other."""
        epoch = self.assigned.get(partition)
        return self.pending.get(partition) if epoch is None else epoch

    def moved(
        self,
        epoch: int,
        state: MemberState,
        assigned: Mapping[TopicPartition, int],
        pending: Mapping[TopicPartition, int],
    ) -> ConsumerMember:
        """The member at its next step; the epoch that it leaves becomes its previous one, also where it stays."""
        return replace(
            self, epoch=epoch, previous_epoch=self.epoch, state=state, assigned=assigned, pending=pending
        )


def topics_of(partitions: Iterable[TopicPartition]) -> dict[Uuid, list[int]]:
    """The partitions of each topic, ascending: the form in which records and responses have them."""
    topics: dict[Uuid, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return topics
