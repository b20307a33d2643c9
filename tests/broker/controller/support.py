"""A controller without a log around it: decisions are applied as soon as they are made, and kept to be replayed."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from ottla.broker.controller.decision import MIN_ISR, Decision
from ottla.broker.controller.state import ControllerState
from ottla.broker.metadata.image import Delta, PartitionImage
from ottla.broker.metadata.records import FeatureLevelRecord, MetadataRecord
from ottla.errors import InvalidConfigError, UnknownServerError
from ottla.wire import Uuid
from ottla.wire.messages import (
    AlterConfigsRequest,
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    IncrementalAlterConfigsRequest,
)

ResponseT = TypeVar("ResponseT")

CLUSTER_ID = "the-cluster"
SESSION = 9.0
UNCLEAN = "unclean.leader.election.enable"
ELR = "eligible.leader.replicas.version"
BROKER_SETTINGS: dict[str, Any] = {
    "num.partitions": 1,
    "default.replication.factor": 1,
    "broker.session.timeout.ms": SESSION * 1000,
    "delete.topic.enable": True,
    "min.insync.replicas": 1,
}


class Configs:
    """Config rules that know no type but text, and one name that is never right."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = {**BROKER_SETTINGS, **settings}

    def value(self, name: str) -> Any:
        return self.settings[name]

    def topic_value(self, name: str, overrides: Mapping[str, str], defaults: Mapping[str, str]) -> Any:
        if name == MIN_ISR:
            return int(overrides.get(name, defaults.get(name, self.settings[name])))
        return overrides.get(name, defaults.get(name, "false")) == "true"

    def validate_topic(self, overrides: Mapping[str, str]) -> None:
        if "nope" in overrides:
            raise InvalidConfigError("Unknown topic config name: nope")

    def describe_topic(
        self, overrides: Mapping[str, str], defaults: Mapping[str, str]
    ) -> list[CreateTopicsResponse.CreatableTopicConfigs]:
        return [
            CreateTopicsResponse.CreatableTopicConfigs(name=name, value=value)
            for name, value in sorted({**defaults, **overrides}.items())
        ]

    def alter(
        self, resource: AlterConfigsRequest.AlterConfigsResource, current: Mapping[str, str], *, elr: bool
    ) -> Mapping[str, str]:
        wanted = {config.name: config.value or "" for config in resource.configs}
        self.validate_topic(wanted)
        return wanted

    def incremental_alter(
        self,
        resource: IncrementalAlterConfigsRequest.AlterConfigsResource,
        current: Mapping[str, str],
        *,
        elr: bool,
    ) -> Mapping[str, str]:
        wanted = dict(current)
        for config in resource.configs:
            if config.config_operation > 3:
                raise UnknownServerError
            if config.value is None:
                wanted.pop(config.name, None)
            else:
                wanted[config.name] = config.value
        self.validate_topic(wanted)
        return wanted


class Controller:
    """A state machine, the time, and everything that was ever decided.

    Like a new cluster it keeps eligible leader replicas, unless told otherwise.
    """

    def __init__(
        self, brokers: Sequence[int] = (), *, seed: int = 0, elr: bool = True, **settings: Any
    ) -> None:
        self.configs = Configs({name.replace("_", "."): value for name, value in settings.items()})
        self.state = ControllerState(
            CLUSTER_ID,
            self.configs,
            random.Random(seed),
            supported_features={"group.version": (0, 1)},
        )
        self.now = 100.0
        self.log: list[MetadataRecord] = []
        self.incarnations = 0
        if elr:
            self.commit([FeatureLevelRecord(ELR, 1)])
        for broker_id in brokers:
            self.start(broker_id)

    def commit(self, records: Sequence[MetadataRecord]) -> Delta:
        self.log += records
        return self.state.apply(records)

    def carry_out(self, decision: Decision[ResponseT]) -> ResponseT:
        self.commit(decision.records)
        return decision.response

    def partition(self, topic: str, index: int = 0) -> PartitionImage:
        found = self.state.image.partition(topic, index)
        assert found is not None
        return found

    def epoch(self, broker_id: int) -> int:
        return self.state.image.brokers[broker_id].epoch

    # Brokers

    def start(self, broker_id: int, rack: str | None = None, *, clean: bool = False) -> int:
        """A new incarnation, registered and unfenced; its epoch. A clean one knows the epoch of the one before."""
        previous = self.epoch(broker_id) if clean else -1
        epoch = self.register(broker_id, rack=rack, previous_broker_epoch=previous).broker_epoch
        assert not self.heartbeat(broker_id).is_fenced
        return epoch

    def register(
        self, broker_id: int, incarnation: int | None = None, **fields: Any
    ) -> BrokerRegistrationResponse:
        if incarnation is None:
            self.incarnations += 1
            incarnation = self.incarnations
        listener = BrokerRegistrationRequest.Listener(name="PLAINTEXT", host="here", port=9000 + broker_id)
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=fields.pop("cluster_id", CLUSTER_ID),
            incarnation_id=Uuid(incarnation.to_bytes(16, "big")),
            listeners=[listener],
            **fields,
        )
        return self.carry_out(self.state.register_broker(request, self.now))

    def heartbeat(self, broker_id: int, **fields: Any) -> BrokerHeartbeatResponse:
        fields.setdefault(
            "broker_epoch", self.epoch(broker_id) if broker_id in self.state.image.brokers else 0
        )
        fields.setdefault("current_metadata_offset", self.state.image.offset)
        request = BrokerHeartbeatRequest(broker_id=broker_id, **fields)
        return self.carry_out(self.state.broker_heartbeat(request, self.now))

    def fence(self, broker_id: int) -> Delta:
        return self.commit(self.state.fence_broker(broker_id))

    # Leaders

    def report_isr(
        self,
        topic: str,
        isr: Sequence[int],
        index: int = 0,
        *,
        broker_epochs: Mapping[int, int] | None = None,
        partition_epoch: int | None = None,
    ) -> AlterPartitionResponse.PartitionData:
        """The leader of a partition says who is in sync with it; it knows all epochs but those that are given."""
        partition = self.partition(topic, index)
        epochs = {broker.id: broker.epoch for broker in self.state.image.brokers.values()}
        epochs.update(broker_epochs or {})
        data = AlterPartitionRequest.PartitionData(
            partition_index=index,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch if partition_epoch is None else partition_epoch,
            new_isr_with_epochs=[
                AlterPartitionRequest.BrokerState(broker_id=replica, broker_epoch=epochs.get(replica, -1))
                for replica in isr
            ],
        )
        request = AlterPartitionRequest(
            broker_id=partition.leader,
            broker_epoch=self.epoch(partition.leader),
            topics=[AlterPartitionRequest.TopicData(topic_id=self.topic_id(topic), partitions=[data])],
        )
        ((result,),) = (
            topic.partitions for topic in self.carry_out(self.state.alter_partition(request, 3)).topics
        )
        return result

    def catch_up(self, topic: str, index: int = 0) -> AlterPartitionResponse.PartitionData:
        """Every live replica of a partition catches up, and its leader says so."""
        partition = self.partition(topic, index)
        behind = [
            replica
            for replica in partition.replicas
            if replica not in partition.isr and self.state.image.is_active(replica)
        ]
        return self.report_isr(topic, [*partition.isr, *behind], index)

    # Topics

    def create(
        self,
        name: str,
        assignments: Sequence[Sequence[int]] = (),
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str | None] | None = None,
        version: int = 7,
        validate_only: bool = False,
    ) -> CreateTopicsResponse.CreatableTopicResult:
        wanted = CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            assignments=[assignment(index, replicas) for index, replicas in enumerate(assignments)],
            configs=[
                CreateTopicsRequest.CreatableTopicConfig(name=key, value=value)
                for key, value in (configs or {}).items()
            ],
        )
        request = CreateTopicsRequest(topics=[wanted], validate_only=validate_only)
        (result,) = self.carry_out(self.state.create_topics(request, version)).topics
        return result

    def topic_id(self, topic: str) -> Uuid:
        return self.state.image.topics[topic].id


def assignment(index: int, replicas: Sequence[int]) -> CreateTopicsRequest.CreatableReplicaAssignment:
    return CreateTopicsRequest.CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))


def state_of(partition: PartitionImage) -> tuple[int, tuple[int, ...]]:
    return partition.leader, partition.isr
