"""The program of a scenario, run after run, and what is to be seen of it on the broker."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.interop import supervise
from tests.interop.brokers import Broker
from tests.interop.confluent import committed_values
from tests.interop.crashes.scenarios import INPUT, Scenario
from tests.interop.waiting import eventually
from tests.spark.crashes import program
from tests.spark.crashes.sink_on_broker import open_transactions, sink_id_in
from tests.spark.crashes.steps import Kill, KillOrders, hooked
from tests.spark.deployment.processes import environment

RUN_S = 600.0
_MOST_RUNS = 5


class Run:
    """One of them, in a process of its own."""

    def __init__(self, process: supervise.Supervised, log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def is_over(self) -> bool:
        return self._process.poll() is not None

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def wait(self) -> int:
        """The exit code of a run that ends by itself, or is killed from within."""
        return self._process.wait(RUN_S)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(60)

    def close(self) -> None:
        self._process.close()


class Runs:
    """All runs of one scenario have a folder with their input, and a checkpoint in it."""

    def __init__(self, scenario: Scenario, broker: Broker, folder: Path, topic: str | None = None) -> None:
        self.scenario = scenario
        self.broker = broker
        self.folder = folder
        self.orders = KillOrders(folder)
        self.topic = broker.create_topic(partitions=2) if topic is None else topic
        self._count = 0
        self._put_input()

    def _put_input(self) -> None:
        (self.folder / "in").mkdir()
        for number, (name, lines) in enumerate(INPUT.items()):
            path = self.folder / "in" / name
            path.write_text("".join(f"{line}\n" for line in lines))
            # Spark takes files in the order of their times.
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))

    @contextmanager
    def running(self, tasks: int | None = None, *options: str) -> Iterator[Run]:
        """A run; how many tasks it has the scenario says, unless it is said here."""
        scenario, number = self.scenario, self._count
        self._count += 1
        log = self.folder / f"log-{number}"
        assert number < _MOST_RUNS, self.last_log
        if tasks is None and scenario.tasks:
            tasks = scenario.tasks[min(number, len(scenario.tasks) - 1)]
        command = [sys.executable, "-m", program.__name__, scenario.job, scenario.master]
        command += [self.broker.bootstrap, str(self.folder)]
        for option in (f"topic={self.topic}", *scenario.options, *options):
            command += ["--option", option]
        if tasks is not None:
            command += ["--tasks", str(tasks)]
        env = environment()
        env |= hooked(self.folder, env.get("PYTHONPATH"))
        with log.open("wb") as file:
            process = supervise.Supervised(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=env
            )
        run = Run(process, log)
        try:
            yield run
        finally:
            run.close()

    @contextmanager
    def held(self, kill: Kill, *options: str) -> Iterator[Run]:
        """A run with a process that has stopped where it was ordered to; `orders.let_go` has it go on."""
        self.orders.give(kill)
        with self.running(None, *options) as run:
            eventually(lambda: self.orders.are_carried_out or run.is_over, "the process to stop", RUN_S)
            assert self.orders.are_carried_out, run.log[-8000:]
            yield run

    def end(self, tasks: int | None = None, *options: str) -> int:
        with self.running(tasks, *options) as run:
            return run.wait()

    def until_carried_out(self, kill: Kill, *options: str) -> bool:
        """Whether the last run has written everything; one that failed before it came so far is no loss."""
        self.orders.give(kill)
        while True:
            ended_well = self.end(None, *options) == 0
            if self.orders.are_carried_out:
                return ended_well
            assert not ended_well, "the program has ended, and was never where it was to be killed"

    def until_done(self, *options: str) -> None:
        while self.end(None, *options) != 0:
            pass

    @property
    def last_log(self) -> str:
        """Its end."""
        return (self.folder / f"log-{self._count - 1}").read_text(errors="replace")[-8000:]

    @property
    def written(self) -> list[bytes]:
        """What confluent-kafka reads with read_committed."""
        return sorted(committed_values(self.broker.bootstrap, self.topic))

    @property
    def sink_id(self) -> str:
        return sink_id_in(self.folder / "checkpoint")

    def open_transactions(self, sink_id: str | None = None) -> list[str]:
        return open_transactions(self.broker.bootstrap, sink_id or self.sink_id)

    def wait_until_nothing_is_open(self, sink_id: str | None = None) -> None:
        eventually(lambda: not self.open_transactions(sink_id), "transactions to time out", 120)
