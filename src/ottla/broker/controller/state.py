"""The controller's state machine: requests and time in, decisions out.

A decision is not yet true: the caller writes its records to the metadata log and then hands them to `apply`,
before it requests the next decision. Only broker sessions, which are in no log, change on the way. All
randomness comes from the generator that is handed in, so the same events make the same records.

Each subject is decided in a module of its own; here they come together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ottla.broker.controller import (
    brokers,
    configs,
    directories,
    elections,
    features,
    in_sync,
    producer_ids,
    reassignment,
    topics,
)
from ottla.broker.controller.brokers import BrokerSessions
from ottla.broker.controller.decision import ConfigRules, Context, Decision
from ottla.broker.controller.placement import Random
from ottla.broker.metadata.image import Delta, MetadataImage
from ottla.broker.metadata.records import FeatureLevelRecord, MetadataRecord
from ottla.wire.messages import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)


class ControllerState:
    """Owns the controller's image of the cluster. `now` is always monotonic seconds."""

    def __init__(
        self,
        cluster_id: str,
        configs: ConfigRules,
        random: Random,
        *,
        supported_features: Mapping[str, tuple[int, int]] | None = None,
    ) -> None:
        self.cluster_id = cluster_id
        self.image = MetadataImage()
        self.supported_features = dict(supported_features or {})
        timeout = configs.value("broker.session.timeout.ms") / 1000
        self._sessions = BrokerSessions(timeout)
        self._context = Context(self.image, self._sessions, configs, random)

    def apply(self, records: Iterable[MetadataRecord]) -> Delta:
        """The records of a decision are in the log now."""
        return self.image.apply_all(records)

    def take_over(self, image: MetadataImage, now: float) -> None:
        """Goes on from what the last one has decided. Sessions are in no log: brokers that are alive get new ones."""
        self.image.become(image)
        for broker in self.image.alive_brokers():
            self._sessions.touch(broker.id, broker.epoch, -1, now)

    def bootstrap(self) -> Sequence[MetadataRecord]:
        """The first records of a new cluster: every feature at its highest level, and how small an ISR may be.

        That is said once for all brokers, as since Kafka 4.1, where none may differ from the others (KIP-966).
        """
        levels = [FeatureLevelRecord(name, highest) for name, (_, highest) in self.supported_features.items()]
        return [*levels, *features.one_min_isr(self._context)]

    # Brokers

    def register_broker(
        self, request: BrokerRegistrationRequest, now: float
    ) -> Decision[BrokerRegistrationResponse]:
        return brokers.register(self._context, request, self.cluster_id, now)

    def broker_heartbeat(
        self, request: BrokerHeartbeatRequest, now: float
    ) -> Decision[BrokerHeartbeatResponse]:
        return brokers.heartbeat(self._context, request, now)

    def unregister_broker(self, request: UnregisterBrokerRequest) -> Decision[UnregisterBrokerResponse]:
        return brokers.unregister(self._context, request)

    def expire(self, now: float) -> Sequence[MetadataRecord]:
        """Fences one broker that has not been heard of for a session timeout; the next call finds the next."""
        return brokers.fence_one_stale(self._context, now)

    @property
    def next_expiry(self) -> float | None:
        """When `expire` may have something to do, unless heartbeats come before."""
        return self._sessions.next_expiry

    def fence_broker(self, broker_id: int) -> Sequence[MetadataRecord]:
        """Fences a broker that is known to be gone, without waiting for its session to end."""
        return brokers.fence(self._context, broker_id)

    def has_read(self, broker_id: int, metadata_offset: int) -> None:
        """A broker has fetched the metadata log up to and with this offset; heartbeats say so only later."""
        self._sessions.note_offset(broker_id, metadata_offset)

    def assign_replicas(self, request: AssignReplicasToDirsRequest) -> Decision[AssignReplicasToDirsResponse]:
        """A broker says in which of its directories replicas lie."""
        return directories.assign(self._context, request)

    # Topics

    def create_topics(self, request: CreateTopicsRequest, version: int) -> Decision[CreateTopicsResponse]:
        return topics.create_topics(self._context, request, version)

    def delete_topics(self, request: DeleteTopicsRequest, version: int) -> Decision[DeleteTopicsResponse]:
        return topics.delete_topics(self._context, request, version)

    def create_partitions(self, request: CreatePartitionsRequest) -> Decision[CreatePartitionsResponse]:
        return topics.create_partitions(self._context, request)

    # Partitions

    def alter_partition(
        self, request: AlterPartitionRequest, version: int
    ) -> Decision[AlterPartitionResponse]:
        return in_sync.alter_partition(self._context, request, version)

    def elect_leaders(self, request: ElectLeadersRequest) -> Decision[ElectLeadersResponse]:
        return elections.elect_leaders(self._context, request)

    def move_leader(self, topic: str, partition: int, broker_id: int) -> Sequence[MetadataRecord]:
        """Makes a live, in-sync replica the leader; the BrokerError that it raises says why it cannot be."""
        return [elections.move_leader(self._context, topic, partition, broker_id)]

    def balance_leaders(self) -> Sequence[MetadataRecord]:
        """Leadership back to the preferred leaders (auto.leader.rebalance.enable)."""
        return list(elections.preferred(self._context))

    def elect_unclean_leaders(self) -> Sequence[MetadataRecord]:
        """Leaders for partitions that have none, where unclean.leader.election.enable allows it."""
        return list(elections.unclean(self._context))

    def alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest
    ) -> Decision[AlterPartitionReassignmentsResponse]:
        return reassignment.alter_reassignments(self._context, request)

    def list_partition_reassignments(
        self, request: ListPartitionReassignmentsRequest
    ) -> ListPartitionReassignmentsResponse:
        return reassignment.list_reassignments(self._context, request)

    # The rest

    def alter_configs(self, request: AlterConfigsRequest) -> Decision[AlterConfigsResponse]:
        return configs.alter_configs(self._context, request)

    def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest
    ) -> Decision[IncrementalAlterConfigsResponse]:
        return configs.incremental_alter_configs(self._context, request)

    def allocate_producer_ids(
        self, request: AllocateProducerIdsRequest
    ) -> Decision[AllocateProducerIdsResponse]:
        return producer_ids.allocate(self._context, request)

    def update_features(
        self, request: UpdateFeaturesRequest, version: int
    ) -> Decision[UpdateFeaturesResponse]:
        return features.update_features(self._context, request, version, self.supported_features)
