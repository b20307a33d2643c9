"""How much of what there is one micro-batch takes: maxOffsetsPerTrigger, minOffsetsPerTrigger, maxTriggerDelay.

With the JVM connector's arithmetic; and how long to rest before asking again when there was nothing. No I/O: what
there is and what time it is are told by whoever asks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ottla.client.topic_partition import TopicPartition
from ottla.spark.offsets import PartitionOffsets


def at_most(
    limit: int, start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]
) -> PartitionOffsets:
    """Ends with about `limit` records in all, each partition in proportion to what it has.

    `start` has the beginning of new partitions too; one that is missing there is left as it is, and so is one that
    ends before its start: both are for whoever plans the batch to report.

    >>> orders, audit = TopicPartition("orders", 0), TopicPartition("audit", 0)
    >>> sorted(at_most(10, {orders: 0, audit: 5}, {orders: 90, audit: 15}).values())
    [6, 9]
    """
    sizes = {
        partition: end - start[partition]
        for partition, end in latest.items()
        if partition in start and end > start[partition]
    }
    total = float(sum(sizes.values()))
    return {
        partition: min(end, start[partition] + _share(limit, sizes[partition], total))
        if partition in sizes
        else end
        for partition, end in latest.items()
    }


def _share(limit: int, size: int, total: float) -> int:
    share = limit * (size / total)
    # A small partition beside large ones still moves.
    return math.ceil(share) if share < 1 else math.floor(share)


class BatchDelay:
    """minOffsetsPerTrigger: a batch waits until it is worth it, though not longer than maxTriggerDelay.

    The first one never waits: nobody knows how long ago the batch before it was, in another process.
    """

    def __init__(self, least: int, longest: float) -> None:
        self._least = least
        self._longest = longest
        self._last = -math.inf

    def holds(
        self, start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], now: float
    ) -> bool:
        """Whether the batch is to wait; if not, its time counts from now on."""
        if now - self._last < self._longest and _new(start, latest) < self._least:
            return True
        self._last = now
        return False


def _new(start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> int:
    return sum(end - start.get(partition, 0) for partition, end in latest.items())


class Rest:
    """A pause before a question is asked again that had no new answer.

    A pause, and not the old answer once more: Spark takes "nothing new" for the truth at the time of its question,
    and `processAllAvailable()` returns on it.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._offset: Mapping[str, Any] | None = None
        self._until = -math.inf

    def begin(self, offset: Mapping[str, Any], now: float) -> None:
        """There was nothing new behind this offset."""
        self._offset, self._until = offset, now + self._seconds

    def left(self, offset: Mapping[str, Any], now: float) -> float:
        """The seconds to wait before asking what is behind this offset."""
        return max(self._until - now, 0.0) if offset == self._offset else 0.0
