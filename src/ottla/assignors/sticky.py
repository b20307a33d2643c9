"""sticky and cooperative-sticky: balanced, and every member keeps what it owns as far as that allows.

Claims come first. A partition that two members say they own belongs to the one with the higher generation; claims
of one generation void each other, since either member may be the one that is behind. Where all members read the same
topics, shares are known from the start and the assignment is made in one pass (`_EqualTopics`); otherwise the least
loaded member is filled up and the rest balanced (`mixed`).

cooperative-sticky withholds what another member still owns: a member revokes before the next rebalance gives it away
(KIP-429). It comes to rest, but for one rare case that Kafka's client has as well, round for round: members that read
different topics and have racks. What lies on another rack is dropped before the partitions that none owns are dealt,
and the balance that follows may give it back to the same member, so that each round undoes the last.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from ottla.assignors.mixed import MixedAssignment
from ottla.assignors.protocol import decode_cooperative_data, decode_sticky_data
from ottla.assignors.racks import RackView
from ottla.assignors.subscription import (
    NO_GENERATION,
    Assignment,
    MemberSubscription,
    Partition,
    TopicLayout,
    subscribers,
)


def assign_sticky(members: Sequence[MemberSubscription], topics: Mapping[str, TopicLayout]) -> Assignment:
    """A member of an eager group joins with nothing: what it had, and since when, is in its user data."""
    claiming = []
    for member in members:
        owned, generation = decode_sticky_data(member.user_data)
        claiming.append(replace(member, owned=tuple(owned), generation=generation))
    return _assign(claiming, topics).assignment


def assign_cooperative_sticky(
    members: Sequence[MemberSubscription], topics: Mapping[str, TopicLayout]
) -> Assignment:
    claiming = [
        member
        if member.generation != NO_GENERATION
        else replace(member, generation=decode_cooperative_data(member.user_data))
        for member in members
    ]
    outcome = _assign(claiming, topics)
    withheld = outcome.withheld
    return {
        member_id: [partition for partition in partitions if partition not in withheld]
        for member_id, partitions in outcome.assignment.items()
    }


@dataclass(slots=True)
class _Outcome:
    assignment: Assignment
    withheld: set[Partition]
    """What goes to a member while another still owns it, or several members claim it."""


@dataclass(slots=True)
class _Claims:
    """Who owns what, after claims of several members for one partition are settled."""

    owned: dict[str, list[Partition]]
    owner: dict[Partition, str] = field(default_factory=dict)
    disputed: set[Partition] = field(default_factory=set)
    former: dict[Partition, str] = field(default_factory=dict)
    """The member that claims a partition with the highest generation below that of the group."""


def _assign(members: Sequence[MemberSubscription], topics: Mapping[str, TopicLayout]) -> _Outcome:
    # By id: which members get one partition more, and which of two equal claims is looked at first, must not depend
    # on the order in which the coordinator lists the members.
    members = sorted(members, key=lambda member: member.member_id)
    readers = {
        topic: [member.member_id for member in reading]
        for topic, reading in subscribers(members, topics).items()
    }
    racks = RackView(
        members,
        {
            (topic, number): topics[topic].racks_of(number)
            for topic in readers
            for number in range(topics[topic].partitions)
        }
        if any(member.rack for member in members)
        else {},
    )
    claims = _settle(members, {topic: topics[topic].partitions for topic in readers})
    if len({frozenset(member.topics) for member in members}) == 1:
        partitions = [(topic, number) for topic in readers for number in range(topics[topic].partitions)]
        return _EqualTopics(partitions, racks, claims).assign()
    return _assign_mixed(members, readers, topics, racks, claims)


def _settle(members: Sequence[MemberSubscription], widths: Mapping[str, int]) -> _Claims:
    generations = {member.member_id: member.generation for member in members}
    latest = max(generations.values(), default=NO_GENERATION)
    owned: dict[str, dict[Partition, None]] = {member.member_id: {} for member in members}
    claims = _Claims(owned={})
    former: dict[Partition, tuple[int, str]] = {}
    for member in members:
        for partition in dict.fromkeys(member.owned):
            topic, number = partition
            if not 0 <= number < widths.get(topic, 0):
                continue
            if member.generation < latest and topic in member.topics:
                known = former.get(partition)
                if known is None or member.generation > known[0]:
                    former[partition] = (member.generation, member.member_id)
            other = claims.owner.get(partition)
            if other is None:
                owned[member.member_id][partition] = None
            elif member.generation < generations[other]:
                continue
            else:
                owned[other].pop(partition, None)
                if member.generation > generations[other]:
                    owned[member.member_id][partition] = None
                else:
                    claims.disputed.add(partition)
            claims.owner[partition] = member.member_id
    claims.owned = {member_id: list(partitions) for member_id, partitions in owned.items()}
    claims.former = {partition: member_id for partition, (_, member_id) in former.items()}
    return claims


class _EqualTopics:
    """All members read the same topics: each gets the floor of the average, some one more.

    `_short` are members below the floor, `_at_floor` those that may get one of the extras that are left.
    """

    def __init__(self, partitions: Sequence[Partition], racks: RackView, claims: _Claims) -> None:
        self._partitions = partitions
        self._racks = racks
        self._claims = claims
        self._floor, self._extras = divmod(len(partitions), len(claims.owned))
        self._assignment: Assignment = {member: [] for member in claims.owned}
        self._short: deque[str] = deque()
        self._at_floor: deque[str] = deque()
        self._shed: dict[Partition, str] = {}
        self._withheld: set[Partition] = set()

    def assign(self) -> _Outcome:
        for member in self._claims.owned:
            self._keep(member)
        if not self._extras:
            self._at_floor.clear()
        kept = {partition for partitions in self._assignment.values() for partition in partitions}
        pool = [partition for partition in self._partitions if partition not in kept]
        if self._racks.active:
            # Those with the fewest members to choose from choose first.
            pool.sort(key=self._racks.members_near)
            pool = self._deal_near(pool)
        self._deal(pool)
        return _Outcome(self._assignment, self._withheld)

    def _keep(self, member: str) -> None:
        """Keep what the member owns, up to its share."""
        valid = []
        for partition in sorted(self._claims.owned[member], key=lambda owned: (owned[1], owned[0])):
            if self._racks.active and self._racks.mismatch(member, partition):
                self._shed[partition] = member
            elif partition not in self._claims.disputed:
                valid.append(partition)
        if len(valid) < self._floor:
            share = len(valid)
            self._short.append(member)
        elif len(valid) > self._floor and self._extras:
            share = self._floor + 1
            self._extras -= 1
        else:
            share = self._floor
            self._at_floor.append(member)
        self._assignment[member] += valid[:share]
        self._shed.update(dict.fromkeys(valid[share:], member))

    def _deal(self, pool: Sequence[Partition]) -> None:
        """One each in turn to the members below the floor, then one each to those that may have an extra."""
        for partition in pool:
            if self._short:
                member = self._short.popleft()
                self._give(partition, member)
                if len(self._assignment[member]) < self._floor:
                    self._short.append(member)
                else:
                    self._at_floor.append(member)
            else:
                self._give(partition, self._at_floor.popleft())

    def _deal_near(self, pool: Sequence[Partition]) -> list[Partition]:
        """The same among members on a rack of the partition; gives back what has none with room."""
        left = []
        short, at_floor = _Row(self._short, self._racks), _Row(self._at_floor, self._racks)
        turn = 0
        for partition in pool:
            index = short.find(partition, turn)
            if index is not None:
                member = short.members[index]
                self._give(partition, member)
                if len(self._assignment[member]) >= self._floor:
                    short.remove(index)
                    if self._extras:
                        at_floor.append(member)
                else:
                    index += 1
                turn = index % len(short.members) if short.members else 0
                continue
            index = at_floor.find(partition, 0)
            if index is None or not self._extras:
                left.append(partition)
                continue
            self._give(partition, at_floor.members[index])
            at_floor.remove(index)
            self._extras -= 1
        self._short = deque(short.members)
        self._at_floor = deque(at_floor.members if self._extras else ())
        return left

    def _give(self, partition: Partition, member: str) -> None:
        self._assignment[member].append(partition)
        if self._shed.get(partition, member) != member or partition in self._claims.disputed:
            self._withheld.add(partition)


class _Row:
    """Members in order, among which the next one on a rack is looked for."""

    def __init__(self, members: deque[str], racks: RackView) -> None:
        self.members = list(members)
        self._racks = racks
        self._on_rack = Counter(racks.of_member[member] for member in members if member in racks.of_member)

    def find(self, partition: Partition, begin: int) -> int | None:
        near = self._racks.of_partition[partition]
        # Most often no member of the row is on these racks any more: then the row is not walked through.
        if not any(self._on_rack[rack] for rack in near):
            return None
        for step in range(len(self.members)):
            index = (begin + step) % len(self.members)
            if self._racks.of_member.get(self.members[index]) in near:
                return index
        return None

    def remove(self, index: int) -> None:
        self._on_rack[self._racks.of_member[self.members.pop(index)]] -= 1

    def append(self, member: str) -> None:
        self.members.append(member)
        self._on_rack[self._racks.of_member[member]] += 1


def _assign_mixed(
    members: Sequence[MemberSubscription],
    readers: Mapping[str, Sequence[str]],
    topics: Mapping[str, TopicLayout],
    racks: RackView,
    claims: _Claims,
) -> _Outcome:
    reads = {member.member_id: frozenset(member.topics) for member in members}
    kept: dict[str, list[Partition]] = {}
    for member, partitions in claims.owned.items():
        kept[member] = [
            partition
            for partition in partitions
            if partition[0] in reads[member] and not (racks.active and racks.mismatch(member, partition))
        ]
    revoking = any(len(kept[member]) < len(partitions) for member, partitions in claims.owned.items())
    # Topics with few readers first: their partitions have fewer places to go.
    ordered = sorted(readers, key=lambda topic: (len(readers[topic]), topic))
    every = [(topic, number) for topic in ordered for number in range(topics[topic].partitions)]
    assignment = MixedAssignment[str](readers, kept)
    unowned = [partition for partition in every if partition not in assignment.owner]

    left = unowned
    if racks.active:

        @cache
        def near(topic: str, replicas: frozenset[str]) -> tuple[str, ...]:
            allowed = {None, *replicas}
            return tuple(member for member in readers[topic] if racks.of_member.get(member) in allowed)

        left = assignment.fill(unowned, lambda partition: near(partition[0], racks.of_partition[partition]))
    assignment.fill(left)
    if not revoking:
        # Nothing must be taken from a member yet, so what none owned is moved first.
        assignment.balance(unowned, claims.former)
    assignment.balance(every, claims.former)

    final = {member: list(partitions) for member, partitions in assignment.owned.items()}
    return _Outcome(final, _still_owned(members, assignment.owner) | claims.disputed)


def _still_owned(members: Sequence[MemberSubscription], owner: Mapping[Partition, str]) -> set[Partition]:
    """What goes to a member that did not own it, while another says that it does."""
    claimants: dict[Partition, set[str]] = {}
    for member in members:
        for partition in member.owned:
            claimants.setdefault(partition, set()).add(member.member_id)
    return {
        partition for partition, by in claimants.items() if partition in owner and owner[partition] not in by
    }
