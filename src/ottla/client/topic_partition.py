"""TopicPartition: the name of one log, as everything in the client says it."""

from __future__ import annotations

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """A partition of a topic.

    >>> str(TopicPartition("orders", 3))
    'orders-3'
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def check_partition(given: object) -> TopicPartition:
    """A TypeError for what is no partition."""
    if not isinstance(given, TopicPartition):
        raise TypeError(f"a partition is meant, such as TopicPartition('orders', 0), not {given!r}")
    return given
