"""What is on the disk, and who is told: flush.messages, rolled segments, and flushes that a cut overtakes."""

from __future__ import annotations

import errno
import random
from contextlib import suppress

import pytest

from ottla.broker.log.flushing import Checkpointed
from ottla.broker.log.fs.faulty import FaultyFileSystem, Operation
from ottla.broker.log.log import Log, LogConfig
from ottla.errors import KafkaStorageError
from ottla.wire.batch_header import CHECKED_FROM
from ottla.wire.batches import ControlType
from tests.broker.log.support import DIRECTORY, NOW, append, append_marker, make_batch, values

EACH = LogConfig(flush_messages=1)
SMALL = LogConfig(segment_bytes=300)


def volume(seed: int = 1) -> FaultyFileSystem:
    return FaultyFileSystem(random.Random(seed))


def open_log(fs: FaultyFileSystem, config: LogConfig, known: Checkpointed = Checkpointed()) -> Log:  # noqa: B008
    return Log.open(fs, DIRECTORY, config, NOW, known)


@pytest.mark.parametrize("seed", range(20))
def test_with_flush_messages_1_a_power_loss_takes_nothing(seed: int) -> None:
    fs = volume(seed)
    log = open_log(fs, EACH)
    for number in range(10):
        append(log, make_batch(value=b"%d" % number))
        assert log.recovery_point == number + 1
    fs.power_loss()
    again = open_log(fs, EACH)
    assert values(again) == [b"%d" % number for number in range(10)]


@pytest.mark.parametrize("seed", range(20))
def test_a_follower_flushes_before_it_fetches_on(seed: int) -> None:
    leader = open_log(volume(), LogConfig())
    append(leader, make_batch(3))
    fs = volume(seed)
    log = open_log(fs, EACH)
    log.append_as_follower(b"".join(leader.read(0, 1 << 20).parts), NOW)
    assert log.recovery_point == 3
    fs.power_loss()
    assert open_log(fs, EACH).log_end_offset == 3


@pytest.mark.parametrize("seed", range(20))
def test_without_a_flush_a_power_loss_leaves_a_log_that_is_whole_as_far_as_it_goes(seed: int) -> None:
    fs = volume(seed)
    log = open_log(fs, SMALL)
    for number in range(20):
        append(log, make_batch(value=b"%d" % number))
    flushed = log.recovery_point
    assert 0 < flushed < 20, "segments that have rolled are flushed"
    fs.power_loss()
    again = open_log(fs, SMALL, Checkpointed(recovery_point=flushed))
    kept = values(again)
    assert len(kept) >= flushed
    assert kept == [b"%d" % number for number in range(len(kept))]
    assert append(again, make_batch()).base_offset == len(kept)


@pytest.mark.parametrize("removed", [False, True], ids=["cut within a segment", "segments removed"])
@pytest.mark.parametrize("seed", range(20))
def test_what_was_cut_off_does_not_come_back_with_the_power(seed: int, removed: bool) -> None:
    fs = volume(seed)
    log = open_log(fs, SMALL)
    for number in range(12):
        append(log, make_batch(value=b"old %d" % number))
    log.flush(NOW)
    # Into the midst of a segment that is flushed already, the last one or one before.
    kept = log.segments[1 if removed else -1].base_offset + 1
    log.truncate_to(kept)
    log.roll(NOW)
    append(log, make_batch(value=b"new"), epoch=1)
    log.flush(NOW)
    fs.power_loss()
    again = open_log(fs, SMALL, Checkpointed(recovery_point=log.recovery_point))
    assert values(again) == [*(b"old %d" % number for number in range(kept)), b"new"]
    assert again.epochs.entries == log.epochs.entries


@pytest.mark.parametrize("seed", range(20))
def test_a_recovery_point_of_before_a_cut_vouches_for_nothing_that_came_since(seed: int) -> None:
    """It is written down every minute, and the log may be cut back and grow beyond it in between."""
    fs = volume(seed)
    log = open_log(fs, SMALL)
    for number in range(12):
        append(log, make_batch(value=b"old %d" % number))
    log.flush(NOW)
    written_down = log.recovery_point
    log.truncate_to(4)
    log.on_rolled = lambda log: None  # a flusher that has not come to it
    for number in range(10):
        append(log, make_batch(value=b"new %d" % number), epoch=1)
    fs.power_loss()
    again = values(open_log(fs, SMALL, Checkpointed(recovery_point=written_down)))
    assert again[:4] == [b"old %d" % number for number in range(4)]
    assert again[4:] == [b"new %d" % number for number in range(len(again) - 4)]


@pytest.mark.parametrize("seed", range(20))
def test_what_recovery_has_cut_off_does_not_come_back_with_the_power(seed: int) -> None:
    fs = volume(seed)
    log = open_log(fs, SMALL)
    for number in range(12):
        append(log, make_batch(value=b"old %d" % number))
    log.flush(NOW)
    damaged = log.segments[1]
    at = damaged.base_offset
    fs.crash()
    fs.flip_bit(f"{damaged.path}.log", CHECKED_FROM, 76)
    cut = open_log(fs, SMALL)
    assert cut.log_end_offset == at
    # As long as the batch that was damaged: what lay behind it would fit.
    append(cut, make_batch(value=b"new %d" % at), epoch=1)
    fs.power_loss()
    again = values(open_log(fs, SMALL, Checkpointed(recovery_point=cut.recovery_point)))
    old = [b"old %d" % number for number in range(at)]
    assert again in (old, [*old, b"new %d" % at])


@pytest.mark.parametrize("cut", ["by the log", "by recovery"])
def test_a_power_loss_in_the_midst_of_a_cut_leaves_no_gap(cut: str) -> None:
    for calls in range(60):
        for seed in range(4):
            fs = volume(seed)
            log = open_log(fs, SMALL)
            for number in range(12):
                append(log, make_batch(value=b"%d" % number))
            log.flush(NOW)
            second = log.segments[1]
            if cut == "by recovery":
                fs.crash()
                fs.flip_bit(f"{second.path}.log", second.size - 1)
            fs.break_after(calls, lambda: None)
            with suppress(OSError, KafkaStorageError):
                if cut == "by recovery":
                    open_log(fs, SMALL)
                else:
                    log.truncate_to(second.base_offset + 1)
            fs.heal()
            fs.power_loss()
            again = open_log(fs, SMALL)
            assert values(again) == [b"%d" % number for number in range(again.log_end_offset)], (calls, seed)


def test_a_roll_flushes_what_it_writes_of_a_segment_that_is_flushed() -> None:
    fs = volume()
    log = open_log(fs, LogConfig())
    append(log, make_batch())
    log.flush(NOW)
    log.on_rolled = lambda log: None  # a flusher that has not come to it
    log.roll(NOW)
    assert fs.synced_size(f"{log.segments[0].path}.timeindex") == 12, "the largest timestamp"


@pytest.mark.parametrize("seed", range(40))
def test_what_recovery_has_written_of_a_flushed_segment_is_flushed_before_it_is_trusted(seed: int) -> None:
    fs = volume(seed)
    log = open_log(fs, LogConfig())
    append(log, make_batch(producer=(7, 0, 0), transactional=True))
    append_marker(log, ControlType.ABORT, 7)
    log.flush(NOW)
    fs.crash()
    recovered = open_log(fs, LogConfig(), Checkpointed(recovery_point=log.recovery_point))
    recovered.roll(NOW)
    append(recovered, make_batch())
    recovered.flush(NOW)
    fs.power_loss()
    again = open_log(fs, LogConfig(), Checkpointed(recovery_point=recovered.recovery_point))
    assert again.aborted(0, 3) == [(7, 0)]


def test_flush_messages_counts_what_is_not_flushed() -> None:
    log = open_log(volume(), LogConfig(flush_messages=5))
    points = []
    for _ in range(7):
        append(log, make_batch(2))
        points.append(log.recovery_point)
    assert points == [0, 0, 6, 6, 6, 12, 12]


def test_a_log_whose_flush_has_failed_is_not_used_any_more() -> None:
    fs = volume()
    log = open_log(fs, EACH)
    append(log, make_batch())
    fs.fail_next(Operation.FLUSH, "*.log", OSError(errno.EIO, "planted"))
    with pytest.raises(KafkaStorageError):
        append(log, make_batch())
    with pytest.raises(KafkaStorageError, match="planted"):
        append(log, make_batch())
    assert log.recovery_point == 1
    assert not log.close()


def test_a_flush_that_a_cut_has_overtaken_says_nothing() -> None:
    log = open_log(volume(), LogConfig())
    for _ in range(10):
        append(log, make_batch())
    unflushed = log.unflushed(10)
    log.truncate_to(4)
    for _ in range(6):
        append(log, make_batch())
    unflushed.flush()
    log.flushed(unflushed, NOW)
    assert log.recovery_point <= 4


def test_the_recovery_point_goes_back_with_the_log() -> None:
    log = open_log(volume(), EACH)
    for _ in range(10):
        append(log, make_batch())
    log.truncate_to(4)
    assert log.recovery_point == 4
    log.truncate_fully(20)
    assert log.recovery_point == 20


def test_a_failure_counts_only_for_segments_that_are_still_there() -> None:
    log = open_log(volume(), LogConfig(segment_bytes=300, retention_bytes=0))
    log.on_rolled = lambda log: None
    for _ in range(10):
        append(log, make_batch())
    gone = log.unflushed(5)
    log.enforce_retention(NOW)
    error = OSError(errno.EIO, "planted")
    assert not log.flush_failed(gone, error)
    append(log, make_batch())
    assert log.flush_failed(log.unflushed(log.log_end_offset), error)
    with pytest.raises(KafkaStorageError):
        append(log, make_batch())
