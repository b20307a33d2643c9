"""Records without a key stay together: one partition for a run of them, so that batches fill (KIP-480, KIP-794).

When a run ends is decided by the native `Sticky`. Which partition comes next is a `Pick`, given from outside; the two
that only roll dice are here. Records with a key are no part of a run.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import TypeAlias

from ottla._native.sticky import Sticky, StickyChoice
from ottla.client.partitioners.base import Load, TopicPartitioner
from ottla.runtime import Random

__all__ = ["Pick", "Sticky", "StickyTopic", "another_partition", "any_partition", "candidates"]

Pick: TypeAlias = Callable[[Load, int], int]
"""The next partition, given the last one; that is -1 at first."""


class StickyTopic(StickyChoice, TopicPartitioner):
    """Runs only: keys do not matter here. They do to classes that override `choose`."""

    __slots__ = ()


def candidates(load: Load) -> Sequence[int]:
    """Where records can go: without any leader to any partition, to wait there until it has one."""
    return load.available or range(load.partitions)


def any_partition(load: Load, random: Random) -> int:
    options = candidates(load)
    return options[random.randrange(len(options))]


def another_partition(load: Load, last: int, random: Random) -> int:
    """Any but the last, if there is another."""
    options = candidates(load)
    position = bisect_left(options, last)
    if len(options) == 1 or position == len(options) or options[position] != last:
        return any_partition(load, random)
    chosen = random.randrange(len(options) - 1)
    return options[chosen + 1 if chosen >= position else chosen]
