"""One partition after the other, record by record: even, and with the smallest batches of all."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from dataclasses import dataclass

from ottla.client.partitioners.base import ColumnsMode, Load, Partitioner, TopicPartitioner
from ottla.client.partitioners.sticky import candidates
from ottla.runtime import Random

__all__ = ["RoundRobinPartitioner"]


@dataclass(frozen=True)
class RoundRobinPartitioner(Partitioner):
    """Each record to the next partition that has a leader; keys do not matter."""

    def for_topic(self, topic: str, *, batch_size: int, random: Random) -> TopicPartitioner:
        return _RoundRobinTopic()

    def columns_mode(self) -> ColumnsMode:
        return ColumnsMode.IN_TURN


class _RoundRobinTopic(TopicPartitioner):
    """Remembers the last partition and not a count, so that a leader that comes or goes upsets no turn.

    A new batch changes nothing. Where it made the turn go on, every second partition was left out (KAFKA-9965).
    """

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = -1

    def choose(self, key: bytes | None, value: bytes | None, size: int, load: Load) -> int:
        options = candidates(load)
        following = bisect_right(options, self._last)
        self._last = options[following if following < len(options) else 0]
        return self._last

    def turns(self, count: int, load: Load) -> array[int]:
        options = candidates(load)
        following = bisect_right(options, self._last)
        circle = array("i", [*options[following:], *options[:following]])
        rounds, rest = divmod(count, len(circle))
        chosen = circle * rounds + circle[:rest]
        if chosen:
            self._last = chosen[-1]
        return chosen
