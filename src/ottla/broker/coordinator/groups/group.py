"""What the shard knows of a group, whichever protocol its members use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ottla.broker.coordinator.shard import CoordinatorRecord


class GroupType(Enum):
    """In Kafka's spelling, as responses have it."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


@dataclass(frozen=True, slots=True)
class CommitAttempt:
    """Who commits offsets."""

    member_id: str
    instance_id: str | None
    generation: int
    """Or the member's epoch; below 0 the sender is no member."""
    version: int
    """Of the request."""
    transactional: bool = False

    @property
    def names_nobody(self) -> bool:
        """As a producer that does not say for which member it commits (before KIP-447, none does)."""
        return self.generation == -1 and not self.member_id and self.instance_id is None


PartitionCheck = Callable[[str, int], None]
"""Raises the error with which a commit that has (topic, partition) is refused, all of it."""


class Group(Protocol):
    """A classic group or a consumer group."""

    @property
    def group_id(self) -> str: ...

    @property
    def type(self) -> GroupType: ...

    @property
    def state_name(self) -> str:
        """In Kafka's spelling, as responses have it."""

    @property
    def protocol_type(self) -> str:
        """Of its members; "" where there never were any."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""

    def validate_commit(self, attempt: CommitAttempt) -> PartitionCheck | None:
        """Raises the error with which a commit is refused; what is to be checked for each partition, if anything."""

    def validate_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raises the error with which a request for committed offsets is refused."""

    def validate_offset_delete(self) -> None:
        """Raises the error with which no offset of the group may be deleted."""

    def validate_delete(self) -> None:
        """Raises the error with which the group may not be deleted."""

    def is_subscribed_to(self, topic: str) -> bool: ...

    def offset_expires_from(self, commit_timestamp: int) -> int | None:
        """The time from which the retention of an offset that was committed then counts; None: it is kept."""

    def tombstones(self) -> Sequence[CoordinatorRecord]:
        """What removes the group, without its offsets."""
