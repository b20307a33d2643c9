"""What is drawn from the seed of a trial beside its faults, and the cluster and plans that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.cluster.options import TopicSpec
from ottla.config import ClientOptions
from ottla.runtime import Random
from ottla.sim.runtime import SimRuntime
from ottla.sim.transaction_clients import TransactionPlan
from tests.sim.sink.jobs import OUTPUT
from tests.sim.sink.processes import SinkPlan

NODES: Final = 3
TOPICS: Final = {OUTPUT: 3}
FORMS: Final = ("data source", "foreachBatch", "batch writes")
_COORDINATORS: Final = 3
_REPLICA_WAIT: Final = 1000
"""Half of the shortest replica.lag.time.max.ms: replicas that wait for longer would look as if they lagged."""


@dataclass(frozen=True)
class SinkSettings:
    """What differs between two trials beside their faults; times are in milliseconds."""

    form: str
    is_succeeded: bool
    """Whether a second query goes on with the sink, when the first one has ended."""
    version: int
    """Of transactions, when the trial begins."""
    rises: bool
    """Whether it becomes 2 in the middle of the trial."""
    transaction_timeout: int
    request_timeout: int
    delivery_timeout: int
    broker_session: int
    replica_lag: int
    patience: int
    danger: float
    most_tasks: int
    pause: float

    @classmethod
    def draw(cls, seed: int, random: Random) -> SinkSettings:
        request_timeout = random.choice((1000, 2000, 5000))
        version, rises = random.choice(((2, False), (2, False), (1, False), (1, True)))
        return cls(
            form=FORMS[seed % len(FORMS)],
            is_succeeded=random.random() < 0.3,
            version=version,
            rises=rises,
            transaction_timeout=random.choice((1500, 3000, 3000, 15_000)),
            request_timeout=request_timeout,
            delivery_timeout=max(random.choice((0, 10_000)), request_timeout + 500),
            broker_session=random.choice((9000, 3000)),
            replica_lag=random.choice((30_000, 5000, 2000)),
            patience=random.choice((4000, 20_000, 120_000)),
            danger=random.choice((0.04, 0.08, 0.16)),
            most_tasks=random.choice((1, 2, 3, 3, 4, 10)),
            pause=random.choice((0.5, 1.2)),
        )

    @property
    def longest(self) -> float:
        """Of all timeouts that a fault is to outlast, in seconds."""
        timeouts = (
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
                "default.replication.factor": NODES,
                "min.insync.replicas": 2,
                "transaction.state.log.num.partitions": _COORDINATORS,
                "transaction.state.log.replication.factor": NODES,
                "transaction.state.log.min.isr": 2,
                "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
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
            "fetch_max_wait_ms": self.request_timeout // 2,
        }

    def sink_plan(self) -> SinkPlan:
        timeout = self.transaction_timeout / 1000
        return SinkPlan(
            {
                **self.common(),
                "transactional_id": "a sink's",
                "delivery_timeout_ms": self.delivery_timeout,
                "linger_ms": 5,
            },
            timeout_ms=self.transaction_timeout,
            patience=self.patience / 1000,
            pauses=(0.1, 1.0, timeout * 1.3, timeout * 1.3, timeout * 1.3 + 4.0),
            danger=self.danger,
            most_tasks=self.most_tasks,
            pause=self.pause,
        )

    def plan(self) -> TransactionPlan:
        return TransactionPlan(
            TOPICS,
            writer_options={},
            session_options={},
            reader_options=self.common(),
            dawdles=self.transaction_timeout / 1000 + 1.5,
        )
