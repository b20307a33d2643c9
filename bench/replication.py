"""What replication costs the embedded cluster, and how soon a partition has another leader.

Three nodes, topics of six partitions, values of 1,000 bytes, acks=all; confluent-kafka produces, with the settings in
which it is fastest. Replication factor 3 is held against replication factor 1 of the same cluster, in megabytes per
second and in resident memory, and against three nodes of Apache Kafka, in megabytes for each second of CPU that all
brokers spend: where the client and the brokers share two cores, megabytes per second say more of the machine. Kafka's
nodes are warm before they are measured, and run with the first compiler alone and the serial collector: with the
options of its own start script they spend up to twice the CPU in their first gigabytes. Their logs are files, in the
page cache as always, and those of the embedded cluster are memory.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import ottla
from bench.harness import Figure, Result, interleaved, progress
from bench.processes import OTTLA, Process, running
from ottla.broker import Cluster
from tests.interop.apache import ApacheKafka

NODES = 3
PARTITIONS = 6
VALUE = b"v" * 1000
OURS = [*OTTLA, "--brokers", str(NODES)]
_DEADLINE = 120.0
_LARGEST_BATCH = 1_000_000
_LITTLE = 0.02
TURNS = 5
"""In one process: where its memory and its core happen to be is worth ten percent."""
AT_ONCE, LATE = 0.05, 1.0
"""Seconds from the end of a leader to its fencing: a client has noticed, or has tried in vain for a while."""


@dataclass(frozen=True)
class Scale:
    """How much is produced, and how long an idle cluster is watched."""

    megabytes: int
    warm_up: int
    idle_partitions: int
    idle_seconds: float
    failovers: int


WHOLE = Scale(megabytes=200, warm_up=5, idle_partitions=2_000, idle_seconds=16.0, failovers=5)
"""A node looks for followers that lag every 15 seconds: that is within the time for which it is watched."""
QUICK = Scale(megabytes=5, warm_up=1, idle_partitions=60, idle_seconds=1.0, failovers=1)


def run(repeats: int) -> Result:
    result = Result("replication")
    scale = WHOLE if repeats > 1 else QUICK
    _throughput(result, scale, repeats)
    _against_kafka(result, scale, repeats)
    _memory(result, scale, repeats)
    _failover(result, scale, repeats)
    _idle(result, scale, repeats)
    return result


class Load:
    """A producer of one cluster, whose topics come and go."""

    def __init__(self, bootstrap: str, megabytes: int) -> None:
        self._count = megabytes * 1_000_000 // len(VALUE)
        self.megabytes = self._count * len(VALUE) / 1e6
        common: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._admin = AdminClient(common)
        self._producer = Producer(
            {
                **common,
                "acks": "all",
                "linger.ms": 5,
                "batch.size": _LARGEST_BATCH,
                "queue.buffering.max.messages": 2 * self._count,
                "queue.buffering.max.kbytes": 2_000_000,
            }
        )

    def produce(self, replicas: int, *, forget: bool = True) -> float:
        """Fills a new topic; acknowledged megabytes per second."""
        topic = self._new_topic(replicas)
        produce = self._producer.produce
        started = time.perf_counter()
        for number in range(self._count):
            produce(topic, VALUE, None, number % PARTITIONS)
        left = self._producer.flush(_DEADLINE)
        spent = time.perf_counter() - started
        if left:
            raise TimeoutError(f"{left} records were not acknowledged")
        if forget:
            self._admin.delete_topics([topic])[topic].result(_DEADLINE)
        return self.megabytes / spent

    def _new_topic(self, replicas: int) -> str:
        name = f"bench-{uuid.uuid4().hex[:8]}"
        create_topic(self._admin, name, PARTITIONS, replicas)
        deadline = time.perf_counter() + _DEADLINE
        while time.perf_counter() < deadline:
            topic = self._producer.list_topics(name, timeout=10).topics[name]
            if topic.error is None and len(topic.partitions) == PARTITIONS:
                return name
        raise TimeoutError(f"{name} has no leaders")


def create_topic(admin: AdminClient, name: str, partitions: int, replicas: int) -> None:
    topic = NewTopic(name, num_partitions=partitions, replication_factor=replicas)
    admin.create_topics([topic])[name].result(_DEADLINE)


# Throughput and CPU


def _throughput(result: Result, scale: Scale, repeats: int) -> None:
    """Replication factor 3 beside 1."""
    samples: dict[str, list[float]] = {}
    for number in range(repeats):
        with running(OURS) as broker:
            load = Load(broker.bootstrap, scale.megabytes)
            for replicas in (1, NODES):
                load.produce(replicas)  # what is compiled on first use, and memory, are warm from here on
            cases = {"rf1": partial(load.produce, 1), "rf3": partial(load.produce, NODES)}
            label = f"replication: producing, process {number + 1} of {repeats}"
            for case, rates in interleaved(cases, TURNS, label).items():
                samples.setdefault(case, []).extend(rates)
    for case, all_rates in samples.items():
        result.figures[case] = Figure("MB/s", tuple(all_rates))
    result.ratios["rf3_vs_rf1"] = result.figures["rf3"].median / result.figures["rf1"].median


def _against_kafka(result: Result, scale: Scale, repeats: int) -> None:
    """The CPU of all brokers for what is produced at replication factor 3."""
    progress("replication: starting Apache Kafka")
    with ApacheKafka(nodes=NODES) as kafka, running(OURS) as ours:
        theirs = [Process(kafka.pid(node_id), kafka.bootstrap) for node_id in kafka.node_ids]
        loads = {
            "ottla": (Load(ours.bootstrap, scale.megabytes), [ours]),
            "kafka": (Load(kafka.bootstrap, scale.megabytes), theirs),
        }
        for number in range(scale.warm_up):
            progress(f"replication: warming up, {number + 1} of {scale.warm_up}")
            for load, _ in loads.values():
                load.produce(NODES)
        rates: dict[str, list[float]] = {who: [] for who in loads}
        samples = interleaved(
            {who: partial(_per_cpu, load, brokers, rates[who]) for who, (load, brokers) in loads.items()},
            repeats,
            "replication: against Kafka",
        )
    for who in loads:
        result.figures[f"beside_kafka_{who}"] = Figure("MB/s", tuple(rates[who]))
        result.figures[f"cpu_{who}"] = Figure("MB/CPU-s", samples[who])
    result.ratios["rf3_vs_kafka"] = result.figures["cpu_ottla"].median / result.figures["cpu_kafka"].median


def _per_cpu(load: Load, brokers: Sequence[Process], rates: list[float]) -> float:
    before = sum(broker.cpu() for broker in brokers)
    rates.append(load.produce(NODES))
    return load.megabytes / (sum(broker.cpu() for broker in brokers) - before)


# Memory


def _memory(result: Result, scale: Scale, repeats: int) -> None:
    """What a cluster keeps resident for data that it has, in a new process for each figure."""
    samples = interleaved(
        {
            "memory_rf1": partial(_growth, scale.megabytes, 1),
            "memory_rf3": partial(_growth, scale.megabytes, NODES),
        },
        min(repeats, 3),
        "replication: memory",
    )
    for case, growth in samples.items():
        result.figures[case] = Figure("MiB", growth)
    result.ratios["rf3_memory"] = result.figures["memory_rf3"].median / result.figures["memory_rf1"].median


def _growth(megabytes: int, replicas: int) -> float:
    with running(OURS) as broker:
        Load(broker.bootstrap, 2).produce(replicas)
        before = broker.memory()
        Load(broker.bootstrap, megabytes).produce(replicas, forget=False)
        return (broker.memory() - before) / 2**20


# Failover


def _failover(result: Result, scale: Scale, repeats: int) -> None:
    """From the fencing of a killed leader to the next acknowledgement that a client of it gets."""
    samples = interleaved(
        {
            "failover": partial(_acknowledged_again, AT_ONCE),
            "failover_late": partial(_acknowledged_again, LATE),
        },
        repeats * scale.failovers,
        "replication: failover",
    )
    for case, waits in samples.items():
        result.figures[case] = Figure("ms", waits)
    result.ratios["failover_ms"] = result.figures["failover"].median


def _acknowledged_again(fenced_after: float) -> float:
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(brokers=NODES, topics={"orders": 1}))
        client = stack.enter_context(ottla.Client(cluster.bootstrap, acks="all", linger_ms=0))
        producing = stack.enter_context(_Producing(client, "orders"))
        producing.next_acknowledgement(time.perf_counter())
        leader = cluster.leader("orders")
        cluster.stop_node(leader, clean=False)
        threading.Event().wait(fenced_after)
        fenced = time.perf_counter()
        cluster.fence_node(leader)
        return (producing.next_acknowledgement(fenced) - fenced) * 1000


class _Producing:
    """A thread that produces one record after the other, and knows when the last one was acknowledged."""

    def __init__(self, client: ottla.Client, topic: str) -> None:
        self._client = client
        self._topic = topic
        self._changed = threading.Condition()
        self._acknowledged_at = 0.0
        self._ends = False
        self._thread = threading.Thread(target=self._produce)

    def __enter__(self) -> _Producing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends = True
        self._thread.join()

    def next_acknowledgement(self, since: float) -> float:
        """When a record was acknowledged after `since`."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._acknowledged_at > since, _DEADLINE):
                raise TimeoutError("no record was acknowledged any more")
            return self._acknowledged_at

    def _produce(self) -> None:
        while not self._ends:
            self._client.produce(self._topic, VALUE).result(_DEADLINE)
            with self._changed:
                self._acknowledged_at = time.perf_counter()
                self._changed.notify_all()


# Idle partitions


def _idle(result: Result, scale: Scale, repeats: int) -> None:
    """Seconds of CPU per second of a cluster with many partitions in which nothing happens."""
    with running(OURS) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        create_topic(admin, "idle", scale.idle_partitions, NODES)
        _wait_until_quiet(broker)
        samples = interleaved(
            {"idle": partial(_spent, broker, scale.idle_seconds)}, min(repeats, 3), "replication: idle"
        )
    result.figures["idle"] = Figure("s/s", samples["idle"])
    result.ratios["idle_cpu"] = result.figures["idle"].median


def _wait_until_quiet(broker: Process) -> None:
    """Until every follower has its session, which shows as a second that costs little more than the last one."""
    before = _spent(broker, 1.0)
    deadline = time.perf_counter() + _DEADLINE
    while time.perf_counter() < deadline:
        now = _spent(broker, 1.0)
        if now <= before + _LITTLE:
            return
        before = now
    raise TimeoutError("the cluster does not come to rest")


def _spent(broker: Process, seconds: float) -> float:
    before, started = broker.cpu(), time.perf_counter()
    threading.Event().wait(seconds)
    return (broker.cpu() - before) / (time.perf_counter() - started)
