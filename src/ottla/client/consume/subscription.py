"""What a consumer reads: topics by name, topics by pattern, or single partitions, each with a start of its own.

Not here: which of it exists (assignment.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ottla.client.consume.offset_spec import Start
from ottla.client.metadata import check_name
from ottla.client.topic_partition import TopicPartition
from ottla.errors import ConfigurationError

Subscribed: TypeAlias = (
    str | re.Pattern[str] | TopicPartition | Mapping[TopicPartition, Start] | Iterable["Subscribed"]
)


@dataclass(frozen=True, slots=True)
class Subscription:
    """Whole topics (`topics`), those that match (`patterns`), and single partitions with their starts.

    >>> Subscription.of("orders", TopicPartition("audit", 0)).named
    ('orders', 'audit')
    """

    topics: tuple[str, ...] = ()
    patterns: tuple[re.Pattern[str], ...] = ()
    partitions: Mapping[TopicPartition, Start | None] = field(default_factory=dict)

    @classmethod
    def of(cls, *what: Subscribed) -> Subscription:
        """From what a user wrote: a ConfigurationError for anything that cannot be read."""
        topics: dict[str, None] = {}
        patterns: dict[re.Pattern[str], None] = {}
        partitions: dict[TopicPartition, Start | None] = {}
        for each in what:
            _collect(each, topics, patterns, partitions)
        if not (topics or patterns or partitions):
            raise _unfit("nothing")
        for partition in partitions:
            if partition.topic in topics:
                raise ConfigurationError(
                    f"{partition} is named twice: by itself, and with the whole topic {partition.topic}",
                    option="topics",
                )
        return cls(tuple(topics), tuple(patterns), partitions)

    @property
    def named(self) -> tuple[str, ...]:
        """The topics that have to exist."""
        return tuple(dict.fromkeys((*self.topics, *(partition.topic for partition in self.partitions))))

    def matches(self, topic: str, internal: bool) -> bool:
        """Whether a whole topic belongs to it. Patterns match whole names, as Java's do, and no internal topics."""
        if topic in self.topics:
            return True
        return not internal and any(pattern.fullmatch(topic) for pattern in self.patterns)

    def chosen(self, topic: str) -> dict[int, Start | None]:
        """The single partitions of a topic, with their own starts."""
        return {each.partition: start for each, start in self.partitions.items() if each.topic == topic}


def _collect(
    each: object,
    topics: dict[str, None],
    patterns: dict[re.Pattern[str], None],
    partitions: dict[TopicPartition, Start | None],
) -> None:
    if isinstance(each, str) and each:
        check_name(each)
        topics[each] = None
    elif isinstance(each, re.Pattern) and isinstance(each.pattern, str):
        patterns[each] = None
    elif isinstance(each, TopicPartition):
        partitions[_checked(each)] = None
    elif isinstance(each, Mapping):
        for partition, start in each.items():
            if not isinstance(partition, TopicPartition):
                raise _unfit(f"the key {partition!r}")
            partitions[_checked(partition)] = start
    elif isinstance(each, Iterable) and not isinstance(each, str | bytes | tuple):
        for inner in each:
            _collect(inner, topics, patterns, partitions)
    else:
        raise _unfit(repr(each))


def _checked(partition: TopicPartition) -> TopicPartition:
    topic: object = partition.topic
    number: object = partition.partition
    if not isinstance(topic, str) or not isinstance(number, int):
        raise _unfit(f"{partition!r}, without a str and an int,")
    if not partition.topic or partition.partition < 0:
        raise _unfit(repr(partition))
    check_name(partition.topic)
    return partition


def _unfit(what: str) -> ConfigurationError:
    return ConfigurationError(
        f"{what} cannot be consumed: name topics, re.compile patterns, TopicPartitions, or a mapping from "
        "TopicPartition to where it starts",
        option="topics",
    )
