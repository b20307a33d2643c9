"""What must hold of a cluster that has lost its power: rules over a history and over the logs in the end.

As in checks.py, but for two things. Where a partition was exposed (exposures.py) a suffix of it may be gone, and
nothing else: of the records that were acknowledged before, the first ones are there and the last ones are not, and
what the new leader had flushed is among the first. In a compacted topic a record may also be gone because a later one
has its key; and where such a partition was exposed, also because the later one had its key and is lost: each replica
has compacted on its own by then, so nothing is left to say of its records.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from typing import Final

from ottla.sim.checks import (
    FinalLogs,
    History,
    LoggedRecord,
    RuleViolation,
    WrittenRecord,
    failures_are_true,
    nothing_doubled,
    nothing_reordered,
    reads_are_committed,
    reads_have_no_gaps,
    record_key,
    replicas_agree,
)
from ottla.sim.exposures import Exposure, Exposures

_MOST_PLACES: Final = 5


@dataclass(frozen=True)
class DiskOutcome:
    """A history and the logs in the end; `keys` as the writers have them, 0 where the topic is not compacted."""

    history: History
    logs: FinalLogs
    exposures: Exposures = field(default_factory=dict)
    keys: int = 0


DiskRule = Callable[[DiskOutcome], Iterator[RuleViolation]]


def check_disks(outcome: DiskOutcome) -> list[RuleViolation]:
    """Every rule that does not hold, with the first places where it shows."""
    return [violation for rule in DISK_RULES for violation in islice(rule(outcome), _MOST_PLACES)]


def replicas_are_alike(outcome: DiskOutcome) -> Iterator[RuleViolation]:
    """The same records at the same offsets; in a compacted topic, the same latest record of each key."""
    logs = outcome.logs
    if outcome.keys:
        logs = {
            partition: {node: _latest(records, outcome.keys) for node, records in replicas.items()}
            for partition, replicas in logs.items()
            if partition not in outcome.exposures
        }
    yield from replicas_agree(outcome.history, logs)


def logs_have_no_holes(outcome: DiskOutcome) -> Iterator[RuleViolation]:
    for partition, replicas in outcome.logs.items():
        for node, records in replicas.items():
            for before, record in pairwise([LoggedRecord(-1, b"", -1), *records]):
                expected = before.offset + 1
                if record.offset < expected or (record.offset > expected and not outcome.keys):
                    yield RuleViolation(
                        "hole in a log",
                        f"partition {partition} on node {node} has offset {record.offset} after {before.offset}",
                    )


def nothing_acknowledged_is_lost(outcome: DiskOutcome) -> Iterator[RuleViolation]:
    """But for what an exposure may take: records of before it, from behind what its leader had flushed."""
    for node, written in _missing(outcome):
        if not any(_may_take(each, written) for each in outcome.exposures.get(written.partition, ())):
            yield RuleViolation(
                "lost",
                f"{written.value!r} was acknowledged at offset {written.offset} of partition "
                f"{written.partition}, and is not on node {node}",
            )


def _may_take(exposure: Exposure, written: WrittenRecord) -> bool:
    assert written.offset is not None
    return written.sent_ms <= exposure.time_ms and written.offset >= exposure.flushed


def only_a_suffix_is_lost(outcome: DiskOutcome) -> Iterator[RuleViolation]:
    """Of what was acknowledged between two exposures, no record is there that comes after one that is gone."""
    missing: dict[tuple[int, int], list[WrittenRecord]] = defaultdict(list)
    for node, written in _missing(outcome):
        missing[node, written.partition].append(written)
    stored = _stored(outcome.logs)
    for (node, partition), gone in missing.items():
        begin = -1
        for exposure in outcome.exposures.get(partition, ()):
            era = [each for each in gone if begin < each.sent_ms and each.told_ms < exposure.time_ms]
            first = min((each.offset for each in era if each.offset is not None), default=None)
            for written in outcome.history.written if first is not None else ():
                if (
                    written.offset is not None
                    and first is not None
                    and written.partition == partition
                    and written.offset > first
                    and begin < written.sent_ms
                    and written.told_ms < exposure.time_ms
                    and stored[node].get((partition, written.offset)) == written.value
                ):
                    yield RuleViolation(
                        "hole in what was acknowledged",
                        f"offset {first} of partition {partition} is lost on node {node}, and {written.value!r} "
                        f"at offset {written.offset}, which was acknowledged before the same power loss, is not",
                    )
            begin = exposure.time_ms


def offsets_have_one_record(outcome: DiskOutcome) -> Iterator[RuleViolation]:
    """What was read at an offset is what was acknowledged there, and what the logs have, if they still have it."""
    known = {
        (written.partition, written.offset): written.value
        for written in outcome.history.written
        if written.offset is not None
    }
    for partition, replicas in outcome.logs.items():
        for node, records in replicas.items():
            for record in records:
                before = known.setdefault((partition, record.offset), record.value)
                if before != record.value and partition not in outcome.exposures:
                    yield RuleViolation(
                        "changed",
                        f"offset {record.offset} of partition {partition} was {before!r} and is {record.value!r} "
                        f"on node {node}",
                    )
    for reader, read in outcome.history.read.items():
        for partition, offset, value in read:
            if partition not in outcome.exposures and known.get((partition, offset), value) != value:
                yield RuleViolation(
                    "read but uncommitted",
                    f"{reader} was given {value!r} at offset {offset} of partition {partition}, which is "
                    f"{known[partition, offset]!r}",
                )


def reads_hold(outcome: DiskOutcome) -> Iterator[RuleViolation]:
    """What was read is there, in partitions that are not compacted; and in order, in those that have lost nothing.

    A reader of one that has lost something goes on where the log was cut back.
    """
    history = _unexposed(outcome)
    if not outcome.keys:
        yield from reads_are_committed(history, outcome.logs)
        yield from reads_have_no_gaps(history, outcome.logs)
        return
    for reader, read in history.read.items():
        latest: dict[int, int] = {}
        for partition, offset, _ in read:
            if offset <= latest.get(partition, -1):
                yield RuleViolation(
                    "read out of turn",
                    f"{reader} was given offset {offset} of partition {partition} after {latest[partition]}",
                )
            latest[partition] = offset


def _unexposed(outcome: DiskOutcome) -> History:
    read = {
        reader: [record for record in records if record.partition not in outcome.exposures]
        for reader, records in outcome.history.read.items()
    }
    return replace(outcome.history, read=read)


DISK_RULES: Final[tuple[DiskRule, ...]] = (
    replicas_are_alike,
    logs_have_no_holes,
    nothing_acknowledged_is_lost,
    only_a_suffix_is_lost,
    lambda outcome: nothing_doubled(outcome.history, outcome.logs),
    lambda outcome: nothing_reordered(outcome.history, outcome.logs),
    lambda outcome: failures_are_true(outcome.history, outcome.logs),
    offsets_have_one_record,
    reads_hold,
)


def _missing(outcome: DiskOutcome) -> Iterator[tuple[int, WrittenRecord]]:
    """The records that were acknowledged and are not on a node, nor a later one of their key."""
    later: dict[tuple[int, int, bytes | None], int] = {}
    for partition, replicas in outcome.logs.items() if outcome.keys else ():
        for node, records in replicas.items():
            for record in records:
                later[node, partition, record_key(record.value, outcome.keys)] = record.offset
    for node, stored in _stored(outcome.logs).items():
        for written in outcome.history.written:
            if written.offset is None or stored.get((written.partition, written.offset)) == written.value:
                continue
            if outcome.keys and written.partition in outcome.exposures:
                continue
            key = record_key(written.value, outcome.keys)
            if later.get((node, written.partition, key), -1) <= written.offset:
                yield node, written


def _stored(logs: FinalLogs) -> dict[int, dict[tuple[int, int], bytes]]:
    """What each node has, by partition and offset."""
    found: dict[int, dict[tuple[int, int], bytes]] = defaultdict(dict)
    for partition, replicas in logs.items():
        for node, records in replicas.items():
            found[node].update(((partition, record.offset), record.value) for record in records)
    return found


def _latest(records: list[LoggedRecord], keys: int) -> list[LoggedRecord]:
    latest = {record_key(record.value, keys): record for record in records}
    return sorted(latest.values())
