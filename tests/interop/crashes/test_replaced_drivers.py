"""Two drivers of one sink: the one that was replaced is fenced and says so, and what it was doing is done once.

Also what a new driver refuses: a batch that was decided with another number of tasks, and a sink of another query.
"""

from __future__ import annotations

import uuid

import pytest

from tests.interop.crashes.runs import Runs
from tests.interop.crashes.scenarios import MISMATCHED, REPLACED, SHARED
from tests.spark.crashes.sink_on_broker import lose_a_decided_transaction

pytestmark = pytest.mark.crash_matrix
FENCED = "another driver has taken over sink"


@pytest.mark.parametrize("runs", REPLACED, indirect=True, ids=lambda each: each.name)
def test_a_driver_beside_a_new_one_is_fenced_and_says_so(runs: Runs) -> None:
    (kill,) = runs.scenario.kills
    with runs.held(kill) as old:
        try:
            runs.until_done()
            written = runs.written
            assert written == runs.scenario.output
        finally:
            runs.orders.let_go()
        assert old.wait() != 0
        assert FENCED in old.log
    assert runs.written == written
    assert runs.open_transactions() == []


@pytest.mark.parametrize("runs", MISMATCHED, indirect=True, ids=lambda each: each.name)
def test_a_decided_batch_is_run_again_with_the_tasks_that_it_had(runs: Runs) -> None:
    (kill,) = runs.scenario.kills
    before, other = runs.scenario.tasks
    runs.until_carried_out(kill)
    lose_a_decided_transaction(runs.broker.bootstrap, runs.sink_id)
    assert runs.end(other) != 0
    assert "MismatchingReplayError" in runs.last_log
    assert f"was decided with {before} tasks" in runs.last_log
    assert f"is run again with {other}: " in runs.last_log
    assert runs.end(before) == 0
    assert runs.written == runs.scenario.output
    assert runs.open_transactions() == []


@pytest.mark.parametrize("runs", SHARED, indirect=True, ids=lambda each: each.name)
def test_the_second_query_of_a_sink_id_fences_the_first_and_one_of_them_goes_on(runs: Runs) -> None:
    """The one that has decided a batch; the other is refused."""
    (kill,) = runs.scenario.kills
    sink_id = f"shared-{uuid.uuid4().hex[:8]}"
    shared = f"ottla.sink.id={sink_id}"
    first_has_decided = kill.call > 1
    (runs.folder / "other").mkdir()
    other = Runs(runs.scenario, runs.broker, runs.folder / "other", runs.topic)
    with runs.held(kill, shared) as first:
        try:
            second_ended_well = other.end(None, shared) == 0
        finally:
            runs.orders.let_go()
        assert first.wait() != 0
        assert FENCED in first.log
    assert second_ended_well is not first_has_decided, other.last_log
    if first_has_decided:
        assert "ForeignSinkError" in other.last_log
        runs.until_done(shared)
    else:
        assert runs.end(None, shared) != 0
        assert "ForeignSinkError" in runs.last_log
    assert runs.written == runs.scenario.output
    assert runs.open_transactions(sink_id) == []
