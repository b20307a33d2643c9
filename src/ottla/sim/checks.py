"""What must hold of a cluster whatever happens to it: rules over a history and over the logs in the end.

A history is what clients were told: which records were acknowledged at which offsets, which came to a reader. The
logs are those of all replicas, after everything has healed. Rules that need to see the cluster while it runs are in
watch.py. Nothing here waits, and nothing knows a cluster.

A record is written as "writer partition number", so that every value occurs once in a history and says what its
order is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice, pairwise, zip_longest
from typing import Final, NamedTuple

_MOST_PLACES: Final = 5


class RuleViolation(NamedTuple):
    """One rule that does not hold, and where it shows."""

    rule: str
    what: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.what}"


class LoggedRecord(NamedTuple):
    """A record in the log of a replica."""

    offset: int
    value: bytes
    leader_epoch: int


class WrittenRecord(NamedTuple):
    """A record that a producer was given, and what became of it."""

    value: bytes
    partition: int
    offset: int | None
    """Where it is stored, of one that was acknowledged."""
    may_be_stored: bool = True
    """Of one that failed: whether that is left open."""
    sent_ms: int = 0
    """When the producer was given it,"""
    told_ms: int = 0
    """and when its outcome was known."""


class ReadRecord(NamedTuple):
    """A record that a consumer was given."""

    partition: int
    offset: int
    value: bytes


@dataclass
class History:
    """What clients were told."""

    written: list[WrittenRecord] = field(default_factory=list)
    read: dict[str, list[ReadRecord]] = field(default_factory=dict)
    """In the order of their coming, by the reader that they came to: from the first record of a log on."""

    @property
    def acknowledged(self) -> int:
        return sum(record.offset is not None for record in self.written)


ReplicaLogs = Mapping[int, list[LoggedRecord]]
"""By the node: the log of one partition on each of its replicas, up to the high watermark of each."""
FinalLogs = Mapping[int, ReplicaLogs]
"""By the number of the partition."""

Rule = Callable[[History, FinalLogs], Iterator[RuleViolation]]


def record_value(writer: str, partition: int, number: int) -> bytes:
    return f"{writer} {partition} {number}".encode()


def record_key(value: bytes, keys: int) -> bytes | None:
    """The key of a record where every writer has so many."""
    writer, _, number = value.rsplit(b" ", 2)
    return b"%s %d" % (writer, int(number) % keys) if keys else None


def check_history(history: History, logs: FinalLogs) -> list[RuleViolation]:
    """Every rule that does not hold, with the first places where it shows."""
    return [violation for rule in RULES for violation in islice(rule(history, logs), _MOST_PLACES)]


def replicas_agree(history: History, logs: FinalLogs) -> Iterator[RuleViolation]:
    """Below the high watermark, every replica has the same records at the same offsets from the same leaders."""
    for partition, replicas in logs.items():
        (first, expected), *others = replicas.items()
        for node, records in others:
            for one, other in zip_longest(expected, records):
                if one != other:
                    yield RuleViolation(
                        "replicas disagree",
                        f"partition {partition} has {one} on node {first}, {other} on node {node}",
                    )
                    break


def nothing_lost(history: History, logs: FinalLogs) -> Iterator[RuleViolation]:
    """What was acknowledged is at the offset that its receipt names, on every replica."""
    for node, stored in _by_offset(logs):
        for written in history.written:
            if written.offset is None:
                continue
            found = stored.get((written.partition, written.offset))
            if found != written.value:
                yield RuleViolation(
                    "lost",
                    f"{written.value!r} was acknowledged at offset {written.offset} of partition "
                    f"{written.partition}, where node {node} has {found!r}",
                )


def nothing_doubled(history: History, logs: FinalLogs) -> Iterator[RuleViolation]:
    for partition, node, records in _each_log(logs):
        first: dict[bytes, int] = {}
        for record in records:
            if first.setdefault(record.value, record.offset) != record.offset:
                yield RuleViolation(
                    "doubled",
                    f"{record.value!r} is at offsets {first[record.value]} and {record.offset} of partition "
                    f"{partition} on node {node}",
                )


def nothing_reordered(history: History, logs: FinalLogs) -> Iterator[RuleViolation]:
    """The records of one writer are in the log of a partition in the order of their writing."""
    for partition, node, records in _each_log(logs):
        latest: dict[bytes, int] = {}
        for record in records:
            writer, _, number = record.value.rsplit(b" ", 2)
            before = latest.get(writer, -1)
            if int(number) < before:
                yield RuleViolation(
                    "reordered",
                    f"{record.value!r} comes after number {before} of its writer in partition {partition} on "
                    f"node {node}, at offset {record.offset}",
                )
            latest[writer] = max(before, int(number))


def failures_are_true(history: History, logs: FinalLogs) -> Iterator[RuleViolation]:
    """A record that has failed for certain is nowhere."""
    failed = {each.value for each in history.written if each.offset is None and not each.may_be_stored}
    for partition, node, records in _each_log(logs):
        for record in records:
            if record.value in failed:
                yield RuleViolation(
                    "stored after all",
                    f"{record.value!r} has failed for certain and is at offset {record.offset} of partition "
                    f"{partition} on node {node}",
                )


def reads_are_committed(history: History, logs: FinalLogs) -> Iterator[RuleViolation]:
    """What a consumer was given is what the log has at that offset in the end."""
    for node, stored in _by_offset(logs):
        for reader, records in history.read.items():
            for partition, offset, value in records:
                found = stored.get((partition, offset))
                if found != value:
                    yield RuleViolation(
                        "read but uncommitted",
                        f"{reader} was given {value!r} at offset {offset} of partition {partition}, where node "
                        f"{node} has {found!r}",
                    )


def reads_have_no_gaps(history: History, logs: FinalLogs) -> Iterator[RuleViolation]:
    """A consumer is given each offset once, in order, from the first on."""
    for reader, records in history.read.items():
        offsets: dict[int, list[int]] = defaultdict(lambda: [-1])
        for record in records:
            offsets[record.partition].append(record.offset)
        for partition, given in offsets.items():
            for before, offset in pairwise(given):
                if offset != before + 1:
                    yield RuleViolation(
                        "read out of turn",
                        f"{reader} was given offset {offset} of partition {partition} after offset {before}",
                    )


RULES: Final[tuple[Rule, ...]] = (
    replicas_agree,
    nothing_lost,
    nothing_doubled,
    nothing_reordered,
    failures_are_true,
    reads_are_committed,
    reads_have_no_gaps,
)


def _each_log(logs: FinalLogs) -> Iterator[tuple[int, int, Iterable[LoggedRecord]]]:
    for partition, replicas in logs.items():
        for node, records in replicas.items():
            yield partition, node, records


def _by_offset(logs: FinalLogs) -> Iterator[tuple[int, dict[tuple[int, int], bytes]]]:
    """What each node has, by partition and offset."""
    found: dict[int, dict[tuple[int, int], bytes]] = defaultdict(dict)
    for partition, node, records in _each_log(logs):
        found[node].update(((partition, record.offset), record.value) for record in records)
    yield from found.items()
