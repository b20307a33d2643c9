"""One trial of consumer groups: a cluster, a chain of groups and the nemesis, from one seed.

    report = try_groups(17)
    assert not report.violations, report

The protocol, the assignor, how members commit and every timeout are drawn from the seed. The nemesis is after the
leaders of `__consumer_offsets` as often as not: coordinators move, are cut off and die. When it is done, everything
heals, members stay, and within a bounded time every record has passed every group and is committed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.cluster.options import TopicSpec
from ottla.broker.coordinator.internal_topics import OFFSETS_TOPIC
from ottla.client.client import AsyncClient
from ottla.client.topic_partition import TopicPartition
from ottla.config import ClientOptions
from ottla.errors import KafkaError
from ottla.runtime import Random
from ottla.sim.checks import RuleViolation
from ottla.sim.group_checks import GroupChecker, nothing_left_behind
from ottla.sim.group_workload import Chain, GroupWorkload
from ottla.sim.nemesis import Nemesis, draw_plan
from ottla.sim.runtime import SimRuntime, generator
from ottla.sim.trial import ACTIVE, TrialReport, simulate, until, until_in_sync
from ottla.sim.watch import final_logs
from ottla.sim.workload import WorkloadShape, Writer

NODES: Final = 3
TOPICS: Final = {"level-0": 3, "level-1": 2, "level-2": 4, "level-3": 1}
FEWEST_RECORDS: Final = 500
VANISHES, LEAVES = "member vanishes", "member leaves"
MEMBER_FAULTS: Final = (VANISHES, LEAVES)
"""What becomes of members, beside what the nemesis does."""
_COORDINATORS: Final = 3
_REPLICA_WAIT: Final = 1000
"""Half of the shortest replica.lag.time.max.ms: replicas that wait for longer would look as if they lagged."""
_BURST, _PAUSE = 16, 0.8
"""Of the writer: records come in few large bursts, for each costs a request in every link of the chain."""
_HEALS_WITHIN: Final = 120.0
"""Of virtual time: a member that has vanished is missed after its session, and a rebalance may wait for another."""
_ASSIGNORS: Final = ("range", "roundrobin", "sticky", "cooperative-sticky")


@dataclass(frozen=True)
class GroupSettings:
    """What differs between two trials beside their faults; times are in milliseconds."""

    protocol: str
    assignor: str
    commits: str
    session_timeout: int
    heartbeat_interval: int
    max_poll_interval: int
    initial_delay: int
    request_timeout: int
    delivery_timeout: int
    broker_session: int
    replica_lag: int
    fetch_wait: int
    stays: float
    blocks: bool

    @classmethod
    def draw(cls, random: Random) -> GroupSettings:
        request_timeout = random.choice((1000, 3000, 10_000))
        session_timeout = random.choice((3000, 6000, 10_000))
        return cls(
            protocol=random.choice(("classic", "consumer")),
            assignor=random.choice(_ASSIGNORS),
            commits=random.choice(("explicit", "positions", "auto")),
            session_timeout=session_timeout,
            heartbeat_interval=random.choice((500, 1000)),
            max_poll_interval=random.choice((5000, 20_000, 60_000)),
            initial_delay=random.choice((0, 0, 500)),
            request_timeout=request_timeout,
            delivery_timeout=max(random.choice((0, 10_000, 30_000)), request_timeout + 500),
            broker_session=random.choice((9000, 3000)),
            replica_lag=random.choice((30_000, 5000, 2000)),
            fetch_wait=min(random.choice((500, 2000)), request_timeout // 2),
            stays=random.choice((2.0, 5.0, 15.0)),
            blocks=random.random() < 0.3,
        )

    @property
    def longest(self) -> float:
        """Of all timeouts that a fault is to outlast, in seconds."""
        return (
            max(
                self.session_timeout,
                self.broker_session,
                self.replica_lag,
                self.request_timeout,
                self.delivery_timeout,
            )
            / 1000
        )

    def cluster(self, runtime: SimRuntime) -> AsyncCluster:
        return AsyncCluster(
            NODES,
            topics={
                topic: TopicSpec(partitions, NODES, {"min.insync.replicas": 2})
                for topic, partitions in TOPICS.items()
            },
            config={
                "broker.session.timeout.ms": self.broker_session,
                "replica.lag.time.max.ms": self.replica_lag,
                "replica.fetch.wait.max.ms": _REPLICA_WAIT,
                "unclean.leader.election.enable": "false",
                "min.insync.replicas": 2,
                "offsets.topic.num.partitions": _COORDINATORS,
                "offsets.topic.replication.factor": NODES,
                "group.initial.rebalance.delay.ms": self.initial_delay,
                "group.min.session.timeout.ms": 1000,
                "group.consumer.session.timeout.ms": self.session_timeout,
                "group.consumer.min.session.timeout.ms": 1000,
                "group.consumer.heartbeat.interval.ms": self.heartbeat_interval,
                "group.consumer.min.heartbeat.interval.ms": 100,
                "group.consumer.assignment.interval.ms": 0,
                "group.consumer.min.assignment.interval.ms": 0,
            },
            runtime=runtime,
        )

    def common(self) -> ClientOptions:
        return {
            "request_timeout_ms": self.request_timeout,
            "default_api_timeout_ms": self.request_timeout * 2,
            "delivery_timeout_ms": self.delivery_timeout,
            "linger_ms": 0,
            "metadata_min_age_ms": 200,
            "metadata_max_age_ms": 20_000,
            "enable_metrics_push": False,
            "socket_connection_setup_timeout_ms": 2000,
        }

    def chain(self) -> Chain:
        options: ClientOptions = {
            **self.common(),
            "auto_commit_interval_ms": 1000,
            "fetch_max_wait_ms": self.fetch_wait,
            "enable_auto_commit": self.commits == "auto",
            "max_poll_interval_ms": self.max_poll_interval,
            "block_rebalance_on_poll": self.blocks,
        }
        if self.protocol == "consumer":
            options["group_protocol"] = "consumer"
        else:
            options["session_timeout_ms"] = self.session_timeout
            options["heartbeat_interval_ms"] = self.heartbeat_interval
            options["partition_assignment_strategy"] = self.assignor
        return Chain(TOPICS, options, self.commits, self.stays)


def try_groups(seed: int, *, traced: bool = False) -> TrialReport:
    """Runs the trial of a seed to its end."""
    random = generator(seed, "trial of groups")
    settings = GroupSettings.draw(random)
    report = TrialReport(seed, settings)

    async def body(runtime: SimRuntime) -> None:
        await _GroupTrial(runtime, report, settings, random).run()

    return simulate(report, body, traced=traced)


class _GroupTrial:
    def __init__(
        self, runtime: SimRuntime, report: TrialReport, settings: GroupSettings, random: Random
    ) -> None:
        self._runtime = runtime
        self._report = report
        self._settings = settings
        self._random = random
        self._checker = GroupChecker()

    async def run(self) -> None:
        async with self._settings.cluster(self._runtime) as cluster:
            chain = self._settings.chain()
            nodes = [f"node-{number + 1}" for number in range(NODES)]
            groups = GroupWorkload(self._runtime, cluster.bootstrap, nodes, chain, self._checker)
            first, partitions = next(iter(TOPICS.items()))
            shape = WorkloadShape(
                first, partitions, pause=_PAUSE, burst=_BURST, writer_options=self._settings.common()
            )
            writer = Writer("writer-1", self._runtime, cluster.bootstrap, shape)
            stops = asyncio.Event()
            writing = asyncio.get_running_loop().create_task(writer.run(stops.is_set), name="writer-1")
            groups.start()
            try:
                await self._suffer(cluster, groups)
                await self._heal(cluster, groups, writer, stops, writing)
            except (TimeoutError, KafkaError) as error:
                self._violated(
                    "not well again", f"{type(error).__name__}: {error}; {self._condition(cluster)}"
                )
            finally:
                stops.set()
                await asyncio.gather(writing, return_exceptions=True)
                await writer.close()
                await groups.close()
            self._report.struck.update({VANISHES: groups.vanished, LEAVES: groups.left})
            self._report.violations += [*self._checker.violations, *groups.violations()]
            self._report.violations += [
                RuleViolation("node failed", f"node {node_id}: {why}")
                for node_id, why in cluster.failures.items()
            ]
            if not self._report.violations:
                await self._compare(cluster)
            self._report.acknowledged = writer.acknowledged
            self._report.read = self._checker.deliveries
            self._report.digest = self._runtime.network.trace.digest()
        self._report.seconds = asyncio.get_running_loop().time()

    async def _suffer(self, cluster: AsyncCluster, groups: GroupWorkload) -> None:
        topic = self._random.choice((OFFSETS_TOPIC, OFFSETS_TOPIC, *TOPICS))
        nemesis = Nemesis(self._runtime, cluster, topic, groups.machines)
        self._report.events, self._report.struck = nemesis.events, nemesis.struck
        active = max(ACTIVE, self._settings.longest * 1.3 + 20.0)
        await nemesis.carry_out(draw_plan(self._random, active, self._settings.longest), active)

    async def _heal(
        self,
        cluster: AsyncCluster,
        groups: GroupWorkload,
        writer: Writer,
        stops: asyncio.Event,
        writing: asyncio.Task[None],
    ) -> None:
        """Members stay, and everything that was written passes every group within bounds."""
        await groups.settle()
        for topic in (*TOPICS, OFFSETS_TOPIC):
            await until_in_sync(cluster, topic, _HEALS_WITHIN)
        await until(lambda: writer.acknowledged >= FEWEST_RECORDS, "enough records", _HEALS_WITHIN)
        stops.set()
        await writing
        await writer.flush(_HEALS_WITHIN)
        for group, source, _ in self._settings.chain().links:
            await self._until_passed(cluster, group, source)

    async def _until_passed(self, cluster: AsyncCluster, group: str, source: str) -> None:
        """Until a group has got all of its topic, and has committed it; the copies are acknowledged by then."""

        def ends() -> dict[TopicPartition, int]:
            return {
                TopicPartition(source, index): cluster.partition(source, index).high_watermark
                for index in range(TOPICS[source])
            }

        def has_come() -> bool:
            return not list(self._checker.missing(group, ends()))

        await until(has_come, f"that {group} gets everything", _HEALS_WITHIN)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _HEALS_WITHIN
        async with AsyncClient(cluster.bootstrap, runtime=self._runtime.at("admin")) as client:
            while True:
                committed = await client.admin.group_offsets(group)
                done = {partition: each.offset for partition, each in committed.items() if each is not None}
                left = {partition: end for partition, end in ends().items() if done.get(partition, 0) < end}
                if not left:
                    return
                if loop.time() > deadline:
                    raise TimeoutError(f"{group} has not committed {left}, but {done}")
                await asyncio.sleep(0.5)

    async def _compare(self, cluster: AsyncCluster) -> None:
        # Followers learn the high watermark with their next fetch: what is committed by now, only leaders know.
        values = {
            topic: [
                record.value
                for index, replicas in final_logs(cluster, topic, partitions).items()
                for record in replicas[cluster.leader(topic, index)]
            ]
            for topic, partitions in TOPICS.items()
        }
        for _, source, target in self._settings.chain().links:
            self._report.violations += nothing_left_behind(source, values[source], values[target])

    def _violated(self, rule: str, what: str) -> None:
        self._report.violations.append(RuleViolation(rule, what))

    def _condition(self, cluster: AsyncCluster) -> str:
        owned = {group: self._checker.owned(group) for group, _, _ in self._settings.chain().links}
        ends = {
            topic: [cluster.partition(topic, index).high_watermark for index in range(partitions)]
            for topic, partitions in TOPICS.items()
        }
        return f"assigned {owned}, high watermarks {ends}, without a leader {cluster.offline()}"
