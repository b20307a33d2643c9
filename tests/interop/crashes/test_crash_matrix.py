"""The exactly-once sink, killed at every step: what confluent-kafka reads with read_committed is the input, exactly.

Every scenario on the embedded cluster and on Apache Kafka: `make crash-matrix`, about an hour. A quick part of it, in
one Spark, is in tests/spark/crashes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import ottla
from tests.interop import supervise
from tests.interop.brokers import ApacheBroker, Broker, EmbeddedBroker
from tests.interop.confluent import committed_values
from tests.interop.crashes.scenarios import INPUT, SCENARIOS, Scenario
from tests.interop.waiting import eventually
from tests.spark.crashes import program
from tests.spark.crashes.steps import KillOrders, hooked
from tests.spark.deployment.processes import environment

pytestmark = pytest.mark.crash_matrix
_RUN_S = 600.0
_MOST_RUNS = 5


@pytest.fixture(params=["ottla", "apache"])
def either_broker(request: pytest.FixtureRequest, java: None) -> Broker:
    """Not `broker`: on Apache Kafka too this belongs to a target of its own."""
    if request.param == "ottla":
        return EmbeddedBroker(request.getfixturevalue("embedded"))
    return ApacheBroker(request.getfixturevalue("apache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    for number, (name, lines) in enumerate(INPUT.items()):
        path = tmp_path / "in" / name
        path.write_text("".join(f"{line}\n" for line in lines))
        # Spark takes files in the order of their times.
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    return tmp_path


class Runs:
    """The program of a scenario, run after run."""

    def __init__(self, scenario: Scenario, broker: Broker, folder: Path) -> None:
        self.scenario = scenario
        self.broker = broker
        self.folder = folder
        self.orders = KillOrders(folder)
        self.topic = broker.create_topic(partitions=2)
        self._count = 0

    def start(self) -> supervise.Supervised:
        scenario, number = self.scenario, self._count
        self._count += 1
        assert number < _MOST_RUNS, self._log()
        options = [f"topic={self.topic}", *scenario.options]
        command = [sys.executable, "-m", program.__name__, scenario.job, scenario.master]
        command += [self.broker.bootstrap, str(self.folder)]
        command += [argument for option in options for argument in ("--option", option)]
        if scenario.tasks:
            command += ["--tasks", str(scenario.tasks[min(number, len(scenario.tasks) - 1)])]
        env = environment()
        env |= hooked(self.folder, env.get("PYTHONPATH"))
        with (self.folder / "log").open("ab") as log:
            return supervise.Supervised(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)

    def end(self) -> int:
        """Of a run that ends by itself, or is killed from within."""
        running = self.start()
        try:
            return running.wait(_RUN_S)
        finally:
            running.close()

    def until_carried_out(self) -> bool:
        """Whether the last run has written everything; one that failed before it came so far is no loss."""
        while True:
            ended_well = self.end() == 0
            if self.orders.are_carried_out:
                return ended_well
            assert not ended_well, "the program has ended, and was never where it was to be killed"

    def until_done(self) -> None:
        while self.end() != 0:
            pass

    def _log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-8000:]


@pytest.fixture
def runs(request: pytest.FixtureRequest, either_broker: Broker, folder: Path) -> Runs:
    return Runs(request.param, either_broker, folder)


def by_name(*names: str) -> list[Scenario]:
    return [each for each in SCENARIOS if each.name in names]


@pytest.mark.parametrize(
    "runs", [each for each in SCENARIOS if each.name != "zombie"], indirect=True, ids=lambda each: each.name
)
def test_every_row_is_written_once_whatever_is_killed(runs: Runs) -> None:
    is_done = False
    for kill in runs.scenario.kills:
        runs.orders.give(kill)
        is_done = runs.until_carried_out()
        if runs.scenario.expires:
            wait_until_nothing_is_open(runs)
    if not is_done:
        runs.until_done()
    assert sorted(committed_values(runs.broker.bootstrap, runs.topic)) == runs.scenario.output
    assert open_transactions(runs) == []


@pytest.mark.parametrize("runs", by_name("zombie"), indirect=True, ids=["zombie"])
def test_a_task_that_outlives_its_driver_writes_nothing_any_more(runs: Runs) -> None:
    (kill,) = runs.scenario.kills
    runs.orders.give(kill)
    running = runs.start()
    try:
        eventually(
            lambda: runs.orders.are_carried_out or running.poll() is not None, "the task to stop", _RUN_S
        )
        assert runs.orders.are_carried_out
        running.kill()
        running.wait(60)
    finally:
        running.close()
    zombie = runs.orders.carried_out_by
    try:
        runs.until_done()
        written = sorted(committed_values(runs.broker.bootstrap, runs.topic))
        assert written == runs.scenario.output
    finally:
        os.kill(zombie, signal.SIGCONT)
    eventually(lambda: not is_alive(zombie), "the task to end", _RUN_S)
    assert sorted(committed_values(runs.broker.bootstrap, runs.topic)) == written
    assert open_transactions(runs) == []


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def open_transactions(runs: Runs) -> list[str]:
    """Those of the query, which is the one in the checkpoint."""
    from ottla.spark.sink.query_id import query_id_of

    sink_id = query_id_of(str(runs.folder / "checkpoint"), required=True)
    with ottla.Client(runs.broker.bootstrap) as client:
        listed = client.admin.list_transactions(states=["Ongoing"])
    return [name for name in listed if name.startswith(f"{sink_id}-")]


def wait_until_nothing_is_open(runs: Runs) -> None:
    eventually(lambda: not open_transactions(runs), "transactions to time out", 120)


def test_the_matrix_has_at_least_thirty_scenarios_with_names_of_their_own() -> None:
    assert len({each.name for each in SCENARIOS}) == len(SCENARIOS) >= 30
