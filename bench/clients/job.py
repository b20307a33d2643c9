"""What a client is to do, and what comes back."""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

DEADLINE = 120.0
"""Seconds that any job may take."""

TABLE_ROWS = 10_000
"""Of a small table."""

WARM_UP = 20
"""Transactions before those that are counted."""


Codec: TypeAlias = Literal["none", "lz4"]


@dataclass(frozen=True)
class Job:
    """One measurement."""

    case: str
    topic: str
    count: int
    partitions: int = 1
    size: int = 100
    codec: Codec = "none"
    tuned: bool = False
    busy: bool = False
    each: int = 1
    """Records of a transaction."""
    linger_ms: int | None = None
    """The client's own default if None."""


@dataclass(frozen=True)
class Measured:
    """Of one job; latencies in seconds, one for each record that was timed."""

    cpu: float = 0.0
    wall: float = 0.0
    latencies: list[float] = field(default_factory=list)


class Stopwatch:
    """CPU of the process and time of the clock while it runs; it may run several times."""

    def __init__(self) -> None:
        self.cpu = self.wall = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        gc.collect()
        cpu, wall = process_cpu(), time.perf_counter()
        yield
        self.cpu += process_cpu() - cpu
        self.wall += time.perf_counter() - wall

    def measured(self) -> Measured:
        return Measured(self.cpu, self.wall)


def process_cpu() -> float:
    """Seconds of CPU that this process has spent, user and system, all threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def values(job: Job) -> list[bytes]:
    """The values to produce, not all the same, as text is: compressible but not to nothing."""
    words = [b"%010d" % ((number * 2654435761) % 10_000_000_000) for number in range(997)]
    line = b"".join(words)
    return [line[start : start + job.size] for start in range(0, len(line) - job.size, job.size // 2)]
