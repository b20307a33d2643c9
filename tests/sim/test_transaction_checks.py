"""Each rule of transactions fires where it is broken, and only there."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.client.topic_partition import TopicPartition
from ottla.sim.transaction_checks import (
    ReaderLog,
    SeenRecord,
    SentRecord,
    ToldOutcome,
    TransactionEntry,
    TransactionHistory,
    check_transactions,
)

FIRST, OTHER = TopicPartition("in", 0), TopicPartition("in", 1)
COPY = TopicPartition("out", 0)
COMMITTED, ABORTED, UNKNOWN = ToldOutcome.COMMITTED, ToldOutcome.ABORTED, ToldOutcome.UNKNOWN

Place = tuple[TopicPartition, int, str, bytes]


def transaction(
    name: str,
    outcome: ToldOutcome,
    *sent: tuple[TopicPartition, bytes, int | None],
    asked: float | None = 1.0,
    producer: str = "writer",
) -> TransactionEntry:
    entry = TransactionEntry(name, producer, [SentRecord(*each) for each in sent])
    entry.outcome = outcome
    entry.commit_asked = None if outcome is ABORTED else asked
    return entry


def reader(
    *places: Place, is_committed: bool = True, is_complete: bool = False, at: float = 2.0
) -> ReaderLog:
    records = [SeenRecord(at, *place) for place in places]
    return ReaderLog("reader", is_committed, is_complete, records)


def rules(
    transactions: Sequence[TransactionEntry], *readers: ReaderLog, levels: tuple[str, ...] = ("in",)
) -> list[str]:
    history = TransactionHistory(levels, list(transactions), list(readers))
    return [violation.rule for violation in check_transactions(history)]


def copies(*offsets: int, name: str = "c1", outcome: ToldOutcome = COMMITTED) -> TransactionEntry:
    entry = transaction(name, outcome, *((COPY, b"%d" % offset, offset) for offset in offsets))
    entry.group, entry.consumed = "copiers", {FIRST: list(offsets)}
    return entry


def chain(*copied: TransactionEntry, group_offset: int, seen: Sequence[Place]) -> list[str]:
    """Two records were written, and copied by these transactions."""
    written = transaction("t1", COMMITTED, (FIRST, b"0", 0), (FIRST, b"1", 1))
    history = TransactionHistory(("in", "out"), [written, *copied])
    history.readers = [reader((FIRST, 0, "t1", b"0"), (FIRST, 1, "t1", b"1"), *seen)]
    history.group_offsets = {("copiers", FIRST): group_offset}
    return [violation.rule for violation in check_transactions(history)]


def test_what_was_committed_and_seen_by_everyone_breaks_no_rule() -> None:
    ended = [
        transaction("t1", COMMITTED, (FIRST, b"a", 0), (OTHER, b"b", 0)),
        transaction("t2", ABORTED, (FIRST, b"c", 2)),
        transaction("t3", UNKNOWN, (FIRST, b"d", 4), (OTHER, b"e", 2)),
        transaction("t4", UNKNOWN, (FIRST, b"f", None)),
    ]
    committed: list[Place] = [
        (FIRST, 0, "t1", b"a"),
        (OTHER, 0, "t1", b"b"),
        (OTHER, 2, "t3", b"e"),
        (FIRST, 4, "t3", b"d"),
    ]
    every = [*committed[:3], (FIRST, 2, "t2", b"c"), committed[3]]
    assert (
        rules(
            ended,
            reader(*committed, is_complete=True),
            reader(*every, is_committed=False, is_complete=True),
            reader(*committed[:2]),
        )
        == []
    )


def test_what_is_committed_and_overtaken_is_lost_and_else_unseen() -> None:
    lost = transaction("t1", COMMITTED, (FIRST, b"a", 0))
    later = transaction("t2", COMMITTED, (FIRST, b"b", 2))
    assert rules([lost, later], reader((FIRST, 2, "t2", b"b"))) == ["lost write", "torn transaction"]
    assert rules([lost], reader()) == ["unseen", "torn transaction"]


def test_a_reader_that_polls_to_the_end_has_seen_everything() -> None:
    ended = [transaction("t1", COMMITTED, (FIRST, b"a", 0)), transaction("t2", ABORTED, (FIRST, b"b", 2))]
    whole = reader((FIRST, 0, "t1", b"a"))
    assert rules(ended, whole, reader(is_complete=True)) == ["unseen"]
    assert rules(ended, whole, reader(is_complete=False)) == []
    # What was acknowledged in a transaction that is aborted, a reader of everything gets too.
    partial = reader((FIRST, 0, "t1", b"a"), is_committed=False, is_complete=True)
    assert rules(ended, whole, partial) == ["unseen"]


def test_a_record_at_two_offsets_is_a_duplicate() -> None:
    ended = [transaction("t1", COMMITTED, (FIRST, b"a", 0))]
    assert rules(ended, reader((FIRST, 0, "t1", b"a"), (FIRST, 1, "t1", b"a"))) == ["duplicate"]


def test_what_is_aborted_is_read_by_readers_of_everything_only() -> None:
    ended = [transaction("t1", ABORTED, (FIRST, b"a", 0))]
    assert rules(ended, reader((FIRST, 0, "t1", b"a"), is_committed=False)) == []
    assert rules(ended, reader((FIRST, 0, "t1", b"a"))) == ["aborted read", "torn transaction"]


def test_nothing_is_read_before_its_commit_was_asked_for() -> None:
    ended = [transaction("t1", COMMITTED, (FIRST, b"a", 0), asked=3.0)]
    assert rules(ended, reader((FIRST, 0, "t1", b"a"), at=2.9)) == ["precommitted read"]
    assert rules(ended, reader((FIRST, 0, "t1", b"a"), at=3.0)) == []


def test_of_a_transaction_without_a_known_outcome_all_or_nothing_is_seen() -> None:
    ended = [transaction("t1", UNKNOWN, (FIRST, b"a", 0), (OTHER, b"b", 0))]
    assert rules(ended, reader()) == []
    assert rules(ended, reader((FIRST, 0, "t1", b"a"))) == ["torn transaction"]


def test_an_offset_has_one_record_for_everyone() -> None:
    ended = [transaction("t1", UNKNOWN, (FIRST, b"a", 0)), transaction("t2", UNKNOWN, (FIRST, b"b", None))]
    first, second = reader((FIRST, 0, "t1", b"a")), reader((FIRST, 0, "t2", b"b"))
    assert rules(ended, first, second) == ["inconsistent offset"]


def test_offsets_of_one_producer_go_up() -> None:
    sent = (FIRST, b"a", 5), (FIRST, b"b", 4)
    seen = reader((FIRST, 4, "t1", b"b"), (FIRST, 5, "t1", b"a"))
    assert rules([transaction("t1", COMMITTED, *sent)], seen) == ["non-monotonic send"]
    ended = [
        transaction("t1", COMMITTED, (FIRST, b"a", 5)),
        transaction("t2", COMMITTED, (FIRST, b"b", 4), producer="another"),
    ]
    assert rules(ended, reader((FIRST, 4, "t2", b"b"), (FIRST, 5, "t1", b"a"))) == []


def test_polls_go_forward_and_skip_nothing() -> None:
    ended = [transaction("t1", COMMITTED, (FIRST, b"a", 0), (FIRST, b"b", 1), (FIRST, b"c", 2))]
    places: list[Place] = [(FIRST, 0, "t1", b"a"), (FIRST, 1, "t1", b"b"), (FIRST, 2, "t1", b"c")]
    whole = reader(*places)
    assert rules(ended, whole, reader(places[0], places[1], places[0])) == ["non-monotonic poll"]
    assert rules(ended, whole, reader(places[0], places[2])) == ["poll skip"]
    assert rules(ended, whole, reader(places[1])) == ["poll skip"]


def test_a_chain_copies_everything_once_with_its_offsets() -> None:
    both: list[Place] = [(COPY, 0, "c1", b"0"), (COPY, 1, "c1", b"1")]
    assert chain(copies(0, 1), group_offset=3, seen=both) == []
    assert chain(copies(0), group_offset=1, seen=both[:1]) == ["not copied"]
    again = copies(1, name="c2")
    again.sent = [SentRecord(COPY, b"1", 2)]
    assert chain(copies(0, 1), again, group_offset=3, seen=[*both, (COPY, 2, "c2", b"1")]) == [
        "copied twice",
        "offset consumed twice",
    ]


def test_the_offsets_of_a_group_are_those_of_its_committed_copies() -> None:
    both: list[Place] = [(COPY, 0, "c1", b"0"), (COPY, 1, "c1", b"1")]
    assert chain(copies(0, 1), group_offset=1, seen=both) == ["offsets and copies differ"]
    unknown = copies(0, 1, outcome=UNKNOWN)
    assert chain(unknown, group_offset=2, seen=both) == []
    assert chain(unknown, group_offset=2, seen=[]) == ["not copied", "offsets and copies differ"]
