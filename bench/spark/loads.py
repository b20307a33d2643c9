"""Batch jobs: reads to `noop`, JSON and Avro to typed columns, writes; and the same rows in ever more partitions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from bench.clients.job import Codec
from bench.harness import Result, interleaved, progress
from bench.spark import jvm
from bench.spark.sessions import (
    LIMIT_BATCH,
    Bench,
    Samples,
    add_speeds,
    limits,
    named,
    registered,
    sides,
)
from bench.spark_jobs.job import AT_LEAST_ONCE, Job

PARTITIONS: Final = 4


@dataclass(frozen=True)
class Load:
    """Values of one kind, and how many of them: of Avro as many as are read, which is not much slower."""

    read: int
    json: int
    write: int
    size: int = 100
    codec: Codec = "none"

    def of(self, size: int, codec: Codec) -> Load:
        """As many bytes, in values of another kind."""
        read, json, write = (count * self.size // size for count in (self.read, self.json, self.write))
        return Load(read, json, write, size, codec)


def measure(result: Result, bench: Bench, load: Load, repeats: int, suffix: str = "") -> None:
    """The suffix is for the names of a load that has no bar."""
    samples = _samples(bench, load, repeats, f"spark: {bench.master}, {load.size} bytes, {load.codec}")
    for what in ("read", "json", "avro", "write"):
        add_speeds(result, samples, what, suffix)


def _samples(bench: Bench, load: Load, repeats: int, label: str) -> Samples:
    text = bench.topics.filled(load.read, PARTITIONS, load.size, load.codec)
    orders = bench.topics.filled(load.json, PARTITIONS, load.size, load.codec, "json")
    binary = bench.topics.filled(load.read, PARTITIONS, load.size, load.codec, "avro")
    read = Job("read", "ottla", bench.bootstrap, text, load.read, load.size, load.codec, PARTITIONS)
    json = replace(read, case="json", topic=orders, rows=load.json)
    avro = replace(read, case="avro", topic=binary)
    write = replace(read, case="write", topic="", rows=load.write, options=AT_LEAST_ONCE)
    readers = {
        **named("read", sides(read, jvm.READS) | registered(read, bench.cores) | limits(read, LIMIT_BATCH)),
        **named("json", sides(json, jvm.READS) | registered(json, bench.cores)),
        **named("avro", sides(avro, jvm.READS) | registered(avro, bench.cores)),
    }
    writers = named("write", sides(write, jvm.WRITES) | limits(write, {}))
    progress(f"{label}: counting rows")
    for job in readers.values():
        bench.check(job)
    cases = {name: bench.speed(job) for name, job in readers.items()}
    cases |= {name: bench.written(job) for name, job in writers.items()}
    if repeats > 1:
        interleaved(cases, 1, f"{label}, warming up")
    samples = interleaved(cases, repeats, label)
    for topic in (text, orders, binary):
        bench.topics.delete(topic)
    return samples


def spread(
    result: Result, bench: Bench, what: str, rows: int, partitions: int, repeats: int, suffix: str = ""
) -> None:
    """The same rows in so many partitions."""
    label = f"spark: {bench.master}, {rows:,} rows in {partitions} partitions"
    topic = bench.topics.filled(rows, partitions, 100, "none")
    job = Job("read", "ottla", bench.bootstrap, topic, rows, partitions=partitions)
    jobs = named(what, sides(job, jvm.READS) | registered(job, bench.cores))
    progress(f"{label}: counting rows")
    for each in jobs.values():
        bench.check(each)
    samples = interleaved({name: bench.speed(each) for name, each in jobs.items()}, repeats, label)
    add_speeds(result, samples, what, suffix)
    bench.topics.delete(topic)
