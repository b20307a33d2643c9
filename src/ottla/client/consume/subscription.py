"""What a consumer reads: topics by name, topics by pattern, or single partitions, and where these begin and end.

A topic that the program purges is read no more. One that was named is not subscribed to any more. A pattern stays,
and leaves the topic out as it is: one that is created again under the name has another id, and matches.

Not here: which of it exists (assignment.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ottla.client.consume.offset_spec import OffsetSpec, Start, Stops, stop_spec
from ottla.client.metadata import check_name
from ottla.client.topic_partition import TopicPartition
from ottla.config import ClientConfig
from ottla.errors import ConfigurationError
from ottla.wire import ZERO_UUID, Uuid

_MOST_PURGED: Final = 10_000
"""Ids of purged topics to remember: a program that purges topics without end deletes them, too."""


@dataclass(frozen=True, slots=True)
class ServerPattern:
    """Topics that the group's coordinator finds, by a regular expression of RE2, which has to match whole names.

    For groups with group_protocol="consumer" (KIP-848, Kafka 4.0 and later):

        kafka.consume(ottla.ServerPattern("orders-.*"), group="billing")
    """

    pattern: str

    def __post_init__(self) -> None:
        given: object = self.pattern
        if not isinstance(given, str):
            raise TypeError(f"ServerPattern({given!r}): the expression is a str, in the syntax of RE2")
        if not given:
            raise ValueError("ServerPattern(''): an empty expression matches no topic")


Subscribed: TypeAlias = (
    str
    | re.Pattern[str]
    | ServerPattern
    | TopicPartition
    | Mapping[TopicPartition, Start]
    | Iterable["Subscribed"]
)


@dataclass(frozen=True, slots=True)
class Subscription:
    """Whole topics (`topics`), those that match (`patterns`), and single partitions with their starts.

    What matches the `server_pattern` only the coordinator of a group knows.

    >>> Subscription.of("orders", TopicPartition("audit", 0)).named
    ('orders', 'audit')
    """

    topics: tuple[str, ...] = ()
    patterns: tuple[re.Pattern[str], ...] = ()
    partitions: Mapping[TopicPartition, Start | None] = field(default_factory=dict)
    server_pattern: ServerPattern | None = None
    purged: Mapping[str, Uuid] = field(default_factory=dict)
    """Topics that were purged, with the ids they had then; ZERO_UUID stands for any."""

    @classmethod
    def of(cls, *what: Subscribed) -> Subscription:
        """From what a user wrote: a ConfigurationError for anything that cannot be read."""
        topics: dict[str, None] = {}
        patterns: dict[re.Pattern[str], None] = {}
        partitions: dict[TopicPartition, Start | None] = {}
        server_patterns: dict[ServerPattern, None] = {}
        for each in what:
            _collect(each, topics, patterns, partitions, server_patterns)
        if not (topics or patterns or partitions or server_patterns):
            raise _unfit("nothing")
        if len(server_patterns) > 1:
            raise ConfigurationError(
                f"{', '.join(map(repr, server_patterns))}: a member has one ServerPattern; join them with |",
                option="topics",
            )
        for partition in partitions:
            if partition.topic in topics:
                raise ConfigurationError(
                    f"{partition} is named twice: by itself, and with the whole topic {partition.topic}",
                    option="topics",
                )
        return cls(tuple(topics), tuple(patterns), partitions, next(iter(server_patterns), None))

    @property
    def needs_all_topics(self) -> bool:
        """Whether metadata has to have all topics, since it is not known which of them are read."""
        return bool(self.patterns) or self.server_pattern is not None

    @property
    def named(self) -> tuple[str, ...]:
        """The topics that have to exist."""
        return tuple(dict.fromkeys((*self.topics, *(partition.topic for partition in self.partitions))))

    @property
    def is_empty(self) -> bool:
        """Whether everything was purged, so that nothing will ever come."""
        return not (self.topics or self.patterns or self.partitions or self.server_pattern)

    def matches(self, topic: str, internal: bool, topic_id: Uuid = ZERO_UUID) -> bool:
        """Whether a whole topic belongs to it. Patterns match whole names, as Java's do, and no internal topics."""
        if topic in self.topics:
            return True
        return not internal and not self.is_purged(topic, topic_id) and self.has_pattern_for(topic)

    def has_pattern_for(self, topic: str) -> bool:
        return any(pattern.fullmatch(topic) for pattern in self.patterns)

    def is_purged(self, topic: str, topic_id: Uuid) -> bool:
        """Whether it is the topic that was purged, as far as that is known."""
        if self.server_pattern is not None:
            return False  # what that matches is not ours to leave out
        purged = self.purged.get(topic)
        return purged is not None and (purged == topic_id or ZERO_UUID in (purged, topic_id))

    def without(self, topics: Mapping[str, Uuid]) -> Subscription:
        """Without these, which have the ids; ZERO_UUID: whichever they have."""
        purged = {**self.purged, **topics}
        for oldest in list(purged)[:-_MOST_PURGED]:
            del purged[oldest]
        return Subscription(
            tuple(name for name in self.topics if name not in topics),
            self.patterns,
            {each: start for each, start in self.partitions.items() if each.topic not in topics},
            self.server_pattern,
            purged,
        )

    def chosen(self, topic: str) -> dict[int, Start | None]:
        """The single partitions of a topic, with their own starts."""
        return {each.partition: start for each, start in self.partitions.items() if each.topic == topic}


def _collect(
    each: object,
    topics: dict[str, None],
    patterns: dict[re.Pattern[str], None],
    partitions: dict[TopicPartition, Start | None],
    server_patterns: dict[ServerPattern, None],
) -> None:
    if isinstance(each, str) and each:
        check_name(each)
        topics[each] = None
    elif isinstance(each, re.Pattern) and isinstance(each.pattern, str):
        patterns[each] = None
    elif isinstance(each, ServerPattern):
        server_patterns[each] = None
    elif isinstance(each, TopicPartition):
        partitions[_checked(each)] = None
    elif isinstance(each, Mapping):
        for partition, start in each.items():
            if not isinstance(partition, TopicPartition):
                raise _unfit(f"the key {partition!r}")
            partitions[_checked(partition)] = start
    elif isinstance(each, Iterable) and not isinstance(each, str | bytes | tuple):
        for inner in each:
            _collect(inner, topics, patterns, partitions, server_patterns)
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


def first_start(
    config: ClientConfig, subscription: Subscription, start: Start | None, stop: Stops | None
) -> Start:
    """Where partitions without a start of their own begin."""
    if start is not None:
        return start
    if stop is not None:
        # From the end to the end there is nothing, which is never meant.
        return "earliest"
    if config.auto_offset_reset != "none":
        return config.auto_offset_reset
    if subscription.partitions and None not in subscription.partitions.values() and not subscription.topics:
        return "earliest"  # each has its own
    raise ConfigurationError(
        "auto_offset_reset is 'none' and there is no start: pass start=, or a mapping with one for each partition",
        option="auto_offset_reset",
    )


def stop_specs(
    subscription: Subscription, stop: Stops | None
) -> OffsetSpec | Mapping[TopicPartition, OffsetSpec] | None:
    """Where partitions end. A mapping has to name each of them: one without an end would never be complete."""
    if not isinstance(stop, Mapping):
        return None if stop is None else stop_spec(stop)
    if subscription.topics or subscription.patterns or stop.keys() != subscription.partitions.keys():
        raise ConfigurationError(
            "stop= is a mapping: it has to name exactly the partitions that are read, and these one by one, not as"
            " whole topics",
            option="stop",
            value=stop,
        )
    return {tp: stop_spec(each) for tp, each in stop.items()}
