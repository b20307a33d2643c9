"""A small stream from topic to topic, next to one from memory to memory, which is the floor.

Steady micro-batches are measured in sessions that have been running. The first micro-batch of a query is measured in
sessions that have done nothing before, each in a process of its own: Spark keeps its Python workers, and with them
whatever they have imported.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from bench.harness import Figure, Result, interleaved
from bench.spark import jvm
from bench.spark.sessions import Bench, check_stored, median, shortest, sides
from bench.spark_jobs.job import AT_LEAST_ONCE, ROWS_A_MICRO_BATCH, Job, Measured
from bench.spark_jobs.session import session
from bench.spark_jobs.topics import Topics
from tests.interop.spark import connector

Measure: TypeAlias = Callable[[Job], Measured]


def steady(result: Result, bench: Bench, batches: int, repeats: int) -> None:
    """Milliseconds of a micro-batch, as Spark says, for a query that has had its first."""
    passed: dict[str, list[float]] = {}

    def measured(side: str, job: Job) -> Callable[[], float]:
        def measure() -> float:
            times = _through_topics(bench.topics, job, bench.measure)
            if job.connector != "in_memory":
                name = f"stored_to_committed_{side}"
                passed.setdefault(name, []).append(statistics.median(times.passed) * 1000)
            return statistics.median(times.batches[1:]) * 1000

        return measure

    jobs = _jobs(bench.bootstrap, batches)
    cases = {f"microbatch_{side}": measured(side, job) for side, job in jobs.items()}
    if repeats > 1:
        interleaved(cases, 1, "spark: a small stream, warming up")
        passed.clear()
    samples = interleaved(cases, repeats, "spark: a small stream")
    for name, values in {**samples, **passed}.items():
        result.figures[name] = Figure("ms", tuple(values))
    ours = median(samples, "microbatch_ottla")
    for peer in ("floor", "tuned", "jvm"):
        result.ratios[f"microbatch_vs_{peer}_ms"] = ours - shortest(samples, f"microbatch_{peer}")


def first(result: Result, bootstrap: str, topics: Topics, measure: Measure, repeats: int) -> None:
    """Milliseconds from `readStream` to the end of the first micro-batch; and what Spark says it took itself."""
    reported: dict[str, list[float]] = {}

    def measured(side: str, job: Job) -> Callable[[], float]:
        def measure_first() -> float:
            times = _through_topics(topics, job, measure)
            reported.setdefault(f"first_trigger_{side}", []).append(times.batches[0] * 1000)
            return times.wall * 1000

        return measure_first

    jobs = _jobs(bootstrap, batches=1)
    cases = {f"first_batch_{side}": measured(side, job) for side, job in jobs.items()}
    samples = interleaved(cases, repeats, "spark: first micro-batches")
    for name, values in {**samples, **reported}.items():
        result.figures[name] = Figure("ms", tuple(values))
    ours = median(samples, "first_batch_ottla")
    result.ratios["first_batch_extra_ms"] = ours - median(samples, "first_batch_floor")
    for peer in ("tuned", "jvm"):
        result.ratios[f"first_batch_vs_{peer}_ms"] = ours - shortest(samples, f"first_batch_{peer}")


def in_new_session(python: Path) -> Measure:
    """Opens a session for each job; `python` is that of the peers' workers."""

    def measure(job: Job) -> Measured:
        jars = connector.ensure() if job.connector == "kafka" else []
        with session("local[1]", jars, None if job.connector == "ottla" else python) as fresh:
            return fresh.measure(job)

    return measure


def _jobs(bootstrap: str, batches: int) -> dict[str, Job]:
    job = Job("stream", "ottla", bootstrap, "", batches=batches, options=AT_LEAST_ONCE)
    return {"floor": replace(job, connector="in_memory"), **sides(job, jvm.STREAMS)}


def _through_topics(topics: Topics, job: Job, measure: Measure) -> Measured:
    """The stream from a topic of its own to another, where all rows must have arrived."""
    if job.connector == "in_memory":
        return measure(job)
    source, sink = topics.create(), topics.create()
    times = measure(replace(job, topic=source, sink=sink))
    check_stored(topics, sink, job.batches * ROWS_A_MICRO_BATCH, job.connector)
    for topic in (source, sink):
        topics.delete(topic)
    return times
