"""How Kafka's own topics are made, when something needs them for the first time.

Every other topic that is created because a client asked for its metadata gets the cluster's defaults.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.broker.controller.decision import ConfigRules
from ottla.broker.metadata.names import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from ottla.wire.messages import CreateTopicsRequest


def creatable(name: str, configs: ConfigRules) -> CreateTopicsRequest.CreatableTopic:
    """The topic as a broker asks the controller for it."""
    if name == OFFSETS_TOPIC:
        return _topic(
            name,
            configs.value("offsets.topic.num.partitions"),
            configs.value("offsets.topic.replication.factor"),
            {
                "cleanup.policy": "compact",
                "segment.bytes": configs.value("offsets.topic.segment.bytes"),
                "compression.type": "producer",
            },
        )
    if name == TRANSACTIONS_TOPIC:
        return _topic(
            name,
            configs.value("transaction.state.log.num.partitions"),
            configs.value("transaction.state.log.replication.factor"),
            {
                "unclean.leader.election.enable": "false",
                "compression.type": "uncompressed",
                "cleanup.policy": "compact",
                "min.insync.replicas": configs.value("transaction.state.log.min.isr"),
                "segment.bytes": configs.value("transaction.state.log.segment.bytes"),
            },
        )
    if name == SHARE_STATE_TOPIC:
        return _topic(
            name,
            configs.value("share.coordinator.state.topic.num.partitions"),
            configs.value("share.coordinator.state.topic.replication.factor"),
            {
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "segment.bytes": configs.value("share.coordinator.state.topic.segment.bytes"),
                "min.insync.replicas": configs.value("share.coordinator.state.topic.min.isr"),
                "retention.ms": -1,
            },
        )
    return _topic(name, -1, -1, {})


def _topic(
    name: str, partitions: int, replication_factor: int, configs: Mapping[str, object]
) -> CreateTopicsRequest.CreatableTopic:
    return CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=config, value=str(value))
            for config, value in configs.items()
        ],
    )
