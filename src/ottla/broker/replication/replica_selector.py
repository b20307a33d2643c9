"""Which replica a consumer should read from (KIP-392): with a rack-aware selector, one in its own rack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla.broker.cluster.node import Node
    from ottla.broker.replication.partition import Partition

RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def preferred_replica(node: Node, partition: Partition, rack: str, offset: int) -> int | None:
    """Another replica than this leader, in sync and in the consumer's rack; None to stay here."""
    if node.config.value("replica.selector.class") != RACK_AWARE or node.rack == rack:
        return None
    if not partition.log.log_start_offset <= offset <= partition.high_watermark:
        return None  # the leader answers that this offset is out of range
    brokers = node.image.brokers
    for replica in partition.image.isr:
        broker = brokers.get(replica)
        if replica != node.id and broker is not None and broker.alive and broker.rack == rack:
            return replica
    return None
