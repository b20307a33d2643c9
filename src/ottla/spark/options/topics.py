"""What a query reads: `subscribe`, `subscribePattern` or `assign`.

Not here: which of it exists (`ottla.spark.source.partition_discovery`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ottla.client.topic_partition import TopicPartition
from ottla.spark.options.java_regex import PatternError, python_pattern
from ottla.spark.options.parsing import OptionError, partitions

_TOPIC_OPTIONS: Final = ("subscribe", "subscribePattern", "assign")


@dataclass(frozen=True, slots=True)
class Topics:
    """What to read: exactly one of the three is given.

    `pattern` is in Python's syntax, for re.search: as with the JVM connector, it may match anywhere in a name.
    """

    subscribe: tuple[str, ...] = ()
    pattern: str | None = None
    assign: tuple[TopicPartition, ...] = ()

    @property
    def option(self) -> str:
        """Which of the three it is."""
        return "subscribe" if self.subscribe else "assign" if self.assign else "subscribePattern"

    def covers(self, partition: TopicPartition) -> bool:
        """Whether the query reads this partition, if it exists."""
        if self.pattern is not None:
            return re.search(self.pattern, partition.topic) is not None
        return partition.topic in self.subscribe or partition in self.assign


def parse_topics(given: Mapping[str, str]) -> Topics:
    """From options with names in lower case, of which exactly one of the three has to be given."""
    named = [name for name in _TOPIC_OPTIONS if name.lower() in given]
    if len(named) != 1:
        rule = "Only one of the following options can" if named else "One of the following options must"
        advice = f"given are {' and '.join(named)}" if named else _advice_on_topics(given)
        raise OptionError(
            f"{rule} be specified for Kafka source: {', '.join(_TOPIC_OPTIONS)}. {advice}".rstrip(". ")
        )
    text = given[named[0].lower()]
    match named[0]:
        case "subscribe":
            return Topics(subscribe=_subscribed(text))
        case "subscribePattern":
            return Topics(pattern=_pattern(text))
        case _:
            return Topics(assign=_assigned(text))


def _advice_on_topics(given: Mapping[str, str]) -> str:
    return "The option 'topic' is the sink's: write subscribe" if "topic" in given else ""


def _subscribed(text: str) -> tuple[str, ...]:
    topics = tuple(dict.fromkeys(name for listed in text.split(",") if (name := listed.strip())))
    if not topics:
        raise OptionError(
            f"No topics to subscribe to as specified value for option 'subscribe' is '{text}': "
            "write their names with commas between them"
        )
    return topics


def _pattern(text: str) -> str:
    pattern = text.strip()
    if not pattern:
        raise OptionError(
            f"Pattern to subscribe is empty as specified value for option 'subscribePattern' is '{text}': "
            "write a regular expression, such as ^orders-.*; topics are read in whose names it is found"
        )
    try:
        return python_pattern(pattern)
    except PatternError as error:
        raise OptionError(f"option 'subscribePattern' cannot be {pattern!r}: {error}") from None


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    assigned = partitions(text) if text.strip().startswith("{") else ()
    if not assigned:
        raise OptionError(
            f"No topicpartitions to assign as specified value for option 'assign' is '{text}': "
            'write them as {"topicA":[0,1]}'
        )
    return assigned
