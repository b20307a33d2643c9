"""What is deleted, by whole segments: by age, by size, and what lies before the start of the log."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.broker.log.fs import MemoryFileSystem
from ottla.broker.log.fs.directory import DirectoryFileSystem
from ottla.broker.log.log import Log, LogConfig
from tests.broker.log.support import CLOSED, DIRECTORY, NOW, append, make_batch, open_log

KEEP = LogConfig(retention_ms=-1)
DAY = 86_400_000


def three_segments(config: LogConfig = KEEP, fs: MemoryFileSystem | None = None) -> Log:
    """Offsets 0-9, 10-19 and 20-29, of which each is a day younger than the one before."""
    log = open_log(fs, config)
    for number in range(3):
        if number:
            log.roll(NOW)
        for _ in range(5):
            append(log, make_batch(2, timestamp=NOW + (number - 3) * DAY))
    return log


def starts(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_a_log_without_limits_keeps_everything() -> None:
    log = three_segments()
    assert log.enforce_retention(NOW + 1000 * DAY) == 0
    assert starts(log) == [0, 10, 20]


def test_segments_go_when_their_newest_record_is_too_old() -> None:
    log = three_segments(LogConfig(retention_ms=2 * DAY))
    assert log.enforce_retention(NOW) == 1
    assert (starts(log), log.log_start_offset) == ([10, 20], 10)
    assert log.enforce_retention(NOW) == 0
    assert log.enforce_retention(NOW + 1) == 1


def test_one_young_segment_keeps_all_behind_it() -> None:
    log = open_log(config=LogConfig(retention_ms=DAY))
    append(log, make_batch(timestamp=NOW))
    log.roll(NOW)
    append(log, make_batch(timestamp=NOW - 5 * DAY))
    log.roll(NOW)
    append(log, make_batch(timestamp=NOW))
    assert log.enforce_retention(NOW) == 0


def test_records_without_timestamps_are_as_old_as_their_file() -> None:
    log = open_log(config=LogConfig(retention_ms=DAY))
    append(log, make_batch(timestamp=-1), now_ms=NOW)
    log.roll(NOW)
    append(log, make_batch(timestamp=-1), now_ms=NOW + DAY)
    assert log.enforce_retention(NOW + DAY) == 0
    assert log.enforce_retention(NOW + DAY + 1) == 1


def test_a_log_that_is_opened_again_is_as_old_as_its_files(tmp_path: Path) -> None:
    config = LogConfig(retention_ms=1000)
    log = Log.open(DirectoryFileSystem(tmp_path), DIRECTORY, config, NOW)
    for _ in range(3):
        append(log, make_batch(timestamp=-1))
        log.roll(NOW)
    log.close()
    for number, segment in enumerate(log.segments):
        written_s = NOW / 1000 + number
        os.utime(tmp_path / f"{segment.path}.log", (written_s, written_s))
    again = Log.open(DirectoryFileSystem(tmp_path), DIRECTORY, config, NOW + 2500, CLOSED)
    assert again.enforce_retention(NOW + 2500) == 2
    assert again.log_start_offset == 2


def test_the_active_segment_goes_too_and_leaves_an_empty_one() -> None:
    log = three_segments(LogConfig(retention_ms=DAY))
    assert log.enforce_retention(NOW + DAY) == 3
    assert (starts(log), log.log_start_offset, log.log_end_offset, log.size) == ([30], 30, 30, 0)
    assert log.enforce_retention(NOW + 99 * DAY) == 0
    assert append(log, make_batch()).base_offset == 30


def test_the_oldest_go_until_the_log_is_small_enough() -> None:
    log = three_segments()
    size = log.segments[0].size
    for limit, kept in ((3 * size, 3), (2 * size + 1, 3), (2 * size, 2), (0, 1)):
        log.reconfigure(replace(KEEP, retention_bytes=limit))
        log.enforce_retention(NOW)
        assert len(log.segments) == kept
    assert (log.size, log.log_start_offset) == (0, 30)


def test_nothing_goes_that_is_not_replicated() -> None:
    log = three_segments(LogConfig(retention_ms=0))
    assert log.enforce_retention(NOW, high_watermark=19) == 1
    assert log.enforce_retention(NOW, high_watermark=20) == 1
    assert log.enforce_retention(NOW, high_watermark=29) == 0
    assert log.enforce_retention(NOW, high_watermark=30) == 1


@pytest.mark.parametrize("config", [KEEP, LogConfig(compact=True, delete=False, retention_ms=0)])
def test_segments_before_the_start_of_the_log_go(config: LogConfig) -> None:
    log = three_segments(config)
    log.delete_records(19)
    assert (starts(log), log.log_start_offset) == ([0, 10, 20], 19)
    assert log.enforce_retention(NOW) == 1
    assert (starts(log), log.log_start_offset) == ([10, 20], 19)
    log.delete_records(30)
    assert log.enforce_retention(NOW) == 1
    assert (starts(log), log.log_start_offset, log.log_end_offset) == ([20], 30, 30)


def test_a_deleted_segment_takes_its_files_with_it() -> None:
    fs = MemoryFileSystem()
    log = three_segments(LogConfig(retention_ms=2 * DAY), fs)
    log.enforce_retention(NOW)
    assert not [name for name in fs.list(DIRECTORY) if name.startswith(f"{0:020d}")]
    again = open_log(fs)
    assert (again.log_start_offset, again.log_end_offset) == (10, 30)


def test_the_epochs_begin_where_the_log_begins() -> None:
    log = three_segments()
    assert log.epochs.earliest == (0, 0)
    log.delete_records(12)
    assert log.epochs.earliest == (0, 12)
