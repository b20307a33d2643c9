"""What happens when a log is opened: its files are read back to the last whole batch.

Recovery begins at the latest snapshot of the producers that fits the log, and goes over every batch behind it: its
checksum, its offsets, its producer, its epoch. A torn or damaged batch ends the log, with everything behind it. What
lies before the snapshot was whole when the snapshot was taken; of that only indexes are built anew, where missing.
"""

from __future__ import annotations

import logging
from itertools import pairwise

from ottla._native import crc32c
from ottla._native.record_batch import Batch
from ottla.broker.log.config import LogConfig
from ottla.broker.log.epochs import LeaderEpochs
from ottla.broker.log.fs import FileSystem
from ottla.broker.log.index import LARGEST_RELATIVE_OFFSET
from ottla.broker.log.producers import ProducerStates
from ottla.broker.log.segment import LOG_SUFFIX, SUFFIXES, Segment
from ottla.broker.log.snapshots import Snapshots
from ottla.broker.log.transactions import read_marker
from ottla.wire.batch_header import CHECKED_FROM, MAGIC

_log = logging.getLogger(__name__)


def open_segments(
    fs: FileSystem, directory: str, config: LogConfig, start_offset: int, now_ms: int
) -> list[Segment]:
    """The segments in a directory, at least one; a new log begins at `start_offset`."""
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
    segments: list[Segment], producers: ProducerStates, epochs: LeaderEpochs, snapshots: Snapshots
) -> None:
    """Makes all of them agree with the batches that are whole; segments behind a damaged batch are removed."""
    number, position, offset = _restore(segments, producers, snapshots)
    for segment, following in pairwise(segments[: number + 1]):
        segment.complete_index(following.base_offset)
    while number < len(segments):
        segment = segments[number]
        segment.forget_from(position, offset)
        segment.aborted.truncate_to(offset)
        end = _replay(segment, position, producers, epochs)
        number += 1
        if end < segment.size:
            _log.warning("%s ends with a damaged batch: byte %s of %s", segment.path, end, segment.size)
            segment.cut(end, segment.next_offset)
            _remove_all(segments, number)
        if number < len(segments):
            segment.seal()
            position, offset = 0, segments[number].base_offset
            segment.next_offset = offset
    _remove_strays(snapshots, segments)


def _restore(
    segments: list[Segment], producers: ProducerStates, snapshots: Snapshots
) -> tuple[int, int, int]:
    """Takes the latest snapshot that fits; the number of its segment, the position and the offset in it."""
    for offset in reversed(snapshots.offsets()):
        number = sum(segment.base_offset <= offset for segment in segments) - 1
        position = segments[number].boundary(offset) if number >= 0 else None
        states = snapshots.read(offset)
        if position is not None and states is not None:
            producers.reset(states)
            return number, position, offset
        snapshots.remove(offset)
    producers.reset([])
    return 0, 0, segments[0].base_offset


def _replay(segment: Segment, position: int, producers: ProducerStates, epochs: LeaderEpochs) -> int:
    """Goes over the batches from `position` on; where the last one ends that is whole."""
    for at, batch in segment.headers(position):
        data = segment.batch_at(at, batch)
        if not _is_whole(batch, data, segment):
            break
        segment.note(at, batch)
        if batch.leader_epoch > (-1 if epochs.latest is None else epochs.latest):
            epochs.assign(batch.leader_epoch, batch.base_offset)
        marker = read_marker(data) if batch.is_control and batch.has_producer_id else None
        producers.record(batch, marker, segment.aborted)
        position = at + batch.size
    return position


def _is_whole(batch: Batch, data: memoryview, segment: Segment) -> bool:
    return (
        batch.magic == MAGIC
        and batch.last_offset_delta >= 0
        and batch.base_offset >= segment.next_offset
        and batch.last_offset - segment.base_offset <= LARGEST_RELATIVE_OFFSET
        and crc32c(data[CHECKED_FROM:]) == batch.crc
    )


def _remove_all(segments: list[Segment], first: int) -> None:
    for segment in segments[first:]:
        segment.remove()
    del segments[first:]


def _remove_strays(snapshots: Snapshots, segments: list[Segment]) -> None:
    """A segment keeps the snapshot at its beginning, and the last one the latest."""
    bases = {segment.base_offset for segment in segments}
    for offset in snapshots.offsets()[:-1]:
        if offset not in bases:
            snapshots.remove(offset)
