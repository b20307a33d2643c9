"""What an assignor of a classic group is given: members with their subscriptions, topics with their partitions.

A partition is a plain pair of topic and number. Member ids are unique in what an assignor is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Partition = tuple[str, int]
Assignment = dict[str, list[Partition]]
"""The partitions of each member, by member id; every member is in it."""

NO_GENERATION = -1


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """One member of a classic group, as its subscription describes it to the leader."""

    member_id: str
    topics: tuple[str, ...]
    instance_id: str | None = None
    rack: str | None = None
    owned: tuple[Partition, ...] = ()
    generation: int = NO_GENERATION
    """The generation in which the member was given `owned`."""
    user_data: bytes | None = None


@dataclass(frozen=True, slots=True)
class TopicLayout:
    """How many partitions a topic has, and on which racks the replicas of each lie."""

    partitions: int
    racks: Sequence[frozenset[str]] = ()
    """By partition; empty where no rack is known."""

    def racks_of(self, partition: int) -> frozenset[str]:
        return self.racks[partition] if partition < len(self.racks) else frozenset()


def member_order(member_id: str, instance_id: str | None) -> tuple[bool, str]:
    """Sorts static members by instance id before the others by member id.

    A static member that restarts gets a new member id, and keeps its place and thus its partitions.
    """
    return (instance_id is None, member_id if instance_id is None else instance_id)


def in_order(members: Iterable[MemberSubscription]) -> list[MemberSubscription]:
    return sorted(members, key=lambda member: member_order(member.member_id, member.instance_id))


def subscribers(
    members: Iterable[MemberSubscription], topics: Mapping[str, TopicLayout]
) -> dict[str, list[MemberSubscription]]:
    """The members of each topic that exists and has a subscriber, in the order of `members`; topics by name."""
    found: dict[str, list[MemberSubscription]] = {}
    for member in members:
        for topic in dict.fromkeys(member.topics):
            if topic in topics:
                found.setdefault(topic, []).append(member)
    return dict(sorted(found.items()))
