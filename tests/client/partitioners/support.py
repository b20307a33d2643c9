"""Loads for partitioners, and a producer's buffers in small: batches that open, fill up and are taken away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from ottla.client.partitioners import Load, Partitioner, TopicPartitioner
from ottla.runtime import Random
from ottla.wire.batch_header import BATCH_OVERHEAD

BATCH_SIZE = 1000


@dataclass
class FixedLoad:
    """A load that says what it is told; without more, all partitions are available and empty."""

    partitions: int
    available: tuple[int, ...] = ()
    slow: Collection[int] = ()
    waiting: Sequence[int] = ()

    def buffered(self) -> Sequence[int]:
        return self.waiting or [0] * self.partitions


def idle(partitions: int) -> FixedLoad:
    return FixedLoad(partitions, tuple(range(partitions)))


def topic_of(partitioner: Partitioner, seed: int = 1, batch_size: int = BATCH_SIZE) -> TopicPartitioner:
    return partitioner.for_topic("orders", batch_size=batch_size, random=Random(seed))


def unkeyed(topic: TopicPartitioner, load: Load, size: int = 100) -> int:
    return topic.choose(None, b"value", size, load)


def choices(topic: TopicPartitioner, load: Load, count: int) -> Counter[int]:
    """Of records so large that each is a run of its own."""
    return Counter(unkeyed(topic, load, size=10 * BATCH_SIZE) for _ in range(count))


@dataclass
class Buffers:
    """The batches of one topic's partitions, each the size it has reached; the last one of a partition is open."""

    topic: TopicPartitioner
    partitions: int
    batch_size: int = BATCH_SIZE
    batches: dict[int, list[int]] = field(default_factory=dict)
    sent: list[tuple[int, int]] = field(default_factory=list)
    slow: Collection[int] = ()

    def __post_init__(self) -> None:
        self.available = tuple(range(self.partitions))

    def buffered(self) -> Sequence[int]:
        return [sum(self.batches.get(partition, ())) for partition in range(self.partitions)]

    def append(self, size: int, key: bytes | None = None) -> int:
        partition = self.topic.choose(key, b"", size, self)
        if self._opens(partition, size) and self.topic.on_new_batch(partition):
            partition = self.topic.choose(key, b"", size, self)
        batches = self.batches.setdefault(partition, [])
        if self._opens(partition, size):
            batches.append(BATCH_OVERHEAD)
        batches[-1] += size
        return partition

    def send(self, partition: int) -> None:
        """Takes all that waits there away, the open batch too, as when it has lingered long enough."""
        self.sent += [(partition, size) for size in self.batches.pop(partition, ())]

    def _opens(self, partition: int, size: int) -> bool:
        batches = self.batches.get(partition)
        return not batches or batches[-1] + size > self.batch_size
