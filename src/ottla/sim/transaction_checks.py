"""What must hold of transactions whatever happens: rules over a history, after those of Jepsen's tests of Kafka.

Every record has the name of its transaction as its key, so each writing of a value can be told from all others. A
history has what producers were told of each transaction, everything that readers of both isolation levels were given,
when, and in which order, and how far each group has committed in the end.

A commit whose answer never came leaves both outcomes open, but no third one: all of the transaction is seen, with the
offsets that it has committed, or nothing. Which of both it was, what readers saw in the end decides.

Nothing here waits, and nothing knows a cluster.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

from ottla.client.topic_partition import TopicPartition
from ottla.sim.checks import RuleViolation
from ottla.sim.group_checks import nothing_left_behind

_MOST_PLACES: Final = 5
_BEFORE_THE_FIRST: Final = -1


class ToldOutcome(Enum):
    """What a program was told of the end of its transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    """Or it was never asked to be committed: then nothing but its coordinator ends it."""
    UNKNOWN = "unknown"


class SentRecord(NamedTuple):
    """A record that a producer was given, and where it is stored, of one that was acknowledged."""

    partition: TopicPartition
    value: bytes
    offset: int | None


@dataclass(eq=False)
class TransactionEntry:
    """One transaction, as its program knows it."""

    name: str
    """The key of all its records."""
    producer: str
    """The client that began it: another one for each that was closed, or has crashed."""
    sent: list[SentRecord] = field(default_factory=list)
    """In the order of sending."""
    group: str = ""
    """Whose offsets are committed with it, if any are."""
    consumed: dict[TopicPartition, list[int]] = field(default_factory=dict)
    """The offsets that its records were copied from."""
    commit_asked: float | None = None
    """When a commit was first asked for: nothing decides it before."""
    outcome: ToldOutcome = ToldOutcome.ABORTED


class SeenRecord(NamedTuple):
    """A record that a reader was given."""

    time: float
    partition: TopicPartition
    offset: int
    name: str
    """Of its transaction."""
    value: bytes


@dataclass
class ReaderLog:
    """What one reader was given from the first record on, in that order."""

    name: str
    is_committed: bool
    """Its isolation level: read_committed, or else read_uncommitted."""
    is_complete: bool = False
    """It has gone on polling until it had reached the ends of all partitions."""
    records: list[SeenRecord] = field(default_factory=list)


class WrittenPlace(NamedTuple):
    """What tells one writing of a value from any other."""

    topic: str
    name: str
    value: bytes


@dataclass
class TransactionHistory:
    """What clients were told."""

    levels: tuple[str, ...]
    """The topics of the chain, from the first to the last."""
    transactions: list[TransactionEntry] = field(default_factory=list)
    readers: list[ReaderLog] = field(default_factory=list)
    group_offsets: dict[tuple[str, TopicPartition], int] = field(default_factory=dict)
    """What each group has committed in the end."""

    @property
    def acknowledged(self) -> int:
        """The records of transactions that are known to be committed."""
        return sum(len(each.sent) for each in self.transactions if each.outcome is ToldOutcome.COMMITTED)

    @cached_property
    def by_name(self) -> Mapping[str, TransactionEntry]:
        return {each.name: each for each in self.transactions}

    @cached_property
    def committed_places(self) -> Mapping[WrittenPlace, list[tuple[TopicPartition, int]]]:
        """Where readers of committed records have seen each writing of a value."""
        places: dict[WrittenPlace, dict[tuple[TopicPartition, int], None]] = defaultdict(dict)
        for reader in self.readers:
            if reader.is_committed:
                for record in reader.records:
                    place = WrittenPlace(record.partition.topic, record.name, record.value)
                    places[place][record.partition, record.offset] = None
        return {place: list(found) for place, found in places.items()}

    @cached_property
    def committed_offsets(self) -> Mapping[TopicPartition, list[int]]:
        """Every offset at which any reader of committed records has seen something, in order."""
        return self._offsets_of(reader for reader in self.readers if reader.is_committed)

    @cached_property
    def all_offsets(self) -> Mapping[TopicPartition, list[int]]:
        """The same of all readers: what is committed, a reader of everything sees too."""
        return self._offsets_of(self.readers)

    def _offsets_of(self, readers: Iterable[ReaderLog]) -> dict[TopicPartition, list[int]]:
        offsets: dict[TopicPartition, set[int]] = defaultdict(set)
        for reader in readers:
            for record in reader.records:
                offsets[record.partition].add(record.offset)
        return {partition: sorted(found) for partition, found in sorted(offsets.items())}

    def seen_of(self, entry: TransactionEntry) -> int:
        """How many of its records readers of committed records have seen."""
        return sum(
            WrittenPlace(sent.partition.topic, entry.name, sent.value) in self.committed_places
            for sent in entry.sent
        )

    def is_committed(self, entry: TransactionEntry) -> bool:
        """By what was told, or seen."""
        if entry.outcome is ToldOutcome.UNKNOWN:
            return self.seen_of(entry) > 0
        return entry.outcome is ToldOutcome.COMMITTED


TransactionRule = Callable[[TransactionHistory], Iterator[RuleViolation]]


def check_transactions(history: TransactionHistory) -> list[RuleViolation]:
    return [violation for rule in TRANSACTION_RULES for violation in rule(history)]


# What became of what was sent


def no_lost_write(history: TransactionHistory) -> Iterator[RuleViolation]:
    """What is committed comes to a reader; one that has read behind it has lost it, and else it is unseen."""
    for entry, sent in _committed_records(history):
        if WrittenPlace(sent.partition.topic, entry.name, sent.value) in history.committed_places:
            continue
        highest = max(history.committed_offsets.get(sent.partition, ()), default=_BEFORE_THE_FIRST)
        where = f"{sent.value!r} of {entry.name} at offset {sent.offset} of {sent.partition}"
        if sent.offset is not None and sent.offset < highest:
            yield RuleViolation("lost write", f"{where} was committed; offset {highest} was read")
        else:
            yield RuleViolation("unseen", f"{where} was committed, and came to no reader")


def all_seen_in_the_end(history: TransactionHistory) -> Iterator[RuleViolation]:
    """A reader that polls until the end gets everything: of its isolation level, and of what was acknowledged."""
    acknowledged: dict[TopicPartition, set[int]] = defaultdict(set)
    for entry in history.transactions:
        for sent in entry.sent:
            if sent.offset is not None:
                acknowledged[sent.partition].add(sent.offset)
    for reader in history.readers:
        if not reader.is_complete:
            continue
        seen: dict[TopicPartition, set[int]] = defaultdict(set)
        for record in reader.records:
            seen[record.partition].add(record.offset)
        for partition, offsets in history.committed_offsets.items():
            wanted = set(offsets) if reader.is_committed else set(offsets) | acknowledged[partition]
            if missing := sorted(wanted - seen[partition]):
                yield RuleViolation(
                    "unseen",
                    f"{len(missing)} records of {partition} did not come to {reader.name}: "
                    f"{missing[:_MOST_PLACES]}",
                )


def no_duplicate(history: TransactionHistory) -> Iterator[RuleViolation]:
    for place, found in history.committed_places.items():
        if len(found) > 1:
            yield RuleViolation("duplicate", f"{place.value!r} of {place.name} is at {found[:_MOST_PLACES]}")


def no_aborted_read(history: TransactionHistory) -> Iterator[RuleViolation]:
    for reader, record, entry in _committed_reads(history):
        if entry.outcome is ToldOutcome.ABORTED:
            yield RuleViolation(
                "aborted read",
                f"{reader.name} was given {record.value!r} at offset {record.offset} of {record.partition}, and "
                f"{entry.name} is aborted",
            )


def no_precommitted_read(history: TransactionHistory) -> Iterator[RuleViolation]:
    """A commit is decided after it was asked for, and only then its records may be seen."""
    for reader, record, entry in _committed_reads(history):
        if entry.commit_asked is not None and record.time < entry.commit_asked:
            yield RuleViolation(
                "precommitted read",
                f"{reader.name} was given {record.value!r} of {entry.name} at {record.time:.3f}; its commit was "
                f"asked for at {entry.commit_asked:.3f}",
            )


def no_torn_transaction(history: TransactionHistory) -> Iterator[RuleViolation]:
    """Of a committed transaction all is seen, of an aborted one nothing, and of any other one of both."""
    for entry in history.transactions:
        seen = history.seen_of(entry)
        allowed = {
            ToldOutcome.COMMITTED: (len(entry.sent),),
            ToldOutcome.ABORTED: (0,),
            ToldOutcome.UNKNOWN: (0, len(entry.sent)),
        }[entry.outcome]
        if seen not in allowed:
            yield RuleViolation(
                "torn transaction",
                f"{seen} of {len(entry.sent)} records of {entry.name} are seen; it is {entry.outcome.value}",
            )


def no_inconsistent_offset(history: TransactionHistory) -> Iterator[RuleViolation]:
    """What readers and acknowledgements say of an offset is the same."""
    known: dict[tuple[TopicPartition, int], tuple[str, bytes]] = {}
    said = [
        (record.partition, record.offset, record.name, record.value)
        for reader in history.readers
        for record in reader.records
    ]
    said += [
        (sent.partition, sent.offset, entry.name, sent.value)
        for entry in history.transactions
        for sent in entry.sent
        if sent.offset is not None
    ]
    for partition, offset, name, value in said:
        other = known.setdefault((partition, offset), (name, value))
        if other != (name, value):
            yield RuleViolation(
                "inconsistent offset", f"offset {offset} of {partition} is {other} and {(name, value)}"
            )


def sends_are_in_order(history: TransactionHistory) -> Iterator[RuleViolation]:
    """One producer's records lie in a partition in the order of their sending."""
    last: dict[tuple[str, TopicPartition], int] = {}
    for entry in history.transactions:
        for sent in entry.sent:
            if sent.offset is None:
                continue
            key = entry.producer, sent.partition
            before = last.get(key, _BEFORE_THE_FIRST)
            if sent.offset <= before:
                yield RuleViolation(
                    "non-monotonic send",
                    f"{entry.producer} was told offset {before} of {sent.partition}, then {sent.offset} for "
                    f"{sent.value!r} of {entry.name}",
                )
            last[key] = sent.offset


# What readers were given


def polls_go_forward(history: TransactionHistory) -> Iterator[RuleViolation]:
    for reader in history.readers:
        for partition, offsets in _offsets_in_order(reader).items():
            for before, after in pairwise(offsets):
                if after <= before:
                    yield RuleViolation(
                        "non-monotonic poll",
                        f"{reader.name} was given offset {after} of {partition} after {before}",
                    )


def polls_skip_nothing(history: TransactionHistory) -> Iterator[RuleViolation]:
    """Between two records that a reader was given there is none that another one of its kind has seen."""
    for reader in history.readers:
        visible = history.committed_offsets if reader.is_committed else history.all_offsets
        for partition, offsets in _offsets_in_order(reader).items():
            known = visible[partition]
            for before, after in pairwise([_BEFORE_THE_FIRST, *offsets]):
                first, last = bisect_left(known, before + 1), bisect_left(known, after)
                if first < last:
                    yield RuleViolation(
                        "poll skip",
                        f"{reader.name} was given offset {after} of {partition} after {before}, and nothing of "
                        f"{known[first:last][:_MOST_PLACES]}",
                    )


def _offsets_in_order(reader: ReaderLog) -> dict[TopicPartition, list[int]]:
    offsets: dict[TopicPartition, list[int]] = defaultdict(list)
    for record in reader.records:
        offsets[record.partition].append(record.offset)
    return offsets


# The chain


def copied_exactly_once(history: TransactionHistory) -> Iterator[RuleViolation]:
    """Each level of the chain has what the one before it has, each value once."""
    values: dict[str, list[bytes]] = {level: [] for level in history.levels}
    for place in history.committed_places:
        values[place.topic].append(place.value)
    for source, target in pairwise(history.levels):
        yield from nothing_left_behind(source, values[source], values[target])
        if twice := sorted(value for value, count in Counter(values[target]).items() if count > 1):
            yield RuleViolation(
                "copied twice", f"{len(twice)} values of {source} to {target}: {twice[:_MOST_PLACES]}"
            )


def offsets_agree_with_copies(history: TransactionHistory) -> Iterator[RuleViolation]:
    """What committed transactions of a group have copied lies below the offset of the group, and nothing else."""
    copied: dict[tuple[str, TopicPartition], dict[int, str]] = defaultdict(dict)
    for entry in history.transactions:
        if not entry.group or not history.is_committed(entry):
            continue
        for partition, offsets in entry.consumed.items():
            done = copied[entry.group, partition]
            for offset in offsets:
                other = done.setdefault(offset, entry.name)
                if other != entry.name:
                    yield RuleViolation(
                        "offset consumed twice",
                        f"offset {offset} of {partition} by {other} and {entry.name} of {entry.group}",
                    )
    for (group, partition), committed in history.group_offsets.items():
        done = copied[group, partition]
        for offset in history.committed_offsets.get(partition, ()):
            if (offset < committed) != (offset in done):
                yield RuleViolation(
                    "offsets and copies differ",
                    f"{group} has committed {committed} of {partition}, and offset {offset} is "
                    + (f"copied by {done[offset]}" if offset in done else "not copied"),
                )
                break


def _committed_records(history: TransactionHistory) -> Iterator[tuple[TransactionEntry, SentRecord]]:
    for entry in history.transactions:
        if entry.outcome is ToldOutcome.COMMITTED:
            for sent in entry.sent:
                yield entry, sent


def _committed_reads(
    history: TransactionHistory,
) -> Iterator[tuple[ReaderLog, SeenRecord, TransactionEntry]]:
    for reader in history.readers:
        if reader.is_committed:
            for record in reader.records:
                entry = history.by_name.get(record.name)
                if entry is not None:
                    yield reader, record, entry


TRANSACTION_RULES: Final[tuple[TransactionRule, ...]] = (
    no_lost_write,
    all_seen_in_the_end,
    no_duplicate,
    no_aborted_read,
    no_precommitted_read,
    no_torn_transaction,
    no_inconsistent_offset,
    sends_are_in_order,
    polls_go_forward,
    polls_skip_nothing,
    copied_exactly_once,
    offsets_agree_with_copies,
)
