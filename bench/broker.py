"""The embedded cluster next to librdkafka's mock cluster, a C program; confluent-kafka is the client of both.

Each broker runs in a process of its own, three nodes, topics of four partitions, no compression. Both keep a record
once: ours by its replication factor of 1, the mock because it has one log per partition and never replicates, though
its metadata names three replicas, which its client cannot change. A ratio is records per second through our cluster
over those through the mock, in the same run, turn by turn. The CPU that each broker's process spends is beside it:
where the client is the limit, the ratio is near 1 whatever the broker costs.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from collections.abc import Callable
from functools import partial

from bench.harness import Figure, Result, interleaved, progress
from bench.processes import OTTLA, Process, running
from bench.throughput import Traffic
from ottla.broker import AsyncCluster, Cluster, TopicSpec

NODES = 3
CONFIGS = ("num.partitions=4", "default.replication.factor=1")
OURS = [*OTTLA, "--brokers", str(NODES), *(word for config in CONFIGS for word in ("--config", config))]
MOCK = [sys.executable, "-m", "bench.mock_cluster", "--brokers", str(NODES)]
IDLE_NODES = 30
TURNS = 3


def run(repeats: int) -> Result:
    result = Result("broker")
    _readiness(result, repeats)
    _many(result, 1000 if repeats > 1 else 50)
    for name, size in (("100b", 100), ("1kb", 1000)):
        _compare(result, name, size, repeats)
    _memory(result)
    return result


def _readiness(result: Result, repeats: int) -> None:
    """A cluster of three nodes and a topic of six partitions, three replicas each, until it serves; all is warm."""
    samples = []
    for number in range(repeats * 3 + 1):
        gc.collect()
        started = time.perf_counter()
        with Cluster(brokers=3, topics={"orders": TopicSpec(6, 3)}):
            samples.append((time.perf_counter() - started) * 1000)
        progress(f"broker: ready {number} of {repeats * 3}")
    result.figures["ready"] = Figure("ms", tuple(samples[1:]))
    result.ratios["ready_ms"] = result.figures["ready"].median


def _many(result: Result, count: int) -> None:
    """Opens and closes many clusters; what they leave behind."""

    async def main() -> tuple[int, int]:
        """On one loop, so that a task or a socket that stays behind is seen."""
        files = len(os.listdir("/proc/self/fd"))
        for number in range(count):
            async with AsyncCluster(brokers=3, topics={"orders": 6}):
                pass
            if (number + 1) % 100 == 0:
                progress(f"broker: {number + 1} of {count} clusters opened and closed")
        gc.collect()
        return len(os.listdir("/proc/self/fd")) - files, len(asyncio.all_tasks()) - 1

    files, tasks = asyncio.run(main())
    result.figures["clusters_opened"] = Figure("", (float(count),))
    result.figures["sockets_and_files_leaked"] = Figure("", (float(files),))
    result.figures["tasks_leaked"] = Figure("", (float(tasks),))


def _compare(result: Result, name: str, size: int, repeats: int) -> None:
    """New processes every few repeats: where their memory and their cores happen to be is worth ten percent."""
    rates: dict[str, list[float]] = {}
    left = repeats
    while left:
        turns = min(left, TURNS)
        left -= turns
        with running(OURS) as ours, running(MOCK) as mock:
            label = f"broker: {size} bytes, {repeats - left} of {repeats} when done"
            for case, samples in _turns({"ottla": ours, "mock": mock}, size, turns, label).items():
                rates.setdefault(case, []).extend(samples)
    for case, samples in sorted(rates.items()):
        unit = "s/M rec" if "_cpu_" in case else "rec/s"
        result.figures[f"{case}_{name}"] = Figure(unit, tuple(samples))
    for kind in ("produce", "fetch"):
        result.ratios[f"{kind}_{name}_vs_mock"] = (
            result.figures[f"{kind}_ottla_{name}"].median / result.figures[f"{kind}_mock_{name}"].median
        )


def _turns(brokers: dict[str, Process], size: int, turns: int, label: str) -> dict[str, list[float]]:
    """Both brokers in turn: records per second, and seconds of the broker's CPU for a million records."""
    traffic = {who: Traffic(broker.bootstrap, size) for who, broker in brokers.items()}
    cpu: dict[str, list[float]] = {}

    def counted(kind: str, who: str, work: Callable[[], float]) -> Callable[[], float]:
        def measure() -> float:
            before = brokers[who].cpu()
            rate = work()
            spent = brokers[who].cpu() - before
            cpu.setdefault(f"{kind}_cpu_{who}", []).append(spent / traffic[who].count * 1e6)
            return rate

        return measure

    for who, client in traffic.items():
        _round(client, who)  # what is compiled on first use, and memory, are warm from here on
    cases = {}
    for kind in ("produce", "fetch"):
        for who, client in traffic.items():
            work = client.produce if kind == "produce" else partial(_consume, client, who)
            cases[f"{kind}_{who}"] = counted(kind, who, work)
    rates = interleaved(cases, turns, label)
    for client in traffic.values():
        client.close()
    return {case: list(samples) for case, samples in rates.items()} | cpu


def _consume(client: Traffic, who: str) -> float:
    rate = client.consume()
    if who == "ottla":
        client.forget()  # the mock forgets by itself
    return rate


def _round(client: Traffic, who: str) -> None:
    client.produce()
    _consume(client, who)


def _memory(result: Result) -> None:
    """What an idle node keeps, and a million records of 100 bytes."""
    progress("broker: memory")
    few = [*OTTLA, "--brokers", "1"]
    many = [*OTTLA, "--brokers", str(1 + IDLE_NODES)]
    with running(few) as one, running(many) as all_of_them:
        idle = (all_of_them.memory() - one.memory()) / IDLE_NODES
    result.figures["memory_per_idle_node"] = Figure("KiB", (idle / 1024,))
    with running(OURS) as broker:
        traffic = Traffic(broker.bootstrap, 100)
        traffic.produce()
        before, rounds = broker.memory(), 6
        for _ in range(rounds):
            traffic.produce()
        grown = (broker.memory() - before) / (rounds * traffic.count) * 1_000_000
        traffic.close()
    result.figures["memory_per_million_records"] = Figure("MiB", (grown / 2**20,))
