"""A batch that is appended and has to be on every replica in sync before its sender learns of it: acks=all.

Both a Produce and a WriteTxnMarkers wait for such batches (delayed.py), and tell their senders in the same way what
became of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import (
    BrokerError,
    NotEnoughReplicasAfterAppendError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
)

if TYPE_CHECKING:
    from ottla.broker.replication.partition import Partition


class AwaitedAppend:
    """What was appended to `partition`, up to `end_offset`."""

    def __init__(self, partition: Partition, end_offset: int) -> None:
        self.partition = partition
        self.end_offset = end_offset
        self._leading_since = partition.leading_since

    @property
    def is_over(self) -> bool:
        return self._has_lost_leader or self.partition.has_committed(self.end_offset)

    @property
    def _has_lost_leader(self) -> bool:
        return not self.partition.is_leader or self.partition.leading_since != self._leading_since

    def error(self) -> BrokerError | None:
        """Why it is not known to be on all replicas, at the end of the wait."""
        partition = self.partition
        if self._has_lost_leader:
            return NotLeaderOrFollowerError(topic=partition.topic, partition=partition.index)
        if not partition.has_committed(self.end_offset):
            return RequestTimedOutError(topic=partition.topic, partition=partition.index)
        if len(partition.maximal_isr) < partition.effective_min_isr:
            return NotEnoughReplicasAfterAppendError(topic=partition.topic, partition=partition.index)
        return None
