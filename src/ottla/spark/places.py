"""Where reading begins and ends, as the options say it; what that means in offsets only a broker knows.

Not here: which option says it and what may not stand in it (`options`), asking brokers (`offset_reader`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from ottla.client.topic_partition import TopicPartition

# What the JSON of startingOffsets and endingOffsets writes in place of an offset.
LATEST_OFFSET: Final = -1
EARLIEST_OFFSET: Final = -2


@dataclass(frozen=True, slots=True)
class Earliest:
    """The first record that there is, of every partition."""


@dataclass(frozen=True, slots=True)
class Latest:
    """Behind the last record that there is, of every partition."""


@dataclass(frozen=True, slots=True)
class Offsets:
    """An offset of each partition; LATEST_OFFSET and EARLIEST_OFFSET may stand in place of one."""

    by_partition: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Timestamp:
    """The first record that is not older, of every partition; in milliseconds since 1970."""

    ms: int


@dataclass(frozen=True, slots=True)
class Timestamps:
    """A time for each partition, each as in Timestamp."""

    by_partition: Mapping[TopicPartition, int]


Place: TypeAlias = Earliest | Latest | Offsets | Timestamp | Timestamps
