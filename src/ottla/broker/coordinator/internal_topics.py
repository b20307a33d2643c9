"""Kafka's own topics: how they are made when something first needs them, and which of their partitions a key is in.

The leader of that partition is the coordinator of the key. Every other topic that comes into being because a client
uses it gets the cluster's defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ottla.broker.metadata.names import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    is_internal,
)
from ottla.wire.messages import CreateTopicsRequest

__all__ = [
    "OFFSETS_TOPIC",
    "SHARE_STATE_TOPIC",
    "TRANSACTIONS_TOPIC",
    "coordinator_partition",
    "creatable",
    "is_internal",
]


class ConfigValues(Protocol):
    """Broker configs by name, typed."""

    def value(self, name: str) -> Any: ...


def coordinator_partition(key: str, partitions: int) -> int:
    """The partition that a group, a transactional id or a share partition belongs to: Java's String.hashCode."""
    code = 0
    encoded = key.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(encoded), 2):
        code = (31 * code + (encoded[position] << 8 | encoded[position + 1])) & 0xFFFFFFFF
    if code == 1 << 31:
        return 0  # Java has no absolute value of its smallest int, and Kafka takes zero
    return (code if code < 1 << 31 else (1 << 32) - code) % partitions


def creatable(name: str, configs: ConfigValues) -> CreateTopicsRequest.CreatableTopic:
    """A topic as a broker requests it of the controller, with what its configs say."""
    value = configs.value
    if name == OFFSETS_TOPIC:
        return _topic(
            name,
            value("offsets.topic.num.partitions"),
            value("offsets.topic.replication.factor"),
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": value("offsets.topic.segment.bytes"),
            },
        )
    if name == TRANSACTIONS_TOPIC:
        return _topic(
            name,
            value("transaction.state.log.num.partitions"),
            value("transaction.state.log.replication.factor"),
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": value("transaction.state.log.min.isr"),
                "segment.bytes": value("transaction.state.log.segment.bytes"),
                "unclean.leader.election.enable": "false",
            },
        )
    if name == SHARE_STATE_TOPIC:
        return _topic(
            name,
            value("share.coordinator.state.topic.num.partitions"),
            value("share.coordinator.state.topic.replication.factor"),
            {
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "min.insync.replicas": value("share.coordinator.state.topic.min.isr"),
                "retention.ms": -1,
                "segment.bytes": value("share.coordinator.state.topic.segment.bytes"),
            },
        )
    return _topic(name, value("num.partitions"), value("default.replication.factor"), {})


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
