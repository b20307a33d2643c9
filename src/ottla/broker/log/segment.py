"""One segment of a log: a file of batches, and the indexes beside it.

Knows positions and sizes, and nothing of producers, leaders or retention. Offsets are found through the index and
a short walk over the headers behind its entry; no search reads more than about one index interval.

Invariant: the file is a sequence of whole batches with growing offsets, none of them below the base offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from ottla._native import crc32c
from ottla._native.record_batch import Batch, read_header
from ottla._native.segment_scan import SegmentScan
from ottla.broker.log.batch import (
    NO_TIMESTAMP,
    BatchPosition,
    contiguous,
    find,
    find_last,
    walk,
    walk_headers,
)
from ottla.broker.log.config import LogConfig
from ottla.broker.log.fs import FileSystem
from ottla.broker.log.index import LARGEST_RELATIVE_OFFSET, CorruptIndexError, OffsetIndex, TimeIndex
from ottla.broker.log.transactions import AbortedIndex
from ottla.wire.batch_header import BATCH_OVERHEAD
from ottla.wire.primitives import Buffer
from ottla.wire.records import Records, decode_fetch

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
ABORTED_INDEX_SUFFIX: Final = ".txnindex"
RECOVERED_AT_ONCE: Final = 512 * 1024
"""Bytes of a segment that are in memory while it is recovered, however large it and its batches are."""
SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, ABORTED_INDEX_SUFFIX)


class SegmentRange(NamedTuple):
    """Whole batches between two positions."""

    start: int
    end: int
    next_offset: int
    is_cut: bool
    """There is more that might be read, but not in so few bytes."""


class TimestampedOffset(NamedTuple):
    """A record that was looked for by its time."""

    timestamp: int
    offset: int
    leader_epoch: int


class Segment:
    """A segment that is open."""

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        base_offset: int,
        config: LogConfig,
        now_ms: int,
        *,
        state: str = "",
    ) -> None:
        path = f"{directory}/{base_offset:020d}"
        self._fs = fs
        self.path = path
        self._state = state
        """What follows the names of its files where it is not a part of its log (swap.py)."""
        self._log = fs.open(path + LOG_SUFFIX + state)
        self._offsets = OffsetIndex(fs, path + INDEX_SUFFIX + state, base_offset)
        self._times = TimeIndex(fs, path + TIME_INDEX_SUFFIX + state, base_offset)
        self.aborted = AbortedIndex(fs, path + ABORTED_INDEX_SUFFIX + state)
        self.config = config
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.max_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = base_offset
        self._first_timestamp: int | None = None
        self.created_ms = now_ms
        self._modified_ms = now_ms
        self._unindexed = 0

    @property
    def size(self) -> int:
        return self._log.size

    @property
    def largest_timestamp(self) -> int:
        """Of its records, or when it was last written to, if they have none."""
        return self.max_timestamp if self.max_timestamp > NO_TIMESTAMP else self._modified_ms

    @property
    def first_timestamp(self) -> int:
        """The largest of its first batch, from which on it counts how old the segment is; -1 if there is none."""
        if self._first_timestamp is None:
            return self._read_first_timestamp() if self._log.size else NO_TIMESTAMP
        return self._first_timestamp

    @property
    def index_sizes(self) -> tuple[int, int]:
        """In bytes, of the offset index and of the time index."""
        return len(self._offsets) * OffsetIndex.ENTRY.size, len(self._times) * TimeIndex.ENTRY.size

    # Writing

    def append(self, data: Buffer, batches: Sequence[Batch], now_ms: int, *, shared: bool = False) -> None:
        """Writes `batches`, of which `data` consists; the segment may keep `data` itself."""
        position = self._log.append(data, shared=shared)
        self._modified_ms = now_ms
        for batch in batches:
            self.note(position, batch)
            position += batch.size

    def note(self, position: int, batch: Batch) -> None:
        """Enters a batch, which is in the file, into the indexes."""
        if position == 0:
            self._first_timestamp = batch.max_timestamp
        if batch.max_timestamp > self.max_timestamp:
            self.max_timestamp = batch.max_timestamp
            self._max_timestamp_offset = batch.last_offset
        if self._unindexed > self.config.index_interval_bytes:
            self._offsets.append(batch.last_offset, position)
            self._times.append(self.max_timestamp, self._max_timestamp_offset)
            self._unindexed = 0
        self._unindexed += batch.size
        self.next_offset = batch.next_offset

    def should_roll(self, size: int, batch: Batch, now_ms: int) -> bool:
        """Whether `size` more bytes, of which `batch` is the last, belong into a new segment."""
        config = self.config
        if batch.last_offset - self.base_offset > LARGEST_RELATIVE_OFFSET:
            return True
        written = self._log.size
        if not written:
            return False
        first = self.first_timestamp
        # How long it has been the active one: by the times of its records, where they have any.
        waited_ms = batch.max_timestamp - first if first > NO_TIMESTAMP else now_ms - self.created_ms
        jitter_ms = self._jitter_ms() if config.segment_jitter_ms else 0
        return (
            written > config.segment_bytes - size
            or waited_ms > config.longest_segment_ms - jitter_ms
            or self._offsets.is_full(config.segment_index_bytes)
            or self._times.is_full(config.segment_index_bytes)
        )

    def _read_first_timestamp(self) -> int:
        """Of a segment that was opened with its first batch in it."""
        first = read_header(contiguous(self._log, 0, BATCH_OVERHEAD)).max_timestamp
        self._first_timestamp = first
        return first

    def _jitter_ms(self) -> int:
        """What keeps segments from rolling all at once: another number for each, the same in every run."""
        largest = min(self.config.segment_jitter_ms, self.config.longest_segment_ms)
        return crc32c(self.path.encode()) % largest if largest > 0 else 0

    def seal(self) -> None:
        """It will not grow any more, or not before it is opened again. What is written is not flushed yet."""
        self._offsets.make_file()
        self._times.append(self.max_timestamp, self._max_timestamp_offset)

    def flush(self) -> None:
        """Returns when its files are as they are now on the disk. A thread may call it beside the loop."""
        self._log.flush()
        self._offsets.flush()
        self._times.flush()
        self.aborted.flush()

    def close(self) -> None:
        self._log.close()
        self._offsets.close()
        self._times.close()
        self.aborted.close()

    def remove(self) -> None:
        """Takes its files away. A reader keeps what it has read."""
        self.close()
        for suffix in SUFFIXES:
            path = self.path + suffix + self._state
            if self._fs.exists(path):
                self._fs.remove(path)

    def rename(self, state: str, *, log_last: bool = False) -> None:
        """Gives its files the names of another state, the log first or last: it says what the others are worth."""
        for suffix in reversed(SUFFIXES) if log_last else SUFFIXES:
            old, new = self.path + suffix + self._state, self.path + suffix + state
            if self._fs.exists(old):
                self._fs.rename(old, new)
        self._state = state
        self._offsets.rename(self.path + INDEX_SUFFIX + state)
        self._times.rename(self.path + TIME_INDEX_SUFFIX + state)
        self.aborted.rename(self.path + ABORTED_INDEX_SUFFIX + state)

    def replaces(self, sources: Sequence[Segment]) -> None:
        """It has what compaction has left of these: it ends where they do, and is as old."""
        self.next_offset = sources[-1].next_offset
        self.created_ms = sources[-1].created_ms
        self._modified_ms = sources[-1]._modified_ms

    # Reading

    def locate(self, offset: int) -> BatchPosition | None:
        """The first batch that ends at `offset` or behind it."""
        if offset >= self.next_offset:
            return None
        return find(self._log, self._offsets.lookup(offset), self._log.size, offset)

    def batches_from(
        self, offset: int, max_bytes: int, upper_offset: int, at_least_one: bool
    ) -> SegmentRange | None:
        """The batches from the one with `offset` on, all below `upper_offset`; None if there are none.

        In `max_bytes`, unless the first is larger and `at_least_one` is to be had.
        """
        first = self.locate(offset)
        if first is None or first.last_offset >= upper_offset:
            return None
        excluded = self.locate(upper_offset)
        end = self._log.size if excluded is None else excluded.position
        next_offset = self.next_offset if excluded is None else min(excluded.base_offset, upper_offset)
        if end - first.position <= max_bytes:
            return SegmentRange(first.position, end, next_offset, False)
        if first.size > max_bytes:
            if not at_least_one:
                return SegmentRange(first.position, first.position, offset, True)
            return SegmentRange(first.position, first.end, first.last_offset + 1, True)
        last = self._last_before(first, first.position + max_bytes)
        return SegmentRange(first.position, last.end, last.last_offset + 1, True)

    def bytes_from(
        self, offset: int, max_bytes: int, upper_offset: int, at_least_one: bool
    ) -> SegmentRange | None:
        """As `batches_from`, but the limit is filled, with the first bytes of a further batch if need be.

        `next_offset` is then that of the batch which is not whole.
        """
        found = self.batches_from(offset, max_bytes, upper_offset, at_least_one)
        if found is None or not found.is_cut or found.end == found.start:
            return found
        excluded = None if upper_offset >= self.next_offset else self.locate(upper_offset)
        end = self._log.size if excluded is None else excluded.position
        filled = max(found.end, min(found.start + max_bytes, end))
        return SegmentRange(found.start, filled, found.next_offset, True)

    def bound_behind(self, first: BatchPosition, size: int) -> int | None:
        """An offset that lies behind the bytes from a batch on, as far as the index tells; None: it has no such."""
        return self._offsets.first_offset_at(first.position + size)

    def _last_before(self, first: BatchPosition, limit: int) -> BatchPosition:
        """The last batch that ends at `limit` or before it, from `first` on."""
        indexed = max(self._offsets.last_start_before(limit), first.position)
        last = find_last(self._log, indexed, limit)
        if last is None:
            # The batch of that entry is too long, and the last that fits is right before it.
            before = max(self._offsets.last_start_before(indexed - 1), first.position)
            last = find_last(self._log, before, indexed)
        return first if last is None else last

    def read(self, start: int, end: int) -> list[memoryview]:
        return self._log.read(start, end - start)

    def find_end(self) -> bool:
        """For the last segment of a log that was closed: where it ends; whether that is the end of the file."""
        position, self.next_offset = 0, self.base_offset
        for batch in walk(self._log, self._offsets.last_position, self._log.size):
            position, self.next_offset = batch.end, batch.last_offset + 1
        self.forget_from(position, self.next_offset)
        return position == self._log.size

    def headers(self, position: int) -> Iterator[tuple[int, Batch]]:
        """Positions and headers of the whole batches from `position` on."""
        return walk_headers(self._log, position, self._log.size)

    def batch_at(self, position: int, batch: Batch) -> memoryview:
        return contiguous(self._log, position, batch.size)

    # Times

    def offset_for_timestamp(self, timestamp: int, start_offset: int) -> TimestampedOffset | None:
        """The first record at or behind `start_offset` that is not older than `timestamp`."""
        after = max(self._times.lookup(timestamp), start_offset)
        for position, batch in walk_headers(self._log, self._offsets.lookup(after), self._log.size):
            if batch.max_timestamp < timestamp or batch.last_offset < start_offset:
                continue
            for record in decode_fetch(
                self.batch_at(position, batch), "", 0, offset=start_offset, control=True
            ):
                if record.timestamp >= timestamp:
                    return TimestampedOffset(record.timestamp, record.offset, record.leader_epoch)
        return None

    def latest_record(self) -> TimestampedOffset | None:
        """The first of the records with the largest timestamp."""
        batch = self.locate(self._max_timestamp_offset)
        if batch is None:
            return None
        for record in self._records(batch.position, batch.size, batch.base_offset):
            if record.timestamp == self.max_timestamp:
                return TimestampedOffset(record.timestamp, record.offset, record.leader_epoch)
        return None

    def _records(self, position: int, size: int, start_offset: int) -> Records:
        data = contiguous(self._log, position, size)
        return decode_fetch(data, "", 0, offset=start_offset, control=True, check_crc=False)

    # Opening and cutting

    def load(self) -> None:
        """Reads the indexes, as far as they fit the file, and when that was last written to."""
        modified_ms = self._fs.modified_ms(self.path + LOG_SUFFIX)
        if modified_ms is not None:
            self._modified_ms = modified_ms
        self.aborted.load()
        try:
            self._offsets.load(self._log.size)
            self._times.load()
            if len(self._offsets) and not len(self._times):
                raise CorruptIndexError
        except CorruptIndexError:
            self.forget_from(0, self.base_offset)
        self._take_indexed_timestamp()

    def complete_index(self, next_offset: int) -> None:
        """For a segment that has a successor: builds indexes that are not there from the batches."""
        is_small = self._log.size <= self.config.index_interval_bytes
        if self._log.size and not (len(self._times) and (is_small or len(self._offsets))):
            self.forget_from(0, self.base_offset)
            for position, batch in self.headers(0):
                self.note(position, batch)
            self.seal()
        self.next_offset = next_offset

    def recover(self, latest_epoch: int, tell: Callable[[int, Batch], None]) -> int:
        """Reads all batches and builds the indexes anew; where the last batch ends that is whole.

        `tell` gets positions and headers of the batches that matter to leader epochs, of which those up to
        `latest_epoch` are known, and to producers (segment_scan.pyx).
        """
        self.forget_from(0, self.base_offset)
        size = self._log.size
        scan = SegmentScan(size, self.base_offset, self.config.index_interval_bytes, latest_epoch)
        for position in range(0, size, RECOVERED_AT_ONCE):
            for part in self._log.read(position, min(RECOVERED_AT_ONCE, size - position)):
                batches, offset_entries, time_entries = scan.feed(part)
                self._offsets.extend(offset_entries)
                self._times.extend(time_entries)
                for batch in batches:
                    tell(*batch)
            if scan.is_damaged:
                break
        if scan.position:
            self._first_timestamp = scan.first_timestamp
        self.next_offset = scan.next_offset
        self.max_timestamp, self._max_timestamp_offset = scan.max_timestamp, scan.max_timestamp_offset
        self._unindexed = scan.unindexed
        return scan.position

    def boundary(self, offset: int) -> int | None:
        """The position between two batches where the first ends, and the second begins, with `offset`."""
        if offset == self.base_offset:
            return 0
        for batch in walk(self._log, self._offsets.lookup(offset - 1), self._log.size):
            if batch.last_offset >= offset - 1:
                return batch.end if batch.last_offset == offset - 1 else None
        return None

    def forget_from(self, position: int, offset: int) -> None:
        """Takes what is at `position`, with `offset` as its first, out of the indexes, but not out of the file."""
        self._offsets.truncate_to(position)
        self._times.truncate_to(offset)
        self.next_offset = offset
        self._unindexed = position - self._offsets.last_position
        if position == 0:
            self._first_timestamp = None
        self._take_indexed_timestamp()
        # Every entry of the offset index brings the time index up to date.
        for _, batch in walk_headers(self._log, self._offsets.last_position, position):
            if batch.max_timestamp > self.max_timestamp:
                self.max_timestamp, self._max_timestamp_offset = batch.max_timestamp, batch.last_offset

    def _take_indexed_timestamp(self) -> None:
        last = self._times.last
        self.max_timestamp, self._max_timestamp_offset = last or (NO_TIMESTAMP, self.base_offset)

    def cut(self, position: int, offset: int) -> None:
        """Ends the segment at `position`, where `offset` is to come next."""
        self.forget_from(position, offset)
        self.aborted.truncate_to(offset)
        self._log.truncate(position)

    def truncate_to(self, offset: int) -> None:
        """Drops every batch that has `offset` or a later one."""
        batch = self.locate(offset)
        if batch is not None:
            self.cut(batch.position, offset)
