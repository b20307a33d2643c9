"""What a client is to do, and what comes back."""

from __future__ import annotations

import gc
import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

DEADLINE = 120.0
"""Seconds that any job may take."""

RATE = 1_000
"""Records per second, where latency is measured."""


Codec: TypeAlias = Literal["none", "lz4"]


@dataclass(frozen=True)
class Job:
    """One measurement."""

    case: str
    topic: str
    count: int
    size: int = 100
    codec: Codec = "none"
    tuned: bool = False
    busy: bool = False


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
        cpu, wall = _cpu(), time.perf_counter()
        yield
        self.cpu += _cpu() - cpu
        self.wall += time.perf_counter() - wall

    def measured(self) -> Measured:
        return Measured(self.cpu, self.wall)


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def values(job: Job) -> list[bytes]:
    """The values to produce, not all the same, as text is: compressible but not to nothing."""
    words = [b"%010d" % ((number * 2654435761) % 10_000_000_000) for number in range(997)]
    line = b"".join(words)
    return [line[start : start + job.size] for start in range(0, len(line) - job.size, job.size // 2)]


def latencies(
    job: Job, produce: Callable[[bytes], object], receive: Callable[[], list[bytes]]
) -> list[float]:
    """From just before a record is produced to the moment its reader has it.

    `produce` is called by one thread at a steady rate, `receive` by another for whatever has come. With `busy`, a
    third one computes.
    """
    seen: list[float] = []
    stop = threading.Event()
    busy = threading.Thread(target=_compute, args=(stop,), daemon=True)
    reader = threading.Thread(target=_read, args=(receive, seen, job.count, stop), daemon=True)
    reader.start()
    if job.busy:
        busy.start()
    try:
        begin = time.perf_counter() + 0.2
        for number in range(job.count):
            pause = begin + number / RATE - time.perf_counter()
            if pause > 0:
                time.sleep(pause)
            produce(b"%.9f" % time.perf_counter())
        reader.join(DEADLINE)
    finally:
        stop.set()
    if len(seen) < job.count:
        raise TimeoutError(f"{len(seen)} of {job.count} records came")
    # The first ones meet connections that are still being made, and code that has never run.
    return seen[job.count // 10 :]


def _read(receive: Callable[[], list[bytes]], seen: list[float], count: int, stop: threading.Event) -> None:
    while len(seen) < count and not stop.is_set():
        arrived = receive()
        now = time.perf_counter()
        seen.extend(now - float(value) for value in arrived)


def _compute(stop: threading.Event) -> None:
    number = 0
    while not stop.is_set():
        number += 1
