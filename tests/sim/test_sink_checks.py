"""Each rule of the exactly-once sink fires where it is broken, and only there."""

from __future__ import annotations

from dataclasses import replace

from ottla.client.topic_partition import TopicPartition
from ottla.client.transactions.prepared import PreparedTransaction
from ottla.sim.transaction_checks import (
    ReaderLog,
    SeenRecord,
    SentRecord,
    ToldOutcome,
    TransactionEntry,
    TransactionHistory,
)
from ottla.spark.sink.exactly_once.control_records import BatchDecision, SlotMarker, SlotTransaction
from ottla.spark.sink.exactly_once.names import SinkNames
from tests.sim.sink.checks import (
    AttemptEntry,
    BatchName,
    CommitEntry,
    DriverEntry,
    SinkHistory,
    check_sink,
)

NAMES = SinkNames("sink")
PLACE = TopicPartition("output", 0)
FIRST, SECOND = BatchName("q", 0), BatchName("q", 1)


def slot_transaction(epoch: int) -> PreparedTransaction:
    return PreparedTransaction(NAMES.slot_id(0), 7, epoch)


def decision(batch_id: int, epoch: int, tasks: int = 1, query: str = "q") -> BatchDecision:
    return BatchDecision(query, batch_id, tasks, (SlotTransaction(0, slot_transaction(epoch)),))


def history() -> SinkHistory:
    """Two batches of one row and one task, the first at second 1 to 2, the second at 3 to 4."""
    reader = ReaderLog("reader", is_committed=True, is_complete=True)
    told = SinkHistory(TransactionHistory(("output",), readers=[reader]))
    for batch in (FIRST, SECOND):
        number = batch.batch
        began, name, row = 1.0 + 2 * number, f"attempt-{number}", f"q/{number}/0"
        sent = [SentRecord(PLACE, row.encode(), 2 * number)]
        entry = TransactionEntry(name, name, sent, commit_asked=began + 0.5, outcome=ToldOutcome.UNKNOWN)
        told.transactions.transactions.append(entry)
        prepared = slot_transaction(number)
        told.attempts[name] = AttemptEntry(batch, entry, (prepared, began), prepared, began + 0.2)
        told.drivers.append(DriverEntry(NAMES, began - 0.2, began))
        told.commits.append(CommitEntry(batch, NAMES, began, (prepared,), began + 0.5, began + 0.9))
        told.rows[batch] = (row,)
        told.committed[batch] = began + 1
        told.decisions.setdefault(NAMES, []).append(decision(number, number))
        told.markers.setdefault(NAMES.markers(0), []).append(SlotMarker("q", number, 0))
        reader.records.append(SeenRecord(began + 1, PLACE, 2 * number, name, row.encode()))
    told.widest[NAMES] = 1
    told.known_ids = [NAMES.driver_id, NAMES.slot_id(0)]
    return told


def rules(told: SinkHistory) -> list[str]:
    return [violation.rule for violation in check_sink(told)]


def test_two_batches_that_were_committed_one_after_the_other_break_no_rule() -> None:
    assert rules(history()) == []


def test_a_row_of_a_committed_batch_that_no_reader_has_seen_is_missing() -> None:
    told = history()
    told.rows[FIRST] = ("q/0/0", "q/0/1")
    assert rules(told) == ["row missing"]


def test_a_row_that_two_attempts_have_written_is_seen_twice() -> None:
    told = history()
    told.rows[SECOND] = ("q/0/0",)
    [reader] = told.transactions.readers
    reader.records[1] = reader.records[1]._replace(value=b"q/0/0")
    told.transactions.transactions[1].sent = [SentRecord(PLACE, b"q/0/0", 2)]
    assert "row twice" in rules(told)


def test_a_batch_that_was_never_committed_is_missing_unless_its_write_has_failed() -> None:
    told = history()
    told.rows[BatchName("q", 2)] = ("q/2/0",)
    assert rules(told) == ["batch missing"]
    told.at_most_once[BatchName("q", 2)] = None
    assert rules(told) == []


def test_a_row_of_no_batch_is_strange() -> None:
    told = history()
    told.rows[SECOND] = ()
    assert rules(told) == ["strange row"]


def test_rows_that_were_prepared_after_their_batch_was_committed_come_too_late() -> None:
    told = history()
    told.committed[SECOND] = 3.1
    assert rules(told) == ["committed without its rows"]


def test_rows_of_an_earlier_batch_do_not_come_after_those_of_a_later_one() -> None:
    told = history()
    [reader] = told.transactions.readers
    first, second = reader.records
    reader.records = [second._replace(offset=0), first._replace(offset=2)]
    for entry, offset in zip(told.transactions.transactions, (2, 0), strict=True):
        entry.sent = [entry.sent[0]._replace(offset=offset)]
    assert rules(told) == ["batches out of order"]


def test_a_driver_that_was_replaced_before_it_commits_does_not_return() -> None:
    told = history()
    told.drivers.append(DriverEntry(NAMES, 3.1, 3.4))
    assert rules(told) == ["fenced without a word"]
    told.commits[1].returned_at = None
    assert rules(told) == []


def test_a_driver_that_is_replaced_while_it_commits_may_return() -> None:
    told = history()
    told.drivers.append(DriverEntry(NAMES, 3.1, 3.6))
    assert rules(told) == []


def test_what_another_attempt_has_taken_the_place_of_is_not_decided() -> None:
    told = history()
    other = AttemptEntry(SECOND, TransactionEntry("late", "late"), (slot_transaction(2), 3.4))
    told.attempts["late"] = other
    assert rules(told) == ["gone before it was decided"]
    other.began = slot_transaction(2), 3.6
    assert rules(told) == []


def test_what_is_decided_is_not_aborted() -> None:
    told = history()
    told.aborts = [slot_transaction(3)]
    assert rules(told) == []
    told.aborts = [slot_transaction(1)]
    assert rules(told) == ["decided and aborted"]


def test_an_epoch_is_of_one_attempt() -> None:
    told = history()
    told.attempts["other"] = replace(told.attempts["attempt-1"])
    assert rules(told) == ["shared epoch"]


def test_decisions_go_up_and_have_as_many_tasks_when_they_come_again() -> None:
    told = history()
    decisions = told.decisions[NAMES]
    told.decisions[NAMES] = decisions[::-1]
    assert rules(told) == ["decisions go down"]
    told.decisions[NAMES] = [*decisions, decision(1, 2)]
    assert rules(told) == []
    told.decisions[NAMES] = [*decisions, decision(1, 2, tasks=2)]
    assert rules(told) == ["another number of tasks"]


def test_another_query_decides_only_when_the_sink_was_released() -> None:
    told = history()
    decisions = told.decisions[NAMES]
    told.decisions[NAMES] = [*decisions, decision(0, 2, query="other")]
    assert rules(told) == ["decision of another query"]
    released = replace(decisions[1], is_released=True)
    told.decisions[NAMES] = [*decisions, released, decision(0, 2, query="other")]
    assert rules(told) == []


def test_a_slot_commits_a_batch_once() -> None:
    told = history()
    told.markers[NAMES.markers(0)].append(SlotMarker("q", 1, 0))
    assert rules(told) == ["marker again"]


def test_nothing_is_seen_that_was_not_decided() -> None:
    told = history()
    told.decisions[NAMES].pop()
    assert rules(told) == ["seen without a decision"]


def test_ids_are_those_of_the_driver_and_of_the_widest_batch() -> None:
    told = history()
    told.known_ids.append(NAMES.slot_id(1))
    assert rules(told) == ["too many ids"]


def test_no_transaction_is_left_open() -> None:
    told = history()
    told.open_ids = [NAMES.slot_id(0)]
    assert rules(told) == ["left open"]


def test_the_rules_of_transactions_hold_as_well() -> None:
    told = history()
    told.transactions.transactions[1].outcome = ToldOutcome.ABORTED
    assert rules(told) == ["aborted read", "torn transaction"]
