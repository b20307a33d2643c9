"""FetchedPartition: what one answer to a fetch brought of one partition, still as bytes.

The bytes are walked once, from batch to batch, when they arrive: where the next fetch begins has to be known before
the reader comes to decode them. Decoding is the reader's, in its own thread, in one native call.

Invariant: `next_offset` is larger than `offset`. What cannot give that is no FetchedPartition but an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla import hooks
from ottla.client.topic_partition import TopicPartition
from ottla.errors import CorruptBatchError, DecodeError
from ottla.wire.batch_header import (
    BATCH_OVERHEAD,
    COUNT_AT,
    LEADER_EPOCH_AT,
    LENGTH_AT,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    SMALLEST_MESSAGE,
    unpack_count,
    unpack_epoch_and_delta,
    unpack_length,
    unpack_prefix,
)
from ottla.wire.primitives import Buffer
from ottla.wire.records import DEFAULT_MAX_DECOMPRESSED, Records, decode_fetch, to_arrow

if TYPE_CHECKING:
    import pyarrow


class Span(NamedTuple):
    """What the headers of some batches say."""

    next_offset: int
    """Behind the last batch that is there whole; -1 if none is."""
    epoch: int
    """The leader epoch of that batch, -1 if it has none."""
    records: int
    size: int
    """How much of the bytes is wanted: all of them, or those up to the first batch behind the stop."""


def span(data: Buffer, stop: int | None = None) -> Span:
    """From header to header; a batch that is cut off at the end does not count, nor do those from `stop` on."""
    position, size = 0, len(data)
    next_offset, epoch, records = -1, -1, 0
    while size - position >= SMALLEST_MESSAGE:
        base, length = unpack_prefix(data, position)
        end = position + LOG_OVERHEAD + length
        is_old = data[position + MAGIC_AT] < MAGIC
        if end > size or end - position < (SMALLEST_MESSAGE if is_old else BATCH_OVERHEAD):
            break
        if stop is not None and base >= stop and not is_old:
            # Whatever lies before the stop has been here, also if there is nothing right before it.
            return Span(max(next_offset, stop), epoch, records, position)
        if is_old:
            next_offset, epoch, count = base + 1, -1, 1
        else:
            epoch, delta = unpack_epoch_and_delta(data, position + LEADER_EPOCH_AT)
            next_offset = base + delta + 1
            (count,) = unpack_count(data, position + COUNT_AT)
        records += count
        position = end
    return Span(next_offset, epoch, records, size)


class FetchedPartition:
    """Records of one partition, from `offset` on."""

    __slots__ = (
        "_check_crc",
        "aborted",
        "answer",
        "data",
        "epoch",
        "epoch_before",
        "generation",
        "high_watermark",
        "last_stable_offset",
        "max_decompressed",
        "next_offset",
        "node_id",
        "offset",
        "partition",
        "position",
        "read_at",
        "stop",
        "topic",
        "tp",
    )

    def __init__(
        self,
        tp: TopicPartition,
        data: Buffer,
        *,
        offset: int,
        epoch_before: int,
        next_offset: int,
        epoch: int,
        generation: int,
        aborted: list[tuple[int, int]] | None = None,
        high_watermark: int = -1,
        last_stable_offset: int = -1,
        stop: int | None = None,
        node_id: int = -1,
        read_at: float = 0.0,
        check_crc: bool = True,
        max_decompressed: int = DEFAULT_MAX_DECOMPRESSED,
    ) -> None:
        self.tp = tp
        self.topic = tp.topic
        self.partition = tp.partition
        self.data = data
        self.offset = offset
        self.epoch_before = epoch_before
        """The epoch that was consumed last before it: what a cursor that goes back to `offset` has to know."""
        self.position = offset
        """Where a reader that was interrupted goes on in it."""
        self.next_offset = next_offset
        self.epoch = epoch
        self.generation = generation
        self.aborted = aborted
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.stop = stop
        self.node_id = node_id
        self.read_at = read_at
        self.max_decompressed = max_decompressed
        self.answer: object = None
        """Of what it is a part, for fetch_queue.py."""
        self._check_crc = check_crc

    def __repr__(self) -> str:
        return f"FetchedPartition({self.tp} {self.offset} to {self.next_offset}, {len(self.data)} bytes)"

    def records(self, offset: int | None = None) -> Records:
        """The records from `offset` on.

        A damaged first batch is a CorruptBatchError. Where another one is damaged, or too much to decompress with
        those before it, the records end before it: the next fetch has to begin there.
        """
        start = self.offset if offset is None else offset
        try:
            return self._decode(start)
        except DecodeError as error:
            raise self._corrupt(start, error) from error

    def arrow(self, offset: int | None = None) -> pyarrow.RecordBatch:
        """The records as Arrow columns; those at or behind `stop` are not among them."""
        records = self.records(offset)
        batch = to_arrow(records)
        return batch.slice(0, wanted(records, self.stop)) if self.is_cut else batch

    @property
    def is_cut(self) -> bool:
        """Whether it holds records that are not asked for, behind the place where reading ends."""
        return self.stop is not None and self.next_offset > self.stop

    @property
    def end(self) -> int:
        """Where the reader is when it has read all that is asked for."""
        return self.next_offset if self.stop is None else min(self.next_offset, self.stop)

    def seen_by_hooks(self, taken_at: float | None = None) -> hooks.FetchedPartition:
        return hooks.FetchedPartition(
            self.node_id,
            self.topic,
            self.partition,
            span(self.data).records,
            len(self.data),
            self.high_watermark,
            self.read_at,
            taken_at,
        )

    def _decode(self, offset: int) -> Records:
        return decode_fetch(
            self.data,
            self.topic,
            self.partition,
            offset=offset,
            aborted=self.aborted,
            check_crc=self._check_crc,
            max_decompressed=self.max_decompressed,
        )

    def _corrupt(self, offset: int, error: DecodeError) -> CorruptBatchError:
        behind = next((end for end in self._ends() if end > offset), self.next_offset)
        return CorruptBatchError(
            f"topic {self.topic}, partition {self.partition}: the batch at offset {offset} cannot be read: {error}; "
            f"seek to {behind}, or skip the error, to go on behind it",
            topic=self.topic,
            partition=self.partition,
            offset=offset,
            next_offset=behind,
        )

    def _ends(self) -> list[int]:
        """The offset behind each batch."""
        view = memoryview(self.data)
        ends, position = [], 0
        while len(view) - position >= SMALLEST_MESSAGE:
            (length,) = unpack_length(view, position + LENGTH_AT)
            if length <= 0:
                break
            end = position + LOG_OVERHEAD + length
            ends.append(span(view[position:end]).next_offset)
            position = end
        return ends


def wanted(records: Records, stop: int | None) -> int:
    """How many of the records lie before `stop`."""
    return len(records) if stop is None else records.position_of(stop)
