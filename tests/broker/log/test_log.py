"""A partition's log as its leader uses it: appends, reads, times, the start and the end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.broker.log.flushing import Checkpointed
from ottla.broker.log.fs import MemoryFileSystem
from ottla.broker.log.log import Log, LogConfig
from ottla.errors import NotLeaderOrFollowerError, OffsetOutOfRangeError, OutOfOrderSequenceNumberError
from ottla.wire.batches import ControlType
from tests.broker.log.support import (
    DIRECTORY,
    NOW,
    append,
    append_marker,
    bases,
    headers,
    joined,
    make_batch,
    open_log,
    values,
)


def filled(batches: int = 10, config: LogConfig | None = None, fs: MemoryFileSystem | None = None) -> Log:
    """`batches` batches of two records each."""
    log = open_log(fs, config)
    for number in range(batches):
        append(log, make_batch(2, value=b"%d" % number))
    return log


def test_a_new_log_is_empty() -> None:
    log = open_log()
    assert (log.log_start_offset, log.log_end_offset, log.size) == (0, 0, 0)
    assert log.read(0, 100) == log.read(0, 100, at_least_one=True)
    assert (log.read(0, 100).size, log.read(0, 100).next_offset) == (0, 0)
    assert log.offset_for_timestamp(0) is None
    assert log.max_timestamp_offset() is None
    assert log.first_unstable_offset is None


def test_offsets_are_given_in_order() -> None:
    log = open_log()
    appended = [append(log, make_batch(count)) for count in (1, 3, 2)]
    assert [(each.base_offset, each.last_offset) for each in appended] == [(0, 0), (1, 3), (4, 5)]
    assert {each.log_start_offset for each in appended} == {0}
    assert log.log_end_offset == 6


def test_reading_begins_with_the_batch_that_has_the_offset() -> None:
    log = filled()
    assert bases(log.read(5, 1 << 20))[0] == 4
    assert bases(log.read(6, 1 << 20))[0] == 6


def test_reading_ends_with_the_last_batch_that_fits() -> None:
    log = filled()
    size = headers(log.read(0, 1 << 20))[0].size
    found = log.read(4, 3 * size + size // 2)
    assert (bases(found), found.next_offset) == ([4, 6, 8], 10)


def test_a_first_batch_that_is_too_large_is_read_where_it_has_to_be() -> None:
    log = filled()
    assert log.read(4, 10).parts == []
    found = log.read(4, 10, at_least_one=True)
    assert (bases(found), found.next_offset) == ([4], 6)
    assert bases(log.read(4, 0, at_least_one=True)) == [4]


def test_reading_ends_before_the_upper_offset() -> None:
    log = filled()
    found = log.read(4, 1 << 20, 8)
    assert (bases(found), found.next_offset) == ([4, 6], 8)
    assert log.read(4, 1 << 20, 4, at_least_one=True).size == 0
    assert bases(log.read(16, 1 << 20, 999)) == [16, 18]


def test_reading_goes_on_in_the_next_segment() -> None:
    log = filled(20, LogConfig(segment_bytes=300))
    assert len(log.segments) > 5
    assert bases(log.read(0, 1 << 20)) == list(range(0, 40, 2))
    found = log.read(1, 500)
    assert bases(found) == [0, 2, 4, 6, 8, 10]
    assert found.size <= 500
    assert bases(log.read(found.next_offset, 500))[0] == 12


def test_at_least_one_is_for_the_first_batch_only() -> None:
    log = filled(20, LogConfig(segment_bytes=170))
    assert bases(log.read(3, 1, at_least_one=True)) == [2]


@pytest.mark.parametrize("offset", [-1, 3, 21])
def test_an_offset_outside_of_the_log_is_out_of_range(offset: int) -> None:
    log = filled()
    log.delete_records(4)
    with pytest.raises(OffsetOutOfRangeError):
        log.read(offset, 100)


def test_the_end_of_the_log_is_in_range() -> None:
    log = filled()
    found = log.read(20, 100, at_least_one=True)
    assert (found.size, found.next_offset) == (0, 20)


def test_what_was_read_does_not_change_when_the_log_does() -> None:
    log = filled()
    found = log.read(0, 1 << 20)
    before = joined(found)
    log.truncate_to(4)
    for _ in range(20):
        append(log, make_batch(2, value=b"other"))
    assert joined(found) == before


def test_a_large_batch_is_not_copied() -> None:
    log = open_log()
    data = make_batch(1, value=bytes(500_000))
    append(log, data)
    (part,) = log.read(0, 1 << 20).parts
    assert part.obj is data


def test_a_segment_of_the_right_size_begins_in_time() -> None:
    log = filled(20, LogConfig(segment_bytes=500))
    assert max(segment.size for segment in log.segments) <= 500
    assert log.size == sum(segment.size for segment in log.segments)


def test_rolling_an_empty_segment_does_nothing() -> None:
    log = filled(1)
    log.roll(NOW)
    log.roll(NOW)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_the_epoch_of_the_leader_is_remembered() -> None:
    log = open_log()
    append(log, make_batch(3), epoch=1)
    append(log, make_batch(3), epoch=1)
    append(log, make_batch(3), epoch=4)
    assert log.epochs.entries == ((1, 0), (4, 6))
    assert log.epochs.end_offset_for(1, log.log_end_offset) == (1, 6)
    assert log.epochs.end_offset_for(4, log.log_end_offset) == (4, 9)


def test_a_leader_that_was_replaced_is_fenced() -> None:
    log = open_log()
    append(log, make_batch(), epoch=3)
    log.epochs.assign(4, 1)
    with pytest.raises(NotLeaderOrFollowerError):
        append(log, make_batch(), epoch=3)
    assert append(log, make_batch(), epoch=4).base_offset == 1


def test_a_record_is_found_by_its_time_across_segments() -> None:
    log = open_log(config=LogConfig(segment_bytes=200))
    for number in range(12):
        append(log, make_batch(2, timestamp=NOW + 10 * number))
    for number in range(12):
        assert log.offset_for_timestamp(NOW + 10 * number - 5) == (NOW + 10 * number, 2 * number, 0)
    assert log.offset_for_timestamp(NOW + 111) is None


def test_a_segment_before_the_start_hides_later_records_from_a_search_by_time() -> None:
    """As in Kafka, where the first segment with a record of that time is the one that is asked."""
    log = open_log(config=LogConfig(segment_bytes=200))
    for number in range(4):
        append(log, make_batch(2, timestamp=NOW + 10 * number))
    assert [segment.base_offset for segment in log.segments] == [0, 4]
    log.delete_records(3)
    assert log.offset_for_timestamp(NOW) == (NOW + 10, 3, 0)
    log.delete_records(4)
    assert log.offset_for_timestamp(NOW) is None
    assert log.offset_for_timestamp(NOW + 20) == (NOW + 20, 4, 0)


def test_a_batch_that_its_producer_may_not_write_begins_a_segment_all_the_same() -> None:
    log = open_log(config=LogConfig(segment_ms=1000))
    append(log, make_batch(timestamp=NOW, producer=(1, 0, 0)))
    with pytest.raises(OutOfOrderSequenceNumberError):
        append(log, make_batch(timestamp=NOW + 5000, producer=(1, 0, 7)))
    assert [segment.base_offset for segment in log.segments] == [0, 1]
    append(log, make_batch(timestamp=NOW))
    assert log.fetch(0, 1 << 20, 2, at_least_one=True).next_offset == 1


def test_the_first_record_with_a_time_counts_also_when_times_go_back() -> None:
    log = open_log(config=LogConfig(segment_bytes=200))
    for late in (5, 9, 1, 9, 7, 2):
        append(log, make_batch(timestamp=NOW + late))
    assert [log.offset_for_timestamp(NOW + late) for late in (2, 6, 9)] == [
        (NOW + 5, 0, 0),
        (NOW + 9, 1, 0),
        (NOW + 9, 1, 0),
    ]
    assert log.max_timestamp_offset() == (NOW + 9, 1, 0)


def test_the_record_with_the_largest_time_is_found_in_its_batch() -> None:
    log = open_log(config=LogConfig(message_timestamp_type="LogAppendTime"))
    append(log, make_batch(3), now_ms=NOW + 5)
    append(log, make_batch(3), epoch=2, now_ms=NOW + 7)
    assert log.max_timestamp_offset() == (NOW + 7, 3, 2)


def test_deleting_records_moves_the_start_and_never_back() -> None:
    fs = MemoryFileSystem()
    log = filled(fs=fs)
    log.delete_records(5)
    log.delete_records(3)
    assert log.log_start_offset == 5
    assert append(log, make_batch()).log_start_offset == 5
    assert values(log)[:2] == [b"2", b"3"]
    assert open_log(fs, known=Checkpointed(log_start_offset=5)).log_start_offset == 5


def test_records_that_are_not_there_cannot_be_deleted() -> None:
    log = filled()
    with pytest.raises(OffsetOutOfRangeError):
        log.delete_records(21)
    log.delete_records(20)
    assert (log.log_start_offset, values(log)) == (20, [])


def test_a_cut_log_ends_at_the_offset() -> None:
    log = filled(20, LogConfig(segment_bytes=300))
    log.truncate_to(40)
    log.truncate_to(99)
    assert log.log_end_offset == 40
    log.truncate_to(16)
    assert (log.log_end_offset, bases(log.read(0, 1 << 20))) == (16, list(range(0, 16, 2)))
    assert append(log, make_batch(2)).base_offset == 16


def test_a_cut_in_a_batch_takes_the_whole_batch() -> None:
    log = filled()
    log.truncate_to(7)
    assert (bases(log.read(0, 1 << 20)), log.log_end_offset) == ([0, 2, 4], 7)
    append(log, make_batch())
    found = log.read(6, 1 << 20)
    assert (bases(found), found.next_offset) == ([7], 8)


def test_a_cut_log_knows_its_producers_as_they_were() -> None:
    log = open_log(config=LogConfig(segment_bytes=500))
    for sequence in range(12):
        append(log, make_batch(producer=(7, 0, sequence), transactional=sequence > 5))
    append_marker(log, ControlType.ABORT, 7)
    assert log.aborted(0, 13) == [(7, 6)]
    log.truncate_to(9)
    assert (log.aborted(0, 9), log.first_unstable_offset) == ([], 6)
    with pytest.raises(OutOfOrderSequenceNumberError):
        append(log, make_batch(producer=(7, 0, 10), transactional=True))
    append(log, make_batch(producer=(7, 0, 9), transactional=True))
    append_marker(log, ControlType.ABORT, 7)
    assert log.aborted(0, 11) == [(7, 6)]


def test_a_cut_log_forgets_the_epochs_behind_it() -> None:
    log = open_log()
    for epoch in (0, 1, 3):
        append(log, make_batch(2), epoch=epoch)
    log.truncate_to(4)
    assert log.epochs.entries == ((0, 0), (1, 2))


def test_a_cut_that_takes_no_record_takes_the_epoch_of_a_leader_that_has_written_none() -> None:
    log = open_log()
    append(log, make_batch(2), epoch=0)
    log.epochs.assign(1, 2)
    log.truncate_to(2)
    assert (log.log_end_offset, log.epochs.entries) == (2, ((0, 0),))


def test_a_cut_before_the_start_moves_the_start() -> None:
    log = filled()
    log.delete_records(12)
    log.truncate_to(8)
    assert (log.log_start_offset, log.log_end_offset) == (8, 8)


def test_a_cut_before_all_segments_empties_the_log() -> None:
    log = filled(20, LogConfig(segment_bytes=300, retention_ms=-1))
    log.delete_records(30)
    log.enforce_retention(NOW)
    log.truncate_to(5)
    assert (log.log_start_offset, log.log_end_offset, log.size) == (5, 5, 0)


def test_a_log_can_begin_anew() -> None:
    fs = MemoryFileSystem()
    log = filled(20, LogConfig(segment_bytes=300), fs)
    append(log, make_batch(producer=(7, 0, 0), transactional=True))
    log.truncate_fully(500)
    for each in (log, open_log(fs)):
        assert (each.log_start_offset, each.log_end_offset, each.size) == (500, 500, 0)
        assert (each.epochs.entries, each.producers.active(), each.first_unstable_offset) == ((), [], None)
    assert append(log, make_batch()).base_offset == 500


def test_a_new_configuration_counts_from_now_on() -> None:
    log = filled()
    log.reconfigure(
        replace(
            log.config, segment_bytes=200, message_timestamp_type="LogAppendTime", producer_id_expiration_ms=5
        )
    )
    assert append(log, make_batch()).append_time_ms == NOW
    assert [segment.base_offset for segment in log.segments] == [0, 20]
    append(log, make_batch(producer=(7, 0, 0)))
    log.producers.expire(NOW + 5)
    assert log.producers.active() == []


def test_the_files_of_a_log_have_kafkas_names() -> None:
    fs = MemoryFileSystem()
    log = filled(40, LogConfig(segment_bytes=2000, index_interval_bytes=200), fs)
    append(log, make_batch(producer=(7, 0, 0), transactional=True))
    append_marker(log, ControlType.ABORT, 7)
    assert fs.list(DIRECTORY) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000046.index",
        "00000000000000000046.log",
        "00000000000000000046.snapshot",
        "00000000000000000046.timeindex",
        "00000000000000000046.txnindex",
        "leader-epoch-checkpoint",
    ]


def test_an_idle_log_has_one_file() -> None:
    fs = MemoryFileSystem()
    open_log(fs)
    assert fs.list(DIRECTORY) == ["00000000000000000000.log"]
