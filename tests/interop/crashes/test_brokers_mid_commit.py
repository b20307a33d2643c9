"""A node restarts or is killed, or coordinators move, while the sink is between two of its steps: every row once.

A process of the sink stops where the scenario says, the nodes change, and it goes on.
"""

from __future__ import annotations

import pytest

from tests.interop.crashes.runs import Runs
from tests.interop.crashes.scenarios import STRUCK
from tests.spark.crashes.sink_on_broker import FIRST_TASKS, coordinator_of, move_coordinators

pytestmark = pytest.mark.crash_matrix


@pytest.mark.parametrize(
    "runs",
    [each for each in STRUCK if each.strike == "restart"],
    indirect=True,
    ids=lambda each: each.name,
)
def test_a_batch_is_committed_once_by_a_broker_that_has_restarted(runs: Runs) -> None:
    (kill,) = runs.scenario.kills
    (only,) = runs.broker.node_ids
    with runs.held(kill) as run:
        runs.broker.stop_node(only)
        try:
            runs.orders.let_go()
        finally:
            runs.broker.start_node(only)
        finish(runs, run.wait())


@pytest.mark.parametrize(
    "runs_on_three",
    [each for each in STRUCK if each.strike == "kill"],
    indirect=True,
    ids=lambda each: each.name,
)
def test_a_batch_is_committed_once_when_its_coordinator_is_killed(runs_on_three: Runs) -> None:
    runs = runs_on_three
    (kill,) = runs.scenario.kills
    with runs.held(kill) as run:
        victim = coordinator_of(runs.broker, runs.sink_id, FIRST_TASKS[0])
        runs.broker.kill_node(victim)
        try:
            runs.orders.let_go()
            runs.broker.wait_until_fenced(victim)
        finally:
            runs.broker.start_node(victim)
        finish(runs, run.wait())
    runs.broker.wait_until_in_sync(runs.topic, 2)


@pytest.mark.parametrize(
    "runs_on_three",
    [each for each in STRUCK if each.strike == "move"],
    indirect=True,
    ids=lambda each: each.name,
)
def test_a_batch_is_committed_once_when_its_coordinators_move(runs_on_three: Runs) -> None:
    runs = runs_on_three
    (kill,) = runs.scenario.kills
    with runs.held(kill) as run:
        move_coordinators(runs.broker, runs.sink_id)
        runs.orders.let_go()
        finish(runs, run.wait())


def finish(runs: Runs, code: int) -> None:
    if code != 0:
        runs.until_done()
    assert runs.written == runs.scenario.output
    assert runs.open_transactions() == []
