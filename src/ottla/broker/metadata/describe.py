"""What clients see of the cluster: which brokers there are, who leads a partition, which replicas are down.

Metadata, DescribeCluster, DescribeTopicPartitions and FindCoordinator say it in their own words; the rules are
here. A broker is there for clients while it is not fenced.
"""

from __future__ import annotations

from typing import Final

from ottla.broker.metadata.image import BrokerImage, MetadataImage, PartitionImage
from ottla.broker.metadata.records import NO_LEADER

NO_CONTROLLER: Final = -1


def controller_id(image: MetadataImage) -> int:
    """The broker to which clients send what is meant for the controller.

    Any broker that is alive forwards it. Kafka names one at random, which no test could rely on: here it is the
    first.
    """
    alive = image.alive_brokers()
    return alive[0].id if alive else NO_CONTROLLER


def alive_broker(image: MetadataImage, broker_id: int) -> BrokerImage | None:
    broker = image.brokers.get(broker_id)
    return broker if broker is not None and broker.alive else None


def leader_of(image: MetadataImage, partition: PartitionImage) -> int:
    """The leader, if clients can find it."""
    return partition.leader if partition.leader in image.brokers else NO_LEADER


def offline_replicas(image: MetadataImage, partition: PartitionImage) -> list[int]:
    return [replica for replica in partition.replicas if alive_broker(image, replica) is None]
