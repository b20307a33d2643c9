"""The exactly-once sink of Spark: what it costs next to sinks that promise less, and how soon it recovers.

On one node of Apache Kafka and local[2], with values of 100 bytes that Spark makes itself, in two tasks.

write_vs_tuned  rows per second in micro-batches of a million, over those of the JVM connector at its best
                (`bench.spark.jvm`), which writes at least once
protocol_ms     how much longer a small micro-batch takes than with this connector's own at-least-once sink
recovery_ms     from the start of a query to the end of its first new micro-batch, where the driver before it was
                killed when it had decided a batch, and committed nothing of it

Both connectors have a session in a process of its own. A driver that is killed is a third, for which
`tests.spark.crashes` chooses the moment. Among the figures are the same restart without a crash (`restart_ms`) and
after one before the decision (`recovery_undecided_ms`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Final

import ottla
from bench.harness import Figure, Result, interleaved, progress
from bench.spark import jvm
from bench.spark.sessions import fastest
from bench.spark_jobs.job import AT_LEAST_ONCE, ROWS_A_MICRO_BATCH, Job
from bench.spark_jobs.session import Session, python_without_ottla, session
from bench.spark_jobs.topics import Topics
from tests.interop.apache import ApacheKafka
from tests.interop.spark import connector
from tests.spark.crashes.steps import STEPS, KillOrders, hooked

_MASTER: Final = "local[2]"
_TASKS: Final = 2
_UNMEASURED: Final = 1
"""The first micro-batch of a query makes clients, and the control topic."""
_FEWEST_BATCHES: Final = 2
"""So that a query that is killed in its first has one behind it."""
_KILLED_AT: Final = {"recovery_ms": "4-decided", "recovery_undecided_ms": "4-checked"}


@dataclass(frozen=True)
class Scale:
    """How much a repeat writes. With one repeat, which is there to see that all runs, it is as little as can be."""

    rows: int
    large_batches: int
    small_batches: int


_WHOLE: Final = Scale(rows=1_000_000, large_batches=4, small_batches=25)
_QUICK: Final = Scale(rows=4_000, large_batches=2, small_batches=3)


class Bench:
    """A cluster with its topics, and the sessions of both connectors."""

    def __init__(self, bootstrap: str, topics: Topics, own: Session, by_jvm: Session, scale: Scale) -> None:
        self.bootstrap = bootstrap
        self.scale = scale
        self._topics = topics
        self._own = own
        self._by_jvm = by_jvm

    def job(self, rows: int, batches: int) -> Job:
        return Job("sink", "ottla", self.bootstrap, "", rows, partitions=_TASKS, batches=batches)

    def seconds_a_batch(self, job: Job) -> float:
        """The median of what Spark says, of a query with a topic of its own."""
        topic = self._topics.create(_TASKS)
        job = replace(job, sink=topic, batches=job.batches + _UNMEASURED)
        measured = (self._own if job.connector == "ottla" else self._by_jvm).measure(job)
        stored, least = self._topics.count(topic), job.rows * job.batches
        if stored < least:
            raise RuntimeError(f"{job.connector} has written {stored} of {least} rows")
        self._topics.delete(topic)
        return median(measured.batches[_UNMEASURED:])

    def restart_ms(self, step: str | None) -> float:
        """Of a query that was stopped between two micro-batches, or killed at a step of the protocol."""
        with tempfile.TemporaryDirectory(prefix="ottla-bench-") as folder:
            topic = self._topics.create(_TASKS)
            job = replace(
                self.job(ROWS_A_MICRO_BATCH, _FEWEST_BATCHES), sink=topic, checkpoint=f"{folder}/cp"
            )
            if step is None:
                self._own.measure(replace(job, spaced=True))
            else:
                _kill(job, step, Path(folder))
            # Spark ends workers that were idle for a minute, as they were while another session came and went.
            self.seconds_a_batch(self.job(ROWS_A_MICRO_BATCH, 1))
            return self._own.measure(replace(job, batches=1)).wall * 1000


def _kill(job: Job, step: str, folder: Path) -> None:
    """In its second micro-batch, with all that belongs to it."""
    KillOrders(folder).give(replace(STEPS[step].of("driver"), call=_FEWEST_BATCHES))
    with session(_MASTER, env=hooked(folder, None)) as victim:
        victim.die_of(replace(job, batches=_FEWEST_BATCHES + 1))


def run(repeats: int) -> Result:
    result = Result("exactly_once")
    scale = _WHOLE if repeats > 1 else _QUICK
    progress("exactly_once: starting Apache Kafka and Spark")
    with ExitStack() as stack:
        bootstrap = stack.enter_context(ApacheKafka(nodes=1)).bootstrap
        topics = Topics(stack.enter_context(ottla.Client(bootstrap)))
        python = stack.enter_context(python_without_ottla())
        by_jvm = stack.enter_context(session(_MASTER, connector.ensure(), python))
        own = stack.enter_context(session(_MASTER))
        bench = Bench(bootstrap, topics, own, by_jvm, scale)
        _small(result, bench, min(repeats, 7))
        _large(result, bench, min(repeats, 5))
        _restarts(result, bench, min(repeats, 5))
    progress("exactly_once: done")
    return result


def _small(result: Result, bench: Bench, repeats: int) -> None:
    job = bench.job(ROWS_A_MICRO_BATCH, bench.scale.small_batches)
    cases = {
        "microbatch_exactly_once": _milliseconds(bench, job),
        "microbatch_at_least_once": _milliseconds(bench, replace(job, options=AT_LEAST_ONCE)),
    }
    samples = _measured(cases, repeats, "exactly_once: small micro-batches")
    for name, values in samples.items():
        result.figures[name] = Figure("ms", values)
    result.ratios["protocol_ms"] = median(samples["microbatch_exactly_once"]) - median(
        samples["microbatch_at_least_once"]
    )


def _milliseconds(bench: Bench, job: Job) -> Callable[[], float]:
    return lambda: bench.seconds_a_batch(job) * 1000


def _large(result: Result, bench: Bench, repeats: int) -> None:
    job = bench.job(bench.scale.rows, bench.scale.large_batches)
    jobs = {"write_exactly_once": job, "write_at_least_once": replace(job, options=AT_LEAST_ONCE)}
    for name, options in jvm.WRITES.items():
        jobs[f"write_{name}"] = replace(job, connector="kafka", options=dict(options))
    cases = {name: _speed(bench, each) for name, each in jobs.items()}
    samples = _measured(cases, repeats, f"exactly_once: micro-batches of {job.rows:,} rows")
    for name, values in samples.items():
        result.figures[name] = Figure("krows/s", values)
    result.ratios["write_vs_tuned"] = median(samples["write_exactly_once"]) / fastest(samples, "write_tuned")


def _speed(bench: Bench, job: Job) -> Callable[[], float]:
    return lambda: job.rows / bench.seconds_a_batch(job) / 1000


def _restarts(result: Result, bench: Bench, repeats: int) -> None:
    cases: dict[str, Callable[[], float]] = {"restart_ms": lambda: bench.restart_ms(None)}
    for name, step in _KILLED_AT.items():
        cases[name] = _restart(bench, step)
    samples = interleaved(cases, repeats, "exactly_once: restarts")
    for name, values in samples.items():
        result.figures[name] = Figure("ms", values)
    result.ratios["recovery_ms"] = median(samples["recovery_ms"])


def _restart(bench: Bench, step: str) -> Callable[[], float]:
    return lambda: bench.restart_ms(step)


def _measured(
    cases: dict[str, Callable[[], float]], repeats: int, label: str
) -> dict[str, tuple[float, ...]]:
    if repeats > 1:
        interleaved(cases, 1, f"{label}, warming up")
    return interleaved(cases, repeats, label)
