"""The exactly-once sink, killed at every step: what confluent-kafka reads with read_committed is the input, exactly.

Every scenario on the embedded cluster and on Apache Kafka: `make crash-matrix`, about two hours. A third of
it, in one Spark, is in tests/spark/crashes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.crashes.runs import RUN_S, Runs
from tests.interop.crashes.scenarios import KILLED, SCENARIOS, ZOMBIE
from tests.interop.waiting import eventually

pytestmark = pytest.mark.crash_matrix


@pytest.mark.parametrize("runs", KILLED, indirect=True, ids=lambda each: each.name)
def test_every_row_is_written_once_whatever_is_killed(runs: Runs) -> None:
    is_done = False
    for kill in runs.scenario.kills:
        is_done = runs.until_carried_out(kill)
        if runs.scenario.expires:
            runs.wait_until_nothing_is_open()
    if not is_done:
        runs.until_done()
    assert runs.written == runs.scenario.output
    assert runs.open_transactions() == []


@pytest.mark.parametrize("runs", [ZOMBIE], indirect=True, ids=lambda each: each.name)
def test_a_task_that_outlives_its_driver_writes_nothing_any_more(runs: Runs) -> None:
    (kill,) = runs.scenario.kills
    with runs.held(kill) as run:
        run.kill()
    zombie = runs.orders.carried_out_by
    try:
        runs.until_done()
        written = runs.written
        assert written == runs.scenario.output
    finally:
        runs.orders.let_go()
    eventually(lambda: not is_alive(zombie), "the task to end", RUN_S)
    assert runs.written == written
    assert runs.open_transactions() == []


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_every_scenario_of_the_matrix_has_a_name_of_its_own() -> None:
    assert len({each.name for each in SCENARIOS}) == len(SCENARIOS) >= 70
