"""The Spark connector next to the JVM's, on one node of Apache Kafka.

Each connector has a Spark session in a process of its own, and both do the same jobs in turns: batch reads to
`noop`, JSON to typed columns, writes, and a small stream from topic to topic. Figures are thousands of rows per
second of the clock, for the whole job with its planning, or milliseconds. The limit of a read is a source that has
its Arrow batches in memory.

Ratios are for values of 100 bytes without compression on local[1]; `--full` also measures 1 KB, lz4,
local[2], and how reads fare with 1 to 64 partitions.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

import ottla
from bench.clients.job import Codec
from bench.harness import Figure, Result, interleaved, progress
from bench.spark_jobs.job import Connector, Job, Measured
from bench.spark_jobs.session import Session, session
from bench.spark_jobs.topics import Topics
from tests.interop.apache import ApacheKafka
from tests.interop.spark import connector

PARTITIONS = 4
MANY_PARTITIONS = (1, 4, 16, 64)
# what is measured: its name in figures, the connector
_SIDES: dict[str, Connector] = {"ottla": "ottla", "jvm": "kafka"}


@dataclass(frozen=True)
class Scale:
    """How much is read and written, so that one repeat takes seconds on two cores."""

    read: int = 2_000_000
    json: int = 500_000
    write: int = 500_000
    spread: int = 640_000
    batches: int = 10

    def for_values_of(self, size: int) -> Scale:
        """As many bytes as there are of 100."""
        return replace(
            self,
            read=self.read * 100 // size,
            json=self.json * 100 // size,
            write=self.write * 100 // size,
        )


QUICK = Scale(read=4_000, json=4_000, write=4_000, spread=6_400, batches=3)


class Bench:
    """A cluster with its topics, and a session for each connector."""

    def __init__(self, bootstrap: str, topics: Topics, sessions: dict[Connector, Session]) -> None:
        self.bootstrap = bootstrap
        self.topics = topics
        self._sessions = sessions

    def measure(self, job: Job) -> Measured:
        return self._sessions[job.connector].measure(job)

    def speed(self, job: Job) -> Callable[[], float]:
        return lambda: job.rows / self.measure(job).wall / 1000

    def check(self, job: Job) -> None:
        """A fast reader that reads less would be no reader. It also warms up: the JVM compiles what it has seen."""
        counted = self.measure(replace(job, case="count_json" if job.case == "json" else "count")).rows
        if counted != job.rows:
            raise RuntimeError(f"{job.connector} read {counted} of {job.rows} rows")


def run(repeats: int, full: bool = False) -> Result:
    result = Result("spark")
    scale = Scale() if repeats > 1 else QUICK
    progress("spark: starting Apache Kafka")
    with ExitStack() as stack:
        kafka = stack.enter_context(ApacheKafka(nodes=1))
        topics = Topics(stack.enter_context(ottla.Client(kafka.bootstrap)))
        with _sessions("local[1]", kafka.bootstrap, topics) as bench:
            _loads(result, bench, scale, repeats, "local1", [(100, "none")])
            _stream(result, bench, scale.batches, min(repeats, 5))
            if full:
                _spread(result, bench, scale.spread, min(repeats, 3))
                _loads(result, bench, scale, min(repeats, 3), "local1", _OTHER_LOADS)
        if full:
            with _sessions("local[2]", kafka.bootstrap, topics) as bench:
                _loads(result, bench, scale, min(repeats, 3), "local2", [(100, "none"), *_OTHER_LOADS])
    progress("spark: done")
    return result


_OTHER_LOADS: list[tuple[int, Codec]] = [(100, "lz4"), (1_000, "none"), (1_000, "lz4")]


@contextmanager
def _sessions(master: str, bootstrap: str, topics: Topics) -> Iterator[Bench]:
    progress(f"spark: starting two sessions on {master}")
    with session(master, connector.ensure()) as jvm, session(master) as own:
        yield Bench(bootstrap, topics, {"kafka": jvm, "ottla": own, "memory": own})


def _loads(
    result: Result, bench: Bench, scale: Scale, repeats: int, master: str, loads: list[tuple[int, Codec]]
) -> None:
    for size, codec in loads:
        samples = _one_load(bench, scale.for_values_of(size), repeats, size, codec, f"spark: {master}")
        label = f"{size}b_{codec}_{master}"
        for name, measured in samples.items():
            result.figures[f"{name}_{label}"] = Figure("krows/s", measured)
        ratios = _ratios(samples)
        if (size, codec, master) == (100, "none", "local1"):
            result.ratios |= ratios
        else:
            result.notes += [f"{name}, {label}: {value:.2f} x" for name, value in ratios.items()]


def _one_load(
    bench: Bench, scale: Scale, repeats: int, size: int, codec: Codec, label: str
) -> dict[str, tuple[float, ...]]:
    """Speeds of reading, of JSON and of writing, for each side and the limit."""
    label = f"{label}, {size} bytes, {codec}"
    text = bench.topics.filled(scale.read, PARTITIONS, size, codec)
    plain = Job("read", "ottla", bench.bootstrap, text, scale.read, size, codec, PARTITIONS)
    orders = bench.topics.filled(scale.json, PARTITIONS, size, codec, "json")
    json = replace(plain, case="json", topic=orders, rows=scale.json)
    write = replace(plain, case="write", rows=scale.write)
    reads = {f"read_{side}": replace(plain, connector=format) for side, format in _SIDES.items()}
    reads["read_limit"] = replace(plain, connector="memory")
    reads |= {f"json_{side}": replace(json, connector=format) for side, format in _SIDES.items()}
    progress(f"{label}, counting rows")
    for job in reads.values():
        bench.check(job)
    cases = {name: bench.speed(job) for name, job in reads.items()}
    cases |= {
        f"write_{side}": _written(bench, replace(write, connector=format)) for side, format in _SIDES.items()
    }
    interleaved(cases, 1, f"{label}, warming up")
    samples = interleaved(cases, repeats, label)
    for topic in (text, orders):
        bench.topics.delete(topic)
    return samples


def _written(bench: Bench, job: Job) -> Callable[[], float]:
    def measure() -> float:
        topic = bench.topics.create(job.partitions)
        speed = job.rows / bench.measure(replace(job, topic=topic)).wall / 1000
        stored = bench.topics.count(topic)
        if stored != job.rows:
            raise RuntimeError(f"{job.connector} has written {stored} of {job.rows} rows")
        bench.topics.delete(topic)
        return speed

    return measure


def _ratios(samples: dict[str, tuple[float, ...]]) -> dict[str, float]:
    median = {name: statistics.median(measured) for name, measured in samples.items()}
    return {
        "read_vs_jvm": median["read_ottla"] / median["read_jvm"],
        "read_vs_limit": median["read_ottla"] / median["read_limit"],
        "write_vs_jvm": median["write_ottla"] / median["write_jvm"],
        "json_vs_jvm": median["json_ottla"] / median["json_jvm"],
    }


def _stream(result: Result, bench: Bench, batches: int, repeats: int) -> None:
    """Milliseconds of a micro-batch, as Spark says; of the first one, from the start of the query."""
    seen: dict[str, list[float]] = {}

    def measured(side: str, format: Connector) -> Callable[[], float]:
        def measure() -> float:
            source, sink = bench.topics.create(), bench.topics.create()
            job = Job("stream", format, bench.bootstrap, source, batches=batches, sink=sink)
            times = bench.measure(job)
            seen.setdefault(f"first_batch_{side}", []).append(times.wall * 1000)
            seen.setdefault(f"stored_to_committed_{side}", []).append(statistics.median(times.passed) * 1000)
            return statistics.median(times.batches) * 1000

        return measure

    cases = {f"microbatch_{side}": measured(side, format) for side, format in _SIDES.items()}
    interleaved(cases, 1, "spark: a small stream, warming up")
    seen.clear()
    samples = interleaved(cases, repeats, "spark: a small stream")
    for name, values in {**samples, **seen}.items():
        result.figures[name] = Figure("ms", tuple(values))
    ours, jvm = (statistics.median(samples[f"microbatch_{side}"]) for side in _SIDES)
    result.ratios["microbatch_extra_ms"] = ours - jvm
    result.ratios["first_batch_ms"] = statistics.median(seen["first_batch_ottla"])


def _spread(result: Result, bench: Bench, rows: int, repeats: int) -> None:
    """The same rows in ever more partitions, each of which is a task."""
    for partitions in MANY_PARTITIONS:
        topic = bench.topics.filled(rows, partitions, 100, "none")
        job = Job("read", "ottla", bench.bootstrap, topic, rows, partitions=partitions)
        cases = {
            f"read_{partitions}_partitions_{side}": bench.speed(replace(job, connector=format))
            for side, format in _SIDES.items()
        }
        samples = interleaved(cases, repeats, f"spark: {partitions} partitions")
        for name, measured in samples.items():
            result.figures[name] = Figure("krows/s", measured)
        bench.topics.delete(topic)
