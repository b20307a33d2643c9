"""Records with a key: the same key, the same partition, in agreement with the other clients of Kafka.

A key goes where its hash says, also while that partition has no leader: order per key is worth the wait. Records
without a key stay together batch by batch, at random.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from ottla._native.checksums import murmur2
from ottla._native.sticky import Murmur2Choice
from ottla.client.partitioners.base import ColumnsMode, Load, Partitioner, TopicPartitioner
from ottla.client.partitioners.sticky import Sticky, StickyTopic, another_partition
from ottla.runtime import Random

__all__ = [
    "ConsistentRandomPartitioner",
    "HashPartitioner",
    "Murmur2Topic",
    "crc32_partition",
    "murmur2_partition",
]


def murmur2_partition(key: bytes, partitions: int) -> int:
    """Where Kafka's own client sends a key. It clears the sign of the hash, which is not the absolute value."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def crc32_partition(key: bytes, partitions: int) -> int:
    """Where librdkafka sends a key unless configured otherwise: the whole hash, unsigned."""
    return zlib.crc32(key) % partitions


@dataclass(frozen=True)
class HashPartitioner(Partitioner):
    """By key as Kafka's own client; what has none stays together until its batch is full (KIP-480).

    librdkafka's name for it is `murmur2_random`.
    """

    def for_topic(self, topic: str, *, batch_size: int, random: Random) -> TopicPartitioner:
        return Murmur2Topic(_batch_by_batch(batch_size, random))

    def columns_mode(self) -> ColumnsMode:
        return ColumnsMode.BY_KEY


@dataclass(frozen=True)
class ConsistentRandomPartitioner(Partitioner):
    """By key as librdkafka and what is built on it, for topics that they write too.

    For them a key that is empty is none.
    """

    def for_topic(self, topic: str, *, batch_size: int, random: Random) -> TopicPartitioner:
        return _Crc32Topic(_batch_by_batch(batch_size, random))

    def columns_mode(self) -> ColumnsMode:
        return ColumnsMode.BY_ROW


class Murmur2Topic(Murmur2Choice, TopicPartitioner):
    """By the murmur2 of the key, or in the runs it is given for records without."""

    __slots__ = ()


class _Crc32Topic(StickyTopic):
    __slots__ = ()

    def choose(self, key: bytes | None, value: bytes | None, size: int, load: Load) -> int:
        if not key:
            return self.sticky.choose(size, load)
        return crc32_partition(key, load.partitions)


def _batch_by_batch(batch_size: int, random: Random) -> Sticky:
    def pick(load: Load, last: int) -> int:
        return another_partition(load, last, random)

    return Sticky(pick, enough=0, most=batch_size)
