"""What handlers get of the node that they serve for: its parts by their names, and nothing of its life.

Dispatch takes it for the owner of its requests, and hands it to every handler.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.broker.server.faults import addressed
from ottla.wire.messages import FetchRequest

if TYPE_CHECKING:
    from ottla.broker.configs.node import NodeConfigs
    from ottla.broker.coordinator.groups.manager import GroupShard
    from ottla.broker.coordinator.partition_adds import PartitionAdds
    from ottla.broker.coordinator.producer_ids import ProducerIdBlock
    from ottla.broker.coordinator.runtime import CoordinatorRuntime
    from ottla.broker.coordinator.transactions.coordinator import TransactionCoordinator
    from ottla.broker.metadata.controller_channel import ControllerChannel
    from ottla.broker.metadata.image import MetadataImage
    from ottla.broker.replication.partition import PartitionKey
    from ottla.broker.replication.replica_manager import ReplicaManager
    from ottla.broker.server.background import BackgroundTasks
    from ottla.broker.server.fetch_sessions import FetchSessions
    from ottla.broker.server.registry import Handler
    from ottla.broker.server.telemetry import ClusterTelemetry
    from ottla.runtime import Runtime
    from ottla.wire import Message, Uuid


@dataclass(eq=False, kw_only=True)
class NodeContext:
    """One per node; made with it."""

    id: int
    cluster_id: str
    rack: str | None
    runtime: Runtime
    image: MetadataImage
    """The cluster as this node knows it."""
    configs: NodeConfigs
    replicas: ReplicaManager
    groups: CoordinatorRuntime[GroupShard]
    """The groups that this node coordinates."""
    partition_adds: PartitionAdds
    """The way to the coordinators of transactions, for data that begins one."""
    transactions: TransactionCoordinator
    """The transactional ids that this node coordinates."""
    controller: ControllerChannel
    producer_ids: ProducerIdBlock
    fetch_sessions: FetchSessions
    telemetry: ClusterTelemetry
    apis: Mapping[int, Handler]
    """What this node serves, by API key."""
    max_versions: Mapping[str, int]
    """The highest version of each API, where the node plays an older release."""
    background: BackgroundTasks

    def now_ms(self) -> int:
        return int(self.runtime.clock.time() * 1000)

    def topic_name(self, topic_id: Uuid) -> str | None:
        topic = self.image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def touched(self, request: Message) -> list[PartitionKey]:
        """The partitions that a request is about, those of its fetch session included."""
        touched = [(topic, index) for topic, index, _ in addressed(request, self.topic_name)]
        if isinstance(request, FetchRequest) and request.session_epoch > 0:
            remembered = self.fetch_sessions.peek(request.session_id)
            touched += [(each.topic, each.partition) for each in remembered if each.topic is not None]
        return touched
