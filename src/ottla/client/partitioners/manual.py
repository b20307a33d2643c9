"""No choice at all: every record names its partition."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.client.partitioners.base import ColumnsMode, Load, Partitioner, TopicPartitioner
from ottla.runtime import Random

__all__ = ["ManualPartitioner"]


@dataclass(frozen=True)
class ManualPartitioner(Partitioner):
    """For programs that place each record themselves: one that names no partition is an error, key or not."""

    def for_topic(self, topic: str, *, batch_size: int, random: Random) -> TopicPartitioner:
        return _ManualTopic(topic)

    def columns_mode(self) -> ColumnsMode:
        return ColumnsMode.NAMED


class _ManualTopic(TopicPartitioner):
    __slots__ = ("_topic",)

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def choose(self, key: bytes | None, value: bytes | None, size: int, load: Load) -> int:
        raise ValueError(
            f"a record for topic {self._topic!r} names no partition, and the partitioner is 'manual': "
            "give the record its partition, or choose another partitioner"
        )
