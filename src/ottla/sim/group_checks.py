"""What must hold for the members of consumer groups whatever happens to them: rules over what they were told.

Members write down, in the order of its happening, which partitions they were given and had taken away, which records
they got, and which commits succeeded. A member that is cut off for longer than its session does not know that others
read its partitions, so two members may have one at the same time; what it cannot do is commit. So what a group has
committed before a partition is assigned binds that assignment, and not what others do with old ones.

Nothing here waits, and nothing knows a cluster.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from ottla.client.topic_partition import TopicPartition
from ottla.sim.checks import RuleViolation

_MOST_PLACES: Final = 5


class Assigned(NamedTuple):
    """A member was told that it reads these partitions from now on, beside those that it has."""

    group: str
    member: str
    partitions: tuple[TopicPartition, ...]


class TakenAway(NamedTuple):
    """A member was told that it does not read these any more: revoked, lost, or at its end."""

    group: str
    member: str
    partitions: tuple[TopicPartition, ...]


class Delivered(NamedTuple):
    """A member was given a record."""

    group: str
    member: str
    partition: TopicPartition
    offset: int


class Committed(NamedTuple):
    """A member was told that its commit has succeeded."""

    group: str
    member: str
    offsets: Mapping[TopicPartition, int]


class CallbackBegan(NamedTuple):
    group: str
    member: str


class CallbackEnded(NamedTuple):
    group: str
    member: str


GroupEvent: TypeAlias = Assigned | TakenAway | Delivered | Committed | CallbackBegan | CallbackEnded


@dataclass
class _Ownership:
    """One partition in the hands of one member, from its assignment on."""

    committed: int
    """What the group had committed by then."""
    next_offset: int | None = None


@dataclass
class GroupChecker:
    """Follows the events of all groups of a simulation; `violations` has what did not hold."""

    violations: list[RuleViolation] = field(default_factory=list)
    committed: dict[tuple[str, TopicPartition], int] = field(default_factory=dict)
    """The highest offset of each successful commit."""
    delivered: dict[tuple[str, TopicPartition], set[int]] = field(default_factory=lambda: defaultdict(set))
    deliveries: int = 0
    assignments: int = 0
    _owned: dict[tuple[str, str], dict[TopicPartition, _Ownership]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    _in_callback: set[tuple[str, str]] = field(default_factory=set)

    def take(self, event: GroupEvent) -> None:
        if isinstance(event, Delivered):
            self._delivered(event)
        elif isinstance(event, Committed):
            for partition, offset in event.offsets.items():
                key = event.group, partition
                self.committed[key] = max(offset, self.committed.get(key, 0))
        elif isinstance(event, Assigned):
            self._assigned(event)
        elif isinstance(event, TakenAway):
            self._taken_away(event)
        else:
            self._callback(event)

    def owned(self, group: str) -> dict[str, list[TopicPartition]]:
        """What each member of a group has now, as far as it knows."""
        return {
            member: sorted(owned) for (its_group, member), owned in self._owned.items() if its_group == group
        }

    def missing(self, group: str, ends: Mapping[TopicPartition, int]) -> Iterator[RuleViolation]:
        """Everything below these offsets has come to some member of the group."""
        for partition, end in ends.items():
            gaps = sorted(set(range(end)) - self.delivered[group, partition])
            if gaps:
                yield RuleViolation(
                    "never delivered",
                    f"{len(gaps)} of {end} offsets of {partition} came to no member of {group}, "
                    f"the first are {gaps[:_MOST_PLACES]}",
                )

    def _violated(self, rule: str, what: str) -> None:
        self.violations.append(RuleViolation(rule, what))

    def _assigned(self, event: Assigned) -> None:
        owned = self._owned[event.group, event.member]
        self.assignments += 1
        for partition in event.partitions:
            if partition in owned:
                self._violated("assigned twice", f"{event.member} of {event.group} has {partition} already")
            owned[partition] = _Ownership(self.committed.get((event.group, partition), 0))

    def _taken_away(self, event: TakenAway) -> None:
        owned = self._owned[event.group, event.member]
        for partition in event.partitions:
            if owned.pop(partition, None) is None:
                self._violated(
                    "taken away without need", f"{event.member} of {event.group} has no {partition}"
                )

    def _delivered(self, event: Delivered) -> None:
        self.deliveries += 1
        partition, offset = event.partition, event.offset
        where = f"{event.member} of {event.group} was given offset {offset} of {partition}"
        ownership = self._owned[event.group, event.member].get(partition)
        if ownership is None:
            self._violated("delivered without assignment", where)
            return
        if ownership.next_offset is None:
            if offset < ownership.committed:
                self._violated(
                    "delivered after its commit",
                    f"{where}, where {ownership.committed} was committed before the assignment",
                )
        elif offset != ownership.next_offset:
            self._violated("delivered out of turn", f"{where}, where {ownership.next_offset} was next")
        ownership.next_offset = offset + 1
        self.delivered[event.group, partition].add(offset)

    def _callback(self, event: CallbackBegan | CallbackEnded) -> None:
        key = event.group, event.member
        if isinstance(event, CallbackEnded):
            self._in_callback.discard(key)
        elif key in self._in_callback:
            self._violated("two callbacks at once", f"{event.member} of {event.group}")
        else:
            self._in_callback.add(key)


def nothing_left_behind(
    source: str, values: Sequence[bytes], copies: Sequence[bytes]
) -> Iterator[RuleViolation]:
    """Every value of a topic has been copied to the next one, at least once; and nothing else has."""
    missing = sorted(set(values) - set(copies))
    if missing:
        yield RuleViolation(
            "not copied", f"{len(missing)} values of {source}, the first are {missing[:_MOST_PLACES]}"
        )
    strange = sorted(set(copies) - set(values))
    if strange:
        yield RuleViolation(
            "copied from nowhere", f"{len(strange)} values, the first are {strange[:_MOST_PLACES]}"
        )
