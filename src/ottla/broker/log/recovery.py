"""What happens when a log is opened: its files are read back to the last whole batch.

A log that was closed is trusted. Of any other one, all that lies before its recovery point was flushed, and is
trusted as well; from the segment with the recovery point on every batch is read: its checksum, its offsets, its
producer, its epoch. A torn or damaged batch ends the log, with everything behind it. Indexes of what is read are
built anew, others where they are missing.

Producers are known from the newest snapshot that can be read and lies in what is trusted, and from the batches behind
it (`reload_producers`, which a log that is cut back needs as well).
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise

from ottla._native.record_batch import Batch
from ottla.broker.log.config import LogConfig
from ottla.broker.log.epochs import UNDEFINED_EPOCH, LeaderEpochs
from ottla.broker.log.fs import FileSystem
from ottla.broker.log.producers import ProducerStates
from ottla.broker.log.segment import LOG_SUFFIX, SUFFIXES, Segment
from ottla.broker.log.snapshots import Snapshots
from ottla.broker.log.swap import finish_swaps
from ottla.broker.log.transactions import read_marker

_log = logging.getLogger(__name__)


def open_segments(
    fs: FileSystem, directory: str, config: LogConfig, start_offset: int, now_ms: int
) -> list[Segment]:
    """The segments in a directory, at least one; a new log begins at `start_offset`."""
    finish_swaps(fs, directory)
    names = fs.list(directory)
    bases = [int(name.removesuffix(LOG_SUFFIX)) for name in names if name.endswith(LOG_SUFFIX)]
    known = {f"{base:020d}" for base in bases}
    for name in names:
        stem, dot, suffix = name.partition(".")
        if dot + suffix in SUFFIXES and stem not in known:
            fs.remove(f"{directory}/{name}")
    segments = [Segment(fs, directory, base, config, now_ms) for base in bases or [start_offset]]
    for segment in segments:
        segment.load()
    return segments


def recover(
    segments: list[Segment],
    producers: ProducerStates,
    epochs: LeaderEpochs,
    snapshots: Snapshots,
    recovery_point: int | None,
    sync_directory: Callable[[], None],
    *,
    may_have_gaps: bool,
) -> None:
    """Makes all of them agree with the batches that are whole; segments behind a damaged batch are removed.

    So are those behind a gap, unless compaction may have left it: a power loss may take a segment, or its end, and
    leave the next. Without a recovery point the log was closed, and nothing has to be read. `sync_directory` is
    called where segments were removed: their names would come back with the power.
    """
    trusted = len(segments) - 1 if recovery_point is None else _number_of(segments, recovery_point)
    for segment, following in pairwise(segments[: trusted + 1]):
        segment.complete_index(following.base_offset)
    if recovery_point is None and segments[-1].find_end():
        reload_producers(segments, producers, snapshots, segments[-1].next_offset)
    else:
        reload_producers(segments, producers, snapshots, segments[trusted].base_offset)
        scanned = segments, trusted, producers, epochs, snapshots
        _scan_all(*scanned, sync_directory, may_have_gaps=may_have_gaps)
    _remove_strays(snapshots, segments)


def reload_producers(
    segments: Sequence[Segment], producers: ProducerStates, snapshots: Snapshots, end_offset: int
) -> None:
    """What the producers have in a log that ends at `end_offset`; snapshots from behind it are removed."""
    number, position = _restore(segments, producers, snapshots, end_offset)
    for segment in segments[number:]:
        if segment.base_offset >= end_offset:
            break
        for at, batch in segment.headers(position):
            if batch.base_offset >= end_offset:
                break
            if batch.has_producer_id:
                marker = read_marker(segment.batch_at(at, batch)) if batch.is_control else None
                producers.update(batch, marker)
        position = 0


def _restore(
    segments: Sequence[Segment], producers: ProducerStates, snapshots: Snapshots, end_offset: int
) -> tuple[int, int]:
    """Takes the newest snapshot that fits; the number of its segment, and the position in it."""
    for offset in reversed(snapshots.offsets()):
        number = bisect_right(segments, offset, key=_base_offset) - 1
        position = segments[number].boundary(offset) if number >= 0 and offset <= end_offset else None
        states = snapshots.read(offset) if position is not None else None
        if position is not None and states is not None:
            producers.reset(states)
            return number, position
        snapshots.remove(offset)
    producers.reset([])
    return 0, 0


def _scan_all(
    segments: list[Segment],
    number: int,
    producers: ProducerStates,
    epochs: LeaderEpochs,
    snapshots: Snapshots,
    sync_directory: Callable[[], None],
    *,
    may_have_gaps: bool,
) -> None:
    """Reads the segments from the one with this number on, up to the first batch that is not whole, or not there."""
    while number < len(segments):
        segment = segments[number]
        segment.aborted.clear()
        end = _scan(segment, producers, epochs)
        number += 1
        is_damaged = end < segment.size
        is_last = number == len(segments)
        if not is_last and (is_damaged or not (may_have_gaps or _leads_up_to(segment, segments[number]))):
            # Before the cut, for good: a crash between the two would leave a log that is whole, but for a gap.
            _remove_all(segments, number)
            sync_directory()
        if is_damaged:
            _log.warning(
                "%s%s is damaged: it is cut from %s bytes to %s", segment.path, LOG_SUFFIX, segment.size, end
            )
            segment.cut(end, segment.next_offset)
            # What is cut off would come back with the power, behind what is appended in its place.
            segment.flush()
        if number < len(segments):
            segment.seal()
            segment.next_offset = segments[number].base_offset
            snapshots.write(segment.next_offset, producers.active())


def _leads_up_to(segment: Segment, following: Segment) -> bool:
    return segment.next_offset == following.base_offset


def _scan(segment: Segment, producers: ProducerStates, epochs: LeaderEpochs) -> int:
    """Goes over all batches; where the last one ends that is whole."""

    def take(position: int, batch: Batch) -> None:
        if batch.leader_epoch > _latest(epochs):
            epochs.assign(batch.leader_epoch, batch.base_offset)
        if batch.has_producer_id:
            marker = read_marker(segment.batch_at(position, batch)) if batch.is_control else None
            producers.record(batch, marker, segment.aborted)

    return segment.recover(_latest(epochs), take)


def _latest(epochs: LeaderEpochs) -> int:
    return UNDEFINED_EPOCH if epochs.latest is None else epochs.latest


def _remove_all(segments: list[Segment], first: int) -> None:
    for segment in reversed(segments[first:]):
        _log.warning("%s%s is removed: what lay before it is lost", segment.path, LOG_SUFFIX)
        segment.remove()
    del segments[first:]


def _remove_strays(snapshots: Snapshots, segments: list[Segment]) -> None:
    """A segment keeps the snapshot at its beginning, and the last one the latest."""
    bases = {segment.base_offset for segment in segments}
    for offset in snapshots.offsets()[:-1]:
        if offset not in bases:
            snapshots.remove(offset)


def _number_of(segments: Sequence[Segment], offset: int) -> int:
    """Of the segment that has `offset`, if any has; of the nearest else."""
    return max(bisect_right(segments, offset, key=_base_offset) - 1, 0)


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
