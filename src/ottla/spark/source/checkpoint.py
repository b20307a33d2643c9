"""Offsets as Spark stores them: JSON, in the form of the JVM connector, whose checkpoints are read here.

    {"orders": {"0": 12, "1": 7}}

An end offset has more in it where a batch that is run again would otherwise have to decide anew. Spark stores it
before the batch runs, and keeps to it.

`:start`: where the batch begins, of partitions that the offset before does not have. Of the first batch of a stream
these are all, because Spark does not store where a stream begins: after a crash in that batch records would be
skipped with startingOffsets=latest.

`:plan`: how the batch is split into tasks (`packing`). With it a batch depends on nothing but its two offsets,
whatever options and topics are by then. Without it, from the JVM connector or with targetPartitions=off, new
partitions are looked up when the batch is planned, and the options count that there are at that time.

    {":plan": {"version": 1, "targetPartitions": 8, ...}, ":start": {"orders": {"1": 0}}, "orders": {"0": 12, "1": 7}}

Invariant: everything in an offset is in a fixed order, since Spark compares offsets as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from ottla.client.topic_partition import TopicPartition
from ottla.errors import KafkaError
from ottla.spark.source.packing import Split

PartitionOffsets = dict[TopicPartition, int]
"""The next offset to be read, by partition."""

INITIAL: Final[Mapping[str, Any]] = {}
"""Where every stream begins, as far as Spark knows: before anything was decided."""

# No topic can have these names: colons are not allowed in them.
_PLAN: Final = ":plan"
_START: Final = ":start"

_VERSION: Final = 1
"""Of the way in which a plan becomes tasks: another way needs another number, and has to keep this one."""

_PLAN_FIELDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "targetPartitions": "target_partitions",
        "minPartitions": "min_partitions",
        "maxRecordsPerPartition": "max_records_per_partition",
        "leastOffsets": "least_offsets",
        "mostOffsets": "most_offsets",
    }
)
"""In their order; one that is not set is left out."""


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
    """The offsets in it, without what else the batch depends on."""
    return {
        TopicPartition(topic, _partition(topic, partition)): _offset(topic, partition, next_offset)
        for topic, partitions in offset.items()
        if topic not in (_PLAN, _START)
        for partition, next_offset in _mapping(topic, partitions).items()
    }


def end_offset(
    end: Mapping[TopicPartition, int],
    *,
    start: Mapping[TopicPartition, int] | None = None,
    plan: Split | None = None,
) -> dict[str, Any]:
    """Where a batch ends, with where it begins and how it is split, as far as that is to be stored."""
    stored: dict[str, Any] = {}
    if plan is not None:
        stored[_PLAN] = _plan_to_json(plan)
    if start is not None:
        stored[_START] = to_json(start)
    # Without any partition it still differs from INITIAL: the stream has begun.
    return {**stored, **to_json(end)} or {_START: {}}


def start_in(offset: Mapping[str, Any]) -> PartitionOffsets | None:
    """Where the batch that ends here begins, of partitions that the offset before does not have."""
    found = offset.get(_START)
    return None if found is None else from_json(_mapping(_START, found))


def plan_in(offset: Mapping[str, Any]) -> Split | None:
    """How the batch that ends here is split; None if that was not stored."""
    found = offset.get(_PLAN)
    if found is None:
        return None
    fields = dict(_mapping(_PLAN, found))
    version = fields.pop("version", None)
    if version != _VERSION:
        raise _unreadable(f"its {_PLAN} is of version {version!r}, of a newer ottla: go on with that one")
    for name, value in fields.items():
        if name not in _PLAN_FIELDS or not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise _unreadable(f"{value!r} is nothing that {name!r} of a {_PLAN} can be")
    return Split(**{_PLAN_FIELDS[name]: value for name, value in fields.items()})


def is_initial(offset: Mapping[str, Any]) -> bool:
    """Whether nothing was decided yet."""
    return not offset


def _plan_to_json(plan: Split) -> dict[str, int]:
    fields = {name: getattr(plan, field) for name, field in _PLAN_FIELDS.items()}
    return {"version": _VERSION, **{name: value for name, value in fields.items() if value is not None}}


def _mapping(name: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _unreadable(f"{name!r} has {value!r} where an object belongs")
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
