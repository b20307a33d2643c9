"""The default, as in Kafka's own client since KIP-794: keys by murmur2, the rest in runs of about one batch.

A run is bounded by its bytes and not by the batch alone: a batch that leaves early, because its leader is quick, is a
small one, and if each batch ended a run, the quick partitions would get the fewest records. How much waits for each
partition decides where the next run goes instead.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from ottla.client.partitioners.base import ColumnsMode, Load, Partitioner, TopicPartitioner
from ottla.client.partitioners.keys import Murmur2Topic
from ottla.client.partitioners.sticky import Sticky, StickyTopic, any_partition
from ottla.runtime import Random

__all__ = ["DefaultPartitioner", "partition_by_load"]


@dataclass(frozen=True)
class DefaultPartitioner(Partitioner):
    """By key; what has none goes to one partition for about `batch_size` bytes, then to one with a short queue.

    `ignore_keys` is Kafka's `partitioner.ignore.keys`, `adaptive` its `partitioner.adaptive.partitioning.enable`:
    without it the next partition is any that has a leader, and slow ones are not avoided.
    """

    ignore_keys: bool = False
    adaptive: bool = True

    def for_topic(self, topic: str, *, batch_size: int, random: Random) -> TopicPartitioner:
        def by_load(load: Load, last: int) -> int:
            return partition_by_load(load, batch_size, random)

        def uniformly(load: Load, last: int) -> int:
            return any_partition(load, random)

        pick = by_load if self.adaptive else uniformly
        sticky = Sticky(pick, enough=batch_size, most=2 * batch_size)
        return StickyTopic(sticky) if self.ignore_keys else Murmur2Topic(sticky)

    def columns_mode(self) -> ColumnsMode:
        return ColumnsMode.ONE if self.ignore_keys else ColumnsMode.BY_KEY


def partition_by_load(load: Load, batch_size: int, random: Random) -> int:
    """One with a leader, at random, the likelier the fewer batches wait for it (KIP-794).

    Queues of 0, 3 and 1 batches weigh 4, 1 and 3: what they lack to one more than the longest. Added up, 4, 5, 8 are
    the ends of ranges, and a number below 8 falls into one of them.
    """
    waiting = load.buffered()
    options = _responsive(load, waiting)
    if not options:
        return any_partition(load, random)
    # In batches, not bytes: half a batch more or less is no reason to avoid a partition.
    queues = [-(-waiting[partition] // batch_size) for partition in options]
    longest = max(queues)
    ends = list(accumulate(longest + 1 - queue for queue in queues))
    return options[bisect_right(ends, random.randrange(ends[-1]))]


def _responsive(load: Load, waiting: Sequence[int]) -> Sequence[int]:
    slow = load.slow
    if not slow:
        return load.available
    # A slow leader for which nothing waits is worth a try: with nothing to send it could never prove itself.
    return [partition for partition in load.available if partition not in slow or not waiting[partition]]
