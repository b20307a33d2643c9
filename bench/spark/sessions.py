"""The contenders, each with a Spark session of its own, and the ways in which all of them are measured."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

from bench.harness import Figure, Result, progress
from bench.spark import jvm
from bench.spark_jobs.job import Connector, Job, Measured
from bench.spark_jobs.session import Session, session
from bench.spark_jobs.topics import Topics
from tests.interop.spark import connector

Samples: TypeAlias = Mapping[str, Sequence[float]]
Sessions: TypeAlias = Literal["own", "shared"]
"""Whether each contender, each number of cores and each first micro-batch has a session of its own, as it has to be
for figures, or as few as possible are started, to see that everything runs."""

_COUNTS: Final[Mapping[str, Literal["count_json", "count_avro"]]] = {
    "json": "count_json",
    "avro": "count_avro",
}
LIMIT_TASKS: Final = (1, 2, 4)
"""By how many tasks the rows in memory are read and written; the fastest of them is the limit."""
LIMIT_BATCH: Final = {"batch": "65536"}
"""Rows of an Arrow batch of the source in memory: where larger ones are not faster any more."""


class Bench:
    """A cluster with its topics, and a session for each connector."""

    def __init__(
        self, master: str, bootstrap: str, topics: Topics, sessions: Mapping[Connector, Session]
    ) -> None:
        self.master = master
        self.bootstrap = bootstrap
        self.topics = topics
        self._sessions = sessions

    @property
    def cores(self) -> int:
        """Of a `local[n]`."""
        return int(self.master.removeprefix("local[").removesuffix("]"))

    def measure(self, job: Job) -> Measured:
        return self._sessions[job.connector].measure(job)

    def speed(self, job: Job) -> Callable[[], float]:
        """Of a reader."""
        return lambda: job.rows / self.measure(job).wall / 1000

    def written(self, job: Job) -> Callable[[], float]:
        """The speed of a writer, into a topic of its own. The sink in memory counts for itself."""
        if job.connector == "in_memory":
            return self.speed(job)

        def measure() -> float:
            topic = self.topics.create(job.partitions)
            speed = self.speed(replace(job, topic=topic))()
            check_stored(self.topics, topic, job.rows, job.connector)
            self.topics.delete(topic)
            return speed

        return measure

    def check(self, job: Job) -> None:
        """A fast reader that reads less would be no reader. It also warms up: the JVM compiles what it has seen."""
        counted = self.measure(replace(job, case=_COUNTS.get(job.case, "count"))).rows
        if counted != job.rows:
            raise RuntimeError(f"{job.connector} read {counted} of {job.rows} rows")


@contextmanager
def opened(
    master: str, bootstrap: str, topics: Topics, python: Path, sessions: Sessions = "own"
) -> Iterator[Bench]:
    """`python` is that of the peers' workers."""
    progress(f"spark: starting sessions on {master}")
    with ExitStack() as stack:
        by_jvm = stack.enter_context(session(master, connector.ensure(), python))
        in_memory = by_jvm if sessions == "shared" else stack.enter_context(session(master, python=python))
        own = stack.enter_context(session(master))
        yield Bench(master, bootstrap, topics, {"kafka": by_jvm, "in_memory": in_memory, "ottla": own})


def sides(job: Job, settings: jvm.Settings) -> dict[str, Job]:
    """The same job by this connector as it comes, by the JVM's as it comes, and by the JVM's with these settings."""
    by_jvm = replace(job, connector="kafka")
    tuned = {name: replace(by_jvm, options=dict(options)) for name, options in settings.items()}
    return {"ottla": job, "jvm": replace(by_jvm, options=dict(jvm.DEFAULT)), **tuned}


def registered(job: Job, cores: int) -> dict[str, Job]:
    """The same job by this connector where `register` was called, which tells it how many tasks Spark runs at a time.

    The JVM connector is measured tuned, and this is the one setting of a read that helps this one.
    """
    return {"registered": replace(job, options={**job.options, "targetPartitions": str(cores)})}


def limits(job: Job, options: Mapping[str, str]) -> dict[str, Job]:
    """The same job with rows in memory, by more and more tasks."""
    in_memory = replace(job, connector="in_memory", options=dict(options))
    return {f"limit_{tasks}_tasks": replace(in_memory, partitions=tasks) for tasks in LIMIT_TASKS}


def named(what: str, jobs: Mapping[str, Job]) -> dict[str, Job]:
    return {f"{what}_{side}": job for side, job in jobs.items()}


def check_stored(topics: Topics, topic: str, rows: int, writer: str) -> None:
    stored = topics.count(topic)
    if stored != rows:
        raise RuntimeError(f"{writer} has written {stored} of {rows} rows")


def median(samples: Samples, name: str) -> float:
    return statistics.median(samples[name])


def fastest(samples: Samples, name: str) -> float:
    """The highest speed of a peer that was measured in several ways: those that are called so or begin with it."""
    return max(median(samples, each) for each in _ways(samples, name))


def shortest(samples: Samples, name: str) -> float:
    """The same of times."""
    return min(median(samples, each) for each in _ways(samples, name))


def _ways(samples: Samples, name: str) -> list[str]:
    return [each for each in samples if each == name or each.startswith(f"{name}_")]


def add_speeds(result: Result, samples: Samples, what: str, suffix: str = "") -> None:
    """Shows thousands of rows per second, and this connector's over those of each peer at its best.

    With a suffix to the names, the ratios are notes: they are about a case that has no bar.
    """
    for name in _ways(samples, what):
        result.figures[f"{name}{suffix}"] = Figure("krows/s", tuple(samples[name]))
    ours = median(samples, f"{what}_ottla")
    for peer in ("jvm", "tuned", "limit"):
        if not _ways(samples, f"{what}_{peer}"):
            continue
        theirs = fastest(samples, f"{what}_{peer}")
        ratios = {f"{what}_vs_{peer}": ours / theirs}
        if f"{what}_registered" in samples:
            ratios[f"{what}_registered_vs_{peer}"] = median(samples, f"{what}_registered") / theirs
        if suffix:
            result.notes += [f"{name}{suffix}: {ratio:.2f} x" for name, ratio in ratios.items()]
        else:
            result.ratios.update(ratios)
