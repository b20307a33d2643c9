"""Producing whole tables: Arrow columns into batches, slice by slice, behind what was produced before.

The partition of each row is found natively where the partitioner allows it (partitioners/base.py, ColumnsMode). Where
every row has to be looked at by itself, because of the partitioner or of an interceptor, a table is produced row by
row, and that is said once.

Invariant: a slice is in the buffer as a whole, or not at all.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from ottla.client.partitioners import ColumnsMode
from ottla.client.produce.batch import ProducerBatch
from ottla.client.produce.batch_delivery import BatchDelivery
from ottla.client.produce.record_path import NoRoom, RecordPath
from ottla.client.produce.schedule import DrainSchedule
from ottla.client.produce.settings import ProduceSettings
from ottla.client.produce.table_slices import has_column, named_columns, rows_of, slices
from ottla.client.produce.topic import TopicProducer
from ottla.client.produce.turns import in_turn
from ottla.client.waiting import within
from ottla.errors import BufferFullError
from ottla.hooks import ProducerRecord
from ottla.runtime import Runtime
from ottla.wire.records import Accumulator, BufferFull, Delivery, EncodedBatch, encode_columns

_logger = logging.getLogger("ottla.client.produce.producer")

_MOST_SLICE: Final = 4 * 1024 * 1024
"""Bytes: large enough to encode at full speed, small enough not to keep the loop for more than a moment."""
_SHARE: Final = 8
"""Of the buffer, for one slice: while some are under way, the next ones still find room."""


class ColumnsProducer:
    """`produce_batch`."""

    def __init__(
        self,
        settings: ProduceSettings,
        runtime: Runtime,
        accumulator: Accumulator,
        path: RecordPath,
        mode: ColumnsMode,
        schedule: DrainSchedule,
        space: Callable[[], Any],
        ask_again: Callable[[str], Awaitable[object]],
        wait: Callable[[Any, float | None], object] | None,
    ) -> None:
        self._settings = settings
        self._clock = runtime.clock
        self._accumulator = accumulator
        self._path = path
        self._mode = mode
        self._schedule = schedule
        self._space = space
        self._ask_again = ask_again
        self._wait = wait
        self._slice_bytes = max(1, min(_MOST_SLICE, settings.buffer_memory // _SHARE))
        most = settings.max_buffered_records
        self._slice_rows = None if most is None else max(1, most // _SHARE)
        self._has_warned = False

    async def produce(
        self,
        topic: str,
        table: Any,
        known: Callable[[str], Awaitable[TopicProducer]],
        partition: int | None,
        timestamp: int | None,
    ) -> BatchDelivery:
        """`known(topic)` gives the topic once its partitions are known."""
        delivery = BatchDelivery(topic, self._wait)
        try:
            table = self._path.table(topic, table)
            if self._goes_by_row(topic, partition):
                await self._produce_rows(topic, table, delivery, partition, timestamp)
            else:
                for part, again in slices(table, self._slice_bytes, self._slice_rows):
                    await self._produce_slice(await known(topic), part, again, delivery, partition, timestamp)
        except BaseException as error:
            # The receipt is nobody's: but what has gone out already must find it whole.
            delivery.complete(error)
            error.add_note(f"the table was for topic {topic}")
            raise
        delivery.complete()
        return delivery

    # Whole columns

    async def _produce_slice(
        self,
        topic: TopicProducer,
        part: Any,
        again: bool,
        delivery: BatchDelivery,
        partition: int | None,
        timestamp: int | None,
    ) -> None:
        one = partition is not None
        if self._mode is ColumnsMode.IN_TURN and not one:
            part = in_turn(part, lambda rows: topic.partitioner.turns(rows, topic.load))
        unkeyed = partition if one else self._unkeyed(topic, part)
        now = int(self._clock.time() * 1000) if timestamp is None else timestamp
        batches = None
        while batches is None:
            try:
                batches = self._encode(topic, part, again, unkeyed, now, one)
            except BufferFull as full:
                await self._room(full)
            except ValueError:
                # A row names a partition that there is not; or there is, and metadata is older.
                if not again or not has_column(part, "partition") or not await self._grown(topic):
                    raise
        opened_at = self._clock.monotonic()
        for encoded in batches:
            batch = ProducerBatch(encoded, opened_at)
            delivery.watch(batch)
            recbuf = topic.recbufs[encoded.partition]
            recbuf.append(batch)
            self._schedule.consider(recbuf)

    def _encode(
        self, topic: TopicProducer, part: Any, again: bool, unkeyed: int | None, now: int, one: bool
    ) -> list[EncodedBatch]:
        return encode_columns(
            named_columns(part),
            partitions=topic.load.partitions,
            batch_size=self._settings.max_batch_bytes,
            now=now,
            unkeyed_partition=unkeyed,
            ignore_keys=one or self._mode is not ColumnsMode.BY_KEY,
            max_record_size=self._settings.max_request_size,
            topic=topic.name,
            # What can be read only once has to be taken as it comes, within bounds or not.
            accumulator=self._accumulator if again else None,
        )

    def _unkeyed(self, topic: TopicProducer, part: Any) -> int | None:
        """The partition of rows without one: one choice, made like that of a record that opens a batch."""
        if self._mode in (ColumnsMode.NAMED, ColumnsMode.IN_TURN):
            return None
        size = min(self._slice_bytes, int(getattr(part, "nbytes", self._settings.max_batch_bytes)))
        chosen = topic.partitioner.choose(None, None, size, topic.load)
        if topic.partitioner.on_new_batch(chosen):
            chosen = topic.partitioner.choose(None, None, size, topic.load)
        return chosen

    async def _room(self, full: BufferFull) -> None:
        try:
            await within(self._clock, self._settings.max_block, self._space())
        except TimeoutError:
            limit = "buffer_memory" if full.limit == "bytes" else "max_buffered_records"
            raise BufferFullError(
                f"waited max_block_ms={self._settings.max_block * 1000:.0f} for room in the buffer: {full}; "
                f"raise {limit} or max_block_ms, or produce less at a time",
                limit=limit,
            ) from full

    async def _grown(self, topic: TopicProducer) -> bool:
        """Asks once more how many partitions there are; whether they have become more."""
        known = topic.load.partitions
        await self._ask_again(topic.name)
        return topic.load.partitions > known

    # Row by row

    def _goes_by_row(self, topic: str, partition: int | None) -> bool:
        by_partitioner = self._mode is ColumnsMode.BY_ROW and partition is None
        if not by_partitioner and not self._path.needs_rows:
            return False
        if not self._has_warned:
            self._has_warned = True
            why = (
                "the partitioner looks at every record"
                if by_partitioner
                else "an interceptor has on_send and no on_send_batch"
            )
            text = f"the table for {topic} is produced row by row, which is slow: {why}"
            _logger.warning("%s", text)
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        return True

    async def _produce_rows(
        self,
        topic: str,
        table: Any,
        delivery: BatchDelivery,
        partition: int | None,
        timestamp: int | None,
    ) -> None:
        for row in rows_of(table):
            row.topic = topic
            row.partition = partition if row.partition is None else row.partition
            row.timestamp = timestamp if row.timestamp is None else row.timestamp
            receipt = await self._produce_row(topic, row)
            receipt.add_done_callback(delivery.add_row())

    async def _produce_row(self, topic: str, row: ProducerRecord) -> Delivery:
        attempt: Callable[[], Delivery] = partial(self._path.produce_row, topic, row)
        while True:
            try:
                return attempt()
            except NoRoom as full:
                attempt = full.again
                await self._room(full)
