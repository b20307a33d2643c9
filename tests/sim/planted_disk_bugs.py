"""Bugs for the trial of disks to find: each breaks one rule of what is on the disk, and when.

A bug is a function that patches the cluster for as long as its `MonkeyPatch` lasts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from ottla._native.record_batch import Batch
from ottla.broker.controller import metadata_log
from ottla.broker.log.fs.faulty import FaultyFileSystem
from ottla.broker.log.fs.page_cache import CachedFile
from ottla.broker.log.log import Log
from ottla.broker.log.log_dir import LogDirectory
from ottla.broker.log.segment import Segment
from ottla.wire.batch_header import MAGIC
from tests.sim.planted_bugs import Plant


def flush_messages_is_ignored(patch: pytest.MonkeyPatch) -> None:
    flush = Log.flush

    def flush_metadata(self: Log, now_ms: int) -> None:
        if self.config.flush_messages != 1 or self.partition.startswith("__"):
            flush(self, now_ms)

    patch.setattr(Log, "flush", flush_metadata)


def followers_do_not_flush(patch: pytest.MonkeyPatch) -> None:
    append = Log.append_as_follower

    def append_only(self: Log, *args: Any, **options: Any) -> Any:
        config, self.config = self.config, replace(self.config, flush_messages=1 << 62)
        try:
            return append(self, *args, **options)
        finally:
            self.config = config

    patch.setattr(Log, "append_as_follower", append_only)


def every_start_counts_as_clean(patch: pytest.MonkeyPatch) -> None:
    """As if the marker of a clean stop had stayed when the node began to write."""
    look = LogDirectory._look

    def look_and_believe(self: LogDirectory) -> None:
        look(self)
        self.previous_epoch = 1 if self.previous_epoch is None else self.previous_epoch

    patch.setattr(LogDirectory, "_look", look_and_believe)


def recovery_points_run_ahead(patch: pytest.MonkeyPatch) -> None:
    """They are written down as if everything were flushed."""
    patch.setattr(
        LogDirectory,
        "recovery_points",
        lambda self: {name: log.log_end_offset for name, log in self.logs.items()},
    )


def checksums_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    """A batch with sectors that were never written counts as whole."""

    def recover(self: Segment, latest_epoch: int, tell: Callable[[int, Batch], None]) -> int:
        self.forget_from(0, self.base_offset)
        end = 0
        for position, batch in self.headers(0):
            if batch.magic != MAGIC:
                break
            self.note(position, batch)
            tell(position, batch)
            end = position + batch.size
        return end

    patch.setattr(Segment, "recover", recover)


def compacted_segments_are_not_flushed(patch: pytest.MonkeyPatch) -> None:
    """They take the place of their sources, which are removed."""
    flush = Segment.flush

    def flush_others(self: Segment) -> None:
        if not self._state:
            flush(self)

    patch.setattr(Segment, "flush", flush_others)


def the_metadata_log_is_not_flushed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(metadata_log, "_LOG_CONFIG", replace(metadata_log._LOG_CONFIG, flush_messages=1 << 62))


def names_are_never_synced(patch: pytest.MonkeyPatch) -> None:
    """A file is on the disk, and its directory does not know of it."""

    def flushed(self: FaultyFileSystem, file: CachedFile) -> None:
        file.sync()

    patch.setattr(FaultyFileSystem, "flushed", flushed)
    patch.setattr(FaultyFileSystem, "sync_directory", lambda self, path: None)


PLANTED_IN_DISKS: Final[dict[Plant, tuple[int, ...]]] = {
    flush_messages_is_ignored: (0, 5),
    followers_do_not_flush: (0, 5),
    every_start_counts_as_clean: (2, 3),
    recovery_points_run_ahead: (97, 155),
    checksums_are_not_looked_at: (1, 2),
    compacted_segments_are_not_flushed: (4, 5),
    the_metadata_log_is_not_flushed: (3, 4),
    names_are_never_synced: (0, 2),
}
"""With the seeds that are known to show each."""
