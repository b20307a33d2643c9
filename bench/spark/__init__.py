"""The Spark connector next to the JVM's at its best, and next to Spark without any, on one node of Apache Kafka.

Each contender has a Spark session in a process of its own, and all do the same jobs in turns: batch reads to `noop`,
JSON and Avro to typed columns, writes, and a small stream from topic to topic. Figures are thousands of rows per
second of the clock, for the whole job with its planning, or milliseconds. This connector runs as it comes, but for
its sink, which writes at least once, as the JVM's does (`bench exactly_once` has the other); reads are measured once
more as `ottla.spark.register` sets them up (`registered`). The JVM's runs as it comes (`jvm`) and with settings that
make it fast (`tuned`, see `bench.spark.jvm`). The limit of reads and writes, and the floor of micro-batches, is a
source and a sink in memory, by as many tasks as are fastest.

Ratios are for values of 100 bytes without compression: on local[1] with 4 partitions, and of `read64` and `read200`
on local[2] with so many partitions. `--full` also measures 1 KB, lz4, local[2] and 1 to 64 partitions, and jobs at
size: a sum over 10 million orders, 50 million rows on one machine and on a cluster, and the memory that they take.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final, TypeAlias

import ottla
from bench.clients.job import Codec
from bench.harness import Result, progress
from bench.spark import at_size, loads, streams
from bench.spark.at_size import Size
from bench.spark.loads import Load
from bench.spark.sessions import Bench, Sessions, opened
from bench.spark_jobs.session import python_without_ottla
from bench.spark_jobs.topics import Topics
from tests.interop.apache import ApacheKafka

_MORE_PARTITIONS: Final = (1, 4, 16, 64)
_Kind: TypeAlias = tuple[int, Codec]
_USUAL: Final[_Kind] = (100, "none")
_OTHERS: Final[tuple[_Kind, ...]] = ((100, "lz4"), (1_000, "none"), (1_000, "lz4"))


@dataclass(frozen=True)
class Scale:
    """How much is read and written, so that one repeat takes seconds on two cores.

    With one repeat, which is there to see that everything runs, it is as little as there can be.
    """

    load: Load
    spread: int
    partitions: dict[str, int]
    batches: int
    sessions: Sessions
    size: Size


_WHOLE: Final = Scale(
    Load(read=2_000_000, json=500_000, write=3_000_000),
    spread=1_000_000,
    partitions={"read64": 64, "read200": 200},
    batches=10,
    sessions="own",
    size=Size(sum=10_000_000, read=50_000_000),
)
_QUICK: Final = Scale(
    Load(read=4_000, json=4_000, write=4_000),
    spread=4_000,
    # As it comes, the JVM connector waits for half a second in each.
    partitions={"read64": 2, "read200": 4},
    batches=2,
    # To start one takes longer than all that it is to do.
    sessions="shared",
    size=Size(sum=64_000, read=64_000),
)


def run(repeats: int, full: bool = False) -> Result:
    result = Result("spark")
    scale = _WHOLE if repeats > 1 else _QUICK
    if full:
        scale.size.check_space()
    progress("spark: starting Apache Kafka")
    with ExitStack() as stack:
        bootstrap = stack.enter_context(ApacheKafka(nodes=1)).bootstrap
        topics = Topics(stack.enter_context(ottla.Client(bootstrap)))
        python = stack.enter_context(python_without_ottla())
        with opened("local[1]", bootstrap, topics, python, scale.sessions) as bench:
            _on_one_core(result, bench, scale, repeats, full)
            if scale.sessions == "shared":  # on one core too
                streams.first(result, bootstrap, topics, bench.measure, repeats)
                _on_two_cores(result, bench, scale, repeats, full)
        if scale.sessions == "own":
            streams.first(result, bootstrap, topics, streams.in_new_session(python), min(repeats, 3))
            with opened("local[2]", bootstrap, topics, python) as bench:
                _on_two_cores(result, bench, scale, repeats, full)
        if full:
            few = min(repeats, 3)
            with at_size.large_topic(topics, bootstrap, scale.size.read) as job:
                with opened("local[2]", bootstrap, topics, python) as bench:
                    at_size.read_locally(result, bench, job, few)
                at_size.read_on_cluster(result, topics, job, few, python)
    progress("spark: done")
    return result


def _on_one_core(result: Result, bench: Bench, scale: Scale, repeats: int, full: bool) -> None:
    few = min(repeats, 3)
    loads.measure(result, bench, scale.load, repeats)
    streams.steady(result, bench, scale.batches, min(repeats, 5))
    if full:
        for partitions in _MORE_PARTITIONS:
            loads.spread(result, bench, f"read{partitions}", scale.spread, partitions, few, "_local1")
        _others(result, bench, scale.load, _OTHERS, few, "local1")


def _on_two_cores(result: Result, bench: Bench, scale: Scale, repeats: int, full: bool) -> None:
    few = min(repeats, 3)
    for name, partitions in scale.partitions.items():
        loads.spread(result, bench, name, scale.spread, partitions, min(repeats, 5))
    if full:
        _others(result, bench, scale.load, (_USUAL, *_OTHERS), few, "local2")
        at_size.sums(result, bench, scale.size.sum, few)


def _others(
    result: Result, bench: Bench, load: Load, kinds: tuple[_Kind, ...], repeats: int, label: str
) -> None:
    for size, codec in kinds:
        loads.measure(result, bench, load.of(size, codec), repeats, f"_{size}b_{codec}_{label}")
