"""What Spark's tasks do, as its driver keeps it whether or not the web UI is on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import SparkSession

RUNNING: Final = "RUNNING"
FAILED: Final = "FAILED"
SUCCESS: Final = "SUCCESS"
_MOST: Final = 1_000
"""Tasks of a stage that are looked at: all of them."""


@dataclass(frozen=True)
class Tasks:
    """How many there were of each kind since Spark has started."""

    done: int
    failed: int
    active: int


@dataclass(frozen=True)
class Attempt:
    """One attempt of one task."""

    stage: int
    task: int
    number: int
    status: str
    error: str


class TaskTable:
    """Spark's own list of tasks, which its driver keeps whether or not the web UI is on."""

    def __init__(self, spark: SparkSession) -> None:
        self._store: Any = spark.sparkContext._jsc.sc().statusStore()
        self._tracker = spark.sparkContext.statusTracker()

    def count(self) -> Tasks:
        executors = _listed(self._store.executorList(False))
        return Tasks(
            sum(each.completedTasks() for each in executors),
            sum(each.failedTasks() for each in executors),
            sum(each.activeTasks() for each in executors),
        )

    def running(self) -> list[Attempt]:
        """What runs at this moment."""
        return [
            each
            for stage in self._tracker.getActiveStageIds()
            for each in self.of_stage(stage)
            if each.status == RUNNING
        ]

    def of_stage(self, stage: int) -> list[Attempt]:
        attempts = _listed(self._store.taskList(stage, 0, _MOST))
        return [
            Attempt(stage, each.index(), each.attempt(), each.status(), _text(each.errorMessage()))
            for each in attempts
        ]

    def query(self, stage: int) -> str:
        """The name of the query that a stage belongs to."""
        # Its ids, and the number of the micro-batch, are in the lines below.
        return _text(self._store.lastStageAttempt(stage).description()).partition("\n")[0]


def _listed(sequence: Any) -> list[Any]:
    """A Scala Seq."""
    return [sequence.apply(place) for place in range(sequence.size())]


def _text(option: Any) -> str:
    """A Scala Option of a String."""
    return str(option.get()) if option.isDefined() else ""
