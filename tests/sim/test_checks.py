"""The rules over a history: each holds for what may happen, and names what may not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.sim.checks import (
    FinalLogs,
    History,
    LoggedRecord,
    ReadRecord,
    WrittenRecord,
    check_history,
    record_value,
)

VALUES = [record_value("writer-1", 0, number) for number in range(3)]


def logged(*values: bytes, epoch: int = 0) -> list[LoggedRecord]:
    return [LoggedRecord(offset, value, epoch) for offset, value in enumerate(values)]


def logs(*values: bytes) -> FinalLogs:
    return {0: {node: logged(*values) for node in (1, 2, 3)}}


def acknowledged(*values: bytes) -> list[WrittenRecord]:
    return [WrittenRecord(value, 0, offset) for offset, value in enumerate(values)]


def read(*values: bytes) -> dict[str, list[ReadRecord]]:
    return {"reader": [ReadRecord(0, offset, value) for offset, value in enumerate(values)]}


GOOD = History(acknowledged(*VALUES), read(*VALUES))


def rules(history: History, found: FinalLogs) -> set[str]:
    return {violation.rule for violation in check_history(history, found)}


def test_what_was_acknowledged_and_read_is_what_every_replica_has() -> None:
    assert rules(GOOD, logs(*VALUES)) == set()
    assert GOOD.acknowledged == 3


def test_a_reader_may_be_behind_and_records_may_be_stored_without_an_answer() -> None:
    written = [*acknowledged(*VALUES[:2]), WrittenRecord(VALUES[2], 0, None)]
    assert rules(History(written, read(VALUES[0])), logs(*VALUES)) == set()
    assert rules(History(written, read(VALUES[0])), logs(*VALUES[:2])) == set()


@pytest.mark.parametrize("found", [VALUES[:2], [VALUES[0], VALUES[2], VALUES[1]]], ids=["gone", "elsewhere"])
def test_an_acknowledged_record_that_is_not_at_its_offset_is_lost(found: list[bytes]) -> None:
    assert "lost" in rules(GOOD, logs(*found))


def test_a_record_that_one_replica_lacks_is_lost_there() -> None:
    found = {0: {1: logged(*VALUES), 2: logged(*VALUES[:2]), 3: logged(*VALUES)}}
    assert rules(GOOD, found) == {"replicas disagree", "lost", "read but uncommitted"}


def test_a_record_that_is_stored_twice_is_doubled() -> None:
    found = logs(*VALUES, VALUES[2])
    assert rules(History(acknowledged(*VALUES)), found) == {"doubled"}


def test_records_of_one_writer_in_another_order_are_reordered() -> None:
    assert rules(History(), logs(VALUES[1], VALUES[0])) == {"reordered"}
    assert rules(History(), logs(VALUES[1], record_value("writer-2", 0, 0))) == set()


def test_a_record_that_failed_for_certain_must_not_be_there() -> None:
    failed = WrittenRecord(VALUES[0], 0, None, may_be_stored=False)
    assert rules(History([failed]), logs(VALUES[0])) == {"stored after all"}
    assert rules(History([failed]), logs(VALUES[1])) == set()


@pytest.mark.parametrize("found", [VALUES[:2], [*VALUES[:2], b"writer-2 0 0"]], ids=["nothing", "another"])
def test_a_record_that_was_read_and_is_not_there_was_not_committed(found: list[bytes]) -> None:
    assert rules(History([], read(*VALUES)), logs(*found)) == {"read but uncommitted"}


@pytest.mark.parametrize("offsets", [[1], [0, 2], [0, 1, 1], [0, 1, 0]], ids=str)
def test_a_reader_is_given_each_offset_once_and_in_order(offsets: list[int]) -> None:
    given = {"reader": [ReadRecord(0, offset, VALUES[offset]) for offset in offsets]}
    assert rules(History([], given), logs(*VALUES)) == {"read out of turn"}


def test_replicas_disagree_also_about_who_wrote_a_record() -> None:
    found = dict(logs(*VALUES))
    found[0] = {**found[0], 2: logged(*VALUES, epoch=1)}
    assert rules(GOOD, found) == {"replicas disagree"}


def test_a_rule_that_is_broken_everywhere_is_shown_in_a_few_places() -> None:
    many = [record_value("writer-1", 0, number) for number in range(1000)]
    violations = check_history(replace(GOOD, written=acknowledged(*many), read={}), logs())
    assert 0 < len(violations) < 20
    assert str(violations[0]).startswith("lost: b'writer-1 0 0' was acknowledged at offset 0 of partition 0")
