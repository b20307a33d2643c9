"""Clients that write and read one topic through whatever happens, and write down what they were told.

Writers are idempotent producers with acks=all, each on a machine of its own; a record that fails is written down as
failed and the next one follows. A tailing reader follows all partitions from the first record to the last; a
returning one begins again at the first record, again and again, on whatever replica it is sent to.

What they were told becomes a `History` (checks.py), once they have ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from ottla.client.client import AsyncClient
from ottla.client.topic_partition import TopicPartition
from ottla.config import ClientOptions
from ottla.errors import (
    ApiTimeoutError,
    ConnectionFailedError,
    ConnectionLostError,
    DeliveryError,
    DeliveryTimeoutError,
    KafkaError,
    NoBrokersError,
    RequestTimeoutError,
    UnknownBrokerError,
)
from ottla.sim.checks import History, ReadRecord, RuleViolation, WrittenRecord, record_key, record_value
from ottla.sim.runtime import SimRuntime, generator
from ottla.wire.records import Delivery

_MOST_PENDING: Final = 200
"""Records of one writer that are not decided: what comes after an outage is not to be larger than all else."""
_POLL: Final = 1.0
_RETRY: Final = 0.5
AWAY: Final = (
    ApiTimeoutError,
    ConnectionFailedError,
    ConnectionLostError,
    NoBrokersError,
    RequestTimeoutError,
    UnknownBrokerError,
)
"""What a consumer says while it reaches no broker, or not the one it needs."""


@dataclass(frozen=True)
class WorkloadShape:
    """How much is written, and with which patience; times are in seconds."""

    topic: str
    partitions: int
    writers: int = 2
    pause: float = 0.45
    """On average, between two bursts of one writer."""
    burst: int = 10
    """The most records of one burst."""
    keys: int = 0
    """Of each writer, in turn; 0 for records without a key."""
    writer_options: ClientOptions = field(default_factory=ClientOptions)
    reader_options: ClientOptions = field(default_factory=ClientOptions)

    def assigned(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic, index) for index in range(self.partitions)]


class Writer:
    """Writes bursts of records into random partitions."""

    def __init__(self, name: str, runtime: SimRuntime, bootstrap: str, shape: WorkloadShape) -> None:
        self.name = name
        self._shape = shape
        self._random = generator(runtime.seed, f"workload of {name}")
        self._client = AsyncClient(bootstrap, runtime=runtime.at(name), **shape.writer_options)
        self._clock = runtime.clock
        self._next = [0] * shape.partitions
        self._sent: list[tuple[bytes, Delivery, int]] = []
        # By the number of a record among all that were sent, when its outcome was known.
        self._told: dict[int, int] = {}
        self._pending = 0
        self.acknowledged = 0

    async def run(self, until: Callable[[], bool]) -> None:
        shape, random = self._shape, self._random
        while not until():
            partition = random.randrange(shape.partitions)
            for _ in range(random.randint(1, shape.burst)):
                if self._pending < _MOST_PENDING:
                    await self.write(partition)
                # Often several in a row to the same one, so that batches of it are in flight together.
                if random.random() < 0.3:
                    partition = random.randrange(shape.partitions)
            await asyncio.sleep(random.expovariate(1 / shape.pause))

    async def write(self, partition: int) -> Delivery:
        number = self._next[partition]
        self._next[partition] += 1
        value = record_value(self.name, partition, number)
        key = record_key(value, self._shape.keys)
        delivery = await self._client.produce(self._shape.topic, value, key, partition=partition)
        self._pending += 1
        self._sent.append((value, delivery, self._now_ms()))
        delivery.add_done_callback(partial(self._decided, len(self._sent) - 1))
        return delivery

    async def write_surely(self, partition: int) -> None:
        """Returns when a new record is acknowledged. It may fail with older ones, in whose batch it was."""
        while True:
            try:
                await (await self.write(partition))
                return
            except (DeliveryError, DeliveryTimeoutError):
                continue

    def _now_ms(self) -> int:
        return int(self._clock.time() * 1000)

    def _decided(self, number: int, delivery: Delivery) -> None:
        self._pending -= 1
        self._told[number] = self._now_ms()
        if delivery.error is None:
            self.acknowledged += 1

    async def flush(self, within: float) -> None:
        """Until every record is acknowledged, or has failed."""
        try:
            await self._client.flush(within)
        except DeliveryError:
            return  # the receipts say which

    async def close(self) -> None:
        try:
            await self._client.close()
        except DeliveryError:
            return

    def written(self) -> list[WrittenRecord]:
        return [
            WrittenRecord(
                value, int(value.split()[1]), *_outcome(delivery), sent_ms, self._told.get(number, 0)
            )
            for number, (value, delivery, sent_ms) in enumerate(self._sent)
        ]


def _outcome(delivery: Delivery) -> tuple[int | None, bool]:
    """Where a record is stored, and whether it may be, all the same, if that is not known."""
    if not delivery.done():
        return None, True
    if delivery.error is None:
        return delivery.offset, True
    return None, getattr(delivery.error, "may_be_stored", True)


class TopicReader:
    """Reads all partitions from the first record on."""

    def __init__(self, name: str, runtime: SimRuntime, bootstrap: str, shape: WorkloadShape) -> None:
        self.name = name
        self.records: list[ReadRecord] = []
        self.violations: list[RuleViolation] = []
        self.next_offsets = [0] * shape.partitions
        self._client = AsyncClient(bootstrap, runtime=runtime.at(name), **shape.reader_options)
        self._consumer = self._client.consume(*shape.assigned(), start="earliest")

    async def run(self, until: Callable[[], bool]) -> None:
        """Reads until that holds, and at least once."""
        while True:
            try:
                for record in await self._consumer.poll(timeout=_POLL):
                    self.records.append(ReadRecord(record.partition, record.offset, record.value))
                    self.next_offsets[record.partition] = record.offset + 1
            except KafkaError as error:
                if not isinstance(error, AWAY) and not getattr(error, "retriable", False):
                    # A DataLossError above all: no log is ever cut below what a consumer may see.
                    self.violations.append(RuleViolation("reader failed", f"{self.name}: {error!r}"))
                await asyncio.sleep(_RETRY)
            if until():
                return

    def has_read(self, ends: list[int]) -> bool:
        return all(at >= end for at, end in zip(self.next_offsets, ends, strict=True))

    async def close(self) -> None:
        await self._consumer.close()
        await self._client.close()


class Workload:
    """All clients of one simulation."""

    def __init__(self, runtime: SimRuntime, bootstrap: str, shape: WorkloadShape) -> None:
        self._runtime = runtime
        self._bootstrap = bootstrap
        self._shape = shape
        self._random = generator(runtime.seed, "workload")
        self._ends: list[int] | None = None
        self._stops_writing = False
        self.writers = [
            Writer(f"writer-{number + 1}", runtime, bootstrap, shape) for number in range(shape.writers)
        ]
        self.readers: list[TopicReader] = []
        self._writing: list[asyncio.Task[None]] = []
        self._reading: list[asyncio.Task[None]] = []

    @property
    def machines(self) -> list[str]:
        """Where the clients run."""
        return [*(writer.name for writer in self.writers), "reader-1", "reader-2"]

    @property
    def acknowledged(self) -> int:
        return sum(writer.acknowledged for writer in self.writers)

    def start(self) -> None:
        create = asyncio.get_running_loop().create_task
        self._writing = [
            create(writer.run(lambda: self._stops_writing), name=writer.name) for writer in self.writers
        ]
        self._reading = [
            create(self._tail(), name="reader-1"),
            create(self._return(), name="reader-2"),
        ]

    def _reader(self, name: str) -> TopicReader:
        reader = TopicReader(name, self._runtime, self._bootstrap, self._shape)
        self.readers.append(reader)
        return reader

    async def _tail(self) -> None:
        reader = self._reader("reader-1")
        try:
            await reader.run(lambda: self._ends is not None and reader.has_read(self._ends))
        finally:
            await reader.close()

    async def _return(self) -> None:
        while self._ends is None:
            reader = self._reader("reader-2")
            end = asyncio.get_running_loop().time() + self._random.uniform(1.0, 6.0)
            try:
                await reader.run(partial(self._is_past, end))
            finally:
                await reader.close()
            await asyncio.sleep(self._random.uniform(1.0, 6.0))

    def _is_past(self, time: float) -> bool:
        return self._ends is not None or asyncio.get_running_loop().time() > time

    async def finish_writing(self, within: float) -> None:
        """No further record; returns when what became of each is known."""
        self._stops_writing = True
        await asyncio.gather(*self._writing)
        for writer in self.writers:
            await writer.flush(within)

    async def finish_reading(self, ends: list[int], within: float) -> None:
        """Returns when everything below these offsets has been read; a TimeoutError says that it is not."""
        self._ends = ends
        async with asyncio.timeout(within):
            await asyncio.gather(*self._reading)

    async def close(self) -> None:
        self._stops_writing, self._ends = True, self._ends or []
        for task in [*self._writing, *self._reading]:
            task.cancel()
        await asyncio.gather(*self._writing, *self._reading, return_exceptions=True)
        for writer in self.writers:
            await writer.close()

    def history(self) -> History:
        written = [record for writer in self.writers for record in writer.written()]
        return History(
            written,
            {f"{reader.name} #{number}": reader.records for number, reader in enumerate(self.readers)},
        )

    def violations(self) -> list[RuleViolation]:
        return [violation for reader in self.readers for violation in reader.violations]
