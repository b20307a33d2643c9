"""SentRows, which a task that has written sends to the driver, and how the driver sums it up in its log.

Processes that only plan and commit import this and nothing of the client, unless a message has a transaction in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import WriterCommitMessage

if TYPE_CHECKING:
    from ottla.spark.sink.exactly_once.values import TaskOutcome

_MOST_NAMES: Final = 5
"""Topics that a log line or an error names."""


@dataclass(frozen=True, slots=True)
class Sent:
    """Rows and the bytes of their columns."""

    rows: int = 0
    bytes: int = 0

    def __add__(self, other: Sent) -> Sent:
        return Sent(self.rows + other.rows, self.bytes + other.bytes)


@dataclass(frozen=True, slots=True)
class SentRows(WriterCommitMessage):
    """What one task has stored, by topic."""

    by_topic: Mapping[str, Sent]
    outcome: TaskOutcome | None = None
    """Of a task that writes exactly once: the transaction that the driver is to commit."""


def summary(messages: Iterable[WriterCommitMessage | None]) -> str:
    """Such as "1200 rows (96 kB) to orders"; a failed task has no message."""
    by_topic: dict[str, Sent] = {}
    for message in messages:
        if isinstance(message, SentRows):
            for topic, sent in message.by_topic.items():
                by_topic[topic] = by_topic.get(topic, Sent()) + sent
    total = sum(by_topic.values(), Sent())
    return f"{total.rows} rows ({total.bytes} bytes) to {named(by_topic)}"


def named(topics: Collection[str]) -> str:
    """Such as "orders, payments and 17 more topics": there may be thousands."""
    if not topics:
        return "no topic"
    first = ", ".join(sorted(topics)[:_MOST_NAMES])
    return first if len(topics) <= _MOST_NAMES else f"{first} and {len(topics) - _MOST_NAMES} more topics"
