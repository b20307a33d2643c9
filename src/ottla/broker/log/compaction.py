"""One pass of compaction over one log: of each key the last record stays, as far as the pass reaches.

First the keys of the dirty part go into a map with their last offsets. Then every segment up to where the map ends is
written anew, several small ones into one, and takes its place (swap.py). The rules are those of Kafka's cleaner:

- Offsets never change, and a batch keeps its first and last offset, its producer and its sequence numbers.
- A batch that is left empty goes, unless it is the last of an active producer, whose sequence it shows, or the last
  of the pass, which shows where the log ends.
- A tombstone stays for delete.retention.ms from the first pass that meets it. The pass writes this horizon where the
  base timestamp of the batch was (KIP-534).
- What an aborted transaction has written goes at once. A marker stays until a pass finds no data of its transaction,
  and then as long as a tombstone.

Which log is compacted, and up to where, is cleaner.py; what happens per record is ottla._native.compaction.

A pass runs in slices: it is a generator that yields after some work, and its driver lets the log be used in between.
What is written goes to the disk between two slices as well: the driver calls `flush`, in a thread if need be. Appends
change nothing here, as the active segment takes no part. A truncation, a deleted segment or another cleanup.policy
ends the pass with CompactionAbortedError, and the log is as it was, but for segments that have been replaced already;
these are as good as the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ottla._native import crc32c
from ottla._native.compaction import KeptRecords, OffsetMap, choose
from ottla._native.record_batch import Batch, read_header
from ottla.broker.log.batch import NO_TIMESTAMP
from ottla.broker.log.config import LogConfig
from ottla.broker.log.index import LARGEST_RELATIVE_OFFSET
from ottla.broker.log.log import Log
from ottla.broker.log.producers import ProducerStateEntry
from ottla.broker.log.rewrite import compressed
from ottla.broker.log.segment import Segment
from ottla.broker.log.transactions import AbortedIndex, AbortedTransaction, read_marker
from ottla.errors import CorruptBatchError
from ottla.wire.batch_header import (
    APPEND_TIME,
    BATCH_OVERHEAD,
    CHECKED_FROM,
    CODEC,
    CONTROL,
    CRC_AT,
    DELETE_HORIZON,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL,
    pack_crc,
    pack_header,
)
from ottla.wire.compression import Compression, decompress
from ottla.wire.primitives import Buffer
from ottla.wire.records import DEFAULT_MAX_DECOMPRESSED

SLICE_WORK: Final = 512 * 1024
"""How much is done before others may work, in bytes of the log: about a millisecond."""
_BATCH_WORK: Final = 1024
"""What each batch costs beside its bytes."""
_RECORD_WORK: Final = 128
"""What each record costs, which may be more than its bytes where the batch is compressed."""
_FLUSHED_BYTES: Final = 8 * 1024 * 1024
"""What is written is flushed bit by bit, so that no single flush takes long."""
_EVERYTHING: Final = -1
"""As the offset where the map ends: every record lies behind it, and stays."""
_LARGEST_TIMESTAMP: Final = 2**63 - 1
"""A horizon behind it is none, as in Kafka: with the largest delete.retention.ms tombstones stay."""
_KEPT_ATTRIBUTES: Final = CODEC | APPEND_TIME | TRANSACTIONAL | CONTROL


class CompactionAbortedError(Exception):
    """The log has changed while it was compacted; another pass begins anew."""


@dataclass(slots=True)
class Compacted:
    """What a pass has done so far."""

    end_offset: int
    """Up to where the log is clean when the pass is through."""
    mapped_bytes: int = 0
    read_bytes: int = 0
    written_bytes: int = 0


@dataclass(frozen=True, slots=True)
class CompactionSlice:
    """What the driver of a pass is told of, before the pass goes on."""

    read_bytes: int = 0
    """Since it was last told."""
    flush: Callable[[], None] | None = None
    """Is to be called, and waits for the disk. A thread may do so."""


class Compaction:
    """A pass from `first_dirty_offset` up to `upper_offset`, which is where a segment begins.

    compaction = Compaction(log, 0, log.segments[-1].base_offset, OffsetMap(room, 0.9, secret), now_ms)
    for part in compaction.slices():
        if part.flush is not None:
            part.flush()
        ...  # the log may be used here
    compaction.result.end_offset
    """

    def __init__(
        self,
        log: Log,
        first_dirty_offset: int,
        upper_offset: int,
        offsets: OffsetMap,
        now_ms: int,
        *,
        slice_work: int = SLICE_WORK,
    ) -> None:
        self.result = Compacted(first_dirty_offset)
        self._log = log
        self._first_dirty_offset = first_dirty_offset
        self._upper_offset = upper_offset
        self._offsets = offsets
        self._now_ms = now_ms
        self._slice_work = slice_work
        self._unflushed = 0
        self._cuts = log.cuts
        self._segments = [segment for segment in log.segments if segment.base_offset < upper_offset]
        # Every transaction with data below the last stable offset, and no other lies below `upper_offset`, has ended:
        # those that end from here on do not concern the pass.
        self._aborted = sorted(
            (entry for segment in log.segments for entry in segment.aborted), key=_first_offset
        )

    def slices(self) -> Generator[CompactionSlice]:
        """Does the pass."""
        self._check(*self._segments)
        yield from self._map()
        end_offset = self.result.end_offset
        cleaned = [segment for segment in self._segments if segment.base_offset < end_offset]
        transactions = CleanedTransactions(self._aborted)
        for group in grouped(cleaned, self._log.config, self._upper_offset):
            yield from self._rewrite(group, transactions)

    # The keys of the dirty part

    def _map(self) -> Generator[CompactionSlice]:
        """Enters the last offset of each key; the map, or the dirty part, ends at `result.end_offset`."""
        start = self._first_dirty_offset
        transactions = CleanedTransactions(entry for entry in self._aborted if entry.last_offset >= start)
        unreported = work = 0
        for number, segment in enumerate(self._segments):
            following = self._segments[number + 1 : number + 2]
            end = following[0].base_offset if following else self._upper_offset
            if end <= start:
                continue
            first = segment.locate(start)
            for position, batch in segment.headers(first.position if first else segment.size):
                data = self._batch_at(segment, position, batch)
                if not self._enter(batch, data, transactions):
                    return
                unreported += batch.size
                work += _work(batch)
                if work >= self._slice_work:
                    yield CompactionSlice(unreported)
                    self._check(segment)
                    unreported = work = 0
            # Where offsets are missing at the end of a segment, there is nothing to enter.
            self.result.end_offset = end
        if unreported:
            yield CompactionSlice(unreported)

    def _enter(self, batch: Batch, data: memoryview, transactions: CleanedTransactions) -> bool:
        """Whether there was room for the keys of a batch."""
        if batch.is_control:
            transactions.end(batch, data)
        elif not transactions.aborts(batch):
            if not self._offsets.has_room_for(batch.record_count):
                return False
            self._offsets.add(
                _plain(batch, data), batch.record_count, batch.base_offset, self._first_dirty_offset
            )
        self.result.mapped_bytes += batch.size
        self.result.end_offset = max(self.result.end_offset, batch.next_offset)
        return True

    # The segments written anew

    def _rewrite(
        self, group: Sequence[Segment], transactions: CleanedTransactions
    ) -> Generator[CompactionSlice]:
        log = self._log
        self._check(*group)
        cleaned = log.begin_cleaned(group[0].base_offset, self._now_ms)
        swapped = False
        try:
            transactions.index = cleaned.aborted
            rules = _Rules(
                self._offsets,
                self.result.end_offset - 1,
                self._upper_offset,
                {state.producer_id: state for state in log.producers.active()},
                self._now_ms,
                log.config.delete_retention_ms,
            )
            for segment in group:
                yield from self._copy(segment, cleaned, rules, transactions)
            cleaned.seal()
            yield CompactionSlice(flush=cleaned.flush)
            self._check(*group)
            cleaned.replaces(group)
            swapped = True
            log.replace_segments(group, cleaned, self._now_ms)
        finally:
            if not swapped:
                cleaned.remove()
        # Before the sources are removed, and before the log is said to be clean so far.
        yield CompactionSlice(flush=log.sync_directory)
        self._check(cleaned)

    def _copy(
        self, source: Segment, cleaned: Segment, rules: _Rules, transactions: CleanedTransactions
    ) -> Generator[CompactionSlice]:
        kept, batches = bytearray(), list[Batch]()
        read = work = 0
        for position, batch in source.headers(0):
            data = self._batch_at(source, position, batch)
            left = rules.left_of(batch, data, transactions)
            if left is not None:
                kept += left
                batches.append(read_header(left))
            read += batch.size
            work += _work(batch)
            if work >= self._slice_work:
                flush = self._write(cleaned, kept, batches)
                kept, batches = bytearray(), []
                self.result.read_bytes += read
                yield CompactionSlice(read, flush)
                self._check(source)
                read = work = 0
        flush = self._write(cleaned, kept, batches)
        self.result.read_bytes += read
        if read:
            yield CompactionSlice(read, flush)
            self._check(source)

    def _write(
        self, cleaned: Segment, kept: bytearray, batches: Sequence[Batch]
    ) -> Callable[[], None] | None:
        """How to flush, if it is time for that."""
        if batches:
            cleaned.append(kept, batches, self._now_ms)
            self.result.written_bytes += len(kept)
            self._unflushed += len(kept)
        if self._unflushed < _FLUSHED_BYTES:
            return None
        self._unflushed = 0
        return cleaned.flush

    # What may have happened meanwhile

    def _batch_at(self, segment: Segment, position: int, batch: Batch) -> memoryview:
        """A batch that is damaged is not made into one that looks whole: compaction of the log ends there."""
        data = segment.batch_at(position, batch)
        if crc32c(data[CHECKED_FROM:]) != batch.crc:
            raise CorruptBatchError(
                f"the batch at offset {batch.base_offset} of partition {self._log.partition} is damaged "
                f"({segment.path}, byte {position})"
            )
        return data

    def _check(self, *segments: Segment) -> None:
        """Whether the log still has what is being compacted."""
        log = self._log
        if log.has_failed:
            raise CompactionAbortedError(f"the log of partition {log.partition} is not used any more")
        if not log.config.compact:
            raise CompactionAbortedError(f"partition {log.partition} is not to be compacted any more")
        if log.cuts != self._cuts:
            raise CompactionAbortedError(f"the log of partition {log.partition} has been truncated")
        known = log.segments
        if any(segment not in known for segment in segments):
            raise CompactionAbortedError(f"segments of partition {log.partition} have been deleted")


def _work(batch: Batch) -> int:
    return batch.size + _BATCH_WORK + _RECORD_WORK * batch.record_count


def grouped(segments: Sequence[Segment], config: LogConfig, upper_offset: int) -> list[list[Segment]]:
    """Segments that are written into one: all of a group fit into the limits of a single segment."""
    groups: list[list[Segment]] = []
    size = offset_index = time_index = 0
    for number, segment in enumerate(segments):
        own_offsets, own_times = segment.index_sizes
        following = segments[number + 1 : number + 2]
        last_offset = (following[0].base_offset if following else upper_offset) - 1
        fits = (
            groups
            and size + segment.size <= config.segment_bytes
            and offset_index + own_offsets <= config.segment_index_bytes
            and time_index + own_times <= config.segment_index_bytes
            and (not segment.size or last_offset - groups[-1][0].base_offset <= LARGEST_RELATIVE_OFFSET)
        )
        if fits:
            groups[-1].append(segment)
            size, offset_index, time_index = (
                size + segment.size,
                offset_index + own_offsets,
                time_index + own_times,
            )
        else:
            groups.append([segment])
            size, offset_index, time_index = segment.size, own_offsets, own_times
    return groups


class CleanedTransactions:
    """The transactions of a log, as a walk over its batches meets them: which are aborted, which have data left.

    `index` is that of the segment that is being written; it gets the aborted transactions that readers must know of.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self.index: AbortedIndex | None = None
        self._to_come = deque(aborted)
        # By producer: the aborted transaction that the walk is in, and whether it has met data of it.
        self._aborted: dict[int, AbortedTransaction] = {}
        self._with_data: dict[int, AbortedTransaction] = {}
        self._committed: dict[int, None] = {}

    def aborts(self, batch: Batch) -> bool:
        """Whether a batch of data belongs to an aborted transaction."""
        self._reach(batch)
        if not batch.is_transactional:
            return False
        transaction = self._aborted.get(batch.producer_id)
        if transaction is None or transaction.last_offset < batch.base_offset:
            self._committed[batch.producer_id] = None
            return False
        self._with_data[batch.producer_id] = transaction
        return True

    def end(self, batch: Batch, data: Buffer) -> bool:
        """Whether a marker is of no use any more: the walk has met no data of its transaction."""
        self._reach(batch)
        if not batch.record_count:
            return True
        marker = read_marker(data)
        if marker is None:
            return False
        if not marker.is_abort:
            return self._committed.pop(batch.producer_id, self) is self
        self._aborted.pop(batch.producer_id, None)
        transaction = self._with_data.pop(batch.producer_id, None)
        if transaction is None:
            return True
        if self.index is not None:
            self.index.append(transaction)
        return False

    def _reach(self, batch: Batch) -> None:
        while self._to_come and self._to_come[0].first_offset <= batch.last_offset:
            transaction = self._to_come.popleft()
            self._aborted[transaction.producer_id] = transaction


@dataclass(frozen=True, slots=True)
class _Rules:
    """What is left of a batch."""

    offsets: OffsetMap
    latest_offset: int
    """Where the map ends."""
    upper_offset: int
    producers: dict[int, ProducerStateEntry]
    now_ms: int
    delete_retention_ms: int

    def left_of(self, batch: Batch, data: memoryview, transactions: CleanedTransactions) -> Buffer | None:
        """The batch itself, a smaller one, or None."""
        horizon = batch.base_timestamp if batch.attributes & DELETE_HORIZON else None
        has_passed = horizon is not None and horizon <= self.now_ms
        if batch.is_control:
            is_useless = transactions.end(batch, data)
            kept = None if is_useless and has_passed else self._chosen(batch, data, _EVERYTHING, drops=False)
            waits = is_useless
        else:
            is_aborted = transactions.aborts(batch)
            kept = None if is_aborted else self._chosen(batch, data, self.latest_offset, drops=has_passed)
            waits = kept is not None and kept.has_tombstones
        if kept is None or not kept.count:
            return _emptied(batch) if self._keeps_empty(batch) else None
        new_horizon = self.now_ms + self.delete_retention_ms
        if waits and horizon is None and new_horizon <= _LARGEST_TIMESTAMP:
            return _rewritten(batch, kept, new_horizon)
        return data if kept.count == batch.record_count else _rewritten(batch, kept, horizon)

    def _chosen(self, batch: Batch, data: memoryview, latest_offset: int, *, drops: bool) -> KeptRecords:
        return choose(
            self.offsets,
            _plain(batch, data),
            batch.record_count,
            batch.base_offset,
            batch.base_timestamp,
            latest_offset=latest_offset,
            drops_tombstones=drops,
        )

    def _keeps_empty(self, batch: Batch) -> bool:
        if batch.next_offset == self.upper_offset:
            return True
        state = self.producers.get(batch.producer_id) if batch.has_producer_id else None
        if state is None:
            return False
        if state.batches:
            return batch.last_offset == state.batches[-1].last_offset
        # A producer of which only a marker is known: that has the epoch which fences older ones.
        return batch.is_control and batch.producer_epoch == state.epoch


def _plain(batch: Batch, data: memoryview) -> Buffer:
    payload = data[BATCH_OVERHEAD:]
    # Compaction may have emptied the batch before: then there is nothing to decompress.
    if batch.codec == Compression.NONE or not batch.record_count:
        return payload
    return decompress(batch.codec, payload, DEFAULT_MAX_DECOMPRESSED)


def _rewritten(batch: Batch, kept: KeptRecords, horizon: int | None) -> bytearray:
    """The records that stay, under the header of their batch; at `horizon` its tombstones, or its marker, may go."""
    own_time = batch.max_timestamp if batch.has_append_time else None
    max_timestamp = kept.max_timestamp if own_time is None else own_time
    first_timestamp = kept.first_timestamp if own_time is None else own_time
    base_timestamp = first_timestamp if horizon is None else horizon
    payload = compressed(kept.encoded(base_timestamp, own_time), batch.codec, None)
    attributes = batch.attributes & _KEPT_ATTRIBUTES | (0 if horizon is None else DELETE_HORIZON)
    return _with_header(batch, attributes, base_timestamp, max_timestamp, kept.count, payload)


def _emptied(batch: Batch) -> bytearray:
    attributes = batch.attributes & _KEPT_ATTRIBUTES & ~CODEC
    return _with_header(batch, attributes, NO_TIMESTAMP, batch.max_timestamp, 0, b"")


def _with_header(
    batch: Batch, attributes: int, base_timestamp: int, max_timestamp: int, count: int, payload: Buffer
) -> bytearray:
    data = bytearray(BATCH_OVERHEAD)
    data += payload
    pack_header(
        data,
        0,
        *(batch.base_offset, len(data) - LOG_OVERHEAD, batch.leader_epoch, MAGIC, 0),
        *(attributes, batch.last_offset_delta, base_timestamp, max_timestamp),
        *(batch.producer_id, batch.producer_epoch, batch.base_sequence, count),
    )
    pack_crc(data, CRC_AT, crc32c(memoryview(data)[CHECKED_FROM:]))
    return data


def _first_offset(entry: AbortedTransaction) -> int:
    return entry.first_offset
