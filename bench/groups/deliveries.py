"""When which member was given a record of which partition: noted by the members, looked at afterwards.

A member's process keeps its `Deliveries`. The harness puts those of all members together into a `Timeline`, when what
it measures is over; until then it looks only at where each partition is being read, which costs the same however much
has been delivered. Times are those of `time.monotonic`, which is one clock for all processes of a machine.
"""

from __future__ import annotations

import bisect
import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

QUIET = 0.5
"""Seconds without a record after which a partition counts as not read."""

Run = tuple[float, float]
"""When a member began to read a partition, without a break as long as `QUIET`, and when it got its last record."""


class Deliveries:
    """Of one member; one thread adds, others look."""

    def __init__(self) -> None:
        self.runs: dict[int, Run] = {}
        self._partitions: list[int] = []
        self._times: list[float] = []

    def add(self, partition: int, now: float) -> None:
        begun, last = self.runs.get(partition, (now, now))
        self.runs[partition] = (begun if now - last < QUIET else now), now
        # The time last: a thread that looks counts the times.
        self._partitions.append(partition)
        self._times.append(now)

    @property
    def first(self) -> float | None:
        return self._times[0] if self._times else None

    def since(self, time: float) -> list[tuple[float, int]]:
        count = len(self._times)
        start = bisect.bisect_left(self._times, time, hi=count)
        return list(zip(self._times[start:count], self._partitions[start:count], strict=True))


def is_spread(runs: Mapping[int, Mapping[int, Run]], partitions: int, members: int, now: float) -> bool:
    """Whether so many members have read all partitions for a while, each partition by one of them alone.

    `runs` has those of all members, also of one that has left, by member and partition.
    """
    readers: dict[int, int] = {}
    for member, own in runs.items():
        for partition, (begun, last) in own.items():
            if now - last >= QUIET:
                continue
            if partition in readers or now - begun < QUIET:
                return False
            readers[partition] = member
    return len(readers) == partitions and len(set(readers.values())) == members


@dataclass(frozen=True)
class Gaps:
    """The longest times without a record, in seconds."""

    moved: float
    """Of partitions that have gone from one member to another."""
    stayed: float
    """Of partitions that their members have kept."""


@dataclass
class Timeline:
    """What all members of a group were given, by partition."""

    _deliveries: dict[int, list[tuple[float, int]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, member: int, deliveries: Iterable[tuple[float, int]]) -> None:
        for time, partition in deliveries:
            self._deliveries[partition].append((time, member))

    def gaps(self, at: float) -> Gaps:
        """Around the moment `at`, as far as the deliveries go."""
        moved: list[float] = []
        stayed: list[float] = []
        for each in self._deliveries.values():
            ordered = sorted(each)
            before = ordered[bisect.bisect_left(ordered, (at, -1)) - 1][1]
            gap = max(later - earlier for (earlier, _), (later, _) in itertools.pairwise(ordered))
            (stayed if ordered[-1][1] == before else moved).append(gap)
        return Gaps(max(moved, default=0.0), max(stayed, default=0.0))
