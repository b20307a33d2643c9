"""What a process holds, and whether that grows with every cycle.

A figure has grown if its least value at the end is more than its greatest at the beginning, by its limit per cycle
or more: what comes and goes within a cycle, or settles once, does not count. Only the first and the last samples
are kept, so that the watcher itself does not grow.
"""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Final

from ottla._native.memory import statistics

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_FILES: Final = Path("/proc/self/fd" if Path("/proc/self/fd").exists() else "/dev/fd")

LIMITS: Final = {
    "file descriptors": 0.02,
    "threads": 0.02,
    "tasks": 0.02,
    "native bytes": 64.0,
    "resident bytes": 24 * 1024.0,
}
"""By how much each may grow per cycle."""
LEAST: Final = {
    "file descriptors": 2,
    "threads": 2,
    "tasks": 2,
    "native bytes": 4096,
    "resident bytes": 8 * 1024 * 1024,
}
"""And by how much it has to grow altogether, to be more than an accident: memory settles late."""
OBJECTS_LIMIT: Final = 0.1
OBJECTS_LEAST: Final = 3
"""The same for the objects of one type."""
OWN_TYPES: Final = ("ottla.", "tests.")


def resident_bytes(pid: int | str = "self") -> int:
    """The memory of a process, where the system tells; 0 elsewhere."""
    status = Path(f"/proc/{pid}/statm")
    return int(status.read_text().split()[1]) * _PAGE if status.exists() else 0


@dataclass(frozen=True)
class Sample:
    """What a process holds at one moment."""

    cycle: int
    figures: dict[str, int]
    objects: Counter[str]

    @classmethod
    def now(cls, cycle: int) -> Sample:
        while gc.collect():
            # What a finalizer lets go may be a cycle again.
            continue
        found = gc.get_objects()
        figures = {
            "file descriptors": len(list(_FILES.iterdir())),
            "threads": threading.active_count(),
            "tasks": sum(isinstance(each, asyncio.Task) and not each.done() for each in found),
            "native bytes": statistics()["in_use"],
            "resident bytes": resident_bytes(),
        }
        return cls(cycle, figures, _by_name(Counter(map(type, found))))

    def __str__(self) -> str:
        figures = self.figures
        return (
            f"{figures['resident bytes'] / 1e6:7.1f} MB resident, {figures['native bytes']:,} B native, "
            f"{figures['file descriptors']} file descriptors, {figures['threads']} threads, "
            f"{figures['tasks']} tasks, {sum(self.objects.values()):,} objects"
        )


def _by_name(types: Counter[type]) -> Counter[str]:
    names: Counter[str] = Counter()
    for kind, count in types.items():
        names[f"{kind.__module__}.{kind.__qualname__}"] += count
    return names


@dataclass
class Growth:
    """One figure that has grown."""

    name: str
    by: int
    cycles: int

    def __str__(self) -> str:
        name = self.name if self.name in LIMITS else f"objects of type {self.name}"
        return (
            f"{name}: {self.by:,} more after {self.cycles:,} cycles, {self.by / self.cycles:,.2f} per cycle"
        )


@dataclass
class Watch:
    """Takes a sample per cycle. Those of the `warm_up` do not count, and are to be as many as the window or more.

    With few cycles (`is_brief`) there is less to tell a leak from what fills a cache by and by: then only what grows
    in each single cycle counts, and of objects only those of our own types.
    """

    warm_up: int
    window: int
    """How many samples are the beginning, and how many the end."""
    is_brief: bool = False
    first: list[Sample] = field(default_factory=list)
    last: deque[Sample] = field(default_factory=deque)

    def look(self, cycle: int) -> Sample:
        sample = Sample.now(cycle)
        # From the beginning on, so that it has its size when counting begins.
        self.last.append(sample)
        if len(self.last) > self.window:
            self.last.popleft()
        if cycle >= self.warm_up and len(self.first) < self.window:
            # A copy: as long as both were one, the watcher would grow when it leaves the other end.
            self.first.append(Sample(cycle, sample.figures.copy(), sample.objects.copy()))
        return sample

    def grown(self) -> list[Growth]:
        """What has grown; two windows behind the warm-up are the least to judge by."""
        if not self.first or self.last[0].cycle <= self.first[-1].cycle:
            raise ValueError(
                f"{self.warm_up} cycles to warm up and two times {self.window} are the least to judge by"
            )
        figures = [self._growth(name, LEAST[name], LIMITS[name], attrgetter("figures")) for name in LIMITS]
        types = sorted({name for each in self.last for name in each.objects})
        objects = [
            self._growth(name, OBJECTS_LEAST, OBJECTS_LIMIT, attrgetter("objects"))
            for name in types
            if not self.is_brief or name.startswith(OWN_TYPES)
        ]
        return [growth for growth in [*figures, *objects] if growth is not None]

    def _growth(
        self, name: str, least: int, limit: float, of: Callable[[Sample], dict[str, int]]
    ) -> Growth | None:
        first, last = ([of(each).get(name, 0) for each in samples] for samples in (self.first, self.last))
        by, cycles = min(last) - max(first), self.last[0].cycle - self.first[-1].cycle
        if by < least or by / cycles < limit:
            return None
        if self.is_brief and any(then <= before for before, then in pairwise([*first, *last])):
            return None
        return Growth(name, by, cycles)


@contextmanager
def only_what_is_new() -> Iterator[None]:
    """What is there already is out of the collector's sight meanwhile, and samples are taken in no time."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class GrowthError(AssertionError):
    """Something grew; the message names it."""

    def __init__(self, grown: list[Growth], watch: Watch) -> None:
        lines = [f"  {each}" for each in grown]
        began, ended = watch.first[-1], watch.last[0]
        super().__init__(
            "\n".join(
                [
                    "what grows with every cycle:",
                    *lines,
                    f"  cycle {began.cycle}: {began}",
                    f"  cycle {ended.cycle}: {ended}",
                ]
            )
        )


def check(watch: Watch) -> None:
    """GrowthError if something has grown."""
    grown = watch.grown()
    if grown:
        raise GrowthError(grown, watch)
