"""The target of a KIP-848 group: "uniform" and "range", computed by its coordinator.

Topics are keyed by id (or by name); the previous target is what "uniform" keeps as much of as balance allows. "range"
is not sticky: it cuts each topic into contiguous runs, like the client's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ottla.assignors.mixed import MixedAssignment
from ottla.assignors.subscription import member_order

T = TypeVar("T", bound=str | bytes)

Target = dict[str, dict[T, list[int]]]
"""The partitions of each member by topic, ascending; every member is in it, and no topic without partitions."""


@dataclass(frozen=True, slots=True)
class TargetMember(Generic[T]):
    """One member of a KIP-848 group, as its coordinator knows it."""

    member_id: str
    topics: Collection[T]
    """What it is subscribed to, by name and by regex. Topics that do not exist are passed over."""
    instance_id: str | None = None
    target: Mapping[T, Collection[int]] = field(default_factory=dict)
    """What the previous target assignment gave it."""


def target_range(members: Sequence[TargetMember[T]], topics: Mapping[T, int]) -> Target[T]:
    """`topics` is how many partitions each topic has."""
    target: Target[T] = {member.member_id: {} for member in members}
    ordered = sorted(members, key=lambda member: member_order(member.member_id, member.instance_id))
    for topic, readers in sorted(_readers(ordered, topics).items()):
        share, extras = divmod(topics[topic], len(readers))
        begin = 0
        for index, member_id in enumerate(readers):
            end = begin + share + (index < extras)
            if end > begin:
                target[member_id][topic] = list(range(begin, end))
            begin = end
    return target


def target_uniform(members: Sequence[TargetMember[T]], topics: Mapping[T, int]) -> Target[T]:
    """`topics` is how many partitions each topic has."""
    if not members:
        return {}
    ordered = sorted(members, key=lambda member: member.member_id)
    readers = _readers(ordered, topics)
    kept = _kept(ordered, topics)
    if all(len(reading) == len(ordered) for reading in readers.values()):
        return _by_topic(_assign_equal(sorted(readers), topics, kept))
    return _by_topic(_assign_mixed(readers, topics, kept))


def _assign_equal(
    subscribed: Iterable[T], topics: Mapping[T, int], kept: dict[str, list[tuple[T, int]]]
) -> dict[str, list[tuple[T, int]]]:
    """All members read the same topics: each keeps its share, and the members that lack some take what is left."""
    every = [(topic, number) for topic in subscribed for number in range(topics[topic])]
    share, extras = divmod(len(every), len(kept))
    quotas = dict.fromkeys(kept, share)
    # The members with the most keep the one partition more, so that fewer partitions move.
    for member in sorted(kept, key=lambda member: -len(kept[member]))[:extras]:
        quotas[member] += 1
    assigned = {member: sorted(partitions)[: quotas[member]] for member, partitions in kept.items()}
    taken = {partition for partitions in assigned.values() for partition in partitions}
    pool = (partition for partition in every if partition not in taken)
    for member, partitions in assigned.items():
        partitions += [next(pool) for _ in range(quotas[member] - len(partitions))]
    return assigned


def _assign_mixed(
    readers: Mapping[T, Sequence[str]], topics: Mapping[T, int], kept: dict[str, list[tuple[T, int]]]
) -> dict[str, list[tuple[T, int]]]:
    assignment = MixedAssignment[T](readers, kept)
    # Topics with many partitions for each reader first; the small ones then even out what is left uneven.
    ordered = sorted(
        readers, key=lambda topic: (-topics[topic] / len(readers[topic]), len(readers[topic]), topic)
    )
    every = [(topic, number) for topic in ordered for number in range(topics[topic])]
    assignment.fill([partition for partition in every if partition not in assignment.owner])
    assignment.balance(every, {})
    return {member: list(partitions) for member, partitions in assignment.owned.items()}


def _readers(members: Iterable[TargetMember[T]], topics: Mapping[T, int]) -> dict[T, list[str]]:
    """The ids of the members of each topic that exists, in the order of `members`."""
    readers: dict[T, list[str]] = {}
    for member in members:
        for topic in dict.fromkeys(member.topics):
            if topic in topics:
                readers.setdefault(topic, []).append(member.member_id)
    return readers


def _kept(members: Iterable[TargetMember[T]], topics: Mapping[T, int]) -> dict[str, list[tuple[T, int]]]:
    """What each member may keep: partitions that exist, of topics that it reads, each of one member."""
    taken: set[tuple[T, int]] = set()
    kept: dict[str, list[tuple[T, int]]] = {}
    for member in members:
        reads = frozenset(member.topics)
        mine = [
            (topic, number)
            for topic, numbers in member.target.items()
            if topic in reads
            for number in numbers
            if 0 <= number < topics.get(topic, 0) and (topic, number) not in taken
        ]
        taken.update(mine)
        kept[member.member_id] = mine
    return kept


def _by_topic(assigned: Mapping[str, Iterable[tuple[T, int]]]) -> Target[T]:
    target: Target[T] = {}
    for member_id, partitions in assigned.items():
        mine = target[member_id] = {}
        for topic, number in sorted(partitions):
            mine.setdefault(topic, []).append(number)
    return target
