"""Which log is compacted next, and from where to where: decisions, without a change to any log.

A log is clean up to its first dirty offset. From there on it is dirty, and may be compacted up to the first segment
that is active, not stable yet, or younger than min.compaction.lag.ms. It is compacted when enough of it is dirty
(min.cleanable.dirty.ratio), or when the oldest of that has waited for max.compaction.lag.ms. The dirtiest log comes
first. The pass itself is compaction.py.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from ottla.broker.log.log import Log
from ottla.broker.log.segment import Segment

_log = logging.getLogger("ottla.broker.log.cleaner")


@dataclass(frozen=True, slots=True)
class DirtyLog:
    """A log that has a part to compact, from the first dirty offset up to `upper_offset`, where a segment begins."""

    log: Log
    first_dirty_offset: int
    upper_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool
    """What is dirty has waited for longer than max.compaction.lag.ms."""

    @property
    def ratio(self) -> float:
        return self.dirty_bytes / (self.clean_bytes + self.dirty_bytes)

    @property
    def is_due(self) -> bool:
        return self.is_overdue or self.ratio > self.log.config.min_cleanable_dirty_ratio


def dirty_log(log: Log, last_stable_offset: int, now_ms: int) -> DirtyLog | None:
    """What is to be compacted of a log; None if there is nothing."""
    start = first_dirty_offset(log)
    # Each segment but the active one, which is never compacted, with the offset at which it ends.
    closed = [(segment, following.base_offset) for segment, following in pairwise(log.segments)]
    dirty = [(segment, end) for segment, end in closed if end > start]
    upper, dirty_bytes = start, 0
    for segment, end in dirty:
        if end > last_stable_offset or _is_too_young(segment, now_ms):
            break
        upper = end
        dirty_bytes += segment.size
    if not dirty_bytes:
        return None
    return DirtyLog(
        log,
        start,
        upper,
        sum(segment.size for segment, _ in closed if segment.base_offset < start),
        dirty_bytes,
        _is_overdue((segment for segment, _ in dirty), now_ms - log.config.max_compaction_lag_ms),
    )


def first_dirty_offset(log: Log) -> int:
    """Up to where the log is clean. What a checkpoint says may lie outside of the log by now: then nothing is."""
    if log.log_start_offset <= log.first_dirty_offset <= log.log_end_offset:
        return log.first_dirty_offset
    if log.first_dirty_offset > log.log_end_offset:
        _log.warning(
            "partition %s was clean up to offset %s and ends at %s: it is compacted from its start",
            log.partition,
            log.first_dirty_offset,
            log.log_end_offset,
        )
    return log.log_start_offset


def filthiest(logs: Iterable[DirtyLog | None]) -> DirtyLog | None:
    """The one to compact next, of those that are due; the first among equals."""
    due = [dirty for dirty in logs if dirty is not None and dirty.is_due]
    return max(due, key=lambda dirty: dirty.ratio, default=None)


def _is_too_young(segment: Segment, now_ms: int) -> bool:
    lag_ms = segment.config.min_compaction_lag_ms
    return lag_ms > 0 and segment.largest_timestamp > now_ms - lag_ms


def _is_overdue(dirty: Iterable[Segment], latest_ms: int) -> bool:
    timestamps = [segment.first_timestamp for segment in dirty if segment.first_timestamp > 0]
    return bool(timestamps) and min(timestamps) < latest_ms
