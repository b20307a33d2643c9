"""One micro-batch of a stream: how much of what there is it takes, and which ranges that are.

How much is for maxOffsetsPerTrigger, minOffsetsPerTrigger and maxTriggerDelay to say, with the JVM connector's
arithmetic; and how long to rest before the next request when there was nothing. No I/O: what there is and what time
it is come with the call, the first offsets of new partitions through a function that comes with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeAlias

from ottla.client.topic_partition import TopicPartition
from ottla.spark.options.topics import Topics
from ottla.spark.source.checkpoint import PartitionOffsets
from ottla.spark.source.data_loss import check_micro_batch
from ottla.spark.source.ranges import OffsetRange

_PART_OF_IDLE_TIME: Final = 8
"""A request finds what has come while it was not sent: so late, measured by how long there had been nothing."""

FirstOffsets: TypeAlias = Callable[[Collection[TopicPartition]], PartitionOffsets]
"""The first offsets of those of the given partitions that exist."""


def at_most(
    limit: int, start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]
) -> PartitionOffsets:
    """Ends with about `limit` records in all, each partition in proportion to what it has.

    `start` has the beginning of new partitions too; one that is missing there is left as it is, and so is one that
    ends before its start: both are reported when the batch is planned.

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

    The first one never waits: how long ago the batch before it was, in another process, is not known.
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
    """A pause before brokers get a request again whose last response had nothing new.

    A pause, and not the old response once more: Spark takes "nothing new" for the truth at the time of its call, and
    `processAllAvailable()` returns on it. It grows with the time for which nothing has come: rows that follow those
    of the last batch are found at once, since the pause would be a part of their latency, and a stream that is idle
    sends few requests.
    """

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._offset: Mapping[str, Any] | None = None
        self._idle_since = self._until = -math.inf

    def begin(self, offset: Mapping[str, Any], now: float) -> None:
        """There was nothing new behind this offset."""
        if offset != self._offset:
            self._offset, self._idle_since = offset, now
        self._until = now + min((now - self._idle_since) / _PART_OF_IDLE_TIME, self._longest)

    def left(self, offset: Mapping[str, Any], now: float) -> float:
        """The seconds to wait before the next request for what is behind this offset."""
        return max(self._until - now, 0.0) if offset == self._offset else 0.0


def planned(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    first_offsets: FirstOffsets,
    *,
    topics: Topics,
    fail_on_data_loss: bool,
) -> list[OffsetRange]:
    """The ranges between the two, in the order of topics and partitions; some may be empty.

    Partitions come and go while a stream runs: new ones are read from their first record, and what is missing is
    reported (`data_loss`).
    """
    found = first_offsets(end.keys() - start.keys())
    check_micro_batch(start, end, found, topics=topics, fail=fail_on_data_loss)
    begin = {**start, **found}
    return [OffsetRange(tp.topic, tp.partition, begin[tp], end[tp]) for tp in sorted(end) if tp in begin]
