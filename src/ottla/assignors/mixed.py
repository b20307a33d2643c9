"""Assignment where members read different topics: fill up the least loaded, then move what balances better.

Shared by "sticky" of classic groups and "uniform" of KIP-848 groups, which differ in what they keep and in which
order they look at topics. A topic is a name or an id.

Every move goes from a member to one that has at least two partitions less, so it always improves the balance, and
the moves come to an end. Sizes of members change with each of them, and scanning all members for the smallest would
cost members times partitions: topics with the same readers share a heap of them instead. An entry of a heap that is
too small is put right when it is on top; a member that gives a partition away is pushed anew.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

T = TypeVar("T", bound=str | bytes)


class MixedAssignment(Generic[T]):
    """An assignment on its way: what each member has, and the smallest member that may take a partition."""

    def __init__(
        self, readers: Mapping[T, Sequence[str]], kept: Mapping[str, Iterable[tuple[T, int]]]
    ) -> None:
        """`readers` are the members of each topic, `kept` what each member has already; all members are in it."""
        self.owned: dict[str, dict[tuple[T, int], None]] = {
            member: dict.fromkeys(partitions) for member, partitions in kept.items()
        }
        self.owner = {
            partition: member for member, partitions in self.owned.items() for partition in partitions
        }
        self._readers = readers
        self._heaps: dict[tuple[str, ...], list[tuple[int, str]]] = {}
        self._heaps_of_topic: dict[T, list[tuple[int, str]]] = {}
        self._heaps_of_member: dict[str, list[list[tuple[int, str]]]] = {member: [] for member in kept}
        self._moved = _Moves[T]()

    def fill(
        self,
        partitions: Iterable[tuple[T, int]],
        eligible: Callable[[tuple[T, int]], tuple[str, ...]] | None = None,
    ) -> list[tuple[T, int]]:
        """Give each partition to the least loaded member that may have it; those that none may have are left over."""
        left = []
        for partition in partitions:
            heap = self._heap_of(partition[0]) if eligible is None else self._heap(eligible(partition))
            if heap:
                self._give(partition, self._smallest(heap))
            else:
                left.append(partition)
        return left

    def balance(self, partitions: Sequence[tuple[T, int]], former: Mapping[tuple[T, int], str]) -> None:
        """Move these partitions while a smaller member can take one; to the former owner before others."""
        movable = [partition for partition in partitions if len(self._readers[partition[0]]) > 1]
        moving = True
        while moving:
            moving = False
            for partition in movable:
                most = len(self.owned[self.owner[partition]]) - 2
                taker = former.get(partition)
                if taker is None or taker not in self.owned or len(self.owned[taker]) > most:
                    taker = self._smallest(self._heap_of(partition[0]))
                if len(self.owned[taker]) <= most:
                    self._move(partition, taker)
                    moving = True

    def _move(self, partition: tuple[T, int], taker: str) -> None:
        giver = self.owner[partition]
        instead = self._moved.instead_of(partition, giver, taker)
        # Undoing an earlier move must improve the balance too.
        if instead is not None and len(self.owned[self.owner[instead]]) - 2 >= len(self.owned[taker]):
            partition, giver = instead, self.owner[instead]
        self._moved.add(partition, giver, taker)
        del self.owned[giver][partition]
        for heap in self._heaps_of_member[giver]:
            heapq.heappush(heap, (len(self.owned[giver]), giver))
        self._give(partition, taker)

    def _give(self, partition: tuple[T, int], member: str) -> None:
        self.owned[member][partition] = None
        self.owner[partition] = member

    def _heap_of(self, topic: T) -> list[tuple[int, str]]:
        heap = self._heaps_of_topic.get(topic)
        if heap is None:
            heap = self._heaps_of_topic[topic] = self._heap(tuple(self._readers[topic]))
        return heap

    def _heap(self, members: tuple[str, ...]) -> list[tuple[int, str]]:
        heap = self._heaps.get(members)
        if heap is None:
            heap = self._heaps[members] = [(len(self.owned[member]), member) for member in members]
            heapq.heapify(heap)
            for member in members:
                self._heaps_of_member[member].append(heap)
        return heap

    def _smallest(self, heap: list[tuple[int, str]]) -> str:
        while True:
            size, member = heap[0]
            if size == len(self.owned[member]):
                return member
            heapq.heapreplace(heap, (len(self.owned[member]), member))


class _Moves(Generic[T]):
    """Where partitions of each topic came from, so that two of a topic never cross between the same two members."""

    def __init__(self) -> None:
        self._by_pair: dict[tuple[T, str, str], set[int]] = {}
        self._of: dict[tuple[T, int], tuple[str, str]] = {}

    def instead_of(self, partition: tuple[T, int], giver: str, taker: str) -> tuple[T, int] | None:
        """A partition of the topic that came from `taker` to `giver`, to go back there in place of `partition`."""
        topic, _ = partition
        source, _ = self._of.get(partition, (giver, taker))
        crossing = self._by_pair.get((topic, taker, source))
        # Kafka's client takes the first of a hash set, which is nearly always the highest number.
        return (topic, max(crossing)) if crossing else None

    def add(self, partition: tuple[T, int], giver: str, taker: str) -> None:
        topic, number = partition
        before = self._of.pop(partition, None)
        if before is not None:
            self._by_pair[(topic, *before)].discard(number)
            giver = before[0]
        if giver != taker:
            self._of[partition] = (giver, taker)
            self._by_pair.setdefault((topic, giver, taker), set()).add(number)
