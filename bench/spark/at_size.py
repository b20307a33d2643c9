"""Jobs at the size that people have them: a sum over ten million orders, and a topic of five gigabytes.

The large topic is read on one machine and on a standalone cluster of two workers, while the memory of Spark's Python
workers is watched. It is deleted afterwards.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.harness import Figure, Result, interleaved, progress
from bench.spark import jvm, worker_memory
from bench.spark.sessions import Bench, add_speeds, named, sides
from bench.spark_jobs.job import Job
from bench.spark_jobs.session import session
from bench.spark_jobs.topics import Topics
from tests.interop.spark import connector
from tests.spark.deployment.processes import environment, standalone

_PARTITIONS: Final = 64
_WORKERS: Final = 2
"""Of the standalone cluster: each runs an executor with one core for every session."""
_GIGABYTES: Final = 2
"""Of an executor: as much for a core as `bench.spark_jobs` gives to two."""
_EXECUTORS: Final = {
    # Without a limit the first session takes every core, and the second waits until it ends.
    "spark.cores.max": str(_WORKERS),
    "spark.executor.cores": "1",
    "spark.executor.memory": f"{_GIGABYTES}g",
}
_BYTES_A_ROW: Final = 150
"""Of a value of 100 bytes in the log, with what surrounds it, generously."""


@dataclass(frozen=True)
class Size:
    """How many rows there are to sum and to read."""

    sum: int
    read: int

    def check_space(self) -> None:
        folder = tempfile.gettempdir()
        free, wanted = shutil.disk_usage(folder).free, (self.sum + self.read) * _BYTES_A_ROW
        if free < wanted:
            raise RuntimeError(f"{folder} has {free >> 20} MB free, and the topics take {wanted >> 20} MB")


def sums(result: Result, bench: Bench, rows: int, repeats: int) -> None:
    """JSON, grouped by a key and summed."""
    label = f"spark: a sum over {rows:,} orders"
    progress(f"{label}: filling the topic")
    topic = bench.topics.filled(rows, _PARTITIONS, 100, "none", "json")
    totals: list[float] = []

    def speed(job: Job) -> Callable[[], float]:
        def measure() -> float:
            summed = bench.measure(job)
            totals.append(summed.total)
            # The order in which doubles are added is not the same every time.
            if summed.rows != rows or not math.isclose(summed.total, totals[0], rel_tol=1e-9):
                raise RuntimeError(
                    f"{job.connector} got {summed.total} of {summed.rows} rows, not {totals[0]}"
                )
            return rows / summed.wall / 1000

        return measure

    jobs = named("sum", sides(Job("sum", "ottla", bench.bootstrap, topic, rows), jvm.READS))
    cases = {name: speed(job) for name, job in jobs.items()}
    if repeats > 1:
        interleaved(cases, 1, f"{label}, warming up")
    add_speeds(result, interleaved(cases, repeats, label), "sum")
    bench.topics.delete(topic)


@contextmanager
def large_topic(topics: Topics, bootstrap: str, rows: int) -> Iterator[Job]:
    """The reading of a topic that is there as long as the block runs."""
    progress(f"spark: filling a topic with {rows:,} rows")
    topic = topics.filled(rows, _PARTITIONS, 100, "none")
    yield Job("read", "ottla", bootstrap, topic, rows)
    topics.delete(topic)


def read_locally(result: Result, bench: Bench, job: Job, repeats: int) -> None:
    _read(result, bench, job, repeats, "large", f"spark: reading {job.rows:,} rows")


def read_on_cluster(result: Result, topics: Topics, job: Job, repeats: int, python: Path) -> None:
    """The same with executors in processes of their own. The sessions stay open, so that each executor is warm."""
    label = f"spark: reading {job.rows:,} rows on a standalone cluster"
    progress(f"{label}: starting it, and two sessions")
    with (
        tempfile.TemporaryDirectory(prefix="ottla-bench-") as folder,
        standalone(
            Path(folder), workers=_WORKERS, cores=2, gigabytes=2 * _GIGABYTES, env=_executors_environment()
        ) as master,
        session(master, connector.ensure(), python, _EXECUTORS) as by_jvm,
        session(master, settings=_EXECUTORS) as own,
    ):
        bench = Bench(master, job.bootstrap, topics, {"kafka": by_jvm, "ottla": own})
        _read(result, bench, job, repeats, "cluster", label)


def _executors_environment() -> dict[str, str]:
    """With bytecode, as the drivers have it (`bench.spark_jobs.session`): executors inherit it from the workers."""
    return {name: value for name, value in environment().items() if name != "PYTHONDONTWRITEBYTECODE"}


def _read(result: Result, bench: Bench, job: Job, repeats: int, what: str, label: str) -> None:
    memory = _Memory(result, what)
    jobs = named(what, sides(job, jvm.READS))
    progress(f"{label}: counting rows")
    for each in jobs.values():
        bench.check(each)
    cases = {name: memory.watched(each, bench.speed(each)) for name, each in jobs.items()}
    add_speeds(result, interleaved(cases, repeats, label), what)


class _Memory:
    """The peak of the workers during each read by this connector: the JVM's has none."""

    def __init__(self, result: Result, name: str) -> None:
        self._figures = result.figures
        self._name = name

    def watched(self, job: Job, measure: Callable[[], float]) -> Callable[[], float]:
        if job.connector != "ottla":
            return measure

        def watch() -> float:
            with worker_memory.watched() as peak:
                measured = measure()
            self._add("largest", peak.largest)
            self._add("together", peak.together)
            return measured

        return watch

    def _add(self, what: str, megabytes: float) -> None:
        name = f"{self._name}_workers_{what}"
        before = self._figures[name].samples if name in self._figures else ()
        self._figures[name] = Figure("MB", (*before, megabytes))
