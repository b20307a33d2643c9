"""The rules of a power loss: a suffix may go where a partition was exposed, and nothing else."""

from __future__ import annotations

import pytest

from ottla.sim.checks import History, LoggedRecord, WrittenRecord, record_value
from ottla.sim.disk_checks import DiskOutcome, check_disks
from ottla.sim.exposures import Exposure

VALUES = [record_value("writer-1", 0, number) for number in range(6)]
EXPOSED = {0: [Exposure(time_ms=100, leader=1, flushed=2)]}


def outcome(
    stored: list[int], exposures: dict[int, list[Exposure]] | None = None, *, told_ms: int = 50, keys: int = 0
) -> DiskOutcome:
    """Six records were acknowledged, of which these are there."""
    written = [WrittenRecord(value, 0, offset, True, 10, told_ms) for offset, value in enumerate(VALUES)]
    records = [LoggedRecord(offset, VALUES[offset], 0) for offset in stored]
    return DiskOutcome(History(written), {0: {1: records, 2: records}}, exposures or {}, keys)


def rules(given: DiskOutcome) -> set[str]:
    return {violation.rule for violation in check_disks(given)}


def test_what_is_all_there_breaks_no_rule() -> None:
    assert not rules(outcome([0, 1, 2, 3, 4, 5]))
    assert not rules(outcome([0, 1, 2, 3, 4, 5], EXPOSED))


def test_without_an_exposure_nothing_may_be_lost() -> None:
    assert rules(outcome([0, 1, 2])) == {"lost"}


def test_an_exposure_may_take_a_suffix() -> None:
    assert not rules(outcome([0, 1, 2], EXPOSED))
    assert not rules(outcome([0, 1], EXPOSED))


def test_an_exposure_takes_nothing_that_was_flushed() -> None:
    assert rules(outcome([0], EXPOSED)) == {"lost"}


def test_an_exposure_takes_nothing_that_was_sent_after_it() -> None:
    given = outcome([0, 1, 2], EXPOSED)
    late = [record._replace(sent_ms=101, told_ms=102) for record in given.history.written]
    assert rules(DiskOutcome(History(late), given.logs, EXPOSED)) == {"lost"}


def test_a_hole_is_no_suffix() -> None:
    assert rules(outcome([0, 1, 2, 5], EXPOSED)) == {"hole in a log", "hole in what was acknowledged"}


@pytest.mark.parametrize("stored", [[3, 4, 5], [0, 3, 4, 5]])
def test_a_compacted_topic_has_the_latest_of_each_key(stored: list[int]) -> None:
    assert not rules(outcome(stored, keys=3))
    assert rules(outcome(stored[:-1], keys=3)) == {"lost"}
