"""A compacted segment takes the place of its sources, wherever a crash strikes: the records are the same."""

from __future__ import annotations

import pytest

from ottla.broker.log.fs import MemoryFileSystem
from ottla.broker.log.log import Log, LogConfig
from ottla.errors import KafkaStorageError
from ottla.wire.batch_header import DELETE_HORIZON
from ottla.wire.batches import ControlType, encode_batch

from .compacting import StoredBatch, compact, compaction_of, kept, stored
from .failing import FailingFileSystem, Failure
from .support import DIRECTORY, NOW, append, append_marker, copy_of, make_batch, open_log, patched

CONFIG = LogConfig(compact=True, delete=False, index_interval_bytes=100, segment_bytes=1500)
STATES = (".cleaned", ".swap", ".deleted")


def write(log: Log) -> None:
    """Several segments and groups; every key is there often, and a transaction is aborted in the middle."""
    for number in range(40):
        pairs = [(b"key %d" % (number % 7), b"v" * 10), (b"often", b"%d" % number)]
        is_transactional = number in (11, 12)
        data = encode_batch(
            [(index, NOW + number, key, value, []) for index, (key, value) in enumerate(pairs)],
            producer_id=7 if is_transactional else -1,
            producer_epoch=0 if is_transactional else -1,
            base_sequence=2 * (number - 11) if is_transactional else -1,
            transactional=is_transactional,
        )
        append(log, bytearray(data))
        if number == 12:
            append_marker(log, ControlType.ABORT, 7)
        if number % 5 == 4:
            log.roll(NOW + number)


def latest(log: Log) -> dict[bytes | None, bytes | None]:
    """What a program knows that has read the whole log and commits nothing to what was aborted."""
    found: dict[bytes | None, bytes | None] = {}
    aborted = dict(log.aborted(0, log.log_end_offset))
    for batch in stored(log):
        if not batch.is_control and not (batch.is_transactional and batch.producer[0] in aborted):
            found.update((record.key, record.value) for record in batch.records)
    return found


def files(fs: MemoryFileSystem) -> list[str]:
    return fs.list(DIRECTORY)


def compacted() -> tuple[list[StoredBatch], int]:
    """What a pass without a crash leaves, and how many calls change the volume in it."""
    fs = FailingFileSystem()
    log = open_log(fs, CONFIG)
    write(log)
    fs.mend()
    compact(log)
    return stored(log), fs.calls


EXPECTED, CALLS = compacted()


def test_the_scenario_has_several_groups_of_several_segments() -> None:
    fs = MemoryFileSystem()
    log = open_log(fs, CONFIG)
    write(log)
    before = len(log.segments)
    compact(log)
    assert 2 < len(log.segments) < before
    assert CALLS > 60


@pytest.mark.parametrize("failure", [Failure.LASTING, Failure.TORN])
def test_a_crash_at_any_step_loses_nothing_and_brings_nothing_back(failure: Failure) -> None:
    struck = 0
    for call in range(1, CALLS + 1):
        fs = FailingFileSystem()
        log = open_log(fs, CONFIG)
        write(log)
        known = latest(log)
        fs.fail_at(call, failure)
        try:
            compact(log)
        except (OSError, KafkaStorageError):
            struck += 1
        left = copy_of(fs)
        reopened = open_log(left, CONFIG)
        assert not [name for name in files(left) if name.endswith(STATES)], call
        assert latest(reopened) == known, call
        assert reopened.log_end_offset == log.log_end_offset
        compact(reopened)
        # Sources that came back are compacted again; a tombstone or a marker would have got its horizon twice.
        assert latest(reopened) == known, call
        assert {record for batch in stored(reopened) if not batch.is_control for record in batch.records} == {
            record for batch in EXPECTED if not batch.is_control for record in batch.records
        }, call
    assert struck > CALLS // 2


def follow(log: Log) -> None:
    """As from a leader that has compacted already: a tombstone comes with a horizon, and that has passed."""
    deleted = encode_batch([(0, NOW - 1, b"deleted", None, [])])
    batches = [
        make_batch(key=b"first"),
        make_batch(key=b"deleted"),
        patched(deleted, ">h", 21, DELETE_HORIZON),
        make_batch(key=b"of another group", value=b"v" * 1400),
    ]
    for offset, batch in enumerate(batches):
        log.append_as_follower(patched(batch, ">q", 0, offset), NOW)
        log.roll(NOW)


def test_a_crash_at_any_step_brings_nothing_back_that_a_tombstone_has_deleted() -> None:
    struck = 0
    for call in range(1, 200):
        fs = FailingFileSystem()
        log = open_log(fs, CONFIG)
        follow(log)
        fs.fail_at(call, Failure.LASTING)
        try:
            compact(log)
        except (OSError, KafkaStorageError):
            struck += 1
        else:
            break
        reopened = open_log(copy_of(fs), CONFIG)
        compact(reopened)
        assert [key for _, key, _ in kept(reopened)] == [b"first", b"of another group"], call
    assert struck > 30


def test_a_crash_while_a_swap_is_finished_is_finished_by_the_next_opening() -> None:
    fs = FailingFileSystem()
    log = open_log(fs, CONFIG)
    write(log)
    known = latest(log)
    fs.fail_if(lambda call, path: call == "rename" and path.endswith(".deleted"))
    with pytest.raises(KafkaStorageError):
        compact(log)
    struck = 0
    for call in range(1, 200):
        again = FailingFileSystem()
        for name in files(fs):
            file = MemoryFileSystem.open(fs, f"{DIRECTORY}/{name}")
            MemoryFileSystem.open(again, f"{DIRECTORY}/{name}").append(b"".join(file.read(0, file.size)))
        assert [name for name in files(again) if name.endswith(".log.swap")]
        again.fail_at(call, Failure.LASTING)
        try:
            open_log(again, CONFIG)
        except OSError:
            struck += 1
        else:
            break
        assert latest(open_log(copy_of(again), CONFIG)) == known
    assert struck > 5


def test_a_swap_that_fails_ends_the_use_of_the_log() -> None:
    fs = FailingFileSystem()
    log = open_log(fs, CONFIG)
    write(log)
    fs.fail_if(lambda call, path: call == "rename" and path.endswith(".swap"))
    with pytest.raises(KafkaStorageError):
        compact(log)
    assert log.has_failed
    with pytest.raises(KafkaStorageError):
        log.read(0, 100)


def test_a_volume_that_is_full_leaves_the_log_as_it_was() -> None:
    fs = FailingFileSystem()
    log = open_log(fs, CONFIG)
    write(log)
    expected, names = stored(log), files(fs)
    fs.fail_if(lambda call, path: call == "open" and path.endswith(".cleaned"))
    with pytest.raises(OSError, match="No space left"):
        compact(log)
    assert stored(log) == expected
    assert files(fs) == names
    fs.mend()
    compact(log)
    assert stored(log) == EXPECTED


def test_what_a_pass_could_not_clean_up_is_not_in_the_way_of_the_next() -> None:
    fs = FailingFileSystem()
    log = open_log(fs, CONFIG)
    write(log)
    fs.fail_if(lambda call, path: call == "remove" and path.endswith(".cleaned"))
    slices = compaction_of(log).slices()
    for _ in range(44):
        next(slices)
    with pytest.raises(OSError, match="No space left"):
        slices.close()
    assert [name for name in files(fs) if name.endswith(".log.cleaned")]
    fs.mend()
    compact(log)
    assert stored(log) == EXPECTED


def test_a_segment_of_another_directory_is_left_alone() -> None:
    fs = MemoryFileSystem()
    log = open_log(fs, CONFIG)
    write(log)
    fs.open("other-0/00000000000000000000.log.cleaned").append(b"x")
    log.close()
    open_log(fs, CONFIG)
    assert fs.list("other-0") == ["00000000000000000000.log.cleaned"]
