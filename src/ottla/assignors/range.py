"""range: each topic by itself, in contiguous runs, the first members one partition more.

Topics of the same width that the same members read are cut alike, so a member gets the same numbers of each: that is
what joins of co-partitioned topics rely on, and racks (KIP-881) do not break it. Not sticky.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from ottla.assignors.racks import racks_matter
from ottla.assignors.subscription import (
    Assignment,
    MemberSubscription,
    Partition,
    TopicLayout,
    in_order,
    subscribers,
)


def assign_range(members: Sequence[MemberSubscription], topics: Mapping[str, TopicLayout]) -> Assignment:
    assignment: Assignment = {member.member_id: [] for member in members}
    shares = [
        _TopicShares(topic, topics[topic], readers)
        for topic, readers in subscribers(in_order(members), topics).items()
    ]
    if any(topic.racks_matter for topic in shares):
        _assign_near(shares)
    for topic in shares:
        topic.fill()
    for topic in shares:
        for number, member_id in sorted(topic.owners.items()):
            assignment[member_id].append((topic.name, number))
    return assignment


class _TopicShares:
    """One topic while it is dealt out: what each member may still take."""

    def __init__(self, name: str, layout: TopicLayout, readers: Sequence[MemberSubscription]) -> None:
        self.name = name
        self.readers = readers
        self.width = layout.partitions
        self.owners: dict[int, str] = {}
        self._share, self._extras = divmod(layout.partitions, len(readers))
        self._taken = {member.member_id: 0 for member in readers}
        self._racks = [layout.racks_of(number) for number in range(layout.partitions)]
        by_partition: dict[Partition, frozenset[str]] = {
            (name, number): racks for number, racks in enumerate(self._racks)
        }
        self.racks_matter = racks_matter(readers, by_partition)

    def near(self, member: MemberSubscription, number: int) -> bool:
        return not member.rack or member.rack in self._racks[number]

    def room(self, member: MemberSubscription) -> int:
        return max(0, self._share + (self._extras > 0) - self._taken[member.member_id])

    def take(self, member: MemberSubscription, numbers: Sequence[int]) -> None:
        for number in numbers:
            self.owners[number] = member.member_id
        self._taken[member.member_id] += len(numbers)
        if self._taken[member.member_id] > self._share:
            self._extras -= 1

    def fill_near(self) -> None:
        """Give each member in turn the first partitions that are near to it, up to its share."""
        left = list(range(self.width))
        for member in self.readers:
            chosen = list(islice((number for number in left if self.near(member, number)), self.room(member)))
            if chosen:
                self.take(member, chosen)
                left = [number for number in left if number not in self.owners]

    def fill(self) -> None:
        """Give each member in turn the first partitions that are left, up to its share."""
        left = [number for number in range(self.width) if number not in self.owners]
        begin = 0
        for member in self.readers:
            chosen = left[begin : begin + self.room(member)]
            if chosen:
                self.take(member, chosen)
                begin += len(chosen)


def _assign_near(shares: Iterable[_TopicShares]) -> None:
    alike: dict[tuple[tuple[str, ...], int], list[_TopicShares]] = {}
    for topic in shares:
        key = (tuple(member.member_id for member in topic.readers), topic.width)
        alike.setdefault(key, []).append(topic)
    for together in alike.values():
        if len(together) > 1:
            _assign_alike(together)
        elif together[0].racks_matter:
            together[0].fill_near()


def _assign_alike(together: Sequence[_TopicShares]) -> None:
    """Give the same number of all these topics to the first member that is near to all and has room in all."""
    with_room = list(together[0].readers)
    for number in range(together[0].width):
        for member in with_room:
            if all(topic.near(member, number) and topic.room(member) for topic in together):
                for topic in together:
                    topic.take(member, [number])
                if not any(topic.room(member) for topic in together):
                    with_room.remove(member)
                break
