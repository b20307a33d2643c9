"""One trial of transactions: a cluster, writers, a chain of transactional sessions, readers and the nemesis.

    report = try_transactions(17)
    assert not report.violations, report

How groups share partitions goes round with the seed, through both protocols and every assignor; transaction.version,
and every timeout, are drawn from it. When the nemesis is done, everything heals, and within a bounded time every
transaction has ended, every committed record has passed the chain, and every reader has reached the ends.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.cluster.options import TopicSpec
from ottla.broker.coordinator.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.client.client import AsyncClient
from ottla.client.topic_partition import TopicPartition
from ottla.config import ClientOptions
from ottla.errors import KafkaError
from ottla.runtime import Random
from ottla.sim.checks import RuleViolation
from ottla.sim.nemesis import Nemesis, NemesisEvent, draw_plan
from ottla.sim.runtime import SimRuntime, generator
from ottla.sim.transaction_checks import TransactionHistory, check_transactions
from ottla.sim.transaction_clients import TransactionPlan, TransactionWorld
from ottla.sim.transaction_faults import TRANSACTION_KINDS
from ottla.sim.transaction_workload import TransactionWorkload, chain_links
from ottla.sim.trial import ACTIVE, TrialReport, simulate, until, until_in_sync

NODES: Final = 3
TOPICS: Final = {"level-0": 3, "level-1": 2, "level-2": 2}
FEWEST_COMMITTED: Final = 150
"""Records of writers; each is committed again by every group of the chain."""
KILLED, GONE, FENCED, RAISED = "client is killed", "session leaves", "id is taken over", "version is raised"
CLIENT_FAULTS: Final = (KILLED, GONE, FENCED, RAISED)
"""What becomes of clients and their transactions, beside what the nemesis does."""
_VERSION: Final = "transaction.version"
_NEWEST_VERSION: Final = 2
_COORDINATORS: Final = 3
_REPLICA_WAIT: Final = 1000
"""Half of the shortest replica.lag.time.max.ms: replicas that wait for longer would look as if they lagged."""
_HEALS_WITHIN: Final = 120.0


class Balance(NamedTuple):
    """Who shares out the partitions of a group, and how."""

    protocol: Literal["classic", "consumer"]
    assignor: str


BALANCES: Final = (
    Balance("classic", "range"),
    Balance("classic", "roundrobin"),
    Balance("classic", "sticky"),
    Balance("classic", "cooperative-sticky"),
    Balance("consumer", "uniform"),
    Balance("consumer", "range"),
)


@dataclass(frozen=True)
class TransactionSettings:
    """What differs between two trials beside their faults; times are in milliseconds."""

    balance: Balance
    version: int
    """Of transactions, when the trial begins."""
    rises: bool
    """Whether it becomes 2 in the middle of the trial."""
    session_timeout: int
    heartbeat_interval: int
    max_poll_interval: int
    transaction_timeout: int
    request_timeout: int
    delivery_timeout: int
    broker_session: int
    replica_lag: int
    fetch_wait: int
    linger: int
    stays: float

    @classmethod
    def draw(cls, seed: int, random: Random) -> TransactionSettings:
        request_timeout = random.choice((1000, 2000, 5000))
        version, rises = random.choice(((2, False), (2, False), (1, False), (1, True)))
        return cls(
            balance=BALANCES[seed % len(BALANCES)],
            version=version,
            rises=rises,
            session_timeout=random.choice((3000, 6000, 10_000)),
            heartbeat_interval=random.choice((500, 1000)),
            max_poll_interval=random.choice((6000, 20_000, 60_000)),
            transaction_timeout=random.choice((2000, 4000, 8000)),
            request_timeout=request_timeout,
            delivery_timeout=max(random.choice((0, 10_000)), request_timeout + 500),
            broker_session=random.choice((9000, 3000)),
            replica_lag=random.choice((30_000, 5000, 2000)),
            fetch_wait=min(random.choice((500, 2000)), request_timeout // 2),
            linger=random.choice((0, 5)),
            stays=random.choice((3.0, 8.0, 20.0)),
        )

    @property
    def longest(self) -> float:
        """Of all timeouts that a fault is to outlast, in seconds."""
        timeouts = (
            self.session_timeout,
            self.transaction_timeout,
            self.broker_session,
            self.replica_lag,
            self.request_timeout,
            self.delivery_timeout,
        )
        return max(timeouts) / 1000

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
                "transaction.state.log.num.partitions": _COORDINATORS,
                "transaction.state.log.replication.factor": NODES,
                "transaction.state.log.min.isr": 2,
                "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
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
            "metadata_min_age_ms": 200,
            "metadata_max_age_ms": 20_000,
            "enable_metrics_push": False,
            "socket_connection_setup_timeout_ms": 2000,
        }

    def plan(self) -> TransactionPlan:
        writes: ClientOptions = {
            **self.common(),
            "delivery_timeout_ms": self.delivery_timeout,
            "linger_ms": self.linger,
            "transaction_timeout_ms": self.transaction_timeout,
        }
        sessions: ClientOptions = {
            **writes,
            "fetch_max_wait_ms": self.fetch_wait,
            "max_poll_interval_ms": self.max_poll_interval,
        }
        if self.balance.protocol == "consumer":
            sessions["group_protocol"] = "consumer"
            sessions["group_remote_assignor"] = self.balance.assignor
        else:
            sessions["session_timeout_ms"] = self.session_timeout
            sessions["heartbeat_interval_ms"] = self.heartbeat_interval
            sessions["partition_assignment_strategy"] = self.balance.assignor
        return TransactionPlan(
            TOPICS,
            writer_options=writes,
            session_options=sessions,
            # Two readers of all partitions: what they fetch in vain would cost as much as all the rest.
            reader_options={**self.common(), "fetch_max_wait_ms": self.request_timeout // 2},
            dawdles=max(self.transaction_timeout, self.session_timeout) / 1000 + 1.5,
        )


def try_transactions(seed: int, *, traced: bool = False) -> TrialReport:
    """Runs the trial of a seed to its end."""
    random = generator(seed, "trial of transactions")
    settings = TransactionSettings.draw(seed, random)
    report = TrialReport(seed, settings)

    async def body(runtime: SimRuntime) -> None:
        await _TransactionTrial(runtime, report, settings, random).run()

    return simulate(report, body, traced=traced)


async def begin_with_version(cluster: AsyncCluster, runtime: SimRuntime, version: int) -> None:
    """A cluster is at the newest when it is made."""
    if version < _NEWEST_VERSION:
        async with AsyncClient(cluster.bootstrap, runtime=runtime.at("admin")) as client:
            await client.admin.update_features({_VERSION: version}, kind="safe_downgrade")


async def raise_version(cluster: AsyncCluster, runtime: SimRuntime, options: ClientOptions) -> NemesisEvent:
    """Returns when that is done, however long the controller is away."""
    while True:
        if cluster.bootstrap:
            async with AsyncClient(cluster.bootstrap, runtime=runtime.at("admin"), **options) as client:
                try:
                    await client.admin.update_features({_VERSION: _NEWEST_VERSION})
                except KafkaError:
                    pass
                else:
                    break
        await asyncio.sleep(1.0)
    now = asyncio.get_running_loop().time()
    return NemesisEvent(now, f"{_VERSION} is {_NEWEST_VERSION} from now on")


class _TransactionTrial:
    def __init__(
        self, runtime: SimRuntime, report: TrialReport, settings: TransactionSettings, random: Random
    ) -> None:
        self._runtime = runtime
        self._report = report
        self._settings = settings
        self._random = random
        self._history = TransactionHistory(tuple(TOPICS))
        self._raised = 0

    async def run(self) -> None:
        async with self._settings.cluster(self._runtime) as cluster:
            await begin_with_version(cluster, self._runtime, self._settings.version)
            nodes = [f"node-{number + 1}" for number in range(NODES)]
            world = TransactionWorld(
                self._runtime, cluster.bootstrap, nodes, self._settings.plan(), self._history
            )
            workload = TransactionWorkload(world, self._settings.stays)
            workload.start()
            try:
                await self._suffer(cluster, workload)
                await self._heal(cluster, workload)
            except (TimeoutError, KafkaError) as error:
                self._violated(
                    "not well again", f"{type(error).__name__}: {error}; {self._condition(cluster, workload)}"
                )
            finally:
                await workload.close()
            world.settle()
            self._judge(cluster, world)
            self._report.struck.update(
                {
                    KILLED: world.crashes,
                    GONE: workload.left,
                    FENCED: workload.taken_over,
                    RAISED: self._raised,
                }
            )
            self._report.digest = self._digest()
        self._report.seconds = asyncio.get_running_loop().time()

    def _judge(self, cluster: AsyncCluster, world: TransactionWorld) -> None:
        report = self._report
        report.violations += world.violations
        report.violations += [
            RuleViolation("node failed", f"node {node_id}: {why}")
            for node_id, why in cluster.failures.items()
        ]
        report.violations += check_transactions(self._history)
        report.acknowledged = self._history.acknowledged
        report.read = sum(len(reader.records) for reader in self._history.readers)

    async def _suffer(self, cluster: AsyncCluster, workload: TransactionWorkload) -> None:
        topic = self._random.choice((OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TRANSACTIONS_TOPIC, *TOPICS))
        nemesis = Nemesis(self._runtime, cluster, topic, workload.world.machines, TRANSACTION_KINDS)
        self._report.events, self._report.struck = nemesis.events, nemesis.struck
        longest = self._settings.longest
        active = max(ACTIVE, longest * 1.3 + 20.0)
        raising = asyncio.get_running_loop().create_task(
            self._raise_version(cluster, active / 2), name="the version is raised"
        )
        try:
            await nemesis.carry_out(draw_plan(self._random, active, longest, TRANSACTION_KINDS), active)
            await raising
        finally:
            raising.cancel()
            await asyncio.gather(raising, return_exceptions=True)

    async def _raise_version(self, cluster: AsyncCluster, after: float) -> None:
        """As when all brokers have been upgraded, while transactions of the older version are open."""
        if not self._settings.rises:
            return
        await asyncio.sleep(after)
        self._report.events.append(await raise_version(cluster, self._runtime, self._settings.common()))
        self._raised += 1

    async def _heal(self, cluster: AsyncCluster, workload: TransactionWorkload) -> None:
        """Everything ends, and has passed the chain within bounds."""
        await workload.settle()
        for topic in (*TOPICS, OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
            await until_in_sync(cluster, topic, _HEALS_WITHIN)
        await until(lambda: workload.committed >= FEWEST_COMMITTED, "enough transactions", _HEALS_WITHIN)
        async with asyncio.timeout(_HEALS_WITHIN):
            await workload.finish_writing()
        await self._until_read(cluster, workload, [next(iter(TOPICS))])
        tail = workload.committed_tail.values
        first, *others = TOPICS
        await until(
            lambda: all(tail[topic] >= tail[first] for topic in others),
            "that the chain has copied everything",
            _HEALS_WITHIN,
        )
        async with asyncio.timeout(_HEALS_WITHIN):
            await workload.finish_copying()
        await self._until_read(cluster, workload, list(TOPICS))
        await workload.finish_reading()
        await self._ask_groups(cluster)

    async def _until_read(
        self, cluster: AsyncCluster, workload: TransactionWorkload, topics: list[str]
    ) -> None:
        """No transaction of these topics is open any more, and the tailing readers have reached the ends."""
        partitions = [TopicPartition(topic, index) for topic in topics for index in range(TOPICS[topic])]

        def is_stable() -> bool:
            led = [cluster.partition(*each) for each in partitions]
            return all(each.last_stable_offset == each.log.log_end_offset for each in led)

        await until(is_stable, "that every transaction ends", _HEALS_WITHIN)
        ends = {each: cluster.partition(*each).high_watermark for each in partitions}
        for reader in (workload.committed_tail, workload.uncommitted_tail):
            await until(
                lambda reader=reader: reader.has_reached(ends),  # type: ignore[misc]
                f"that {reader.log.name} reaches the ends",
                _HEALS_WITHIN,
            )

    async def _ask_groups(self, cluster: AsyncCluster) -> None:
        async with AsyncClient(cluster.bootstrap, runtime=self._runtime.at("admin")) as client:
            for group, source, _ in chain_links(list(TOPICS)):
                found = await client.admin.group_offsets(group, require_stable=True)
                for index in range(TOPICS[source]):
                    partition = TopicPartition(source, index)
                    committed = found.get(partition)
                    self._history.group_offsets[group, partition] = (
                        0 if committed is None else committed.offset
                    )

    def _violated(self, rule: str, what: str) -> None:
        self._report.violations.append(RuleViolation(rule, what))

    def _digest(self) -> str:
        told = hashlib.sha256(self._runtime.network.trace.digest().encode())
        for entry in self._history.transactions:
            told.update(f"{entry}\n".encode())
        for reader in self._history.readers:
            told.update(f"{reader}\n".encode())
        for event in self._report.events:
            told.update(f"{event}\n".encode())
        return told.hexdigest()

    def _condition(self, cluster: AsyncCluster, workload: TransactionWorkload) -> str:
        lines = [f"not in sync: {cluster.under_replicated()}, without a leader: {cluster.offline()}"]
        for topic, partitions in TOPICS.items():
            for index in range(partitions):
                for node_id, node in sorted(cluster.nodes.items()):
                    replica = node.replicas.partitions.get((topic, index))
                    if replica is not None and replica.is_leader:
                        lines.append(
                            f"{topic}-{index} on node {node_id}: stable {replica.last_stable_offset}, high watermark "
                            f"{replica.high_watermark}, end {replica.log.log_end_offset}"
                        )
        values = {topic: len(values) for topic, values in workload.committed_tail.values.items()}
        return "\n    ".join([*lines, f"values read: {values}"])
