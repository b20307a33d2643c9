"""What a follower appends: the leader's batches, with their offsets."""

from __future__ import annotations

import pytest

from ottla.broker.log.log import Log, LogConfig
from ottla.errors import CorruptMessageError, OffsetOutOfRangeError
from ottla.wire.batches import ControlType
from tests.broker.log.support import NOW, append, append_marker, joined, make_batch, open_log, patched


def leader() -> Log:
    log = open_log()
    append(log, make_batch(3), epoch=0)
    append(log, make_batch(2, producer=(7, 0, 0), transactional=True), epoch=0)
    append(log, make_batch(1, producer=(8, 0, 0)), epoch=0)
    append_marker(log, ControlType.ABORT, 7)
    append(log, make_batch(4), epoch=2)
    return log


def everything(log: Log) -> bytes:
    return joined(log.read(log.log_start_offset, 1 << 20))


def follow(follower: Log, data: bytes | bytearray, leader_epoch: int | None = None) -> tuple[int, int] | None:
    appended = follower.append_as_follower(data, NOW, leader_epoch=leader_epoch)
    return None if appended is None else (appended.base_offset, appended.last_offset)


def test_a_follower_becomes_the_same_log() -> None:
    led = leader()
    follower = open_log()
    assert follow(follower, everything(led)) == (0, 10)
    assert everything(follower) == everything(led)
    assert follower.log_end_offset == led.log_end_offset == 11
    assert follower.epochs.entries == led.epochs.entries
    assert follower.aborted(0, 11) == led.aborted(0, 11) == [(7, 3)]
    assert [(state.producer_id, state.last_sequence) for state in follower.producers.active()] == [
        (7, 1),
        (8, 0),
    ]


def test_a_batch_that_is_cut_off_is_left_for_later() -> None:
    data = everything(leader())
    follower = open_log()
    assert follow(follower, data[:-1]) == (0, 6)
    assert follow(follower, data[-1:]) is None
    assert follow(follower, b"") is None
    assert follower.log_end_offset == 7


def test_a_damaged_batch_is_refused_with_all_that_came_with_it() -> None:
    data = bytearray(everything(leader()))
    data[-1] ^= 1
    follower = open_log()
    with pytest.raises(CorruptMessageError):
        follow(follower, data)
    assert (follower.size, follower.log_end_offset) == (0, 0)


def test_what_is_there_already_is_refused() -> None:
    data = everything(leader())
    follower = open_log()
    follow(follower, data)
    with pytest.raises(OffsetOutOfRangeError):
        follow(follower, data)
    with pytest.raises(OffsetOutOfRangeError):
        follow(open_log(), bytes(patched(make_batch(), ">q", 0, 5)) + bytes(make_batch()))


def test_an_empty_log_takes_the_whole_batch_in_which_the_leaders_log_begins() -> None:
    led = open_log()
    follow(led, bytes(make_batch(10)))
    led.delete_records(5)
    follower = open_log()
    follower.truncate_fully(5)
    assert follow(follower, everything(led)) == (0, 9)
    assert (follower.log_start_offset, follower.log_end_offset) == (5, 10)
    assert [segment.base_offset for segment in follower.segments] == [0]
    with pytest.raises(OffsetOutOfRangeError):
        follow(follower, everything(led))


def test_a_follower_takes_gaps_that_compaction_has_left() -> None:
    follower = open_log()
    assert follow(follower, patched(make_batch(2), ">q", 0, 500)) == (500, 501)
    assert follow(follower, patched(make_batch(2), ">q", 0, 510)) == (510, 511)
    assert follower.read(0, 1000).next_offset == 512


def test_an_empty_segment_begins_with_the_first_offset_that_it_can_number() -> None:
    follower = open_log()
    follow(follower, patched(make_batch(2), ">q", 0, 2**33))
    assert [segment.base_offset for segment in follower.segments] == [2**33]
    assert follower.read(2**33, 1000).size


def test_batches_of_a_later_epoch_wait_until_the_follower_knows_it() -> None:
    follower = open_log()
    data = everything(leader())
    assert follow(follower, data, leader_epoch=1) == (0, 6)
    assert follower.epochs.latest == 0


def test_what_comes_at_once_goes_into_one_segment() -> None:
    led = leader()
    follower = open_log(config=LogConfig(segment_bytes=300, index_interval_bytes=1))
    follow(follower, everything(led))
    assert [segment.base_offset for segment in follower.segments] == [0]
    follow(follower, patched(make_batch(), ">q", 0, 11))
    assert [segment.base_offset for segment in follower.segments] == [0, 11]
    for offset in range(12):
        assert follower.read(offset, 1, at_least_one=True).size
