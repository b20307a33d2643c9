"""One node's replica of one partition: what it may serve as leader or follower.

The log is below; here are the rules of a replica: leader epochs, the high watermark, the last stable offset, how
many replicas must be in sync. No I/O and no waiting: an append and a read are calls, and the replica manager, through
which every change comes, wakes the requests that wait for it.

While all replicas hold the same log (volume.py), whatever the leader has appended is on every replica in sync, so
the high watermark is the log's end. A leader that has been replaced without knowing it is fenced by the log: it
knows the epoch of the newest leader.
"""

from __future__ import annotations

from typing import Final

from ottla._native.record_batch import Batch
from ottla.broker.log.log import Appended, Log, Slice
from ottla.broker.metadata.image import PartitionImage
from ottla.errors import (
    FencedLeaderEpochError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    UnknownLeaderEpochError,
    UnknownServerError,
)
from ottla.wire import Uuid

ACKS_ALL: Final = -1
NO_EPOCH: Final = -1

PartitionKey = tuple[str, int]
"""Topic and index."""


class Partition:
    """A replica. `topic`, `topic_id` and `index` never change; its role does."""

    def __init__(self, node_id: int, topic: str, topic_id: Uuid, index: int, log: Log) -> None:
        self.node_id = node_id
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.key: PartitionKey = (topic, index)
        self.log = log
        self.image = PartitionImage((), (), -1, NO_EPOCH, -1)

    def become(self, image: PartitionImage) -> None:
        """The controller has decided something about this partition."""
        self.image = image
        latest = self.log.epochs.latest
        # A node that lags behind learns of its leadership after another one has taken over; the log has its epoch.
        if self.is_leader and (latest is None or image.leader_epoch > latest):
            self.log.epochs.assign(image.leader_epoch, self.log.log_end_offset)

    def retire(self) -> None:
        """The replica is no longer served here."""
        self.image = PartitionImage((), (), -1, self.leader_epoch, self.image.partition_epoch)

    @property
    def leader_epoch(self) -> int:
        return self.image.leader_epoch

    @property
    def is_leader(self) -> bool:
        return self.image.leader == self.node_id

    @property
    def high_watermark(self) -> int:
        return self.log.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        high_watermark, unstable = self.high_watermark, self.log.first_unstable_offset
        return high_watermark if unstable is None else min(unstable, high_watermark)

    def check_leader(self) -> None:
        image, latest = self.image, self.log.epochs.latest
        if image.leader != self.node_id or (latest is not None and latest > image.leader_epoch):
            raise NotLeaderOrFollowerError(topic=self.topic, partition=self.index, broker=self.node_id)

    def check_replica(self, node_id: int) -> None:
        """Only a replica replicates."""
        if node_id not in self.image.replicas:
            raise NotLeaderOrFollowerError(topic=self.topic, partition=self.index, broker=self.node_id)

    def check_epoch(self, epoch: int) -> None:
        """A client says which epoch it believes to be the current one (KIP-320); -1 says nothing."""
        if epoch in (NO_EPOCH, self.image.leader_epoch):
            return
        error = FencedLeaderEpochError if epoch < self.leader_epoch else UnknownLeaderEpochError
        raise error(topic=self.topic, partition=self.index, broker=self.node_id)

    def append(self, batch: Batch, acks: int, min_in_sync: int, now_ms: int) -> Appended:
        """Appends a producer's batch."""
        self.check_leader()
        image = self.image
        if acks == ACKS_ALL:
            in_sync = len(image.isr)
            # A config cannot demand more replicas than the partition has.
            if in_sync < min_in_sync and in_sync < len(image.replicas):
                raise NotEnoughReplicasError(topic=self.topic, partition=self.index, broker=self.node_id)
        return self.log.append_as_leader(batch, image.leader_epoch, now_ms)

    def read(self, offset: int, max_bytes: int, *, committed: bool, at_least_one: bool) -> Slice:
        """What a consumer at `offset` may see."""
        upper = self.last_stable_offset if committed else self.high_watermark
        if not self.log.log_start_offset <= offset <= self.high_watermark:
            raise OffsetOutOfRangeError(topic=self.topic, partition=self.index, broker=self.node_id)
        return self.log.read(offset, max_bytes, upper, at_least_one=at_least_one)

    def fetch(self, offset: int, max_bytes: int, *, committed: bool, at_least_one: bool) -> Slice:
        """As `read`, in the form that Kafka's Fetch responses have."""
        high_watermark = self.high_watermark
        if not self.log.log_start_offset <= offset <= high_watermark:
            raise OffsetOutOfRangeError(topic=self.topic, partition=self.index, broker=self.node_id)
        upper = self.last_stable_offset if committed else high_watermark
        if max_bytes < 0 and offset < upper:
            # As in Kafka, which has no other response to it.
            raise UnknownServerError(f"a limit of {max_bytes} bytes")
        return self.log.fetch(offset, max_bytes, upper, at_least_one=at_least_one)

    def delete_records(self, before: int) -> int:
        """Moves the log's start; -1 stands for the high watermark. The new start."""
        self.check_leader()
        target = self.high_watermark if before == -1 else before
        if not 0 <= target <= self.high_watermark:
            raise OffsetOutOfRangeError(topic=self.topic, partition=self.index, broker=self.node_id)
        self.log.delete_records(target)
        return self.log.log_start_offset
