"""PartitionRecords: what one response to a fetch brought of one partition, still as bytes.

The bytes are walked once, from header to header, when they arrive: where the next fetch begins has to be known before
the reader comes to decode them. Decoding is the reader's, in its own thread, in one native call.

Invariant: `next_offset` is larger than `offset`. What cannot give that is no PartitionRecords but an error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla import hooks
from ottla._native.record_batch import whole_batch
from ottla.client.topic_partition import TopicPartition
from ottla.errors import CorruptBatchError, DecodeError
from ottla.wire import ZERO_UUID, Uuid
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
from ottla.wire.records import DEFAULT_MAX_DECOMPRESSED, Records, decode_fetch


class ReaderPosition(NamedTuple):
    """The offset of the next record, and the leader epoch of the one before it (KIP-320): -1 if that is not known."""

    offset: int
    leader_epoch: int = -1
    topic_id: Uuid = ZERO_UUID
    """The topic that it is an offset of: another one may come to have the same name."""


class BatchHeaders(NamedTuple):
    """What the headers of some batches say."""

    next_offset: int
    """Behind the last batch that is there whole; -1 if none is."""
    epoch: int
    """The leader epoch of that batch, -1 if it has none."""
    records: int
    size: int
    """How many of the bytes are read: all of them, or those up to the first batch behind the stop."""


def walk_headers(data: Buffer, stop: int | None = None) -> BatchHeaders:
    """From header to header; a batch that is cut off at the end does not count, nor do those from `stop` on."""
    size = len(data)
    only = whole_batch(data)
    if only is not None and (stop is None or only.base_offset < stop):
        # As it is for a reader that keeps up.
        return BatchHeaders(only.next_offset, only.leader_epoch, only.record_count, size)
    position = 0
    next_offset, epoch, records = -1, -1, 0
    while size - position >= SMALLEST_MESSAGE:
        base, length = unpack_prefix(data, position)
        end = position + LOG_OVERHEAD + length
        is_old = data[position + MAGIC_AT] < MAGIC
        if end > size or end - position < (SMALLEST_MESSAGE if is_old else BATCH_OVERHEAD):
            break
        if stop is not None and base >= stop and not is_old:
            # Whatever lies before the stop has been here, also if there is nothing right before it.
            return BatchHeaders(max(next_offset, stop), epoch, records, position)
        if is_old:
            next_offset, epoch, count = base + 1, -1, 1
        else:
            epoch, delta = unpack_epoch_and_delta(data, position + LEADER_EPOCH_AT)
            next_offset = base + delta + 1
            (count,) = unpack_count(data, position + COUNT_AT)
        records += count
        position = end
    return BatchHeaders(next_offset, epoch, records, size)


@dataclass(slots=True, eq=False)
class PartitionRecords:
    """Records of one partition, from `offset` on."""

    tp: TopicPartition
    data: Buffer = field(repr=False)
    offset: int
    next_offset: int
    epoch_before: int
    """The epoch that was consumed last before it: what a cursor that goes back to `offset` has to know."""
    generation: int
    position: int
    """Where a reader that was interrupted goes on in it; at first its offset."""
    end: int
    """Where the reader is when it has read all of it: the next offset, or the stop before it."""
    topic_id: Uuid = ZERO_UUID
    epoch: int = -1
    """The leader epoch of its last batch."""
    count: int = 0
    """How many records it holds, as its headers say."""
    aborted: list[tuple[int, int]] | None = None
    """Producers and first offsets of the aborted transactions; None where uncommitted records are read."""
    high_watermark: int = -1
    node_id: int = -1
    read_at: float = 0.0
    on_taken: Callable[[], None] | None = None
    """Called on the loop when the reader begins the response; the first part of a response has it."""

    def decode(
        self, offset: int, *, check_crc: bool = True, max_decompressed: int = DEFAULT_MAX_DECOMPRESSED
    ) -> Records:
        """The records from `offset` on.

        A damaged first batch is a CorruptBatchError. Where another one is damaged, or too much to decompress with
        those before it, the records end before it: the next fetch has to begin there.
        """
        topic, partition = self.tp
        try:
            return decode_fetch(
                self.data,
                topic,
                partition,
                offset=offset,
                aborted=self.aborted,
                check_crc=check_crc,
                max_decompressed=max_decompressed,
            )
        except DecodeError as error:
            raise self._corrupt(offset, error) from error

    def at(self, offset: int) -> ReaderPosition:
        """An offset of it, with the epoch of what lies before."""
        return ReaderPosition(offset, self._epoch_before(offset), self.topic_id)

    def _epoch_before(self, offset: int) -> int:
        if offset <= self.offset:
            return self.epoch_before
        if self.epoch == self.epoch_before or offset >= self.end:
            return self.epoch
        epoch, position, size = self.epoch_before, 0, len(self.data)
        while size - position >= SMALLEST_MESSAGE:
            base, length = unpack_prefix(self.data, position)
            if base >= offset or length <= 0:
                break
            is_old = self.data[position + MAGIC_AT] < MAGIC
            epoch = -1 if is_old else unpack_epoch_and_delta(self.data, position + LEADER_EPOCH_AT)[0]
            position += LOG_OVERHEAD + length
        return epoch

    def for_hooks(self, taken_at: float | None = None) -> hooks.FetchedPartition:
        topic, partition = self.tp
        return hooks.FetchedPartition(
            self.node_id,
            topic,
            partition,
            self.count,
            len(self.data),
            self.high_watermark,
            self.read_at,
            taken_at,
        )

    def _corrupt(self, offset: int, error: DecodeError) -> CorruptBatchError:
        topic, partition = self.tp
        behind = next((end for end in self._ends() if end > offset), self.next_offset)
        return CorruptBatchError(
            f"topic {topic}, partition {partition}: the batch at offset {offset} cannot be read: {error}; "
            f"seek to {behind}, or skip the error, to go on behind it",
            topic=topic,
            partition=partition,
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
            ends.append(walk_headers(view[position:end]).next_offset)
            position = end
        return ends
