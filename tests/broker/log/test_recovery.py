"""Opening a log: everything comes back that was whole, however the node ended."""

from __future__ import annotations

import logging
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.log.flushing import Checkpointed
from ottla.broker.log.fs import MemoryFile, MemoryFileSystem
from ottla.broker.log.fs.directory import DirectoryFileSystem
from ottla.broker.log.log import Log, LogConfig, Origin
from ottla.broker.log.producers import ProducerStateEntry
from ottla.broker.log.segment import RECOVERED_AT_ONCE
from ottla.broker.log.transactions import AbortedIndex
from ottla.broker.log.validation import only_batch
from ottla.errors import KafkaStorageError, OutOfOrderSequenceNumberError
from ottla.wire.batches import ControlType
from tests.broker.log.failing import FailingFileSystem, Failure
from tests.broker.log.support import (
    CLOSED,
    DIRECTORY,
    NOW,
    UNKNOWN,
    append,
    append_marker,
    copy_of,
    make_batch,
    make_marker,
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


def snapshots(fs: MemoryFileSystem) -> list[int]:
    names = [name for name in fs.list(DIRECTORY) if name.endswith(".snapshot")]
    return [int(name.removesuffix(".snapshot")) for name in names]


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
        assert log.close()
    again = open_log(fs, SMALL, known=CLOSED if closed else UNKNOWN)
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
        assert log.close()
    again = open_log(fs, SMALL, known=CLOSED if closed else UNKNOWN)
    assert append(again, make_batch(producer=(7, 0, 2)), epoch=2).duplicate
    with pytest.raises(OutOfOrderSequenceNumberError):
        append(again, make_batch(producer=(7, 0, 4)), epoch=2)
    assert append(again, make_batch(producer=(7, 0, 3)), epoch=2).base_offset == 63


def test_after_a_clean_end_nothing_is_read_again() -> None:
    fs = MemoryFileSystem()
    written(fs).close()
    damage(last_log_file(fs), -1)
    assert open_log(fs, SMALL, known=CLOSED).log_end_offset == 60


def test_a_file_that_is_torn_after_a_clean_end_is_read_all_the_same() -> None:
    fs = MemoryFileSystem()
    written(fs).close()
    last_log_file(fs).append(b"half a batch")
    again = open_log(fs, SMALL, known=CLOSED)
    assert again.log_end_offset == 60
    assert last_log_file(fs).size == again.segments[-1].size
    assert len(values(again)) == 60


def test_what_was_flushed_is_not_read_again() -> None:
    fs = MemoryFileSystem()
    log = written(fs)
    first, second, *_, last = log.segments
    assert log.recovery_point == last.base_offset
    damage(fs.open(f"{first.path}.log"), -1)
    point = Checkpointed(recovery_point=second.base_offset + 1)
    assert open_log(fs, SMALL, known=point).log_end_offset == 60
    assert open_log(fs, SMALL).log_end_offset < second.base_offset


def test_a_recovery_that_has_read_everything_has_not_flushed_it() -> None:
    fs = MemoryFileSystem()
    written(fs)
    assert open_log(fs, SMALL, known=Checkpointed(recovery_point=20)).recovery_point == 20
    assert open_log(fs, SMALL, known=CLOSED).recovery_point == 60


def test_what_came_after_the_last_close_is_read_again() -> None:
    fs = MemoryFileSystem()
    written(fs, 3).close()
    append(open_log(fs, SMALL, known=CLOSED), make_batch(2), epoch=2)
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
    again = open_log(fs, SMALL, known=CLOSED)
    assert (again.first_unstable_offset, again.aborted(0, 13)) == (1, [(8, 0)])
    append_marker(again, ControlType.COMMIT, 7)
    again.replicated_to(again.log_end_offset)
    assert (again.first_unstable_offset, again.aborted(0, 14)) == (None, [(8, 0)])


Step = tuple[int, str]
steps = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["data"] * 5 + ["commit", "abort", "epoch"])), max_size=60
)


def write_steps(log: Log, taken: list[Step]) -> None:
    """Idempotent and transactional producers, of which each step is one: data, a marker, or a new epoch."""
    epochs = dict.fromkeys(range(4), 0)
    sequences = dict.fromkeys(range(4), 0)
    for number, (producer, step) in enumerate(taken):
        transactional = producer % 2 == 1
        if step == "data":
            identity = (producer, epochs[producer], sequences[producer])
            batch = make_batch(producer=identity, transactional=transactional, timestamp=NOW + number)
            append(log, batch, epoch=number // 20)
            sequences[producer] += 1
        elif step == "epoch" and not transactional:
            epochs[producer], sequences[producer] = epochs[producer] + 1, 0
        elif step in ("commit", "abort") and transactional:
            outcome = ControlType.COMMIT if step == "commit" else ControlType.ABORT
            marker = make_marker(outcome, producer, epoch=epochs[producer])
            log.append_as_leader(only_batch(marker), number // 20, NOW, origin=Origin.COORDINATOR)


def everything(log: Log, fs: MemoryFileSystem) -> list[object]:
    """All that recovery has to find out, of what no snapshot and no other file has."""
    producers = [
        [getattr(state, name) for name in ProducerStateEntry.__slots__] for state in log.producers.active()
    ]
    files = {
        name: b"".join(fs.open(f"{DIRECTORY}/{name}").read(0, 1 << 20))
        for name in fs.list(DIRECTORY)
        if name.endswith("index")
    }
    ends = [(segment.next_offset, segment.max_timestamp, segment.first_timestamp) for segment in log.segments]
    end = log.log_end_offset
    return [producers, files, ends, log.epochs.entries, log.aborted(0, end), log.first_unstable_offset]


@given(taken=steps)
def test_a_recovered_log_is_the_one_that_was_written(taken: list[Step]) -> None:
    fs = MemoryFileSystem()
    config = LogConfig(index_interval_bytes=100)
    log = open_log(fs, config)
    write_steps(log, taken)
    expected = everything(log, fs)
    for name in fs.list(DIRECTORY):
        if not name.endswith(".log"):
            fs.remove(f"{DIRECTORY}/{name}")
    assert everything(open_log(fs, config), fs) == expected


def test_recovery_needs_little_memory_however_large_a_batch_is(tmp_path: Path) -> None:
    config = LogConfig(max_message_bytes=1 << 30)
    log = Log.open(DirectoryFileSystem(tmp_path), DIRECTORY, config, NOW)
    append(log, make_batch(value=b"v" * (16 * RECOVERED_AT_ONCE)))
    log.close()
    tracemalloc.start()
    try:
        assert Log.open(DirectoryFileSystem(tmp_path), DIRECTORY, config, NOW).log_end_offset == 1
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * RECOVERED_AT_ONCE


def test_a_torn_tail_is_cut_off_and_said(caplog: pytest.LogCaptureFixture) -> None:
    fs = MemoryFileSystem()
    written(fs)
    file = last_log_file(fs)
    whole = file.size
    file.append(b"half a batch")
    with caplog.at_level(logging.WARNING, "ottla"):
        assert open_log(fs, SMALL).log_end_offset == 60
    assert file.size == whole
    assert f".log is damaged: it is cut from {whole + 12} bytes to {whole}" in caplog.text


def test_a_log_that_is_whole_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    fs = MemoryFileSystem()
    written(fs)
    open_log(fs, SMALL)
    assert caplog.text == ""


def test_a_damaged_batch_ends_the_log_with_all_segments_behind_it() -> None:
    fs = MemoryFileSystem()
    log = written(fs)
    second, third = log.segments[1:3]
    damage(fs.open(f"{DIRECTORY}/{second.base_offset:020d}.log"), second.size - 1)
    again = open_log(fs, SMALL)
    assert again.log_end_offset == third.base_offset - 2
    assert [segment.base_offset for segment in again.segments] == [0, second.base_offset]
    assert max(snapshots(fs)) <= again.log_end_offset
    assert again.epochs.entries == ((0, 0), (1, 20))


def test_a_recovery_that_is_cut_short_leaves_no_gap() -> None:
    struck = 0
    for call in range(1, 200):
        fs = FailingFileSystem()
        log = open_log(fs, SMALL)
        for number in range(30):
            append(log, make_batch(value=b"%d" % number))
        second = log.segments[1]
        damage(MemoryFileSystem.open(fs, f"{second.path}.log"), second.size - 1)
        fs.fail_at(call, Failure.LASTING)
        try:
            open_log(fs, SMALL)
        except (OSError, KafkaStorageError):
            struck += 1
        else:
            break
        again = open_log(copy_of(fs), SMALL)
        assert values(again) == [b"%d" % number for number in range(second.next_offset - 1)], call
    assert struck > 20


@pytest.mark.parametrize("whole", [False, True])
def test_segments_behind_a_gap_are_removed(whole: bool) -> None:
    """A power loss may take a segment, or its last batches, and leave the next one."""
    fs = MemoryFileSystem()
    log = written(fs)
    first, second = log.segments[:2]
    if whole:
        for name in [name for name in fs.list(DIRECTORY) if name.startswith(f"{second.base_offset:020d}")]:
            fs.remove(f"{DIRECTORY}/{name}")
        end = first.next_offset
    else:
        *_, (position, batch) = second.headers(0)
        fs.open(f"{second.path}.log").truncate(position)
        end = batch.base_offset
    again = open_log(fs, SMALL)
    assert again.log_end_offset == end
    assert values(again) == [b"%d" % (offset // 2) for offset in range(end)]
    append(again, make_batch(value=b"new"), epoch=3)
    assert open_log(fs, SMALL).log_end_offset == end + 1


def test_a_gap_that_compaction_may_have_left_stays() -> None:
    fs = MemoryFileSystem()
    log = written(fs)
    end, second = log.log_end_offset, log.segments[1]
    *_, (position, _) = second.headers(0)
    fs.open(f"{second.path}.log").truncate(position)
    compacted = replace(SMALL, compact=True)
    assert open_log(copy_of(fs), compacted).log_end_offset == end
    known = replace(UNKNOWN, first_dirty_offset=1)
    assert Log.open(fs, DIRECTORY, SMALL, NOW, known).log_end_offset == end


def test_nothing_of_a_damaged_index_of_transactions_stays() -> None:
    fs = MemoryFileSystem()
    log = written(fs)
    append(log, make_batch(producer=(7, 0, 0), transactional=True), epoch=2)
    marker = make_marker(ControlType.ABORT, 7)
    log.append_as_leader(only_batch(marker), 2, NOW, origin=Origin.COORDINATOR)
    expected = list(log.segments[-1].aborted)
    assert expected
    index = fs.open(f"{log.segments[-1].path}.txnindex")
    index.append(bytes(AbortedIndex.ENTRY.size))  # what a power loss leaves of an entry
    assert list(open_log(fs, SMALL).segments[-1].aborted) == expected


def test_damaged_snapshots_are_passed_over() -> None:
    fs = MemoryFileSystem()
    log = written(fs)
    append(log, make_batch(producer=(7, 0, 0)), epoch=2)
    log.close()
    for name in [name for name in fs.list(DIRECTORY) if name.endswith(".snapshot")][1:]:
        damage(fs.open(f"{DIRECTORY}/{name}"), 3)
    again = open_log(fs, SMALL, known=CLOSED)
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
        log = open_log(fs, SMALL, known=CLOSED)
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
    again = open_log(fs, SMALL, known=Checkpointed(log_start_offset=6))
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
    again = open_log(fs, SMALL, known=Checkpointed(log_start_offset=log.log_start_offset))
    assert (again.log_start_offset, again.segments[0].base_offset) == (33, log.segments[0].base_offset)
    assert again.epochs.entries == ((1, 33), (2, 40))
