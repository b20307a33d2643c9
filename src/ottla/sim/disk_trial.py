"""One trial of a replicated cluster on disks that fail, from one seed, and every promise that did not hold.

    report = try_disks(17)
    assert not report.violations, report

Every node, with one log directory or two, and the controller lie on volumes that lose what was not synced, fill up
and fail. Topics have three replicas, min.insync.replicas=2, and no unclean elections. Producers are idempotent with
acks=all. What is promised is what Kafka promises:

- With flush.messages=1 no acknowledged record is lost, whatever loses its power, also all nodes and the controller at
  once. A record is acknowledged when every member of the ISR has appended it, and each has flushed it by then. Every
  leader comes from the ISR, from the ELR, or is the last known leader, and all of these have it.
- Without it the same holds, but for an exposure (exposures.py): every member of ISR and ELR has stopped uncleanly,
  and the last known leader, which takes over, has lost its power since it was in sync. A kill counts as unclean to
  the controller, as a power loss does; so does a directory that has failed, once its node starts again. As long as
  one member of the ISR, as the controller has it, stays alive and in it until others have caught up, there is no
  exposure. Two replicas that are dead and not fenced yet are members as well: a third one that is fenced before
  them, although it lives, saves nothing.
- An exposure takes a suffix: of what was acknowledged before it, nothing that the new leader had flushed, and nothing
  that lies before a record that is still there.
- In any case replicas agree, offsets have no holes, no record is there twice or out of its producer's order, one that
  failed for certain is nowhere, consumers see no record that is not committed, and the cluster serves again without
  more help than disks that are mended and nodes that are started.
- Where the topic is compacted, all of that holds for the latest record of each key.
- Topics and configs that were acknowledged are there after every power loss of the controller.

Not promised, by Kafka either: that a bit that has changed in a batch which was flushed is noticed before it is read;
that one in the first 21 bytes of a batch, which its checksum does not cover, is noticed at all.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.cluster.options import TopicSpec
from ottla.broker.replication.partition import Partition
from ottla.client.client import AsyncClient
from ottla.config import ClientOptions
from ottla.errors import KafkaError, KafkaStorageError
from ottla.runtime import Random
from ottla.sim.checks import History, RuleViolation
from ottla.sim.disk_checks import DiskOutcome, check_disks
from ottla.sim.disk_faults import DISK_LASTING, DiskFaults
from ottla.sim.disks import Disks
from ottla.sim.exposures import ElectionHistory
from ottla.sim.nemesis import Nemesis, draw_plan
from ottla.sim.runtime import SimRuntime, generator
from ottla.sim.trial import TrialReport, condition, simulate, until, until_in_sync, until_violated
from ottla.sim.watch import Watch, final_logs
from ottla.sim.workload import TopicReader, Workload, WorkloadShape
from ottla.wire.resources import ConfigResourceType

TOPIC: Final = "orders"
NODES: Final = 3
PARTITIONS: Final = 2
ACTIVE: Final = 30.0
"""Seconds in which faults come."""
FEWEST_RECORDS: Final = 150
"""Acknowledged in each trial: where an outage has left fewer, writing goes on for longer."""
DISK_EVENTS: Final = ("exposure", "acknowledged topic")
"""What has to come about beside faults, for the rules about it to be tried."""
_HEALS_WITHIN: Final = 60.0
_MOST_TOPICS: Final = 4
_RETENTION: Final = "retention.ms"


@dataclass(frozen=True)
class DiskSettings:
    """What differs between two trials beside their faults; times are in milliseconds."""

    flushes_each: bool
    """Whether the topic has flush.messages=1."""
    keys: int
    """Of each writer, where the topic is compacted; 0 where it is not."""
    directories: int
    """Of each node."""
    segment_bytes: int
    session_timeout: int
    replica_lag: int
    request_timeout: int
    checkpoints: int
    """How often recovery points and high watermarks are written down."""
    snapshot_bytes: int
    """Of the metadata log, between two snapshots."""

    @classmethod
    def draw(cls, random: Random) -> DiskSettings:
        return cls(
            flushes_each=random.random() < 0.5,
            keys=random.choice((0, 0, 0, 7)),
            directories=random.choice((1, 2)),
            segment_bytes=random.choice((700, 1500, 4000)),
            session_timeout=random.choice((3000, 3000, 9000)),
            replica_lag=random.choice((2000, 5000, 10_000)),
            request_timeout=random.choice((1000, 3000)),
            checkpoints=random.choice((200, 1000, 5000)),
            snapshot_bytes=random.choice((3000, 20_000_000)),
        )

    @property
    def longest(self) -> float:
        """Of all timeouts, in seconds."""
        return max(self.session_timeout, self.replica_lag, self.request_timeout * 2) / 1000

    def cluster(self, runtime: SimRuntime) -> AsyncCluster:
        topic: dict[str, object] = {"min.insync.replicas": 2, "internal.segment.bytes": self.segment_bytes}
        if self.flushes_each:
            topic["flush.messages"] = 1
        if self.keys:
            topic |= {
                "cleanup.policy": "compact",
                "min.cleanable.dirty.ratio": 0.1,
                "file.delete.delay.ms": 1000,
            }
        return AsyncCluster(
            NODES,
            topics={TOPIC: TopicSpec(PARTITIONS, NODES, topic)},
            config={
                "broker.session.timeout.ms": self.session_timeout,
                "replica.lag.time.max.ms": self.replica_lag,
                "unclean.leader.election.enable": "false",
                "replica.high.watermark.checkpoint.interval.ms": self.checkpoints,
                "log.flush.offset.checkpoint.interval.ms": self.checkpoints,
                "log.cleaner.backoff.ms": 1000,
                "log.cleaner.dedupe.buffer.size": 2 * 1024 * 1024,
                "metadata.log.max.record.bytes.between.snapshots": self.snapshot_bytes,
            },
            runtime=runtime,
        )

    def client_options(self) -> ClientOptions:
        return {
            "request_timeout_ms": self.request_timeout,
            "default_api_timeout_ms": self.request_timeout * 2,
            "metadata_min_age_ms": 200,
            "metadata_max_age_ms": 20_000,
            "enable_metrics_push": False,
            "socket_connection_setup_timeout_ms": 2000,
        }

    def shape(self) -> WorkloadShape:
        return WorkloadShape(
            TOPIC,
            PARTITIONS,
            pause=0.6,
            burst=6,
            keys=self.keys,
            writer_options={
                **self.client_options(),
                "linger_ms": 5,
                # Smaller than the smallest segment.
                "batch_size": 500,
                "delivery_timeout_ms": self.request_timeout * 2 + 500,
            },
            reader_options=self.client_options(),
        )


def try_disks(seed: int, *, traced: bool = False) -> TrialReport:
    """Runs the trial of a seed to its end."""
    random = generator(seed, "disk trial")
    settings = DiskSettings.draw(random)
    report = TrialReport(seed, settings)

    async def body(runtime: SimRuntime) -> None:
        await _DiskTrial(runtime, report, settings, random).run()

    return simulate(report, body, traced=traced)


class _DiskTrial:
    def __init__(
        self, runtime: SimRuntime, report: TrialReport, settings: DiskSettings, random: Random
    ) -> None:
        self._runtime = runtime
        self._report = report
        self._settings = settings
        self._random = random
        self._disks = Disks(runtime, NODES, settings.directories, TOPIC)
        self._elections = ElectionHistory(TOPIC)

    async def run(self) -> None:
        cluster = self._settings.cluster(self._runtime)
        self._disks.give_to(cluster)
        async with cluster:
            workload = DiskWorkload(self._runtime, cluster.bootstrap, self._settings.shape())
            topics = TopicMaker(self._runtime, cluster.bootstrap, self._settings.client_options())
            watch = DiskWatch(cluster, self._disks, self._elections, self._runtime, self._settings)
            watch.start()
            workload.start()
            topics.start()
            try:
                await until_violated(watch, self._go_through(cluster, workload, topics))
            finally:
                await watch.stop()
                await topics.close()
                await workload.close()
            self._check(cluster, workload, topics, watch)
        self._report.seconds = asyncio.get_running_loop().time()

    async def _go_through(self, cluster: AsyncCluster, workload: Workload, topics: TopicMaker) -> None:
        """Everything that happens, up to a cluster that is well again."""
        report, longest = self._report, self._settings.longest
        kinds = DiskFaults(self._disks).kinds()
        nemesis = Nemesis(self._runtime, cluster, TOPIC, workload.machines, kinds)
        report.events, report.struck = nemesis.events, nemesis.struck
        active = max(ACTIVE, longest * 1.3 + 10.0)
        try:
            await nemesis.carry_out(draw_plan(self._random, active, longest, kinds, DISK_LASTING), active)
            await self._heal(cluster, workload, topics)
        except (TimeoutError, KafkaError) as error:
            why = f"{type(error).__name__}: {error}; {condition(cluster, TOPIC)}"
            report.violations.append(RuleViolation("not well again", why))

    async def _heal(self, cluster: AsyncCluster, workload: Workload, topics: TopicMaker) -> None:
        """Everything is well again, within bounds."""
        async with asyncio.timeout(_HEALS_WITHIN):
            await until_in_sync(cluster, TOPIC, _HEALS_WITHIN)
            await topics.finish()
            for partition in range(PARTITIONS):
                await workload.writers[0].write_surely(partition)
            await until(lambda: workload.acknowledged >= FEWEST_RECORDS, "enough records", _HEALS_WITHIN)
            await workload.finish_writing(_HEALS_WITHIN)
            await until(lambda: _is_replicated(cluster), "that all is replicated", _HEALS_WITHIN)
        ends = [cluster.partition(TOPIC, index).high_watermark for index in range(PARTITIONS)]
        await workload.finish_reading(ends, _HEALS_WITHIN)

    def _check(self, cluster: AsyncCluster, workload: Workload, topics: TopicMaker, watch: Watch) -> None:
        report, history = self._report, workload.history()
        exposures = {} if self._settings.flushes_each else dict(self._elections.exposures)
        report.violations += watch.violations
        if not exposures:
            # What a reader has lost is lost where there was an exposure, and nowhere else.
            report.violations += workload.violations()
        report.violations += [
            RuleViolation("node failed", f"node {node_id}: {why}")
            for node_id, why in cluster.failures.items()
        ]
        if not report.violations:
            logs = final_logs(cluster, TOPIC, PARTITIONS)
            report.violations = check_disks(DiskOutcome(history, logs, exposures, self._settings.keys))
            report.violations += topics.check(cluster)
        report.acknowledged = history.acknowledged
        report.read = sum(map(len, history.read.values()))
        report.struck["exposure"] = sum(map(len, self._elections.exposures.values()))
        report.struck["acknowledged topic"] = len(topics.made)
        report.digest = self._digest(history)

    def _digest(self, history: History) -> str:
        told = hashlib.sha256(self._runtime.network.trace.digest().encode())
        told.update(repr((history, self._report.events, self._disks.losses)).encode())
        return told.hexdigest()


class DiskWatch(Watch):
    """Looks at the disks and the elections too, before it judges what is committed."""

    def __init__(
        self,
        cluster: AsyncCluster,
        disks: Disks,
        elections: ElectionHistory,
        runtime: SimRuntime,
        settings: DiskSettings,
    ) -> None:
        super().__init__(cluster, TOPIC, runtime.network.trace)
        self._disks = disks
        self._elections = elections
        self._flushes_each = settings.flushes_each
        if settings.keys:
            for index in range(PARTITIONS):
                self.ignore(index)

    def look(self) -> None:
        self._disks.look()
        try:
            self._elections.follow(self._cluster.controller, self._disks.losses)
        except RuntimeError:
            return  # the controller is away: what it has decided last cannot be read, so no leader can be judged
        if not self._flushes_each:
            for index in self._elections.exposures:
                self.ignore(index)
        super().look()

    def _compare(self, node_id: int, index: int, replica: Partition) -> None:
        try:
            super()._compare(node_id, index, replica)
        except KafkaStorageError:
            return  # its disk is broken, which its node is about to find out


class DiskWorkload(Workload):
    """A reader whose records were lost begins again at the first one."""

    async def _tail(self) -> None:
        while True:
            reader = self._reader("reader-1")
            try:
                await reader.run(lambda: self._has_ended(reader))  # noqa: B023 - it runs at once
            finally:
                await reader.close()
            if not reader.violations:
                return

    def _has_ended(self, reader: TopicReader) -> bool:
        return bool(reader.violations) or (self._ends is not None and reader.has_read(self._ends))


class TopicMaker:
    """Makes topics and changes their configs all the while: what was acknowledged of that has to stay."""

    def __init__(self, runtime: SimRuntime, bootstrap: str, options: ClientOptions) -> None:
        self._random = generator(runtime.seed, "topics")
        self._client = AsyncClient(bootstrap, runtime=runtime.at("admin-1"), **options)
        self._is_over = False
        self._task: asyncio.Task[None] | None = None
        self.made: dict[str, set[str]] = {}
        """The topics that were acknowledged, with what their retention.ms may be."""

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="admin-1")

    async def _run(self) -> None:
        for number in range(_MOST_TOPICS):
            await asyncio.sleep(self._random.uniform(0.5, 10.0))
            if self._is_over:
                return
            await self._make(f"made-{number}", str(1_000_000 + number), str(2_000_000 + number))

    async def _make(self, name: str, first: str, second: str) -> None:
        admin = self._client.admin
        try:
            await admin.create_topic(name, 1, NODES, configs={_RETENTION: first}, wait=False)
        except KafkaError:
            return  # it may be there, or come to be
        self.made[name] = {first}
        await asyncio.sleep(self._random.uniform(0.0, 3.0))
        self.made[name].add(second)
        try:
            await admin.alter_configs(topic=name, set={_RETENTION: second})
        except KafkaError:
            return
        self.made[name] = {second}

    async def finish(self) -> None:
        self._is_over = True
        if self._task is not None:
            await self._task

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._client.close()

    def check(self, cluster: AsyncCluster) -> list[RuleViolation]:
        image = cluster.controller.state.image
        found: Mapping[str, str | None] = {
            name: image.configs.get((ConfigResourceType.TOPIC, name), {}).get(_RETENTION)
            for name in self.made
            if name in image.topics
        }
        return [
            RuleViolation("lost metadata", f"topic {name} has {_RETENTION}={found.get(name)}, not {expected}")
            for name, expected in ((name, sorted(each)) for name, each in self.made.items())
            if found.get(name) not in expected
        ]


def _is_replicated(cluster: AsyncCluster) -> bool:
    """Whether every replica has everything, and knows it to be committed."""
    for index in range(PARTITIONS):
        replicas = [node.replicas.partitions[TOPIC, index] for node in cluster.nodes.values()]
        ends = [replica.log.log_end_offset for replica in replicas]
        if len({*ends, *(replica.high_watermark for replica in replicas)}) > 1:
            return False
    return True
