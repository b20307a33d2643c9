"""The replicas of one node: which partitions it hosts and leads, and everything that changes them.

The metadata image says which replicas a node has and which of them lead; a change of the image becomes a change of
them in `apply` alone. Handlers read from a partition directly, but appends and deletions come through here, because
requests may be parked for them (delayed.py).

All nodes of a cluster mount one volume today, so every replica of a partition holds the same log (volume.py). A
replica is opened, led and dropped here alone: that is where a log of its own, and the fetching of a follower, belong.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING

from ottla.broker.configs import log_config
from ottla.broker.replication.partition import Partition, PartitionKey
from ottla.errors import KafkaStorageError, NotLeaderOrFollowerError, UnknownTopicOrPartitionError

if TYPE_CHECKING:
    from ottla._native.record_batch import Batch
    from ottla.broker.configs.node import NodeConfigs
    from ottla.broker.log.log import Appended
    from ottla.broker.log.volume import Volume
    from ottla.broker.metadata.image import Delta, MetadataImage, PartitionDelta
    from ottla.broker.replication.delayed import Purgatory
    from ottla.wire import Uuid

_log = logging.getLogger("ottla.broker.replication.replica_manager")


class ReplicaManager:
    """The partitions of a node, by topic and index. Time comes with each call, in milliseconds."""

    def __init__(
        self, node_id: int, image: MetadataImage, configs: NodeConfigs, volume: Volume, purgatory: Purgatory
    ) -> None:
        self.partitions: dict[PartitionKey, Partition] = {}
        self.purgatory = purgatory
        self._node_id = node_id
        self._image = image
        self._configs = configs
        self._volume = volume

    def hosted(self, topic: str, index: int) -> Partition:
        """The replica of a partition on this node."""
        partition = self.partitions.get((topic, index))
        if partition is not None:
            return partition
        if self._image.partition(topic, index) is None:
            raise UnknownTopicOrPartitionError(topic=topic, partition=index, broker=self._node_id)
        raise NotLeaderOrFollowerError(topic=topic, partition=index, broker=self._node_id)

    def led(self, topic: str, index: int, epoch: int = -1) -> Partition:
        """The same, if this node leads it, in the epoch that the client believes in."""
        partition = self.hosted(topic, index)
        partition.check_epoch(epoch)
        partition.check_leader()
        return partition

    # What clients change

    def append(self, partition: Partition, batch: Batch, acks: int, now_ms: int) -> Appended:
        """Appends a producer's batch, and wakes the requests that have waited for it."""
        min_in_sync: int = self._configs.topic(partition.topic).value("min.insync.replicas")
        appended = partition.append(batch, acks, min_in_sync, now_ms)
        if not appended.duplicate:
            self.purgatory.appended(partition.key, batch.size)
        return appended

    def delete_records(self, partition: Partition, before: int) -> int:
        """Moves the start of a partition's log; the new start."""
        start = partition.delete_records(before)
        self.purgatory.changed(partition.key)
        return start

    # What the controller changes

    def apply(self, delta: Delta, now_ms: int) -> None:
        """The image has changed: replicas come, go and change their roles."""
        for change in delta.partitions.values():
            self._change(change, now_ms)

    def _change(self, change: PartitionDelta, now_ms: int) -> None:
        key = (change.topic, change.index)
        partition = self.partitions.get(key)
        if change.new is None or self._node_id not in change.new.replicas:
            # A topic that was deleted and made again in one go is another one under the same name.
            if partition is not None and partition.topic_id == change.topic_id:
                self._drop(key, delete=change.new is None)
            return
        if partition is not None and partition.topic_id != change.topic_id:
            self._drop(key, delete=True)
            partition = None
        if partition is None:
            partition = self._open(change.topic, change.index, change.topic_id, now_ms)
        partition.become(change.new)
        self.purgatory.changed(key)

    def _open(self, topic: str, index: int, topic_id: Uuid, now_ms: int) -> Partition:
        directory = log_directory(topic, index, topic_id)
        log = self._volume.acquire(directory, log_config(self._configs.topic(topic)), now_ms)
        partition = self.partitions[topic, index] = Partition(self._node_id, topic, topic_id, index, log)
        return partition

    def _drop(self, key: PartitionKey, *, delete: bool = False) -> None:
        partition = self.partitions.pop(key)
        partition.retire()
        self.purgatory.changed(key)
        self._volume.release(
            log_directory(partition.topic, partition.index, partition.topic_id), delete=delete
        )

    def reconfigure(self, topics: Collection[str]) -> None:
        """Other configs apply to these topics."""
        for (topic, _), partition in self.partitions.items():
            if topic in topics:
                partition.log.reconfigure(log_config(self._configs.topic(topic)))

    # What time changes

    def enforce_retention(self, now_ms: int) -> None:
        """Deletes what the topics that this node leads no longer retain."""
        for partition in self.partitions.values():
            if partition.is_leader:
                try:
                    partition.log.enforce_retention(now_ms)
                except KafkaStorageError as error:
                    # That log only: it is as it was, or refuses to be used. Next time it may work.
                    _log.error("node %s: %s", self._node_id, error)

    def expire_producers(self, now_ms: int) -> None:
        """Forgets the producers that have been idle for too long."""
        for partition in self.partitions.values():
            partition.log.producers.expire(now_ms)

    def close(self) -> None:
        """Lets every replica go; their logs stay."""
        for key in list(self.partitions):
            try:
                self._drop(key)
            except OSError:
                _log.exception("node %s cannot close its replica of %s-%s", self._node_id, *key)


def log_directory(topic: str, index: int, topic_id: Uuid) -> str:
    """Below the topic's id: while a slow node still has a deleted topic, its successor needs another directory."""
    return f"{topic_id}/{topic}-{index}"
