"""Snapshots of the metadata log (KIP-630): an image as the shortest run of records that makes it again.

A snapshot stands for everything before its end offset. Like the log it consists of batches of records, which the same
code writes and reads. Where snapshots are kept is the controller's business (controller/metadata_log.py).

Invariant: an image that is made from a snapshot equals the one that the snapshot was made of.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from ottla.broker.metadata.image import MetadataImage
from ottla.broker.metadata.records import (
    AssignReplicaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    TopicRecord,
    read_records,
    write_records,
)
from ottla.wire.primitives import Buffer

_NO_BROKER: Final = -1


class SnapshotId(NamedTuple):
    """Where a snapshot ends, and the epoch of the record before that."""

    end_offset: int
    epoch: int


def write_snapshot(image: MetadataImage, now_ms: int) -> bytearray:
    """The bytes of a snapshot that ends behind the last record of the image."""
    records = list(records_of(image))
    return write_records(records, now_ms) if records else bytearray()


def read_snapshot(data: Buffer, end_offset: int) -> MetadataImage:
    """The image after all records before `end_offset`."""
    image = MetadataImage()
    image.apply_all(read_records(data, 0))
    image.offset = end_offset - 1
    return image


def records_of(image: MetadataImage) -> Iterator[MetadataRecord]:
    """What has to be written down of an image: features first, as they say how the rest is read."""
    for name, level in image.features.items():
        yield FeatureLevelRecord(name, level)
    for (resource_type, resource_name), overrides in image.configs.items():
        for name, value in overrides.items():
            yield ConfigRecord(resource_type, resource_name, name, value)
    for broker in image.brokers.values():
        yield RegisterBrokerRecord(
            broker_id=broker.id,
            broker_epoch=broker.epoch,
            incarnation_id=broker.incarnation_id,
            listeners=broker.listeners,
            rack=broker.rack,
            fenced=broker.fenced,
            in_controlled_shutdown=broker.in_controlled_shutdown,
            features=broker.features,
            log_dirs=broker.log_dirs,
        )
    for topic in image.topics.values():
        yield TopicRecord(topic.name, topic.id)
        for index, partition in topic.partitions.items():
            yield PartitionRecord(
                topic.id,
                index,
                replicas=partition.replicas,
                isr=partition.isr,
                leader=partition.leader,
                leader_epoch=partition.leader_epoch,
                partition_epoch=partition.partition_epoch,
                adding=partition.adding,
                removing=partition.removing,
                recovering=partition.recovering,
                elr=partition.elr,
                last_known_elr=partition.last_known_elr,
            )
    for topic_id, places in image.directories.items():
        for (index, broker_id), directory_id in places.items():
            yield AssignReplicaRecord(topic_id, index, broker_id, directory_id)
    if image.next_producer_id:
        yield ProducerIdsRecord(_NO_BROKER, -1, image.next_producer_id)
