"""Members of one group, of either client, and when which of them was given a record of which partition.

Those of confluent-kafka are polled by a thread each, those of ottla run on one loop: each library in the way that
suits it best where many members are in one process.
"""

from __future__ import annotations

import asyncio
import bisect
import itertools
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Coroutine
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer

import ottla

HEARTBEAT_MS = 500
_DEADLINE = 60.0


@dataclass(frozen=True)
class Mode:
    """How a group rebalances."""

    protocol: str
    assignor: str
    keeps: bool
    """Whether members keep what they have while others leave."""


MODES = {
    "eager": Mode("classic", "range", keeps=False),
    "cooperative": Mode("classic", "cooperative-sticky", keeps=True),
    "848": Mode("consumer", "", keeps=True),
}


class Deliveries:
    """Who was given records of which partition, and when; any thread adds to it."""

    def __init__(self) -> None:
        self.first: dict[int, float] = {}
        self._times: dict[int, list[float]] = defaultdict(list)
        self._members: dict[int, list[int]] = defaultdict(list)

    def add(self, member: int, partition: int) -> None:
        now = time.perf_counter()
        self.first.setdefault(member, now)
        self._times[partition].append(now)
        self._members[partition].append(member)

    def readers(self, since: float = 0.0) -> dict[int, int]:
        """The member that each partition went to last, of those that went anywhere since then."""
        return {
            partition: self._members[partition][len(times) - 1]
            for partition, times in sorted(self._times.items())
            if times[-1] >= since
        }

    def is_steady(self, since: float) -> bool:
        """Whether each partition went to one member only since then, and had gone there before."""
        for partition, times in list(self._times.items()):
            start = bisect.bisect_left(times, since)
            if start == 0 or len(set(self._members[partition][start - 1 : len(times)])) != 1:
                return False
        return True

    def longest_gap(self, partition: int, since: float) -> float:
        times = [each for each in self._times[partition] if each >= since]
        return max(later - earlier for earlier, later in itertools.pairwise(times))


class Library(ABC):
    """The members of one group that use one client."""

    def __init__(self, bootstrap: str, topic: str, mode: Mode) -> None:
        self.deliveries = Deliveries()
        self._bootstrap = bootstrap
        self._topic = topic
        self._mode = mode
        self._group = f"group-{uuid.uuid4().hex[:8]}"

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @abstractmethod
    def add(self) -> None:
        """One more member joins; returns at once."""

    @abstractmethod
    def leave_one(self) -> int:
        """A member leaves; which one."""


class Confluent(Library):
    """Each with a thread that polls it."""

    def __enter__(self) -> Self:
        self._threads: list[tuple[threading.Event, threading.Thread]] = []
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for stops, _ in self._threads:
            stops.set()
        for _, thread in self._threads:
            thread.join(_DEADLINE)

    def add(self) -> None:
        stops = threading.Event()
        thread = threading.Thread(target=self._run, args=(len(self._threads), stops))
        self._threads.append((stops, thread))
        thread.start()

    def leave_one(self) -> int:
        number = len(self._threads) // 2
        self._threads[number][0].set()
        return number

    def _run(self, number: int, stops: threading.Event) -> None:
        config: dict[str, Any] = {
            "bootstrap.servers": self._bootstrap,
            "log_level": 0,
            "group.id": self._group,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 10,
            "fetch.queue.backoff.ms": 1,
        }
        if self._mode.protocol == "consumer":
            config["group.protocol"] = "consumer"
        else:
            config |= {
                "heartbeat.interval.ms": HEARTBEAT_MS,
                "session.timeout.ms": 10_000,
                "partition.assignment.strategy": self._mode.assignor,
            }
        consumer = Consumer(config)
        consumer.subscribe([self._topic])
        add = self.deliveries.add
        while not stops.is_set():
            for message in consumer.consume(100, timeout=0.01):
                if message.error() is None:
                    partition = message.partition()
                    assert partition is not None
                    add(number, partition)
        consumer.close()


class Ottla(Library):
    """All on one loop."""

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="members")
        self._thread.start()
        self._members: list[tuple[ottla.AsyncClient, asyncio.Task[None]]] = []
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call(self._leave_all()).result(_DEADLINE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, work: Coroutine[Any, Any, None]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def add(self) -> None:
        self._call(self._add()).result(_DEADLINE)

    def leave_one(self) -> int:
        number = len(self._members) // 2
        self._call(self._leave(number))
        return number

    async def _add(self) -> None:
        options: dict[str, Any] = {"fetch_max_wait_ms": 10}
        if self._mode.protocol == "consumer":
            options["group_protocol"] = "consumer"
        else:
            options |= {
                "heartbeat_interval_ms": HEARTBEAT_MS,
                "session_timeout_ms": 10_000,
                "partition_assignment_strategy": self._mode.assignor,
            }
        client = ottla.AsyncClient(self._bootstrap, **options)
        number = len(self._members)
        self._members.append((client, self._loop.create_task(self._run(number, client))))

    async def _run(self, number: int, client: ottla.AsyncClient) -> None:
        add = self.deliveries.add
        async with client.consume(self._topic, group=self._group, start="earliest") as consumer:
            while True:
                for record in await consumer.poll(100):
                    add(number, record.partition)

    async def _leave(self, number: int) -> None:
        client, task = self._members[number]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.close()

    async def _leave_all(self) -> None:
        await asyncio.gather(*(self._leave(number) for number in range(len(self._members))))
