"""The end of one of Spark's Python workers, in the middle of a task.

A worker between two tasks is an easy victim that proves nothing. So one that is busy is frozen first (SIGSTOP): if of
the tasks that run now one is not done while the others are, it is this worker's, and the worker is killed (SIGKILL);
if all get done, it is let go and another is tried. Spark's own table of tasks then says that the task has failed, and
which attempt of it succeeded.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from bench.spark.worker_memory import descendants
from demo.spark_tasks import FAILED, RUNNING, SUCCESS, Attempt, TaskTable

_DAEMON: Final = b"pyspark.daemon\0pyspark.worker\0"
"""In the command line of the process that forks workers of tasks, and so of these; others only plan and commit."""
_LOOK_S: Final = 0.01
_FROZEN_S: Final = 0.3
"""A task that is still running by then, with all others of its time done, waits for the frozen worker."""
_STUCK_S: Final = 1.0
"""When several are not done by then, one worker's end tells which is its own."""
_SEARCH_S: Final = 30.0
_SIGNAL_S: Final = 10.0
"""A signal arrives when the process is on a core again."""
_FAILS_S: Final = 5.0
"""Spark sees at once that a worker is gone: one that no task fails with was idle after all."""
_FAILS_LATE_S: Final = 60.0
"""Unless the machine is busy: a task that still runs may be the one."""
_RETRIED_S: Final = 60.0

_T = TypeVar("_T")


class NoVictimError(RuntimeError):
    """No worker was met in the middle of a task."""


@dataclass(frozen=True)
class Killed:
    """A worker that is gone, and the attempt of a task that failed with it."""

    pid: int
    attempt: Attempt


def kill_in_task(table: TaskTable) -> Killed:
    """Kills a worker that runs a task; returns when Spark has seen the task fail."""
    if not Path("/proc/self").exists():
        raise NoVictimError("workers are looked for in /proc, which this system has not: try --no-faults")
    deadline = time.monotonic() + _SEARCH_S
    while time.monotonic() < deadline:
        for pid in filter(_runs, workers(os.getpid())):
            if (tasks := table.running()) and (killed := _try(table, pid, tasks)) is not None:
                return killed
        time.sleep(_LOOK_S)
    raise NoVictimError(f"for {_SEARCH_S:.0f} s no Python worker was met in the middle of a task")


def wait_for_success(table: TaskTable, failed: Attempt) -> Attempt | None:
    """The later attempt of the same task that succeeded; None if there is none in time."""

    def succeeded() -> Attempt | None:
        for each in table.of_stage(failed.stage):
            if each.task == failed.task and each.number > failed.number and each.status == SUCCESS:
                return each
        return None

    return _soon(succeeded, _RETRIED_S)


def _try(table: TaskTable, pid: int, tasks: list[Attempt]) -> Killed | None:
    """None if it was not in a task."""
    before = _failed(table, tasks)
    try:
        os.kill(pid, signal.SIGSTOP)
    except ProcessLookupError:
        return None
    try:
        if not _comes_to(pid, "T") or not _holds_one_up(table, tasks):
            return None
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:  # Spark itself has ended it
        return None
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    _comes_to(pid, "Z")
    found = _wait_for_failure(table, tasks, before)
    return Killed(pid, min(found, key=lambda each: each.stage)) if found else None


def _wait_for_failure(table: TaskTable, tasks: list[Attempt], before: set[Attempt]) -> set[Attempt]:
    ran = [*tasks, *table.running()]

    def failed() -> set[Attempt]:
        # The task may have begun after these.
        return _failed(table, [*ran, *table.running()]) - before

    def failed_or_all_ended() -> bool:
        return bool(failed()) or not any(_now(table, each).status == RUNNING for each in ran)

    if found := _soon(failed, _FAILS_S):
        return found
    _soon(failed_or_all_ended, _FAILS_LATE_S)
    return failed()


def _holds_one_up(table: TaskTable, tasks: list[Attempt]) -> bool:
    began = time.monotonic()
    while True:
        # Before the look, which may take a while.
        frozen = time.monotonic() - began
        left = [each for each in tasks if _now(table, each).status == RUNNING]
        if not left:
            return False
        if frozen > (_FROZEN_S if len(left) == 1 else _STUCK_S):
            return True
        time.sleep(_LOOK_S)


def _now(table: TaskTable, task: Attempt) -> Attempt:
    same = (each for each in table.of_stage(task.stage) if each.task == task.task)
    return next((each for each in same if each.number == task.number), task)


def _failed(table: TaskTable, tasks: list[Attempt]) -> set[Attempt]:
    """The attempts that have failed in the stages of these."""
    stages = {each.stage for each in tasks}
    return {each for stage in stages for each in table.of_stage(stage) if each.status == FAILED}


def _soon(look: Callable[[], _T | None], within: float) -> _T | None:
    deadline = time.monotonic() + within
    while not (found := look()) and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
    return found


def workers(ancestor: int) -> list[int]:
    """The Python workers of the Spark that this process has started: forks of a daemon, which is one itself."""
    daemons = {int(each.name) for each in descendants(ancestor) if _is_daemon(each)}
    return sorted(pid for pid in daemons if _parent(pid) in daemons)


def _is_daemon(process: Path) -> bool:
    with suppress(OSError):
        return _DAEMON in (process / "cmdline").read_bytes()
    return False


def _parent(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def _runs(pid: int) -> bool:
    """Whether it has something to do: a worker without a task waits for one."""
    return _state(pid) == "R"


def _comes_to(pid: int, state: str) -> bool:
    """Whether it is in this state soon; no waiting for one that is gone."""
    _soon(lambda: _state(pid) in (state, ""), _SIGNAL_S)
    return _state(pid) == state


def _state(pid: int) -> str:
    """As ps has it: R runs, S waits, T is stopped, Z has ended; nothing of one that is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""
