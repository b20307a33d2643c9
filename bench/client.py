"""The client next to confluent-kafka, aiokafka and kafka-python, on the embedded cluster.

Every client runs in a process of its own and does the same work; ratios are of its CPU, all threads counted, or of
its latencies. Those are measured with writer and reader in one process and in two; the worse ratio counts. The peer
of reference is confluent-kafka in the better of two settings, its defaults and tuned for throughput. A topic has six
partitions and is made anew for each round; acks=all.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from typing import Any

import ottla
from bench.clients.job import Codec, Job, Measured
from bench.harness import Figure, Result, interleaved, progress
from bench.processes import OTTLA, running

PARTITIONS = 6
MANY_PARTITIONS = 1_000
BROKER = [*OTTLA, "--brokers", "1"]

# (what is measured, who does it, which case of theirs, tuned)
_PRODUCERS = [
    ("produce_loop_ottla", "ottla", "produce_loop", False),
    ("produce_loop_confluent", "confluent", "produce_loop", False),
    ("produce_loop_confluent_tuned", "confluent", "produce_loop", True),
    ("produce_loop_kafka_python", "kafka-python", "produce_loop", False),
    ("produce_arrow_ottla", "ottla", "produce_arrow", False),
    ("produce_batch_confluent", "confluent", "produce_arrow", False),
    ("produce_batch_confluent_tuned", "confluent", "produce_arrow", True),
    ("produce_callback_ottla", "ottla", "produce_callback", False),
    ("produce_callback_confluent", "confluent", "produce_callback", False),
    ("produce_callback_confluent_tuned", "confluent", "produce_callback", True),
    ("produce_small_tables_ottla", "ottla", "produce_small_tables", False),
    ("produce_small_tables_confluent", "confluent", "produce_small_tables", False),
    ("produce_small_tables_confluent_tuned", "confluent", "produce_small_tables", True),
    ("async_produce_ottla", "ottla", "async_produce", False),
    ("async_produce_aiokafka", "aiokafka", "async_produce", False),
]
_CONSUMERS = [
    ("iterate_ottla", "ottla", "iterate", False),
    ("iterate_confluent", "confluent", "iterate", False),
    ("iterate_confluent_tuned", "confluent", "iterate", True),
    ("iterate_kafka_python", "kafka-python", "iterate", False),
    ("consume_arrow_ottla", "ottla", "consume_arrow", False),
    ("consume_arrow_confluent", "confluent", "consume_arrow", False),
    ("consume_arrow_confluent_tuned", "confluent", "consume_arrow", True),
    ("async_iterate_ottla", "ottla", "async_iterate", False),
    ("async_iterate_aiokafka", "aiokafka", "async_iterate", False),
]
# ratio: (ours, the peer's settings; the one that costs least counts)
_RATIOS = {
    "produce_arrow_cpu": (
        "produce_arrow_ottla",
        ["produce_batch_confluent", "produce_batch_confluent_tuned"],
    ),
    "consume_arrow_cpu": (
        "consume_arrow_ottla",
        ["consume_arrow_confluent", "consume_arrow_confluent_tuned"],
    ),
    "produce_loop_cpu": ("produce_loop_ottla", ["produce_loop_confluent", "produce_loop_confluent_tuned"]),
    "produce_callback_cpu": (
        "produce_callback_ottla",
        ["produce_callback_confluent", "produce_callback_confluent_tuned"],
    ),
    "produce_small_tables_cpu": (
        "produce_small_tables_ottla",
        ["produce_small_tables_confluent", "produce_small_tables_confluent_tuned"],
    ),
    "iterate_cpu": ("iterate_ottla", ["iterate_confluent", "iterate_confluent_tuned"]),
    "async_produce_cpu": ("async_produce_ottla", ["async_produce_aiokafka"]),
    "async_iterate_cpu": ("async_iterate_ottla", ["async_iterate_aiokafka"]),
}
_SLOW = ("kafka_python", "aiokafka")


class Worker:
    """The process of one client, which does jobs."""

    def __init__(self, client: str, bootstrap: str) -> None:
        command = [sys.executable, "-m", "bench.clients", client, "--bootstrap", bootstrap]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._client = client

    def measure(self, job: Job) -> Measured:
        self.begin(job)
        return self.end(job)

    def begin(self, job: Job) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(json.dumps(asdict(job)) + "\n")
        stdin.flush()

    def end(self, job: Job) -> Measured:
        stdout = self._process.stdout
        assert stdout is not None
        result = stdout.readline()
        if not result:
            raise RuntimeError(f"the process of {self._client} ended in {job}")
        return Measured(**json.loads(result))

    def close(self) -> None:
        self._process.terminate()
        self._process.communicate()


class Bench:
    """A broker, the clients, and topics that come and go."""

    def __init__(self, bootstrap: str, workers: dict[str, Worker], admin: Any, count: int) -> None:
        self._bootstrap = bootstrap
        self._workers = workers
        self._admin = admin
        self._topics = 0
        self.count = count

    @contextmanager
    def topic(self, partitions: int = PARTITIONS) -> Iterator[str]:
        self._topics += 1
        name = f"bench-{self._topics}"
        self._admin.create_topic(name, partitions=partitions)
        yield name
        self._admin.delete_topic(name)

    def measure(self, client: str, job: Job) -> Measured:
        return self._workers[client].measure(job)

    def latency(self, client: str, job: Job) -> Measured:
        """Of a writer and a reader in processes of their own; the CPU is that of both."""
        reader, writer = self._workers[f"{client} reader"], self._workers[client]
        read, write = replace(job, case="latency_read"), replace(job, case="latency_write")
        reader.begin(read)
        written = writer.measure(write)
        measured = reader.end(read)
        return replace(measured, cpu=measured.cpu + written.cpu)

    def job(self, name: str, **options: Any) -> Job:
        """As many records as the client can do in about a second."""
        slow = any(who in name for who in _SLOW) or name.startswith("async")
        return Job(topic="", count=self.count // 4 if slow else self.count, **options)


@contextmanager
def bench(count: int) -> Iterator[Bench]:
    with ExitStack() as stack:
        broker = stack.enter_context(running(BROKER))
        clients = ("ottla", "confluent", "aiokafka", "kafka-python")
        workers = {name: Worker(name, broker.bootstrap) for name in clients}
        workers |= {f"{name} reader": Worker(name, broker.bootstrap) for name in clients[:2]}
        for worker in workers.values():
            stack.callback(worker.close)
        kafka = stack.enter_context(ottla.Client(broker.bootstrap))
        yield Bench(broker.bootstrap, workers, kafka.admin, count)


def run(repeats: int) -> Result:
    result = Result("client")
    whole = repeats > 1
    with bench(400_000 if whole else 4_000) as setting:
        loads: list[tuple[int, Codec]] = [(100, "none"), (100, "lz4"), (1000, "none"), (1000, "lz4")]
        for size, codec in loads:
            _cpu(result, setting, size, codec, repeats if (size, codec) == (100, "none") else min(repeats, 3))
        _partitions(result, setting, repeats)
        _latencies(result, setting, repeats, 3_000 if whole else 100)
    return result


def _cpu(result: Result, setting: Bench, size: int, codec: Codec, repeats: int) -> None:
    """Microseconds of CPU for a record."""
    label = f"{size}b_{codec}"
    samples = interleaved(
        {
            name: _produced(setting, name, who, case, size, codec, tuned)
            for name, who, case, tuned in _PRODUCERS
        },
        repeats,
        f"client: producing {size} bytes, {codec}",
    )
    with setting.topic() as topic:
        setting.measure("ottla", Job("produce_arrow", topic, setting.count, size=size, codec=codec))
        samples |= interleaved(
            {
                name: _consumed(setting, name, who, case, topic, tuned)
                for name, who, case, tuned in _CONSUMERS
            },
            repeats,
            f"client: consuming {size} bytes, {codec}",
        )
    for name, measured in samples.items():
        result.figures[f"{name}_{label}"] = Figure("us", measured)
    for ratio, (ours, peers) in _RATIOS.items():
        value = _median(samples[ours]) / min(_median(samples[peer]) for peer in peers)
        if (size, codec) == (100, "none"):
            result.ratios[ratio] = value
        else:
            result.notes.append(f"{ratio} with {size} bytes, {codec}: {value:.2f} x")


def _produced(
    setting: Bench,
    name: str,
    who: str,
    case: str,
    size: int,
    codec: Codec,
    tuned: bool,
    partitions: int = PARTITIONS,
) -> Callable[[], float]:
    def measure() -> float:
        job = setting.job(name, case=case, partitions=partitions, size=size, codec=codec, tuned=tuned)
        with setting.topic(partitions) as topic:
            return setting.measure(who, replace(job, topic=topic)).cpu / job.count * 1e6

    return measure


def _consumed(setting: Bench, name: str, who: str, case: str, topic: str, tuned: bool) -> Callable[[], float]:
    def measure() -> float:
        job = setting.job(name, case=case, tuned=tuned)
        return setting.measure(who, replace(job, topic=topic)).cpu / job.count * 1e6

    return measure


def _partitions(result: Result, setting: Bench, repeats: int) -> None:
    """The same records over one partition and over a thousand."""
    cases = {
        f"produce_loop_{count}_partitions": _produced(
            setting, "produce_loop_ottla", "ottla", "produce_loop", 100, "none", False, count
        )
        for count in (1, MANY_PARTITIONS)
    }
    samples = interleaved(cases, min(repeats, 5), "client: partitions")
    few, many = samples
    for name, measured in samples.items():
        result.figures[name] = Figure("us", measured)
    result.ratios["partitions_1000_vs_1"] = _median(samples[many]) / _median(samples[few])


# kind: (who, which case of theirs, beside a busy thread)
_LATENCIES: dict[str, tuple[tuple[str, str], str, bool]] = {
    "latency": (("ottla", "confluent"), "latency", False),
    "latency_apart": (("ottla", "confluent"), "", False),
    "async_latency": (("ottla", "aiokafka"), "async_latency", False),
    "latency_busy": (("ottla", "confluent"), "latency", True),
}
# The worse of what writer and reader show in one process and in two.
_LATENCY_RATIOS = {
    "latency_p50": ("latency_p50", "latency_apart_p50"),
    "latency_p99": ("latency_p99", "latency_apart_p99"),
    "latency_cpu": ("latency_cpu", "latency_apart_cpu"),
    "async_latency_p50": ("async_latency_p50",),
    "latency_busy_p99": ("latency_busy_p99",),
}


def _latencies(result: Result, setting: Bench, repeats: int, count: int) -> None:
    """A thousand records a second, linger 0; quantiles and CPU of each round, and their median over the rounds."""
    seen: dict[str, list[float]] = {}

    def measured(kind: str, who: str, case: str, busy: bool) -> Callable[[], float]:
        def measure() -> float:
            with setting.topic(1) as topic:
                job = Job(case, topic, count, busy=busy)
                found = setting.measure(who, job) if case else setting.latency(who, job)
            ordered = sorted(found.latencies)
            for quantile in (50, 99):
                value = ordered[min(len(ordered) * quantile // 100, len(ordered) - 1)] * 1000
                seen.setdefault(f"{kind}_p{quantile}_{who}", []).append(value)
            seen.setdefault(f"{kind}_cpu_{who}", []).append(found.cpu / len(ordered) * 1e6)
            return statistics.median(ordered)

        return measure

    for kind, (clients, case, busy) in _LATENCIES.items():
        cases = {who: measured(kind, who, case, busy) for who in clients}
        interleaved(cases, min(repeats, 5), f"client: {kind.replace('_', ' ')}")
    for name, values in seen.items():
        result.figures[name] = Figure("us" if "_cpu_" in name else "ms", tuple(values))

    def ratio(kind: str) -> float:
        peer = "aiokafka" if kind.startswith("async") else "confluent"
        return _median(seen[f"{kind}_ottla"]) / _median(seen[f"{kind}_{peer}"])

    for name, kinds in _LATENCY_RATIOS.items():
        found = {kind: ratio(kind) for kind in kinds}
        result.ratios[name] = max(found.values())
        if len(found) > 1:
            result.notes.append(", ".join(f"{kind}: {value:.2f} x" for kind, value in found.items()))
    progress("client: done")


def _median(samples: tuple[float, ...] | list[float]) -> float:
    return statistics.median(samples)
