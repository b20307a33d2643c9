"""Only a worker that a task waits for is killed: the table of tasks here looks at what the processes do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from demo import worker_kill
from demo.spark_tasks import FAILED, RUNNING, SUCCESS, Attempt, TaskTable
from demo.worker_kill import Killed, NoVictimError, kill_in_task, wait_for_success

TASK = Attempt(stage=7, task=1, number=0, status=RUNNING, error="")


def status(pid: int) -> str:
    """As ps has it: T is stopped, Z is dead."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


class Table:
    """One task, whose worker is `pid`: it is done when it is looked at, unless the worker is stopped or dead."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def running(self) -> list[Attempt]:
        return [TASK]

    def of_stage(self, stage: int) -> list[Attempt]:
        assert stage == TASK.stage
        match status(self.pid):
            case "T":
                return [TASK]
            case "Z":
                return [
                    replace(TASK, status=FAILED, error="crashed"),
                    replace(TASK, number=1, status=SUCCESS),
                ]
        return [replace(TASK, status=SUCCESS)]


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Three processes that do nothing, and are looked at as if they did."""
    with ExitStack() as stack:
        started = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", "import signal; signal.pause()"], stdout=subprocess.DEVNULL
                )
            )
            for _ in range(3)
        ]
        for each in started:
            stack.callback(each.kill)
        pids = [each.pid for each in started]
        monkeypatch.setattr(worker_kill, "workers", lambda ancestor: pids)
        monkeypatch.setattr(worker_kill, "_runs", lambda pid: True)
        yield pids


@pytest.mark.parametrize("busy", [0, 1, 2])
def test_the_worker_that_a_task_waits_for_is_killed_and_no_other(workers: list[int], busy: int) -> None:
    table = cast(TaskTable, Table(workers[busy]))
    killed = kill_in_task(table)
    assert killed == Killed(workers[busy], replace(TASK, status=FAILED, error="crashed"))
    assert [pid for pid in workers if status(pid) == "Z"] == [workers[busy]]
    assert not [pid for pid in workers if status(pid) == "T"]
    retried = wait_for_success(table, killed.attempt)
    assert retried is not None
    assert retried.number == 1


def test_where_no_task_waits_none_is_killed(workers: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_kill, "_SEARCH_S", 0.2)
    another = cast(TaskTable, Table(os.getpid()))
    with pytest.raises(NoVictimError, match="no Python worker was met in the middle of a task"):
        kill_in_task(another)
    assert not [pid for pid in workers if status(pid) in "TZ"]
