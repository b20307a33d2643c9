"""A function of the user's as a partitioner. What it returns is checked: a partition that is not there ends here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import index
from typing import TypeAlias

from ottla.client.partitioners.base import ColumnsMode, Load, Partitioner, TopicPartitioner
from ottla.runtime import Random

__all__ = ["FunctionPartitioner", "PartitionFunction"]

PartitionFunction: TypeAlias = Callable[[str, bytes | None, bytes | None, int], int]
"""(topic, key, value, number of partitions) -> partition"""


@dataclass(frozen=True)
class FunctionPartitioner(Partitioner):
    """Where `function(topic, key, value, partitions)` says.

    >>> by_first_byte = FunctionPartitioner(lambda topic, key, value, partitions: (key or b"a")[0] % partitions)
    """

    function: PartitionFunction

    def for_topic(self, topic: str, *, batch_size: int, random: Random) -> TopicPartitioner:
        return _FunctionTopic(topic, self.function)

    def columns_mode(self) -> ColumnsMode:
        return ColumnsMode.BY_ROW


class _FunctionTopic(TopicPartitioner):
    __slots__ = ("_function", "_topic")

    def __init__(self, topic: str, function: PartitionFunction) -> None:
        self._topic = topic
        self._function = function

    def choose(self, key: bytes | None, value: bytes | None, size: int, load: Load) -> int:
        returned = self._function(self._topic, key, value, load.partitions)
        try:
            partition = index(returned)
        except TypeError:
            raise TypeError(
                f"the partitioner {self._name()} returned {returned!r} for topic {self._topic!r}, not an int"
            ) from None
        if not 0 <= partition < load.partitions:
            raise ValueError(
                f"the partitioner {self._name()} chose partition {partition} of topic {self._topic!r}, "
                f"which has partitions 0 to {load.partitions - 1}"
            )
        return partition

    def _name(self) -> str:
        return getattr(self._function, "__qualname__", None) or repr(self._function)
