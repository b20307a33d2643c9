"""What of a log is on the disk, where it ends, and which segments a flush has to take there.

Values only. The log says what has to be flushed and what a flush has come to (log.py); a flush may run in a thread of
its own (replication/flusher.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ottla.broker.log.epochs import EpochEntry
from ottla.broker.log.segment import Segment


@dataclass(frozen=True, slots=True)
class Checkpointed:
    """What is known of a log beside its own files (checkpoints.py); of a new one, nothing."""

    log_start_offset: int = 0
    recovery_point: int | None = 0
    """All before it was flushed; None: the log was closed cleanly, and is trusted as a whole."""
    first_dirty_offset: int = 0
    """All before it was compacted."""


class LogEnd(NamedTuple):
    """Where a log ends: what an append that fails goes back to."""

    segment: Segment
    position: int
    offset: int
    epochs: tuple[EpochEntry, ...]


@dataclass(frozen=True, slots=True)
class Unflushed:
    """Segments that a thread may flush, and what is flushed then: all of the log before `end_offset`."""

    segments: tuple[Segment, ...]
    end_offset: int
    cuts: int

    def flush(self) -> None:
        for segment in self.segments:
            segment.flush()
