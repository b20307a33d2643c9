"""One partition's log: what a leader or a follower appends, what is read, and where it begins and ends.

A log is a list of segments, of which the last one grows. It knows its producers and the epochs of its leaders; it
does not know which replica leads, what is replicated, or which requests wait for it: that is replication/.

Invariants: offsets only grow; what was appended is read back byte for byte, in whole batches; an append that raises
has changed nothing. Where a write fails (Kafka's KAFKA_STORAGE_ERROR) the log is cut back to where it was; one that
cannot be cut back either refuses all use, until it is opened anew and recovered from its files.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from ottla._native.record_batch import Batch
from ottla.broker.log import reading, recovery, retention, swap
from ottla.broker.log.config import LogConfig
from ottla.broker.log.epochs import LeaderEpochs
from ottla.broker.log.flushing import Checkpointed, LogEnd, Unflushed
from ottla.broker.log.fs import FileSystem
from ottla.broker.log.guards import Guard
from ottla.broker.log.producers import Origin, ProducerStates
from ottla.broker.log.reading import Slice
from ottla.broker.log.rewrite import assign_offsets, for_topic
from ottla.broker.log.segment import Segment, TimestampedOffset
from ottla.broker.log.snapshots import Snapshots
from ottla.broker.log.transactions import Marker, read_marker
from ottla.broker.log.validation import (
    Appended,
    accept_batch,
    append_rules,
    check_sizes,
    followed_batches,
    inspect_batch,
)
from ottla.errors import KafkaStorageError, NotLeaderOrFollowerError, OffsetOutOfRangeError
from ottla.wire.primitives import Buffer

__all__ = ["Appended", "Log", "LogConfig", "Origin", "Slice", "TimestampedOffset"]

_log = logging.getLogger("ottla.broker.log")

NO_APPEND_TIME: Final = -1


class Log:
    """A log that is open; `Log.open` makes one."""

    def __init__(
        self, fs: FileSystem, directory: str, config: LogConfig, now_ms: int, known: Checkpointed
    ) -> None:
        self.config = config
        self._rules = append_rules(config)
        self.directory = directory
        self.partition = directory.rpartition("/")[2]
        self.epochs = LeaderEpochs(fs, directory)
        self.producers = ProducerStates(
            self.partition,
            config.producer_id_expiration_ms,
            guarded=config.transaction_partition_verification_enable,
        )
        self._fs = fs
        self._snapshots = Snapshots(fs, directory)
        self._failure: Exception | None = None
        self._replicated_to = 0
        self.first_dirty_offset = known.first_dirty_offset
        """Up to which it has been compacted."""
        self.deleted = swap.DeletedSegments()
        self.log_start_offset = known.log_start_offset
        self._segments = recovery.open_segments(fs, directory, config, self.log_start_offset, now_ms)
        self.recovery_point = 0
        """All before it is on the disk: what a node that loses its power begins to read at."""
        self._vouched_for = 0
        """As far as this a recovery point may have been written down, also where the log was cut back since."""
        self.last_flush_ms = now_ms
        self.cuts = 0
        """How often its end was taken back, or it was closed: what was read or flushed before may have gone."""
        self.on_rolled: Callable[[Log], None] = Log.flush_rolled
        """Is told of each new segment: those before it want to be flushed. By itself the log does it at once."""
        self.on_failure: Callable[[Log, OSError], None] = lambda log, error: None
        """Is told of what the disk has refused, in the midst of it: the log is used again only later."""

    @classmethod
    def open(
        cls,
        fs: FileSystem,
        directory: str,
        config: LogConfig,
        now_ms: int,
        known: Checkpointed = Checkpointed(),  # noqa: B008 - it is frozen
    ) -> Log:
        """The log in `directory`, recovered from its files; a new one if there are none."""
        log = cls(fs, directory, config, now_ms, known)
        log._recover(known.recovery_point)
        log.producers.expire(now_ms)
        return log

    def _recover(self, recovery_point: int | None) -> None:
        parts = self._segments, self.producers, self.epochs, self._snapshots
        is_compacted = self.config.compact or self.first_dirty_offset > 0
        recovery.recover(*parts, recovery_point, self.sync_directory, may_have_gaps=is_compacted)
        # As in Kafka a recovery that has read all of it has not flushed it.
        end = self.log_end_offset
        self.recovery_point = self._vouched_for = end if recovery_point is None else min(recovery_point, end)
        self.log_start_offset = max(self.log_start_offset, self._segments[0].base_offset)
        if self.log_start_offset > self.log_end_offset:
            # Offsets must not be given twice, so a log that lost what it had deleted goes on behind it.
            self.truncate_fully(self.log_start_offset)
        self.epochs.truncate_from_end(self.log_end_offset)
        self.epochs.truncate_from_start(self.log_start_offset)

    def _reload_producers(self) -> None:
        """The log has been cut back."""
        recovery.reload_producers(self._segments, self.producers, self._snapshots, self.log_end_offset)
        self.producers.transactions.replicated_to(self._replicated_to)

    @property
    def segments(self) -> list[Segment]:
        return list(self._segments)

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""
        return self._segments[-1].next_offset

    @property
    def has_failed(self) -> bool:
        """Whether it refuses all use, until it is opened anew."""
        return self._failure is not None

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._segments)

    # Appending

    def append_as_leader(
        self,
        batch: Batch,
        leader_epoch: int,
        now_ms: int,
        *,
        origin: Origin = Origin.CLIENT,
        guard: Guard | None = None,
        transaction_version: int = 0,
    ) -> Appended:
        """Checks a batch, gives it its offsets and appends it. The log keeps its memory: do not use it again.

        `guard` is what the leader has asked the coordinator with, for data that begins a transaction;
        `transaction_version` that of the transaction which a marker ends. Raises the BrokerError for the response to
        the producer.
        """
        if self._failure is not None:
            raise self._storage_error(self._failure)
        latest, epochs = self.epochs.latest, self.epochs.entries
        if latest is not None and leader_epoch < latest:
            # A leader that was replaced without knowing it must not write any more.
            raise NotLeaderOrFollowerError(
                f"Leader epoch {leader_epoch} of partition {self.partition} has ended with epoch {latest}"
            )
        active = self._segments[-1]
        base_offset, position = active.next_offset, active.size
        if origin is not Origin.CLIENT or not accept_batch(
            batch, self._rules, base_offset, leader_epoch, now_ms
        ):
            inspected = inspect_batch(batch, self.config, origin, now_ms, self.partition)
            batch = assign_offsets(for_topic(inspected, self.config, now_ms), base_offset, leader_epoch)
            check_sizes(batch, self.config, self.partition)
        data = batch.data
        assert data is not None
        try:
            # As in Kafka before the producer is looked at: what is refused then has begun a segment all the same.
            segment = self._segment_for(batch.size, base_offset, batch, now_ms)
        except BaseException as error:
            self._undo(LogEnd(active, position, base_offset, epochs), error)
            raise
        marker = None
        if batch.has_producer_id:
            known = self.producers.duplicate_of(batch) if origin is Origin.CLIENT else None
            if known is not None:
                return Appended(
                    known.first_offset, known.last_offset, known.timestamp, self.log_start_offset, True
                )
            if batch.is_control:
                marker = self._checked_marker(batch, data, transaction_version)
            else:
                self.producers.check(batch, base_offset, origin, guard)
        if segment is not active:
            position = 0
        try:
            if leader_epoch != latest:
                self.epochs.assign(leader_epoch, base_offset)
            segment.append(data, (batch,), now_ms)
            self.producers.record(batch, marker, segment.aborted)
        except BaseException as error:
            self._undo(LogEnd(segment, position, base_offset, epochs), error)
            raise
        if batch.next_offset - self.recovery_point >= self.config.flush_messages:
            self.flush(now_ms)
        append_time = batch.max_timestamp if batch.has_append_time else NO_APPEND_TIME
        return Appended(base_offset, batch.last_offset, append_time, self.log_start_offset)

    def _checked_marker(self, batch: Batch, data: Buffer, transaction_version: int) -> Marker | None:
        marker = read_marker(data)
        if marker is not None:
            self.producers.check_marker(batch, marker, batch.base_offset, transaction_version)
        return marker

    def append_as_follower(
        self, records: Buffer, now_ms: int, *, leader_epoch: int | None = None, shared: bool = False
    ) -> Appended | None:
        """Appends what the leader has appended, with its offsets; None if there is no whole batch in it.

        `leader_epoch` is the one that the follower knows: batches of a later one are left for later. `shared` says
        that `records` are in the memory of the leader's log, where they stay.
        """
        self._check_usable()
        end = self.log_end_offset
        empty = self.log_start_offset == end and not self.size
        data, batches = followed_batches(records, end, leader_epoch, self.partition, empty=empty)
        if not batches:
            return None
        if batches[0].base_offset < end:
            self.truncate_fully(batches[0].base_offset)
            self.log_start_offset = end
        with self._all_or_nothing(several=True):
            segment = self._segment_for(len(data), batches[0].base_offset, batches[-1], now_ms)
            segment.append(data, batches, now_ms, shared=shared)
            position = 0
            for batch in batches:
                if batch.leader_epoch >= 0:
                    self.epochs.assign(batch.leader_epoch, batch.base_offset)
                whole = memoryview(data)[position : position + batch.size]
                marker = read_marker(whole) if batch.is_control and batch.has_producer_id else None
                self.producers.record(batch, marker, segment.aborted)
                position += batch.size
        if self.log_end_offset - self.recovery_point >= self.config.flush_messages:
            self.flush(now_ms)
        return Appended(
            batches[0].base_offset,
            batches[-1].last_offset,
            NO_APPEND_TIME,
            self.log_start_offset,
            size=len(data),
        )

    def _segment_for(self, size: int, base_offset: int, last: Batch, now_ms: int) -> Segment:
        """The active segment, or a new one where `size` bytes, which end with `last`, do not belong into it."""
        active = self._segments[-1]
        if active.should_roll(size, last, now_ms):
            return self._roll(base_offset, now_ms)
        return active

    def roll(self, now_ms: int) -> None:
        """Begins a new segment, unless the active one is empty."""
        self._check_usable()
        if self._segments[-1].size:
            with self._all_or_nothing():
                self._roll(self.log_end_offset, now_ms)

    def _roll(self, base_offset: int, now_ms: int) -> Segment:
        active = self._segments[-1]
        if active.size:
            active.seal()
        self._snapshots.write(base_offset, self.producers.active())
        self._segments.append(Segment(self._fs, self.directory, base_offset, self.config, now_ms))
        if not active.size:
            self._segments.remove(active)
            active.remove()
        # Recovery trusts what lies before a recovery point as soon as a segment begins there, with its indexes.
        flush = Log.flush_rolled if base_offset <= self._vouched_for else self.on_rolled
        flush(self)
        return self._segments[-1]

    # Flushing

    def flush(self, now_ms: int) -> None:
        """Returns when all that was appended is on the disk.

        A log whose flush has failed is not used any more: the next may succeed without what the system let go.
        """
        unflushed = self.unflushed(self.log_end_offset)
        with self._for_good():
            unflushed.flush()
        self.flushed(unflushed, now_ms)

    def flush_rolled(self) -> None:
        """The same for the segments before the active one."""
        unflushed = self.unflushed(self._segments[-1].base_offset)
        unflushed.flush()
        self.flushed(unflushed, self.last_flush_ms)

    def unflushed(self, end_offset: int) -> Unflushed:
        """What has to be flushed of the log before `end_offset`."""
        # Also of the segment that ends at the recovery point: its indexes change when it is sealed, or recovered.
        first = reading.number_of(self._segments, self.recovery_point - 1)
        concerned = [segment for segment in self._segments[first:] if segment.base_offset < end_offset]
        return Unflushed(tuple(concerned), end_offset, self.cuts)

    def flushed(self, done: Unflushed, now_ms: int) -> None:
        """So far the log is on the disk, unless it was cut back or closed meanwhile."""
        if done.cuts == self.cuts:
            self.recovery_point = max(self.recovery_point, done.end_offset)
            self._vouched_for = max(self._vouched_for, self.recovery_point)
            self.last_flush_ms = now_ms

    def flush_failed(self, done: Unflushed, error: OSError) -> bool:
        """A thread could not flush; whether that is a failure, and not a segment that was deleted meanwhile."""
        if done.cuts != self.cuts or not set(done.segments) <= set(self._segments):
            return False
        self._fail(error)
        return True

    def _take_back_flushed(self, offset: int) -> None:
        """What is at `offset` and behind is cut off; what comes there will not be flushed."""
        self.cuts += 1
        self.recovery_point = min(self.recovery_point, offset)

    # Failures

    def _check_usable(self) -> None:
        if self._failure is not None:
            raise self._storage_error(self._failure)

    def _storage_error(self, error: Exception) -> KafkaStorageError:
        if isinstance(error, OSError):
            self.on_failure(self, error)
        return KafkaStorageError(f"The log of partition {self.partition} cannot be written: {error}")

    def _fail(self, error: Exception) -> None:
        """From here on the log refuses all use: its files and what is known of them may differ."""
        _log.error(
            "the log of partition %s is not used any more, until it is opened anew: %s", self.partition, error
        )
        self._failure = error

    @contextmanager
    def _all_or_nothing(self, *, several: bool = False) -> Iterator[None]:
        """What is written in here is cut off again where not all of it can be; `several` are batches."""
        active = self._segments[-1]
        end = LogEnd(active, active.size, active.next_offset, self.epochs.entries)
        try:
            yield
        except BaseException as error:
            self._undo(end, error, several=several)
            raise

    def _undo(self, end: LogEnd, error: BaseException, *, several: bool = False) -> None:
        """Cuts off what was written since the log had this end; an OSError becomes the error of Kafka for it."""
        try:
            self._cut_back(end.segment, end.position, end.offset)
            if several:
                # Some of them may be in the memory of their producers already.
                self._reload_producers()
            self.epochs.restore(end.epochs)
        except Exception as another:  # noqa: BLE001 - whatever it is, the files may differ from what is known
            self._fail(another)
        if isinstance(error, OSError):
            raise self._storage_error(error) from error

    def _cut_back(self, active: Segment, position: int, offset: int) -> None:
        """Ends the log in the segment that was the active one, where it was."""
        if active not in self._segments:
            raise FileNotFoundError(f"{active.path} is gone")
        while self._segments[-1] is not active:
            self._segments.pop().remove()
        active.cut(position, offset)
        self._take_back_flushed(offset)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        self._check_usable()
        try:
            yield
        except OSError as error:
            raise self._storage_error(error) from error

    @contextmanager
    def _for_good(self) -> Iterator[None]:
        """What is given up in here does not come back: a log that cannot finish it is not used any more."""
        self._check_usable()
        try:
            yield
        except OSError as error:
            self._fail(error)
            raise self._storage_error(error) from error

    # Reading

    def read(
        self, offset: int, max_bytes: int, upper_offset: int | None = None, *, at_least_one: bool = False
    ) -> Slice:
        """Batches from the one with `offset` on, of no more than `max_bytes`, all below `upper_offset`.

        With `at_least_one` the first batch is there, however large it is. No memory is copied.
        """
        with self._reading():
            if not self.log_start_offset <= offset <= self.log_end_offset:
                raise OffsetOutOfRangeError(
                    f"Received request for offset {offset} for partition {self.partition}, but we only have log "
                    f"segments from {self.log_start_offset} to {self.log_end_offset}."
                )
            end = self.log_end_offset
            upper = end if upper_offset is None else min(upper_offset, end)
            return reading.read(self._segments, offset, max_bytes, upper, at_least_one)

    def fetch(self, offset: int, max_bytes: int, upper_offset: int, *, at_least_one: bool) -> Slice:
        """What the response to a Fetch holds: as in Kafka, from one segment, and `max_bytes` to the last byte.

        What follows the last whole batch is the beginning of another one. `is_cut` without any bytes says that not
        even the first batch fits.
        """
        self._check_usable()
        if offset >= upper_offset:
            return Slice([], 0, offset)
        try:
            return reading.fetch(self._segments, offset, max_bytes, upper_offset, at_least_one)
        except OSError as error:
            raise self._storage_error(error) from error

    def aborted(self, start: int, end: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of the aborted transactions that concern a reader of [start, end)."""
        return reading.aborted(self._segments, start, end)

    def aborted_in_fetch(self, offset: int, size: int) -> list[tuple[int, int]]:
        """The same for a reader who has got that many bytes from `offset` on."""
        return reading.aborted_in_fetch(self._segments, offset, size)

    def replicated_to(self, offset: int) -> None:
        """Everything below `offset` is on all replicas in sync."""
        self._replicated_to = offset
        self.producers.transactions.replicated_to(offset)

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the oldest transaction without an outcome begins."""
        first = self.producers.transactions.first_undecided_offset
        return None if first is None else max(first, self.log_start_offset)

    def offset_for_timestamp(self, timestamp: int) -> TimestampedOffset | None:
        """The first record that is not older than `timestamp`."""
        with self._reading():
            return reading.offset_for_timestamp(self._segments, timestamp, self.log_start_offset)

    def max_timestamp_offset(self) -> TimestampedOffset | None:
        """The record with the largest timestamp (KIP-734)."""
        with self._reading():
            return reading.latest_record(self._segments)

    # Beginning and end

    def delete_records(self, before: int) -> None:
        """Moves the start of the log to `before`; never back. The files go with the next retention."""
        self._check_usable()
        if before > self.log_end_offset:
            raise OffsetOutOfRangeError(
                f"Cannot increment the log start offset to {before} of partition {self.partition} since it is "
                f"larger than the log end offset {self.log_end_offset}"
            )
        self._begin_at(max(before, self.log_start_offset))

    def _begin_at(self, offset: int) -> None:
        try:
            # As in Kafka it is written down now and then (log_dir.py): a node that is killed may begin before it.
            self.log_start_offset = max(offset, self.log_start_offset)
            # Also where the last attempt came as far as this and failed here.
            self.epochs.truncate_from_start(offset)
        except OSError as error:
            raise self._storage_error(error) from error

    def enforce_retention(self, now_ms: int, high_watermark: int | None = None) -> int:
        """Deletes the segments that the topic's configuration lets go; how many."""
        self._check_usable()
        deleted = 0
        replicated = self.log_end_offset if high_watermark is None else high_watermark
        for condition in retention.conditions(self._segments, self.config, self.log_start_offset, now_ms):
            count = retention.deletable(self._segments, condition, self.log_end_offset, replicated)
            self._delete_segments(count, now_ms)
            deleted += count
        return deleted

    def _delete_segments(self, count: int, now_ms: int) -> None:
        if count == len(self._segments):
            self.roll(now_ms)
        # The start moves first: files that cannot be removed lie before it, and go another time.
        self._begin_at(max(self._segments[count].base_offset, self.log_start_offset))
        deleted, self._segments[:count] = self._segments[:count], []
        try:
            for segment in deleted:
                segment.remove()
                self._snapshots.remove(segment.base_offset)
        except OSError as error:
            raise self._storage_error(error) from error

    def begin_cleaned(self, base_offset: int, now_ms: int) -> Segment:
        """Where compaction writes to; no part of the log before `replace_segments`."""
        self._check_usable()
        return swap.begin_cleaned(self._fs, self.directory, base_offset, self.config, now_ms)

    def replace_segments(self, old: Sequence[Segment], cleaned: Segment, now_ms: int) -> None:
        """Puts what compaction has left of some segments, which follow each other, in their place.

        Before the sources are removed (`deleted`), the directory has to be synced.
        """
        first = self._segments.index(old[0])
        with self._for_good():
            swap.swap_in(cleaned, old)
            self._segments[first : first + len(old)] = [cleaned]
            for segment in old[1:]:
                self._snapshots.remove(segment.base_offset)
        self.deleted.add(old, now_ms + self.config.file_delete_delay_ms)

    def sync_directory(self) -> None:
        """Returns when the names of its files are on the disk. A thread may call it beside the loop."""
        self._fs.sync_directory(self.directory)

    def truncate_to(self, offset: int) -> None:
        """Drops `offset` and everything behind it: what another leader does not have."""
        self._check_usable()
        if offset >= self.log_end_offset:
            # A leader that has written nothing has an epoch all the same, which another leader may contradict.
            with self._for_good():
                self.epochs.truncate_from_end(self.log_end_offset)
            return
        if offset < self._segments[0].base_offset:
            self.truncate_fully(offset)
            return
        with self._for_good():
            self.first_dirty_offset = min(self.first_dirty_offset, offset)
            while self._segments[-1].base_offset > offset:
                self._segments.pop().remove()
            self._snapshots.remove_behind(offset)
            # Before the cut: segments that came back with the power would follow on it, and leave a gap.
            self.sync_directory()
            self._segments[-1].truncate_to(offset)
            self.epochs.truncate_from_end(offset)
            self.log_start_offset = min(self.log_start_offset, offset)
            self._replicated_to = min(self._replicated_to, offset)
            self._segments[-1].next_offset = offset
            self._take_back_flushed(offset)
            self._reload_producers()
            # Recovery trusts what is before the recovery point: what was cut off would come back with the power.
            self._segments[-1].flush()

    def truncate_fully(self, start_offset: int) -> None:
        """Drops everything; the log begins anew at `start_offset`."""
        now_ms = self._segments[-1].created_ms
        with self._for_good():
            self.first_dirty_offset = min(self.first_dirty_offset, start_offset)
            for segment in self._segments:
                segment.remove()
            self._snapshots.remove_behind(-1)
            self.epochs.clear()
            self.producers.reset([])
            self._replicated_to = start_offset
            self._segments = [Segment(self._fs, self.directory, start_offset, self.config, now_ms)]
            self.log_start_offset = self.recovery_point = start_offset
            self.cuts += 1
            self.sync_directory()

    def take_over(self, source: Log) -> None:
        """It has all batches of `source`, and takes its place: epochs and producers are more than these tell."""
        with self._for_good():
            self.epochs.restore(source.epochs.entries)
        self.producers = source.producers
        self.first_dirty_offset = source.first_dirty_offset
        self._replicated_to = source._replicated_to

    def reconfigure(self, config: LogConfig) -> None:
        """The topic's configuration has changed."""
        self.config = config
        self._rules = append_rules(config)
        self.producers.expiration_ms = config.producer_id_expiration_ms
        self.producers.guarded = config.transaction_partition_verification_enable
        for segment in self._segments:
            segment.config = config

    def discard(self) -> None:
        """Closes a log whose files are about to go: nothing is written any more."""
        self.cuts += 1
        for segment in self._segments:
            segment.close()
        self.deleted.close()

    def close(self) -> bool:
        """Leaves files from which the log is opened quickly; whether they could be written, and can be trusted."""
        is_clean = self._failure is None
        if is_clean:
            try:
                self._segments[-1].seal()
                self.flush(self.last_flush_ms)
                self._snapshots.write(self.log_end_offset, self.producers.active())
            except (OSError, KafkaStorageError) as error:
                _log.warning("the log of partition %s will be recovered: %s", self.partition, error)
                is_clean = False
        self.discard()
        return is_clean
