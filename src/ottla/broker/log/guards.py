"""Guards: transactional data that waits for the word of its transaction coordinator (KIP-890).

A partition takes the first batch of a transaction only when the coordinator knows that the partition is part of it.
While the leader asks, a guard stands for the question. Data or a marker of the producer removes it: an answer that
comes after the end of the transaction that it was about finds another guard, or none, and admits nothing.

Guards are in memory alone. Another leader has none, and asks again.
"""

from __future__ import annotations


class Guard:
    """One question to the coordinator; who holds the guard that is still there may append."""

    __slots__ = ("adds_partitions", "created_ms", "epoch", "lowest_sequence")

    def __init__(self, epoch: int, sequence: int, created_ms: int, *, adds_partitions: bool) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        """Of the batches that wait: one behind it comes too early, whichever answer comes first."""
        self.created_ms = created_ms
        self.adds_partitions = adds_partitions
        """Whether the producer has a new epoch, and sequences that begin at 0, for each transaction (version 2)."""

    def waits_also(self, epoch: int, sequence: int) -> None:
        """A further batch waits for the same answer."""
        if epoch > self.epoch or (epoch == self.epoch and sequence < self.lowest_sequence):
            self.epoch, self.lowest_sequence = epoch, sequence


class Guards:
    """The guards of one partition, by producer."""

    def __init__(self) -> None:
        self._guards: dict[int, Guard] = {}

    def __len__(self) -> int:
        return len(self._guards)

    def get(self, producer_id: int) -> Guard | None:
        return self._guards.get(producer_id)

    def place(
        self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, adds_partitions: bool
    ) -> Guard:
        """The guard of a producer, a new one if there is none."""
        guard = self._guards.get(producer_id)
        if guard is None:
            guard = Guard(epoch, sequence, now_ms, adds_partitions=adds_partitions)
            self._guards[producer_id] = guard
        else:
            guard.waits_also(epoch, sequence)
        return guard

    def remove(self, producer_id: int) -> None:
        self._guards.pop(producer_id, None)

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forgets the guards whose producers did not come back with data."""
        for producer_id, guard in list(self._guards.items()):
            if now_ms - guard.created_ms >= expiration_ms:
                del self._guards[producer_id]

    def clear(self) -> None:
        self._guards.clear()
