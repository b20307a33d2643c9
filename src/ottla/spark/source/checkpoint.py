"""Offsets as Spark stores them: JSON, in the form of the JVM connector, whose checkpoints are read here.

    {"orders": {"0": 12, "1": 7}}

The first end offset of a stream also carries where the stream began, because Spark does not store that: after a
crash in the first batch it would otherwise be decided anew, and with startingOffsets=latest records would be skipped.

    {":start": {"orders": {"0": 3, "1": 7}}, "orders": {"0": 12, "1": 7}}

Invariant: topics and partitions are in a fixed order, since Spark compares offsets as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.client.topic_partition import TopicPartition
from ottla.errors import KafkaError

PartitionOffsets = dict[TopicPartition, int]
"""The next offset to be read, by partition."""

INITIAL: Final[Mapping[str, Any]] = {}
"""Where every stream begins, as far as Spark knows: before anything was decided."""

_START: Final = ":start"
"""No topic can have this name: colons are not allowed in them."""


class OffsetFormatError(KafkaError, ValueError):
    """An offset out of a checkpoint that is not one of this source, nor of the JVM connector."""


def to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, Any]:
    """
    >>> to_json({TopicPartition("b", 10): 1, TopicPartition("b", 9): 2, TopicPartition("a", 0): 3})
    {'a': {'0': 3}, 'b': {'9': 2, '10': 1}}
    """
    topics: dict[str, Any] = {}
    for topic, partition in sorted(offsets):
        topics.setdefault(topic, {})[str(partition)] = offsets[TopicPartition(topic, partition)]
    return topics


def from_json(offset: Mapping[str, Any]) -> PartitionOffsets:
    """The offsets in it, without where the stream began."""
    return {
        TopicPartition(topic, _partition(topic, partition)): _offset(topic, partition, next_offset)
        for topic, partitions in offset.items()
        if topic != _START
        for partition, next_offset in _mapping(topic, partitions).items()
    }


def with_start(end: Mapping[TopicPartition, int], start: Mapping[TopicPartition, int]) -> dict[str, Any]:
    """The first end offset of a stream: where its first batch ends, and where it began."""
    return {_START: to_json(start), **to_json(end)}


def stored(end: Mapping[TopicPartition, int]) -> dict[str, Any]:
    """A later end offset. Without any partition it still differs from INITIAL: the stream has begun."""
    return to_json(end) or {_START: {}}


def start_in(offset: Mapping[str, Any]) -> PartitionOffsets | None:
    """Where the stream began, if this is its first end offset."""
    found = offset.get(_START)
    return None if found is None else from_json(_mapping(_START, found))


def is_initial(offset: Mapping[str, Any]) -> bool:
    """Whether nothing was decided yet."""
    return not offset


def _mapping(name: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _unreadable(f"{name!r} has {value!r} where an object with partitions belongs")
    return value


def _partition(topic: str, number: str) -> int:
    # Not int() alone: it takes "1_0" and " 1" as well.
    if not (number.isascii() and number.isdigit()):
        raise _unreadable(f"{number!r} is not the number of a partition of {topic!r}")
    return int(number)


def _offset(topic: str, partition: str, offset: object) -> int:
    if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
        raise _unreadable(f"{offset!r} is not an offset of {topic}-{partition}")
    return offset


def _unreadable(reason: str) -> OffsetFormatError:
    return OffsetFormatError(
        f"the checkpoint has an offset that is not Kafka's: {reason}. Expected is a form like"
        ' {"topic": {"0": 12}}; if the checkpoint belongs to another source, choose another checkpointLocation'
    )
