"""What an exactly-once sink is called: its transactional ids, its control topic, and which partition is whose.

A pool of names, bounded by the widest batch there was: never one per batch, since brokers keep every transactional id
for a week. Partition 0 of the control topic is the driver's and holds decisions. Each slot, that is the number of a
task, has a partition of its own for its markers: in a shared one, an open transaction of a slot would hide a decision
behind the last stable offset.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from ottla.client.topic_partition import TopicPartition

DECISION_PARTITION: Final = 0
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")
_LONGEST_TOPIC: Final = 249
_PREFIX: Final = "ottla-sink-"


@dataclass(frozen=True, slots=True)
class SinkNames:
    """The names of one sink; without a `control_topic` it is called after the sink."""

    sink_id: str
    control_topic: str = ""

    def __post_init__(self) -> None:
        _check("sink id", self.sink_id, _LONGEST_TOPIC - len(_PREFIX))
        if not self.control_topic:
            object.__setattr__(self, "control_topic", _PREFIX + self.sink_id)
        _check("control topic", self.control_topic, _LONGEST_TOPIC)
        if self.control_topic in (".", ".."):
            raise ValueError(f"control topic {self.control_topic!r}: Kafka has no topic of that name")

    @property
    def driver_id(self) -> str:
        """The transactional id that writes decisions."""
        return f"{self.sink_id}-driver"

    def slot_id(self, slot: int) -> str:
        """The transactional id that writes the rows of a slot."""
        return f"{self.sink_id}-{slot}"

    @property
    def decisions(self) -> TopicPartition:
        return TopicPartition(self.control_topic, DECISION_PARTITION)

    def markers(self, slot: int) -> TopicPartition:
        """Where the markers of a slot are."""
        return TopicPartition(self.control_topic, slot + 1)


def _check(what: str, name: str, longest: int) -> None:
    if not _LEGAL.fullmatch(name):
        raise ValueError(
            f"{what} {name!r}: letters, digits, '.', '_' and '-' are allowed, as in the names of topics"
        )
    if len(name) > longest:
        raise ValueError(f"{what} {name[:20]!r}... has {len(name)} characters, and {longest} are allowed")
