"""A write that fails: the log is as it was before, or it says that it cannot be used any more.

Every change is tried with the failure at each of the calls that it makes.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from ottla.broker.log.flushing import Checkpointed
from ottla.broker.log.fs import MemoryFileSystem
from ottla.broker.log.log import Log, LogConfig
from ottla.broker.log.snapshots import encode_snapshot
from ottla.errors import KafkaStorageError
from ottla.wire.batches import ControlType
from tests.broker.log.failing import FailingFileSystem, Failure
from tests.broker.log.support import (
    NOW,
    append,
    append_marker,
    copy_of,
    joined,
    make_batch,
    open_log,
    patched,
)

INDEXED = LogConfig(index_interval_bytes=0)
ROLLING = LogConfig(index_interval_bytes=0, segment_bytes=300)


def filled(fs: MemoryFileSystem, config: LogConfig) -> Log:
    """Producers, an open transaction and an aborted one, each batch later than the one before."""
    log = open_log(fs, config)
    append(log, make_batch(2, timestamp=NOW))
    append(log, make_batch(1, timestamp=NOW + 1, producer=(7, 0, 0), transactional=True))
    append(log, make_batch(1, timestamp=NOW + 2, producer=(8, 0, 0), transactional=True))
    append_marker(log, ControlType.ABORT, 8)
    append(log, make_batch(1, timestamp=NOW + 3, producer=(9, 0, 0)))
    return log


def followed() -> bytes:
    """What a leader has beyond that: two epochs, an abort, and a gap as compaction leaves it."""
    leader = filled(MemoryFileSystem(), LogConfig())
    end = leader.log_end_offset
    append_marker(leader, ControlType.ABORT, 7)
    append(leader, make_batch(1, timestamp=NOW + 5, producer=(9, 0, 1)), epoch=3)
    batches = joined(leader.read(end, 1 << 20))
    return batches + bytes(patched(make_batch(1), ">q", 0, leader.log_end_offset + 5, new_crc=False))


class Change(NamedTuple):
    config: LogConfig
    make: Callable[[Log], object]


CHANGES = {
    "append": Change(LogConfig(), lambda log: append(log, make_batch(3, timestamp=NOW + 10))),
    "append with index": Change(INDEXED, lambda log: append(log, make_batch(3, timestamp=NOW + 10))),
    "append of a large batch": Change(
        INDEXED, lambda log: append(log, make_batch(3, timestamp=NOW + 10, value=b"v" * 60_000))
    ),
    "append in a new segment": Change(ROLLING, lambda log: append(log, make_batch(3, timestamp=NOW + 10))),
    "append in a new epoch": Change(INDEXED, lambda log: append(log, make_batch(1), epoch=4)),
    "append by a producer": Change(INDEXED, lambda log: append(log, make_batch(1, producer=(9, 0, 1)))),
    "abort": Change(INDEXED, lambda log: append_marker(log, ControlType.ABORT, 7)),
    "abort in a new segment": Change(ROLLING, lambda log: append_marker(log, ControlType.ABORT, 7)),
    "replication": Change(INDEXED, lambda log: log.append_as_follower(followed(), NOW)),
    "replication into a new segment": Change(ROLLING, lambda log: log.append_as_follower(followed(), NOW)),
    "roll": Change(INDEXED, lambda log: log.roll(NOW)),
}


def seen(log: Log) -> dict[str, Any]:
    """Everything that a reader, a producer or the next append could notice."""
    end = log.log_end_offset
    return {
        "offsets": (log.log_start_offset, end, log.first_unstable_offset),
        "bytes": joined(log.read(log.log_start_offset, 1 << 30)),
        "size": log.size,
        "segments": [(part.base_offset, part.size, part.next_offset) for part in log.segments],
        "epochs": log.epochs.entries,
        "producers": encode_snapshot(log.producers.active()),
        "aborted": log.aborted(0, 1 << 40),
        "places": [part.locate(offset) for part in log.segments for offset in range(part.base_offset, end)],
        "times": [log.offset_for_timestamp(NOW + later) for later in range(-1, 20)],
        "latest": log.max_timestamp_offset(),
    }


def calls_of(change: Change) -> int:
    fs = FailingFileSystem()
    log = filled(fs, change.config)
    fs.mend()
    change.make(log)
    return fs.calls


# A change without a call that can fail would pass everything below.
@pytest.mark.parametrize("name", CHANGES)
def test_every_change_writes(name: str) -> None:
    assert calls_of(CHANGES[name]) >= 1


@pytest.mark.parametrize("failure", [Failure.ONCE, Failure.TORN], ids=lambda failure: failure.value)
@pytest.mark.parametrize("name", CHANGES)
def test_a_write_that_fails_leaves_the_log_as_it_was(name: str, failure: Failure) -> None:
    change = CHANGES[name]
    undisturbed = filled(MemoryFileSystem(), change.config)
    change.make(undisturbed)
    for call in range(1, calls_of(change) + 1):
        fs = FailingFileSystem()
        log = filled(fs, change.config)
        before = seen(log)
        fs.fail_at(call, failure)
        with pytest.raises(KafkaStorageError, match="No space left on device"):
            change.make(log)
        fs.mend()
        assert seen(log) == before, call
        assert seen(open_log(copy_of(fs), change.config)) == before, call
        change.make(log)
        assert seen(log) == seen(undisturbed), call
        assert seen(open_log(copy_of(fs), change.config)) == seen(undisturbed), call


@pytest.mark.parametrize("name", CHANGES)
def test_a_log_that_cannot_be_cut_back_is_not_used_any_more(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    change = CHANGES[name]
    for call in range(1, calls_of(change) + 1):
        fs = FailingFileSystem()
        log = filled(fs, change.config)
        before = seen(log)
        fs.fail_at(call, Failure.LASTING)
        caplog.clear()
        with pytest.raises(KafkaStorageError):
            change.make(log)
        fs.mend()
        (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert "orders-0" in record.getMessage()
        for use in (
            lambda log=log: append(log, make_batch()),
            lambda log=log: log.append_as_follower(make_batch(), NOW),
            lambda log=log: log.read(0, 100),
            lambda log=log: log.offset_for_timestamp(NOW),
            lambda log=log: log.max_timestamp_offset(),
            lambda log=log: log.delete_records(1),
            lambda log=log: log.truncate_to(1),
            lambda log=log: log.roll(NOW),
        ):
            with pytest.raises(KafkaStorageError, match="orders-0"):
                use()
        log.close()
        # Whoever opens it again finds whole batches: all that were there, and perhaps those that failed.
        again = open_log(copy_of(fs), change.config)
        assert joined(again.read(0, 1 << 30)).startswith(before["bytes"])


class Broken(FailingFileSystem):
    """Fails with what no volume raises."""

    def fails(self, call: str, path: str) -> bool:
        if super().fails(call, path):
            raise LookupError("a bug")
        return False


def test_a_bug_leaves_the_log_as_it_was_too() -> None:
    fs = Broken()
    log = filled(fs, INDEXED)
    before = seen(log)
    fs.fail_at(2)
    with pytest.raises(LookupError, match="a bug"):
        append(log, make_batch())
    fs.mend()
    assert seen(log) == before


def test_a_bug_that_cannot_be_undone_ends_the_use_of_the_log() -> None:
    fs = Broken()
    log = filled(fs, INDEXED)
    fs.fail_at(2, Failure.LASTING)
    with pytest.raises(LookupError, match="a bug"):
        append(log, make_batch())
    fs.mend()
    with pytest.raises(KafkaStorageError, match="a bug"):
        append(log, make_batch())


def test_an_epoch_without_records_outlives_a_replication_that_fails() -> None:
    for call in range(1, calls_of(CHANGES["replication"]) + 1):
        fs = FailingFileSystem()
        log = filled(fs, INDEXED)
        log.epochs.assign(2, log.log_end_offset)
        before = seen(log)
        fs.fail_at(call)
        with pytest.raises(KafkaStorageError):
            log.append_as_follower(followed(), NOW)
        assert seen(log) == before


@pytest.mark.parametrize("before", [1, 3, 6])
def test_the_start_of_a_log_moves_also_where_its_epochs_cannot_be_written(before: int) -> None:
    for call in range(1, 10):
        fs = FailingFileSystem()
        log = filled(fs, INDEXED)
        append(log, make_batch(), epoch=5)
        fs.fail_at(call)
        try:
            log.delete_records(before)
        except KafkaStorageError:
            assert log.log_start_offset == before
        else:
            assert log.log_start_offset == before
        fs.mend()
        log.delete_records(before)
        assert log.log_start_offset == before
        known = Checkpointed(log_start_offset=before)
        assert open_log(copy_of(fs), known=known).epochs.entries == log.epochs.entries


def test_a_log_that_cannot_be_closed_cleanly_is_recovered(caplog: pytest.LogCaptureFixture) -> None:
    for call in range(1, 8):
        fs = FailingFileSystem()
        log = filled(fs, INDEXED)
        before = seen(log)
        fs.fail_at(call, Failure.LASTING)
        caplog.clear()
        log.close()
        fs.mend()
        assert seen(open_log(copy_of(fs), INDEXED)) == before
        assert "will be recovered" in caplog.text


@pytest.mark.parametrize("failure", Failure, ids=lambda failure: failure.value)
def test_retention_that_fails_loses_nothing_that_is_to_stay(failure: Failure) -> None:
    config = LogConfig(index_interval_bytes=0, segment_bytes=300, retention_bytes=300)
    for call in range(1, 12):
        fs = FailingFileSystem()
        log = filled(fs, config)
        end, kept = log.log_end_offset, joined(log.read(log.segments[-1].base_offset, 1 << 20))
        fs.fail_at(call, failure)
        with contextlib.suppress(KafkaStorageError):
            log.enforce_retention(NOW)
        fs.mend()
        for held in (log, open_log(copy_of(fs), config)):
            assert held.log_end_offset == end
            assert joined(held.read(held.log_start_offset, 1 << 20)).endswith(kept)
