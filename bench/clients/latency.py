"""Latency at a steady rate: from just before a record is produced to the moment its reader has it.

The clock is the system's, the same for all processes, so that writer and reader may have one each. The first tenth of
the records is not counted: they meet connections that are still being made, and code that has never run.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable

from bench.clients.job import DEADLINE, Job, Measured, process_cpu

RATE = 1_000
"""Records per second."""

READER_STARTS_IN = 1.5
"""Seconds until a reader in a process of its own has found the topic; the writer waits for so long."""

Produce = Callable[[bytes], object]
Receive = Callable[[], list[bytes]]


class Arrivals:
    """What a reader has seen, and what its process has spent since the first tenth."""

    def __init__(self, job: Job) -> None:
        self._count = job.count
        self._warm = job.count // 10
        self._seen: list[float] = []
        self._cpu = 0.0

    @property
    def missing(self) -> int:
        return self._count - len(self._seen)

    def add(self, arrived: list[bytes]) -> None:
        now = time.perf_counter()
        was_warm = len(self._seen) >= self._warm
        self._seen.extend(now - float(value) for value in arrived)
        if not was_warm and len(self._seen) >= self._warm:
            self._cpu = process_cpu()

    def measured(self) -> Measured:
        if self.missing > 0:
            raise TimeoutError(f"{len(self._seen)} of {self._count} records came")
        return Measured(cpu=process_cpu() - self._cpu, latencies=self._seen[self._warm :])


def write_and_read(job: Job, produce: Produce, receive: Receive) -> Measured:
    """In one process: one thread calls `produce`, another `receive`. With `busy`, a third one computes."""
    arrivals, stop = Arrivals(job), threading.Event()
    reader = threading.Thread(target=_read, args=(arrivals, receive, stop), daemon=True)
    reader.start()
    if job.busy:
        threading.Thread(target=_compute, args=(stop,), daemon=True).start()
    try:
        _write(job, produce, time.perf_counter() + 0.2)
        reader.join(DEADLINE)
    finally:
        stop.set()
    return arrivals.measured()


def write(job: Job, produce: Produce) -> Measured:
    """In the writer's process."""
    return Measured(cpu=_write(job, produce, time.perf_counter() + READER_STARTS_IN))


def read(job: Job, receive: Receive) -> Measured:
    """In the reader's process."""
    arrivals = Arrivals(job)
    _read(arrivals, receive, threading.Event())
    return arrivals.measured()


async def write_and_read_async(
    job: Job, produce: Callable[[bytes], Awaitable[object]], receive: Callable[[], Awaitable[list[bytes]]]
) -> Measured:
    """On one loop: one task produces, another reads."""
    arrivals = Arrivals(job)

    async def reading() -> None:
        while arrivals.missing > 0:
            arrivals.add(await receive())

    reader = asyncio.create_task(reading())
    begin = time.perf_counter() + 0.2
    for number in range(job.count):
        await asyncio.sleep(max(0.0, begin + number / RATE - time.perf_counter()))
        await produce(b"%.9f" % time.perf_counter())
    await asyncio.wait_for(reader, DEADLINE)
    return arrivals.measured()


def _write(job: Job, produce: Produce, begin: float) -> float:
    """The CPU of this process, without that of the first tenth."""
    cpu = 0.0
    for number in range(job.count):
        if number == job.count // 10:
            cpu = process_cpu()
        pause = begin + number / RATE - time.perf_counter()
        if pause > 0:
            time.sleep(pause)
        produce(b"%.9f" % time.perf_counter())
    return process_cpu() - cpu


def _read(arrivals: Arrivals, receive: Receive, stop: threading.Event) -> None:
    deadline = time.perf_counter() + DEADLINE
    while arrivals.missing > 0 and not stop.is_set() and time.perf_counter() < deadline:
        arrivals.add(receive())


def _compute(stop: threading.Event) -> None:
    number = 0
    while not stop.is_set():
        number += 1
