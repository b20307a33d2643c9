"""Producing whole tables: Arrow columns into batches, slice by slice, behind what was produced before.

The thread that produces opens a table first, since reading it may run, and wait for, code of the program. The loop
then checks every row of it before it sends the first: what is wrong with a table is known before anything of it has
gone. It is cut by what its rows take, however they lie in memory.

The partition of each row is found natively where the partitioner allows it (partitioners/base.py, ColumnsMode). Where
the partitioner or an interceptor needs every row by itself, a table is produced row by row, with one warning.

Invariants: a slice is in the buffer as a whole, or not at all; and rows go in order, so that those which a receipt
counts are the first ones.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ottla.client.deadline import within
from ottla.client.partitioners import ColumnsMode
from ottla.client.produce.batch import ProducerBatch
from ottla.client.produce.batch_delivery import BatchDelivery, PartlySentError
from ottla.client.produce.record_path import NoRoom, RecordPath
from ottla.client.produce.settings import ProduceSettings
from ottla.client.produce.tables import (
    as_arrow,
    check_partitions,
    each_table,
    is_several,
    named_columns,
    rows_of,
    with_round_robin_column,
)
from ottla.client.produce.topics import TopicProducer
from ottla.client.produce.wakeups import Wakeups
from ottla.errors import BufferFullError, NoSuchPartitionError
from ottla.hooks import ProducerRecord
from ottla.runtime import Clock
from ottla.wire.records import Accumulator, BufferFull, Delivery, EncodedBatch, Rows, encode_columns

if TYPE_CHECKING:
    from ottla.client.produce.producer import Producer

_logger = logging.getLogger("ottla.client.produce.producer")

_MOST_SLICE: Final = 4 * 1024 * 1024
"""Bytes: large enough to encode at full speed, small enough not to keep the loop for more than a moment."""
_SHARE: Final = 8
"""Of the buffer, for one slice: while some are under way, the next ones still find room. A slice never takes more
than the buffer: about five times its size where every row is short and has a batch of its own."""

Slice = tuple[int, int, int]
"""The first row, how many, and about how many bytes they take."""


@dataclass
class OpenTable:
    """A table of which nothing has been sent yet."""

    topic: str
    rows: Any
    """`Rows`; or a pyarrow.Table, where rows are produced one by one or take turns."""
    by_row: bool


class Handover:
    """One call that produces tables, and the receipts of what it has sent."""

    def __init__(
        self,
        columns: ColumnsProducer,
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> None:
        """Partition and timestamp are for the rows that have none of their own."""
        self._columns = columns
        self._partition = partition
        self._timestamp = timestamp
        self._receipts: dict[str, BatchDelivery] = {}

    # The thread that produces

    def open(self, topic: str, table: Any) -> OpenTable:
        """Reads a table, which may run code of the program; an error is about the table, or from that code."""
        try:
            return self._columns.open(topic, table, self._partition)
        except Exception as error:
            _add_topic(error, topic)
            raise

    def open_all(self, tables: Mapping[str, Any]) -> list[OpenTable]:
        """Those that are there as a whole; a receipt is made for each."""
        self._receipts = {topic: self._columns.receipt(topic) for topic in tables}
        return [self.open(topic, table) for topic, table in tables.items() if not is_several(table)]

    # The loop

    async def produce(self, tables: Mapping[str, Any]) -> dict[str, BatchDelivery]:
        """All of it, for callers on the loop."""
        try:
            await self.append(self.open_all(tables))
            for topic, several in tables.items():
                if is_several(several):
                    async with aclosing(each_table(several)) as each:
                        async for table in each:
                            await self.append([self.open(topic, table)])
        except BaseException as error:
            self.complete()
            self.raise_if_sent(error)
            raise
        return self.complete()

    async def produce_open(self, tables: Sequence[OpenTable]) -> dict[str, BatchDelivery]:
        """The same for tables that are open."""
        try:
            await self.append(tables)
        except BaseException as error:
            self.complete()
            self.raise_if_sent(error)
            raise
        return self.complete()

    async def append(self, tables: Sequence[OpenTable]) -> None:
        """Checks every row of them all, then puts them into the buffer."""
        with ExitStack() as kept:
            for table in tables:
                kept.enter_context(self._columns.kept(table.topic))
            checked = [(table, await self._check(table)) for table in tables]
            for table, slices in checked:
                await self._send(table, slices)

    async def _send(self, table: OpenTable, slices: list[Slice]) -> None:
        receipt = self._receipts[table.topic]
        try:
            await self._columns.send(table, slices, receipt, self._partition, self._timestamp)
        except Exception as error:
            _add_topic(error, table.topic)
            raise

    async def _check(self, table: OpenTable) -> list[Slice]:
        try:
            return await self._columns.check(table, self._partition)
        except Exception as error:
            _add_topic(error, table.topic)
            raise

    def complete(self) -> dict[str, BatchDelivery]:
        """Nothing more comes: the receipts are done as soon as what they count is."""
        for receipt in self._receipts.values():
            receipt.complete()
        return self._receipts

    # Both

    def raise_if_sent(self, error: BaseException) -> None:
        """After an error that came when rows had been sent already: raises one with their receipts instead."""
        sent = {topic: receipt for topic, receipt in self._receipts.items() if receipt.count}
        if sent and isinstance(error, Exception):
            raise PartlySentError(sent, error) from error
        if sent:
            # A cancellation, or Ctrl-C, which must stay what it is.
            rows = ", ".join(f"{receipt.count} to {topic}" for topic, receipt in sent.items())
            error.add_note(f"the first rows of the table have been handed over to be sent: {rows}")


def _add_topic(error: Exception, topic: str) -> None:
    error.add_note(f"the table was for topic {topic}")


class ColumnsProducer:
    """The way of tables into the buffer."""

    def __init__(
        self,
        producer: Producer,
        settings: ProduceSettings,
        clock: Clock,
        accumulator: Accumulator,
        path: RecordPath,
        mode: ColumnsMode,
        wakeups: Wakeups,
        wait: Callable[[Any, float | None], object] | None,
    ) -> None:
        """`wait(receipt, timeout)` blocks until a receipt is done, where the client is a blocking one."""
        self.kept = producer.kept
        self._producer = producer
        self._settings = settings
        self._clock = clock
        self._accumulator = accumulator
        self._path = path
        self._mode = mode
        self._wakeups = wakeups
        self._wait = wait
        self._slice_bytes = max(1, min(_MOST_SLICE, settings.buffer_memory // _SHARE))
        most = settings.max_buffered_records
        self._slice_rows = None if most is None else max(1, most // _SHARE)
        self._has_warned = False

    def receipt(self, topic: str) -> BatchDelivery:
        return BatchDelivery(topic, self._wait)

    def open(self, topic: str, table: Any, partition: int | None) -> OpenTable:
        """A table as the interceptors of tables leave it."""
        table = self._path.table(topic, table)
        by_row = self._goes_by_row(topic, partition)
        if by_row or (self._mode is ColumnsMode.IN_TURN and partition is None):
            return OpenTable(topic, as_arrow(table), by_row)
        return OpenTable(topic, Rows(named_columns(table)), by_row)

    # Whole columns

    async def check(self, table: OpenTable, partition: int | None) -> list[Slice]:
        """How the table is to be cut; raises if anything is wrong with any row."""
        if table.by_row:
            check_partitions(table.rows)
            return []
        if len(table.rows) == 0:
            return []
        topic = await self._producer.known_topic(table.topic)
        if partition is not None:
            await self._check_partition(topic, partition)
        if not isinstance(table.rows, Rows):
            turns = partial(topic.partitioner.turns, load=topic.load)
            table.rows = Rows(with_round_robin_column(table.rows, turns))
        try:
            return self._slices(topic, table.rows, partition)
        except NoSuchPartitionError:
            if not await self._grown(topic):
                raise
            return self._slices(topic, table.rows, partition)

    def _slices(self, topic: TopicProducer, rows: Rows, partition: int | None) -> list[Slice]:
        names_all = partition is None and self._mode in (ColumnsMode.NAMED, ColumnsMode.IN_TURN)
        return rows.slices(
            partitions=topic.load.partitions,
            most_bytes=self._slice_bytes,
            most_rows=self._slice_rows,
            buffer=self._settings.buffer_memory,
            # Which it will be is chosen for each slice; here it matters only whether there is one.
            unkeyed_partition=None if names_all else 0,
            ignore_keys=partition is not None or self._mode is not ColumnsMode.BY_KEY,
            max_record_size=self._settings.max_request_size,
            topic=topic.name,
        )

    async def _check_partition(self, topic: TopicProducer, partition: int) -> None:
        if 0 <= partition < topic.load.partitions:
            return
        if partition < 0 or not await self._grown(topic) or partition >= topic.load.partitions:
            raise NoSuchPartitionError(
                topic=topic.name, partition=partition, partitions=topic.load.partitions
            )

    async def send(
        self,
        table: OpenTable,
        slices: Iterable[Slice],
        receipt: BatchDelivery,
        partition: int | None,
        timestamp: int | None,
    ) -> None:
        """Puts all rows into the buffer, where it waits for room; the receipt counts those that are in it."""
        if table.by_row:
            await self._send_rows(table, receipt, partition, timestamp)
        for part in slices:
            topic = await self._producer.known_topic(table.topic)
            encode = self._encoder(topic, table.rows, part, partition, timestamp)
            batches = None
            while batches is None:
                try:
                    batches = encode()
                except BufferFull as full:
                    await self._room(full)
                    if topic.is_forgotten:
                        # Purged while there was no room: the rest of the table begins anew.
                        topic = await self._producer.known_topic(table.topic)
                        encode = self._encoder(topic, table.rows, part, partition, timestamp)
            opened_at = self._clock.monotonic()
            for encoded in batches:
                batch = ProducerBatch(encoded, opened_at)
                receipt.watch(batch)
                recbuf = topic.recbufs[encoded.partition]
                recbuf.append(batch)
                self._wakeups.consider(recbuf)

    def _encoder(
        self,
        topic: TopicProducer,
        rows: Rows,
        part: Slice,
        partition: int | None,
        timestamp: int | None,
    ) -> Callable[[], list[EncodedBatch]]:
        first, count, size = part
        return partial(
            encode_columns,
            rows,
            partitions=topic.load.partitions,
            batch_size=self._settings.max_batch_bytes,
            now=int(self._clock.time() * 1000) if timestamp is None else timestamp,
            unkeyed_partition=self._unkeyed(topic, rows, size) if partition is None else partition,
            ignore_keys=partition is not None or self._mode is not ColumnsMode.BY_KEY,
            max_record_size=self._settings.max_request_size,
            topic=topic.name,
            accumulator=self._accumulator,
            first=first,
            count=count,
        )

    def _unkeyed(self, topic: TopicProducer, rows: Rows, size: int) -> int | None:
        """The partition of rows without one: one choice, made like that of a record that opens a batch."""
        if self._mode in (ColumnsMode.NAMED, ColumnsMode.IN_TURN) or rows.name_partitions:
            return None
        chosen = topic.partitioner.choose(None, None, size, topic.load)
        if topic.partitioner.on_new_batch(chosen):
            chosen = topic.partitioner.choose(None, None, size, topic.load)
        return chosen

    async def _room(self, full: BufferFull) -> None:
        try:
            await within(self._clock, self._settings.max_block, self._producer.space())
        except TimeoutError:
            limit = "buffer_memory" if full.limit == "bytes" else "max_buffered_records"
            raise BufferFullError(
                f"waited max_block_ms={self._settings.max_block * 1000:.0f} for room in the buffer: {full}; "
                f"raise {limit} or max_block_ms, or produce less at a time",
                limit=limit,
            ) from full

    async def _grown(self, topic: TopicProducer) -> bool:
        """Whether there are more partitions by now."""
        known = topic.load.partitions
        await self._producer.refresh_partitions(topic.name)
        return topic.load.partitions > known

    # Row by row

    def _goes_by_row(self, topic: str, partition: int | None) -> bool:
        why = self._path.needs_rows
        if self._mode is ColumnsMode.BY_ROW and partition is None:
            why = "the partitioner looks at every record"
        if why is None:
            return False
        if not self._has_warned:
            self._has_warned = True
            text = f"the table for {topic} is produced row by row, which is slow: {why}"
            _logger.warning("%s", text)
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        return True

    async def _send_rows(
        self, table: OpenTable, receipt: BatchDelivery, partition: int | None, timestamp: int | None
    ) -> None:
        for row in rows_of(table.rows):
            row.topic = table.topic
            row.partition = partition if row.partition is None else row.partition
            row.timestamp = timestamp if row.timestamp is None else row.timestamp
            delivery = await self._produce_row(table.topic, row)
            delivery.add_done_callback(receipt.add_row())

    async def _produce_row(self, topic: str, row: ProducerRecord) -> Delivery:
        attempt: Callable[[], Delivery] = partial(self._path.produce_row, topic, row)
        while True:
            try:
                return attempt()
            except NoRoom as full:
                attempt = full.again
                await self._room(full)
