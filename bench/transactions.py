"""Transactions one after the other, next to confluent-kafka, on one node of Apache Kafka.

How many one producer commits in a second with 1, 10 and 1,000 records of 100 bytes each, and what a million records
cost its process in CPU, all threads counted, at 1,000 each; acks=all, one topic of one partition, so that a
transaction takes as many requests with both clients. Ratios are of loops of `produce()`. Tables and lists of messages
that are made beforehand are figures beside them.

confluent-kafka runs with its default linger.ms and with 0, and the better of both counts. A commit sends what still
lingers; its batches hold 1,000 such records by default, so larger ones change nothing.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace

from bench.client import Worker
from bench.clients.job import Job
from bench.groups.feeding import create_topic
from bench.harness import Figure, Result, interleaved
from tests.interop.apache import ApacheKafka

LARGE = 1_000
SIZES = (1, 10, LARGE)
SAMPLE = {1: 300, 10: 300, LARGE: 150}
"""Transactions of a sample, by their size: a second or two."""
QUICK_SAMPLE = 10

OURS = "ottla"
PEERS = ("confluent", "confluent_linger_0")
OUR_TABLES = "ottla_arrow"
PEER_LISTS = ("confluent_batch", "confluent_batch_linger_0")


@dataclass(frozen=True)
class Contender:
    """A client with its settings, and the form in which it is given records."""

    client: str
    case: str
    linger_ms: int | None = None


CONTENDERS = {
    OURS: Contender("ottla", "transactions"),
    PEERS[0]: Contender("confluent", "transactions"),
    PEERS[1]: Contender("confluent", "transactions", linger_ms=0),
    OUR_TABLES: Contender("ottla", "transactions_batch"),
    PEER_LISTS[0]: Contender("confluent", "transactions_batch"),
    PEER_LISTS[1]: Contender("confluent", "transactions_batch", linger_ms=0),
}

Samples = dict[str, list[float]]
"""By the name of the contender."""


def run(repeats: int) -> Result:
    result = Result("transactions")
    load = os.getloadavg()[0]
    with ExitStack() as stack:
        bootstrap = stack.enter_context(ApacheKafka(1)).bootstrap
        workers = {client: Worker(client, bootstrap) for client in ("ottla", "confluent")}
        for worker in workers.values():
            stack.callback(worker.close)
        topic = create_topic(bootstrap, 1)
        for size in SIZES:
            count = SAMPLE[size] if repeats > 1 else QUICK_SAMPLE
            job = Job("", topic, count * size, each=size)
            _compare(result, workers, job, repeats)
    after = os.getloadavg()[0]
    result.notes.append(f"load average: {load:.1f}, {after:.1f}; beside other work, rates are the machine's")
    return result


def _compare(result: Result, workers: dict[str, Worker], job: Job, repeats: int) -> None:
    """One figure per contender, and the ratios of transactions of one size."""
    size = job.each
    contenders = CONTENDERS if size == LARGE else {name: CONTENDERS[name] for name in (OURS, *PEERS)}
    rates: Samples = {name: [] for name in contenders}
    cpu: Samples = {name: [] for name in contenders}

    def measured(name: str, contender: Contender) -> Callable[[], float]:
        its_job = replace(job, case=contender.case, linger_ms=contender.linger_ms)

        def measure() -> float:
            found = workers[contender.client].measure(its_job)
            rates[name].append(job.count / size / found.wall)
            cpu[name].append(found.cpu / job.count * 1e6)
            return found.wall

        return measure

    cases = {name: measured(name, contender) for name, contender in contenders.items()}
    label = f"transactions: {size} record{'s' if size > 1 else ''} each"
    if size == SIZES[0]:
        for warm_up in cases.values():
            warm_up()  # the broker's JVM has compiled nothing of this before
        for samples in (*rates.values(), *cpu.values()):
            samples.clear()
    interleaved(cases, repeats, label)
    for name in contenders:
        result.figures[f"rate_{size}_{name}"] = Figure("/s", tuple(rates[name]))
    result.ratios[f"rate_{size}"] = _median(rates[OURS]) / max(_median(rates[peer]) for peer in PEERS)
    if size != LARGE:
        return
    for name in contenders:
        result.figures[f"cpu_{size}_{name}"] = Figure("s", tuple(cpu[name]))
    result.ratios[f"cpu_{size}"] = _median(cpu[OURS]) / min(_median(cpu[peer]) for peer in PEERS)
    tables = _median(rates[OUR_TABLES]) / max(_median(rates[peer]) for peer in PEER_LISTS)
    tables_cpu = _median(cpu[OUR_TABLES]) / min(_median(cpu[peer]) for peer in PEER_LISTS)
    result.notes.append(
        f"tables of {size} rows next to produce_batch: rate {tables:.2f} x, cpu {tables_cpu:.2f} x; "
        "cpu is for a million records"
    )


def _median(samples: list[float]) -> float:
    return statistics.median(samples)
