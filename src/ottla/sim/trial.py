"""One trial: a cluster, its clients and the nemesis, from one seed, and every rule that did not hold.

    report = try_seed(17)
    assert not report.violations, report

Timeouts of cluster and clients are drawn from the seed as well: half of the trials have those of Kafka, the others
shorter ones, in which replicas leave the ISR and come back more often. When the nemesis is done, everything heals and
has to be well within a bounded time: every replica in sync, a new record acknowledged and read on every partition.

A trial ends with the first rule that is seen to be broken. What clients were told is compared with the logs only in a
cluster that is well: before that, logs differ as they may.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.cluster.options import TopicSpec
from ottla.broker.replication.routing import RACK_AWARE
from ottla.config import ClientOptions
from ottla.errors import KafkaError
from ottla.runtime import Random
from ottla.sim.checks import History, RuleViolation, check_history
from ottla.sim.nemesis import Nemesis, NemesisEvent, draw_plan
from ottla.sim.runtime import SimRuntime, generator, run
from ottla.sim.trace import Arrival, Trace
from ottla.sim.watch import Watch, final_logs
from ottla.sim.workload import Workload, WorkloadShape

TOPIC: Final = "orders"
NODES: Final = 3
PARTITIONS: Final = 3
ACTIVE: Final = 60.0
"""Seconds in which faults come."""
_HEALS_WITHIN: Final = 60.0
"""Of virtual time: longer than any timeout, back-off and session of a trial."""
_GLANCE: Final = 0.1
_LIMIT: Final = 1000.0
_ALL: Final = 10_000_000
FEWEST_RECORDS: Final = 500
"""Acknowledged in each trial: where an outage has left fewer, writing goes on for longer."""


@dataclass(frozen=True)
class TrialSettings:
    """What differs between two trials beside their faults; times are in milliseconds."""

    session_timeout: int
    replica_lag: int
    request_timeout: int
    delivery_timeout: int
    linger: int
    reads_nearby: bool
    """Whether consumers read from the replica in their rack."""

    @classmethod
    def draw(cls, random: Random) -> TrialSettings:
        request_timeout = random.choice((1000, 3000, 10_000))
        return cls(
            session_timeout=random.choice((9000, 9000, 3000)),
            replica_lag=random.choice((30_000, 30_000, 5000, 2000)),
            request_timeout=request_timeout,
            delivery_timeout=max(random.choice((0, 10_000, 30_000)), request_timeout + 500),
            linger=random.choice((0, 5, 50)),
            reads_nearby=random.random() < 0.5,
        )

    @property
    def longest(self) -> float:
        """Of all timeouts, in seconds."""
        return max(self.session_timeout, self.replica_lag, self.request_timeout, self.delivery_timeout) / 1000

    def cluster(self, runtime: SimRuntime) -> AsyncCluster:
        config: dict[str, object] = {
            "broker.session.timeout.ms": self.session_timeout,
            "replica.lag.time.max.ms": self.replica_lag,
            "unclean.leader.election.enable": "false",
        }
        if self.reads_nearby:
            config["replica.selector.class"] = RACK_AWARE
        return AsyncCluster(
            NODES,
            topics={TOPIC: TopicSpec(PARTITIONS, NODES, {"min.insync.replicas": 2})},
            config=config,
            racks=[f"rack-{number + 1}" for number in range(NODES)],
            runtime=runtime,
        )

    def shape(self, random: Random) -> WorkloadShape:
        common: ClientOptions = {
            "request_timeout_ms": self.request_timeout,
            "default_api_timeout_ms": self.request_timeout * 2,
            "metadata_min_age_ms": 200,
            "metadata_max_age_ms": 20_000,
            "enable_metrics_push": False,
            "socket_connection_setup_timeout_ms": 2000,
        }
        return WorkloadShape(
            TOPIC,
            PARTITIONS,
            writer_options={
                **common,
                "linger_ms": self.linger,
                "delivery_timeout_ms": self.delivery_timeout,
            },
            reader_options={**common, "client_rack": random.choice(("rack-1", "rack-2", "rack-3"))}
            if self.reads_nearby
            else common,
        )


@dataclass
class TrialReport:
    """What came of a trial."""

    seed: int
    settings: object
    """What was drawn from the seed, to be printed."""
    violations: list[RuleViolation] = field(default_factory=list)
    struck: Counter[str] = field(default_factory=Counter)
    """How often each kind of fault has struck."""
    events: list[NemesisEvent] = field(default_factory=list)
    acknowledged: int = 0
    read: int = 0
    seconds: float = 0.0
    """Of virtual time."""
    digest: str = ""
    """Of every arrival, and of everything that clients were told: two runs with the same one are the same run."""
    arrivals: list[Arrival] = field(default_factory=list, repr=False)
    """Everything that has arrived anywhere, if that was asked for."""

    def __str__(self) -> str:
        return "\n".join(
            [
                f"seed {self.seed}: {len(self.violations)} violations, {self.acknowledged} acknowledged, "
                f"{self.read} read, {sum(self.struck.values())} faults, {self.seconds:.1f} s",
                f"  {self.settings}",
                *(f"  {event}" for event in self.events),
                *(f"  {violation}" for violation in self.violations[:20]),
            ]
        )


def try_seed(seed: int, *, traced: bool = False) -> TrialReport:
    """Runs the trial of a seed to its end."""
    random = generator(seed, "trial")
    settings = TrialSettings.draw(random)
    report = TrialReport(seed, settings)

    async def body(runtime: SimRuntime) -> None:
        await _Trial(runtime, report, settings, random).run()

    return simulate(report, body, traced=traced)


def simulate(
    report: TrialReport, body: Callable[[SimRuntime], Awaitable[None]], *, traced: bool
) -> TrialReport:
    """Runs a trial in a simulation of its own; what that itself complains of is a violation as well."""
    trace = Trace(_ALL if traced else 0)

    async def main(runtime: SimRuntime) -> None:
        runtime.network.trace = trace
        await body(runtime)

    # A trial is short and small. To look for rings in it again and again is a fifth of its cost, and when that
    # happens would depend on what the process has done before.
    collects = gc.isenabled()
    gc.disable()
    try:
        run(main, seed=report.seed, limit=_LIMIT)
    except Exception as error:  # noqa: BLE001  whatever it is, it belongs to this seed
        report.violations.append(RuleViolation("trial failed", "".join(traceback.format_exception(error))))
    finally:
        if collects:
            gc.enable()
    report.arrivals = list(trace.latest)
    return report


class _Trial:
    def __init__(
        self, runtime: SimRuntime, report: TrialReport, settings: TrialSettings, random: Random
    ) -> None:
        self._runtime = runtime
        self._report = report
        self._settings = settings
        self._random = random

    async def run(self) -> None:
        cluster = self._settings.cluster(self._runtime)
        async with cluster:
            workload = Workload(self._runtime, cluster.bootstrap, self._settings.shape(self._random))
            watch = Watch(cluster, TOPIC, self._runtime.network.trace)
            watch.start()
            workload.start()
            try:
                await until_violated(watch, self._go_through(cluster, workload))
            finally:
                await watch.stop()
                await workload.close()
            history = workload.history()
            self._report.violations += watch.violations + workload.violations()
            self._report.violations += [
                RuleViolation("node failed", f"node {node_id}: {why}")
                for node_id, why in cluster.failures.items()
            ]
            if not self._report.violations:
                self._report.violations = check_history(history, final_logs(cluster, TOPIC, PARTITIONS))
            self._report.acknowledged = history.acknowledged
            self._report.read = sum(map(len, history.read.values()))
            self._report.digest = self._digest(history)
        self._report.seconds = asyncio.get_running_loop().time()

    async def _go_through(self, cluster: AsyncCluster, workload: Workload) -> None:
        """Everything that happens, up to a cluster that is well again."""
        report, longest = self._report, self._settings.longest
        nemesis = Nemesis(self._runtime, cluster, TOPIC, workload.machines)
        report.events, report.struck = nemesis.events, nemesis.struck
        active = max(ACTIVE, longest * 1.3 + 20.0)
        try:
            await nemesis.carry_out(draw_plan(self._random, active, longest), active)
            await self._heal(cluster, workload)
        except (TimeoutError, KafkaError) as error:
            self._violated("not well again", f"{type(error).__name__}: {error}; {condition(cluster, TOPIC)}")

    def _violated(self, rule: str, what: str) -> None:
        self._report.violations.append(RuleViolation(rule, what))

    async def _heal(self, cluster: AsyncCluster, workload: Workload) -> None:
        """Everything is well again, within bounds."""
        async with asyncio.timeout(_HEALS_WITHIN):
            await until_in_sync(cluster, TOPIC, _HEALS_WITHIN)
            for partition in range(PARTITIONS):
                await workload.writers[0].write_surely(partition)
            await until(lambda: workload.acknowledged >= FEWEST_RECORDS, "enough records", _HEALS_WITHIN)
            await workload.finish_writing(_HEALS_WITHIN)
            await until(lambda: _is_replicated(cluster), "that all is replicated", _HEALS_WITHIN)
        ends = [cluster.partition(TOPIC, index).high_watermark for index in range(PARTITIONS)]
        await workload.finish_reading(ends, _HEALS_WITHIN)

    def _digest(self, history: History) -> str:
        told = hashlib.sha256(self._runtime.network.trace.digest().encode())
        for written in history.written:
            told.update(f"{written}\n".encode())
        for reader, records in history.read.items():
            told.update(f"{reader} {records}\n".encode())
        for event in self._report.events:
            told.update(f"{event}\n".encode())
        return told.hexdigest()


async def until_violated(watch: Watch, trial: Coroutine[Any, Any, None]) -> None:
    """Goes through a trial, to its end or to the first rule that is seen not to hold."""
    going = asyncio.get_running_loop().create_task(trial, name="trial")
    watch.on_violation = going.cancel
    (error,) = await asyncio.gather(going, return_exceptions=True)
    if error is not None and not watch.violations:
        raise error


async def until(condition: Callable[[], bool], what: str, within: float) -> None:
    """Returns when a condition holds, or a moment later; TimeoutError if it never does.

    What AsyncCluster.wait_for does, without looking two hundred times in a second that nobody waits for.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within
    while not condition():
        if loop.time() > deadline:
            raise TimeoutError(f"{what} did not come about within {within:g} seconds")
        await asyncio.sleep(_GLANCE)


async def until_in_sync(cluster: AsyncCluster, topic: str, within: float) -> None:
    await until(lambda: not cluster.under_replicated(topic), f"every replica of {topic} in sync", within)


def _is_replicated(cluster: AsyncCluster) -> bool:
    """Whether every replica has everything, and knows it to be committed."""
    for index in range(PARTITIONS):
        replicas = [node.replicas.partitions[TOPIC, index] for node in cluster.nodes.values()]
        ends = [replica.log.log_end_offset for replica in replicas]
        if len({*ends, *(replica.high_watermark for replica in replicas)}) > 1:
            return False
    return True


def condition(cluster: AsyncCluster, topic: str) -> str:
    """What a person wants to see first of a cluster that is not well."""
    lines = [f"not in sync: {cluster.under_replicated(topic)}, without a leader: {cluster.offline()}"]
    for node_id, node in sorted(cluster.nodes.items()):
        for (name, index), replica in sorted(node.replicas.partitions.items()):
            if name == topic:
                lines.append(
                    f"node {node_id}, partition {index}: leader {replica.image.leader} in epoch "
                    f"{replica.leader_epoch}, in sync {replica.image.isr}, high watermark "
                    f"{replica.high_watermark}, end {replica.log.log_end_offset}"
                )
    return "\n    ".join(lines)
