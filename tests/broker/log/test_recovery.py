"""Opening a log: everything comes back that was whole, however the node ended."""

from __future__ import annotations

import logging

import pytest

from ottla.broker.log.fs import MemoryFile, MemoryFileSystem
from ottla.broker.log.log import Log, LogConfig
from ottla.errors import OutOfOrderSequenceNumberError
from ottla.wire.batches import ControlType
from tests.broker.log.support import (
    DIRECTORY,
    NOW,
    append,
    append_marker,
    make_batch,
    open_log,
    values,
)

SMALL = LogConfig(segment_bytes=600, index_interval_bytes=100)


def written(fs: MemoryFileSystem, batches: int = 30, config: LogConfig = SMALL) -> Log:
    log = open_log(fs, config)
    for number in range(batches):
        append(log, make_batch(2, value=b"%d" % number, timestamp=NOW + number), epoch=number // 10)
    return log


def last_log_file(fs: MemoryFileSystem) -> MemoryFile:
    name = [name for name in fs.list(DIRECTORY) if name.endswith(".log")][-1]
    return fs.open(f"{DIRECTORY}/{name}")


def damage(file: MemoryFile, at: int) -> None:
    content = bytearray(b"".join(file.read(0, file.size)))
    content[at] ^= 0xFF
    file.truncate(0)
    file.append(content)


@pytest.mark.parametrize("closed", [True, False])
def test_a_log_comes_back(closed: bool) -> None:
    fs = MemoryFileSystem()
    log = written(fs)
    expected = values(log)
    if closed:
        log.close()
    again = open_log(fs, SMALL)
    assert (values(again), again.log_end_offset, again.size) == (expected, 60, log.size)
    assert again.epochs.entries == log.epochs.entries == ((0, 0), (1, 20), (2, 40))
    assert again.max_timestamp_offset() == (NOW + 29, 58, 2)
    assert again.offset_for_timestamp(NOW + 7) == (NOW + 7, 14, 0)
    assert append(again, make_batch(), epoch=2).base_offset == 60


@pytest.mark.parametrize("closed", [True, False])
def test_producers_come_back_with_their_last_batch(closed: bool) -> None:
    fs = MemoryFileSystem()
    log = written(fs)
    for sequence in range(3):
        append(log, make_batch(producer=(7, 0, sequence)), epoch=2)
    if closed:
        log.close()
    again = open_log(fs, SMALL)
    assert append(again, make_batch(producer=(7, 0, 2)), epoch=2).duplicate
    with pytest.raises(OutOfOrderSequenceNumberError):
        append(again, make_batch(producer=(7, 0, 4)), epoch=2)
    assert append(again, make_batch(producer=(7, 0, 3)), epoch=2).base_offset == 63


def test_after_a_clean_end_nothing_is_read_again() -> None:
    fs = MemoryFileSystem()
    written(fs).close()
    damage(last_log_file(fs), -1)
    assert open_log(fs, SMALL).log_end_offset == 60


def test_what_came_after_the_last_close_is_read_again() -> None:
    fs = MemoryFileSystem()
    written(fs, 3).close()
    append(open_log(fs, SMALL), make_batch(2), epoch=2)
    damage(last_log_file(fs), -1)
    again = open_log(fs, SMALL)
    assert again.log_end_offset == 6
    assert last_log_file(fs).size == again.size


def test_open_transactions_come_back() -> None:
    fs = MemoryFileSystem()
    log = open_log(fs, SMALL)
    append(log, make_batch(producer=(8, 0, 0), transactional=True))
    append(log, make_batch(producer=(7, 0, 0), transactional=True))
    for _ in range(10):
        append(log, make_batch())
    append_marker(log, ControlType.ABORT, 8)
    log.close()
    again = open_log(fs, SMALL)
    assert (again.first_unstable_offset, again.aborted(0, 13)) == (1, [(8, 0)])
    append_marker(again, ControlType.COMMIT, 7)
    again.replicated_to(again.log_end_offset)
    assert (again.first_unstable_offset, again.aborted(0, 14)) == (None, [(8, 0)])


def test_a_torn_tail_is_cut_off_and_said(caplog: pytest.LogCaptureFixture) -> None:
    fs = MemoryFileSystem()
    written(fs)
    file = last_log_file(fs)
    whole = file.size
    file.append(b"half a batch")
    with caplog.at_level(logging.WARNING, "ottla"):
        assert open_log(fs, SMALL).log_end_offset == 60
    assert file.size == whole
    assert f"byte {whole} of {whole + 12}" in caplog.text


def test_a_log_that_is_whole_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    fs = MemoryFileSystem()
    written(fs)
    open_log(fs, SMALL)
    assert caplog.text == ""


def test_a_damaged_batch_ends_the_log_with_all_segments_behind_it() -> None:
    fs = MemoryFileSystem()
    log = written(fs)
    second, third = log.segments[1:3]
    for name in fs.list(DIRECTORY):
        if name.endswith(".snapshot"):
            fs.remove(f"{DIRECTORY}/{name}")
    damage(fs.open(f"{DIRECTORY}/{second.base_offset:020d}.log"), second.size - 1)
    again = open_log(fs, SMALL)
    assert again.log_end_offset == third.base_offset - 2
    assert [segment.base_offset for segment in again.segments] == [0, second.base_offset]
    assert again.epochs.entries == ((0, 0), (1, 20))


def test_damaged_snapshots_are_passed_over() -> None:
    fs = MemoryFileSystem()
    log = written(fs)
    append(log, make_batch(producer=(7, 0, 0)), epoch=2)
    log.close()
    for name in [name for name in fs.list(DIRECTORY) if name.endswith(".snapshot")][1:]:
        damage(fs.open(f"{DIRECTORY}/{name}"), 3)
    again = open_log(fs, SMALL)
    assert (again.log_end_offset, len(again.producers)) == (61, 1)


def test_a_snapshot_of_what_is_lost_is_not_used() -> None:
    fs = MemoryFileSystem()
    log = written(fs, 3)
    append(log, make_batch(producer=(7, 0, 0)), epoch=2)
    log.close()
    file = last_log_file(fs)
    file.truncate(file.size - 1)
    again = open_log(fs, SMALL)
    assert (again.log_end_offset, len(again.producers)) == (6, 0)
    assert append(again, make_batch(producer=(7, 0, 5)), epoch=2).base_offset == 6


def test_snapshots_do_not_pile_up() -> None:
    fs = MemoryFileSystem()
    for _ in range(5):
        log = open_log(fs, SMALL)
        append(log, make_batch())
        log.close()
    assert len([name for name in fs.list(DIRECTORY) if name.endswith(".snapshot")]) <= 2


def test_producers_that_were_idle_for_long_do_not_come_back() -> None:
    fs = MemoryFileSystem()
    log = open_log(fs)
    append(log, make_batch(producer=(7, 0, 0)))
    log.close()
    assert len(open_log(fs, now_ms=NOW + 86_400_000 - 1).producers) == 1
    assert len(open_log(fs, now_ms=NOW + 86_400_000).producers) == 0


def test_epochs_that_have_no_data_do_not_come_back() -> None:
    fs = MemoryFileSystem()
    log = written(fs)
    log.epochs.assign(9, 60)
    assert open_log(fs, SMALL).epochs.latest == 2


def test_epochs_come_back_without_their_file() -> None:
    fs = MemoryFileSystem()
    written(fs, 6)
    fs.remove(f"{DIRECTORY}/leader-epoch-checkpoint")
    assert open_log(fs, SMALL).epochs.entries == ((0, 0),)


def test_a_log_that_lost_what_it_had_deleted_goes_on_behind_it() -> None:
    fs = MemoryFileSystem()
    log = written(fs, 3)
    log.delete_records(6)
    last_log_file(fs).truncate(0)
    again = open_log(fs, SMALL)
    assert (again.log_start_offset, again.log_end_offset) == (6, 6)


def test_index_files_without_a_log_are_removed() -> None:
    fs = MemoryFileSystem()
    written(fs, 3)
    for suffix in (".index", ".timeindex", ".txnindex"):
        fs.open(f"{DIRECTORY}/{77:020d}{suffix}")
    fs.open(f"{DIRECTORY}/partition.metadata")
    open_log(fs, SMALL)
    assert not [name for name in fs.list(DIRECTORY) if name.startswith(f"{77:020d}")]
    assert fs.exists(f"{DIRECTORY}/partition.metadata")


def test_the_start_of_the_log_comes_back() -> None:
    fs = MemoryFileSystem()
    log = written(fs)
    log.delete_records(33)
    log.enforce_retention(NOW)
    again = open_log(fs, SMALL)
    assert (again.log_start_offset, again.segments[0].base_offset) == (33, log.segments[0].base_offset)
    assert again.epochs.entries == ((1, 33), (2, 40))
