"""What must hold of an exactly-once sink whatever happens: rules over a history.

Every attempt of a task is one transaction, and its name is the key of its rows. So the rules of transactions hold as
well (`ottla.sim.transaction_checks`): an attempt is seen as a whole or not at all, and one that no driver has asked
to commit is never seen. Here is what Spark relies on beyond that.

Nothing here waits, and nothing knows a cluster.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from ottla.client.topic_partition import TopicPartition
from ottla.client.transactions.prepared import PreparedTransaction
from ottla.sim.checks import RuleViolation
from ottla.sim.transaction_checks import SeenRecord, TransactionEntry, TransactionHistory, check_transactions
from ottla.spark.sink.exactly_once.control_records import BatchDecision, SlotMarker
from ottla.spark.sink.exactly_once.names import SinkNames

_MOST_NAMED: Final = 5


class BatchName(NamedTuple):
    """A batch of a query; a batch write is the only one of its own."""

    query: str
    batch: int


@dataclass(eq=False)
class AttemptEntry:
    """An attempt of a task, as its process knows it."""

    batch: BatchName
    transaction: TransactionEntry
    began: tuple[PreparedTransaction, float] | None = None
    """The producer that it is, and since when."""
    prepared: PreparedTransaction | None = None
    prepared_at: float | None = None


@dataclass(eq=False)
class DriverEntry:
    """A driver that has taken a sink over: at the start of a batch, or to recover what there is."""

    names: SinkNames
    called_at: float
    returned_at: float


@dataclass(eq=False)
class CommitEntry:
    """A call of `commit_batch`."""

    batch: BatchName
    names: SinkNames
    started_at: float
    """When its driver had taken the sink over."""
    lists: tuple[PreparedTransaction, ...]
    """What it was to commit."""
    called_at: float
    returned_at: float | None = None


@dataclass
class SinkHistory:
    """What processes were told, and what there is in the end."""

    transactions: TransactionHistory
    rows: dict[BatchName, tuple[str, ...]] = field(default_factory=dict)
    """The input."""
    committed: dict[BatchName, float] = field(default_factory=dict)
    """Which batches Spark takes for committed, and since when."""
    at_most_once: dict[BatchName, None] = field(default_factory=dict)
    """Batch writes that have failed, and were told so: what is seen of them may be all, some or nothing."""
    attempts: dict[str, AttemptEntry] = field(default_factory=dict)
    drivers: list[DriverEntry] = field(default_factory=list)
    commits: list[CommitEntry] = field(default_factory=list)
    aborts: list[PreparedTransaction] = field(default_factory=list)
    """What drivers and operators have asked coordinators to abort."""
    widest: dict[SinkNames, int] = field(default_factory=dict)
    """The most tasks that a batch of each sink has had."""
    decisions: dict[SinkNames, list[BatchDecision]] = field(default_factory=dict)
    markers: dict[TopicPartition, list[SlotMarker]] = field(default_factory=dict)
    known_ids: list[str] = field(default_factory=list)
    """All transactional ids that coordinators know in the end."""
    open_ids: list[str] = field(default_factory=list)

    @property
    def acknowledged(self) -> int:
        return sum(len(self.rows[batch]) for batch in self.committed)

    def seen(self) -> Iterator[SeenRecord]:
        """What readers of committed records that have read to the end were given."""
        for reader in self.transactions.readers:
            if reader.is_complete:
                yield from reader.records


SinkRule = Callable[[SinkHistory], Iterator[RuleViolation]]


def check_sink(history: SinkHistory) -> list[RuleViolation]:
    found = check_transactions(history.transactions)
    return found + [violation for rule in SINK_RULES for violation in rule(history)]


# Rows


def every_row_once(history: SinkHistory) -> Iterator[RuleViolation]:
    """Of every batch that Spark takes for committed all rows are seen, each once; of no other any twice."""
    places: dict[str, dict[tuple[TopicPartition, int], str]] = defaultdict(dict)
    for record in history.seen():
        places[record.value.decode()][record.partition, record.offset] = record.name
    for batch, rows in history.rows.items():
        if twice := [row for row in rows if len(places[row]) > 1]:
            found = [f"{row}: {places[row]}" for row in twice[:_MOST_NAMED]]
            yield RuleViolation("row twice", f"{len(twice)} rows of {batch}: {found}")
        if batch in history.committed and (missing := [row for row in rows if not places[row]]):
            yield RuleViolation(
                "row missing",
                f"{len(missing)} of {len(rows)} rows of {batch}, which is committed: {missing[:_MOST_NAMED]}",
            )
        if batch not in history.committed and batch not in history.at_most_once and rows:
            yield RuleViolation("batch missing", f"{batch} was never committed")
    written = {row for rows in history.rows.values() for row in rows}
    if strange := sorted(set(filter(places.get, places)) - written):
        yield RuleViolation("strange row", f"{strange[:_MOST_NAMED]} are of no batch")


def rows_are_there_when_a_batch_is_committed(history: SinkHistory) -> Iterator[RuleViolation]:
    """What is seen of a batch was prepared before Spark took it for committed."""
    late: dict[str, None] = {}
    for record in history.seen():
        attempt = history.attempts.get(record.name)
        if attempt is None or attempt.batch not in history.committed:
            continue
        if attempt.prepared_at is None or attempt.prepared_at > history.committed[attempt.batch]:
            late[record.name] = None
    for name in late:
        attempt = history.attempts[name]
        yield RuleViolation(
            "committed without its rows",
            f"{attempt.batch} was committed at {history.committed[attempt.batch]:.3f}; its rows by {name} were "
            f"prepared at {attempt.prepared_at}",
        )


def batches_come_in_order(history: SinkHistory) -> Iterator[RuleViolation]:
    """A reader of committed records gets nothing of a batch after something of a later one, in each partition."""
    for reader in history.transactions.readers:
        last: dict[tuple[TopicPartition, str], int] = {}
        for record in reader.records:
            query, batch, _ = record.value.decode().split("/")
            before = last.get((record.partition, query), -1)
            if int(batch) < before:
                yield RuleViolation(
                    "batches out of order",
                    f"{reader.name} was given {record.value!r} by {record.name} at offset {record.offset} of "
                    f"{record.partition}, after rows of batch {before}",
                )
            last[record.partition, query] = max(before, int(batch))


# Drivers


def fenced_drivers_say_so(history: SinkHistory) -> Iterator[RuleViolation]:
    """A commit that begins after another driver has taken the sink over raises, unless it has nothing to commit."""
    for commit in history.commits:
        if not commit.lists or commit.returned_at is None:
            continue
        for other in history.drivers:
            is_newer = other.names == commit.names and other.called_at > commit.started_at
            if is_newer and other.returned_at < commit.called_at:
                yield RuleViolation(
                    "fenced without a word",
                    f"{commit.batch} was committed from {commit.called_at:.3f} to {commit.returned_at:.3f} by the "
                    f"driver of {commit.started_at:.3f}; another had taken over at {other.returned_at:.3f}",
                )
                break


def what_is_gone_is_not_decided(history: SinkHistory) -> Iterator[RuleViolation]:
    """Nothing is decided of which another attempt has taken the place before the commit was called."""
    decided = _decided(history)
    for commit in history.commits:
        for prepared in commit.lists:
            if prepared not in decided:
                continue
            for name, attempt in history.attempts.items():
                if attempt.began is None or attempt.began[1] >= commit.called_at:
                    continue
                other = attempt.began[0]
                if other.transactional_id == prepared.transactional_id and other[1:] > prepared[1:]:
                    yield RuleViolation(
                        "gone before it was decided",
                        f"{prepared} of {commit.batch}, committed from {commit.called_at:.3f} on: {name} had taken "
                        f"its place at {attempt.began[1]:.3f}",
                    )


def what_is_decided_is_not_aborted(history: SinkHistory) -> Iterator[RuleViolation]:
    """Timeouts and late attempts may do that; drivers and operators know better."""
    decided = _decided(history)
    for prepared in dict.fromkeys(history.aborts):
        if prepared in decided:
            yield RuleViolation("decided and aborted", f"{prepared}")


def _decided(history: SinkHistory) -> set[PreparedTransaction]:
    return {
        prepared
        for decisions in history.decisions.values()
        for decision in decisions
        for _, prepared in decision.transactions
    }


def epochs_are_not_shared(history: SinkHistory) -> Iterator[RuleViolation]:
    owners: dict[PreparedTransaction, str] = {}
    for name, attempt in history.attempts.items():
        if attempt.prepared is None:
            continue
        other = owners.setdefault(attempt.prepared, name)
        if other != name:
            yield RuleViolation("shared epoch", f"{attempt.prepared} is of {other} and of {name}")


# The control topic


def decisions_go_up(history: SinkHistory) -> Iterator[RuleViolation]:
    """Within a query; a batch is decided again only by who writes what was lost of it, with as many tasks."""
    for names, decisions in history.decisions.items():
        for before, after in pairwise(decisions):
            if before.query_id != after.query_id:
                if not before.is_released:
                    yield RuleViolation(
                        "decision of another query", f"{names.sink_id}: {before}, then {after}"
                    )
            elif after.batch_id < before.batch_id:
                yield RuleViolation("decisions go down", f"{names.sink_id}: {before}, then {after}")
            elif after.batch_id == before.batch_id and after.tasks != before.tasks:
                yield RuleViolation("another number of tasks", f"{names.sink_id}: {before}, then {after}")


def markers_go_up(history: SinkHistory) -> Iterator[RuleViolation]:
    """A slot commits its part of a batch once."""
    for partition, markers in history.markers.items():
        for before, after in pairwise(markers):
            if before.query_id == after.query_id and after.batch_id <= before.batch_id:
                yield RuleViolation("marker again", f"{partition}: {before}, then {after}")


def what_is_seen_was_decided(history: SinkHistory) -> Iterator[RuleViolation]:
    decided = _decided(history)
    undecided: dict[str, None] = {}
    for record in history.seen():
        attempt = history.attempts.get(record.name)
        if attempt is None or attempt.prepared not in decided:
            undecided[record.name] = None
    for name in undecided:
        yield RuleViolation("seen without a decision", f"rows of {name}")


# What is left


def ids_are_bounded(history: SinkHistory) -> Iterator[RuleViolation]:
    """One for each task of the widest batch, and the driver's."""
    allowed = {
        each
        for names, widest in history.widest.items()
        for each in (names.driver_id, *(names.slot_id(slot) for slot in range(widest)))
    }
    if beyond := sorted(set(history.known_ids) - allowed):
        yield RuleViolation("too many ids", f"{beyond[:_MOST_NAMED]}, and {len(allowed)} others are needed")


def nothing_is_left_open(history: SinkHistory) -> Iterator[RuleViolation]:
    if history.open_ids:
        yield RuleViolation("left open", f"transactions of {history.open_ids}")


SINK_RULES: Final[tuple[SinkRule, ...]] = (
    every_row_once,
    rows_are_there_when_a_batch_is_committed,
    batches_come_in_order,
    fenced_drivers_say_so,
    what_is_gone_is_not_decided,
    what_is_decided_is_not_aborted,
    epochs_are_not_shared,
    decisions_go_up,
    markers_go_up,
    what_is_seen_was_decided,
    ids_are_bounded,
    nothing_is_left_open,
)
