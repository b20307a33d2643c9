"""What the tests of the way into the buffers share: appenders, and where records went."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla._native.accumulator import Accumulator
from ottla._native.appender import TopicAppender
from ottla._native.record_buffer import BufferFull
from ottla.client.partitioners import Load, Partitioner, TopicPartitioner, as_partitioner
from ottla.runtime import Random
from tests.client.partitioners.support import FixedLoad, idle
from tests.native.accumulator_support import accumulator, sealed
from tests.native.encode_support import decoded

BATCH_SIZE = 1000


class Asked(TopicPartitioner):
    """Another partitioner, through Python: each question and answer is remembered."""

    def __init__(self, inner: TopicPartitioner) -> None:
        self.inner = inner
        self.chosen: list[tuple[bytes | None, bytes | None, int, int]] = []
        self.new_batches: list[tuple[int, bool]] = []

    def choose(self, key: bytes | None, value: bytes | None, size: int, load: Load) -> int:
        partition = self.inner.choose(key, value, size, load)
        self.chosen.append((key, value, size, partition))
        return partition

    def on_new_batch(self, partition: int) -> bool:
        again = self.inner.on_new_batch(partition)
        self.new_batches.append((partition, again))
        return again


def partitioner_of(option: Any = "default", seed: int = 1, batch_size: int = BATCH_SIZE) -> TopicPartitioner:
    partitioner: Partitioner = as_partitioner(option)
    return partitioner.for_topic("orders", batch_size=batch_size, random=Random(seed))


def appender(
    records: Accumulator | None = None,
    partitioner: TopicPartitioner | None = None,
    load: FixedLoad | int = 10,
) -> TopicAppender:
    return TopicAppender(
        records or accumulator(BATCH_SIZE),
        "orders",
        partitioner or partitioner_of(),
        idle(load) if isinstance(load, int) else load,
    )


def values_of(records: Accumulator) -> dict[int, list[bytes]]:
    """What has been appended to each partition, in order; it is taken out, and is done."""
    found: dict[int, list[bytes]] = {}
    for buffer in records.buffers():
        for batch in sealed(buffer.drain(force=True)):
            found.setdefault(buffer.partition, []).extend(
                record.value or b"" for record in decoded(batch).records
            )
            batch.complete(0)
    return found


def all_values_of(records: Accumulator) -> list[bytes]:
    return [value for values in values_of(records).values() for value in values]


def until_full(append: Callable[[], object]) -> int:
    """Appends until there is no room; how many found theirs."""
    for count in range(1000):
        try:
            append()
        except BufferFull:
            return count
    raise AssertionError("there is no bound")
