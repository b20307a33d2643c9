"""Records without a key stay together: one partition for a run of them, so that batches fill (KIP-480, KIP-794).

Here is when a run ends. Which partition comes next is a `Pick`, given from outside; the two that only roll dice are
here too. Records with a key are no part of a run.

Invariant: a run goes on only on a partition that exists, and one without a leader only while none has one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import TypeAlias

from ottla.client.partitioners.base import Load, TopicPartitioner
from ottla.runtime import Random
from ottla.wire.batches import BATCH_OVERHEAD

__all__ = ["Pick", "Sticky", "StickyTopic", "another_partition", "any_partition", "candidates"]

Pick: TypeAlias = Callable[[Load, int], int]
"""The next partition, given the last one; that is -1 at first."""


class Sticky:
    """One partition after another, each for a run of records.

    A run ends with a batch once it has `enough` bytes, the record that opens the next one included; at `most` bytes
    it ends anyway. Ends elsewhere would leave a batch behind that is sent nearly empty (KAFKA-14156).
    """

    __slots__ = ("_available", "_bytes", "_enough", "_most", "_partition", "_pick")

    def __init__(self, pick: Pick, *, enough: int, most: int) -> None:
        self._pick = pick
        self._enough = enough
        self._most = most
        self._partition = -1
        self._bytes = most
        self._available: tuple[int, ...] | None = None

    def choose(self, size: int, load: Load) -> int:
        if (
            self._bytes >= self._most
            or load.available is not self._available
            or self._partition >= load.partitions
        ):
            self._review(load)
        self._bytes += size
        return self._partition

    def on_new_batch(self, partition: int) -> bool:
        if partition != self._partition or self._bytes < self._enough:
            return False
        self._bytes = self._most
        return True

    def _review(self, load: Load) -> None:
        self._available = load.available
        if self._bytes >= self._most or not _is_usable(self._partition, load):
            self._partition = self._pick(load, self._partition)
            # Kafka's client, too, counts the header of the batch that a run begins with.
            self._bytes = BATCH_OVERHEAD


class StickyTopic(TopicPartitioner):
    """Runs only: keys do not matter here. They do to those who override `choose`."""

    __slots__ = ("_sticky",)

    def __init__(self, sticky: Sticky) -> None:
        self._sticky = sticky

    def choose(self, key: bytes | None, value: bytes | None, size: int, load: Load) -> int:
        return self._sticky.choose(size, load)

    def on_new_batch(self, partition: int) -> bool:
        return self._sticky.on_new_batch(partition)


def candidates(load: Load) -> Sequence[int]:
    """Where records can go: without any leader to any partition, to wait there until it has one."""
    return load.available or range(load.partitions)


def any_partition(load: Load, random: Random) -> int:
    options = candidates(load)
    return options[random.randrange(len(options))]


def another_partition(load: Load, last: int, random: Random) -> int:
    """Any but the last, if there is another."""
    options = candidates(load)
    place = bisect_left(options, last)
    if len(options) == 1 or place == len(options) or options[place] != last:
        return any_partition(load, random)
    chosen = random.randrange(len(options) - 1)
    return options[chosen + 1 if chosen >= place else chosen]


def _is_usable(partition: int, load: Load) -> bool:
    return partition < load.partitions and (not load.available or partition in load.available)
