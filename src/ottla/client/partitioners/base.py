"""The interfaces of this package: what a partitioner chooses, and what it gets to choose by.

Invariant: a `TopicPartitioner` is called by the thread that holds the lock of its topic, never by two at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from enum import Enum
from typing import Protocol

from ottla.runtime import Random

__all__ = ["ColumnsMode", "Load", "Partitioner", "TopicPartitioner"]


class Load(Protocol):
    """How the partitions of one topic are doing, as its producer sees it at this moment."""

    @property
    def partitions(self) -> int:
        """How many there are, with or without a leader: at least one. Keys are spread over all of them."""

    @property
    def available(self) -> tuple[int, ...]:
        """Those that have a leader, ascending. A change is a new tuple: it is noticed by its identity."""

    @property
    def slow(self) -> Collection[int]:
        """Those whose leader takes no requests for longer than `partitioner.availability.timeout.ms`."""

    def buffered(self) -> Sequence[int]:
        """For each partition, how many bytes wait to be sent. Called only when another partition is chosen."""


class ColumnsMode(Enum):
    """How `encode_columns` gets the partitions of whole columns from a partitioner.

    It encodes rows of a table at once and finds the partition of a key by itself, so that not every row comes through
    `choose`. Rows that name their partition keep it in every mode. A call makes batches of its own, so that its one
    choice is made like that of a record that opens a batch, with the size of all rows that follow it.
    """

    BY_KEY = "by_key"
    """Keys are hashed natively; one choice per call is the `unkeyed_partition` of the rows without."""

    ONE = "one"
    """Keys do not matter: one choice per call, for all rows."""

    IN_TURN = "in_turn"
    """Neither keys nor sizes matter: `turns` fills the column `partition`, for all rows of a call at once."""

    BY_ROW = "by_row"
    """The native hash does not apply: `choose` for each row fills the column `partition`."""

    NAMED = "named"
    """Nothing to choose: a row whose column `partition` is null is an error, with or without a key."""


class TopicPartitioner(ABC):
    """The partitions of the records of one topic."""

    __slots__ = ()

    @abstractmethod
    def choose(self, key: bytes | None, value: bytes | None, size: int, load: Load) -> int:
        """The partition of a record that takes `size` bytes in its batch."""

    def on_new_batch(self, partition: int) -> bool:
        """The record just placed would open a batch there: none is open, or it does not fit. True: choose again.

        The second choice is final. That a batch ends is the moment at which a change of partition costs nothing.
        """
        return False

    def turns(self, count: int, load: Load) -> Sequence[int]:
        """The partitions of so many records in a row, as `choose` would give them one by one; for `IN_TURN`.

        A sequence that is a buffer of C ints is taken as it is.
        """
        return [self.choose(None, None, 0, load) for _ in range(count)]


class Partitioner(ABC):
    """A way to choose partitions: an option of a producer, without state of its own."""

    @abstractmethod
    def for_topic(self, topic: str, *, batch_size: int, random: Random) -> TopicPartitioner:
        """One for the records of this topic, in batches of `batch_size` bytes."""

    @abstractmethod
    def columns_mode(self) -> ColumnsMode: ...
