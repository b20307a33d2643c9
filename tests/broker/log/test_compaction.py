"""One pass of compaction: what stays of a log, and that its readers and its producers notice nothing else."""

from __future__ import annotations

import random

import pytest

from ottla.broker.log.compaction import CompactionAbortedError, grouped
from ottla.broker.log.flushing import Checkpointed
from ottla.broker.log.fs import MemoryFileSystem
from ottla.broker.log.fs.faulty import FaultyFileSystem
from ottla.broker.log.log import Log, LogConfig
from ottla.errors import CorruptBatchError
from ottla.wire.batches import ControlType, encode_batch
from ottla.wire.compression import Compression

from .compacting import compact, compaction_of, kept, stored
from .support import DIRECTORY, NOW, append, append_marker, headers, make_batch, open_log, values

DAY = 86_400_000
CONFIG = LogConfig(compact=True, delete=False)
COMMIT, ABORT = ControlType.COMMIT, ControlType.ABORT


def keyed(
    *pairs: tuple[bytes, bytes | None],
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
    codec: int = 0,
) -> bytearray:
    producer_id, epoch, sequence = producer
    return bytearray(
        encode_batch(
            [(index, NOW + index, key, value, []) for index, (key, value) in enumerate(pairs)],
            codec=codec,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
    )


def filled(*batches: bytearray, config: LogConfig = CONFIG, fs: MemoryFileSystem | None = None) -> Log:
    """A log with these batches, and an active segment behind them with one record of another key."""
    log = open_log(fs, config)
    for batch in batches:
        append(log, batch)
    log.roll(NOW)
    append(log, keyed((b"of the active segment", b"")))
    return log


def test_of_each_key_the_last_record_stays_with_its_offset() -> None:
    log = filled(keyed((b"a", b"1"), (b"b", b"1"), (b"a", b"2")), keyed((b"b", b"2"), (b"c", b"1")))
    result = compact(log)
    assert kept(log)[:-1] == [(2, b"a", b"2"), (3, b"b", b"2"), (4, b"c", b"1")]
    assert result.end_offset == 5
    assert result.read_bytes > result.written_bytes > 0


def test_a_batch_keeps_its_ends_and_a_reader_finds_the_next_record() -> None:
    log = filled(keyed((b"a", b"1"), (b"b", b"1"), (b"b", b"2")), keyed((b"a", b"2")), keyed((b"a", b"3")))
    compact(log)
    assert [(batch.base_offset, batch.last_offset) for batch in stored(log)] == [(0, 2), (4, 4), (5, 5)]
    for offset, expected in [(0, 0), (1, 0), (3, 4), (4, 4)]:
        assert headers(log.read(offset, 1, at_least_one=True))[0].base_offset == expected
        fetched = log.fetch(offset, 1, log.log_end_offset, at_least_one=True)
        assert headers(fetched)[0].base_offset == expected


def test_nothing_beyond_the_upper_offset_is_touched() -> None:
    log = filled(keyed((b"a", b"1")), keyed((b"a", b"2")))
    append(log, keyed((b"a", b"3")))
    compact(log)
    assert kept(log) == [(1, b"a", b"2"), (2, b"of the active segment", b""), (3, b"a", b"3")]


def test_records_without_a_key_go() -> None:
    log = filled(make_batch(2, key=None), keyed((b"a", b"1")), config=LogConfig())
    log.reconfigure(CONFIG)
    compact(log)
    assert [offset for offset, *_ in kept(log)] == [2, 3]


def test_an_empty_key_is_a_key() -> None:
    log = filled(keyed((b"", b"1"), (b"", b"2")))
    compact(log)
    assert kept(log)[0] == (1, b"", b"2")


def test_a_tombstone_stays_until_its_horizon() -> None:
    log = filled(keyed((b"a", b"1")), keyed((b"a", None), (b"b", b"1")))
    compact(log, now_ms=NOW + 7)
    assert kept(log)[:2] == [(1, b"a", None), (2, b"b", b"1")]
    batch = stored(log)[0]
    assert batch.horizon == NOW + 7 + DAY
    assert [record.timestamp for record in batch.records] == [NOW, NOW + 1]
    compact(log, now_ms=NOW + 6 + DAY)
    assert stored(log)[0] == batch
    compact(log, now_ms=NOW + 7 + DAY)
    assert kept(log)[0] == (2, b"b", b"1")
    assert stored(log)[0].horizon == NOW + 7 + DAY


def test_a_horizon_that_no_timestamp_reaches_is_none() -> None:
    config = LogConfig(compact=True, delete=False, delete_retention_ms=2**63 - 1)
    log = filled(keyed((b"a", b"1")), keyed((b"a", None), (b"b", b"1")), keyed((b"b", b"2")), config=config)
    for now_ms in (NOW, 2**63 - 1):
        compact(log, now_ms=now_ms)
        assert kept(log)[:-1] == [(1, b"a", None), (3, b"b", b"2")]
        assert stored(log)[0].horizon is None


def test_the_last_batch_of_a_pass_stays_where_nothing_is_left_of_it() -> None:
    log = filled(keyed((b"a", b"1")), keyed((b"a", None)))
    compact(log)
    compact(log, now_ms=NOW + DAY)
    last = stored(log)[0]
    assert (last.base_offset, last.last_offset, last.records) == (1, 1, [])
    assert kept(log) == [(2, b"of the active segment", b"")]


@pytest.mark.parametrize("codec", list(Compression))
def test_a_batch_keeps_its_codec(codec: Compression) -> None:
    pairs = [(b"k%d" % (number % 7), b"v" * 50) for number in range(50)]
    log = filled(keyed(*pairs, codec=codec))
    compact(log)
    assert stored(log)[0].codec == codec
    assert [offset for offset, *_ in kept(log)] == [*range(43, 50), 50]
    assert compact(log, now_ms=NOW + 1).end_offset == 50


def test_the_times_of_a_log_that_sets_them_stay() -> None:
    config = LogConfig(compact=True, message_timestamp_type="LogAppendTime")
    log = open_log(config=config)
    append(log, keyed((b"a", b"1"), (b"b", None), (b"a", b"2")), now_ms=NOW + 500)
    log.roll(NOW)
    append(log, keyed((b"z", b"")), now_ms=NOW + 900)
    compact(log)
    assert [record.timestamp for batch in stored(log) for record in batch.records] == [NOW + 500] * 2 + [
        NOW + 900
    ]
    found = log.offset_for_timestamp(NOW + 500)
    assert found is not None
    assert (found.offset, found.timestamp) == (1, NOW + 500)


def test_a_search_by_time_finds_what_is_left() -> None:
    log = filled(keyed((b"a", b"1"), (b"b", b"1"), (b"c", b"1")), keyed((b"b", b"2")))
    compact(log)
    found = log.offset_for_timestamp(NOW + 1)
    assert found is not None
    assert (found.offset, found.timestamp) == (2, NOW + 2)


def test_the_last_batch_of_an_active_producer_stays_empty() -> None:
    log = filled(
        keyed((b"a", b"1"), producer=(7, 0, 0)),
        keyed((b"a", b"2"), (b"a", b"3"), producer=(7, 0, 1)),
        keyed((b"a", b"4")),
    )
    compact(log)
    assert [(batch.base_offset, batch.producer, len(batch.records)) for batch in stored(log)[:2]] == [
        (1, (7, 0, 1), 0),
        (3, (-1, -1, -1), 1),
    ]
    log.close()
    again = append(log, keyed((b"a", b"5"), producer=(7, 0, 3)))
    assert again.last_offset == 5
    log.producers.expire(NOW + 10 * DAY)
    compact(log, upper=4)
    assert stored(log)[0].base_offset == 3


def test_a_producer_goes_on_after_a_recovery_of_what_compaction_has_left() -> None:
    fs = MemoryFileSystem()
    log = filled(
        keyed((b"a", b"1"), producer=(7, 0, 0)),
        keyed((b"a", b"2"), producer=(7, 0, 1)),
        keyed((b"a", b"3")),
        fs=fs,
    )
    compact(log)
    for name in fs.list(DIRECTORY):
        if name.endswith(".snapshot"):
            fs.remove(f"{DIRECTORY}/{name}")
    recovered = open_log(fs, CONFIG)
    assert stored(recovered) == stored(log)
    state = recovered.producers.get(7)
    assert state is not None
    assert state.last_sequence == 1


def transaction(producer: int, sequence: int, *pairs: tuple[bytes, bytes | None]) -> bytearray:
    return keyed(*pairs, producer=(producer, 0, sequence), transactional=True)


def test_aborted_data_goes_at_once_and_hides_nothing() -> None:
    log = open_log(config=CONFIG)
    append(log, keyed((b"a", b"1")))
    append(log, transaction(7, 0, (b"a", b"2")))
    append_marker(log, ABORT, 7)
    append(log, transaction(7, 1, (b"c", b"3")))
    append_marker(log, COMMIT, 7)
    log.roll(NOW)
    compact(log)
    assert kept(log) == [(0, b"a", b"1"), (3, b"c", b"3")]
    # Readers of the segment that was replaced may be in the middle of the transaction.
    assert log.aborted(0, 5) == [(7, 1)]


def test_a_marker_goes_when_the_data_before_it_is_gone_and_its_horizon_has_passed() -> None:
    log = open_log(config=CONFIG)
    append(log, transaction(7, 0, (b"a", b"1")))
    append_marker(log, ABORT, 7)
    append(log, transaction(8, 0, (b"b", b"1")))
    append_marker(log, COMMIT, 8)
    append(log, keyed((b"b", b"2")))
    log.producers.expire(NOW + 10 * DAY)
    log.roll(NOW)
    append(log, keyed((b"z", b"")))
    compact(log)
    assert [(batch.base_offset, batch.horizon) for batch in stored(log)[:-1]] == [
        (1, None),
        (3, None),
        (4, None),
    ]
    assert log.aborted(0, 5) == [(7, 0)]
    compact(log, now_ms=NOW + 1)
    assert [(batch.base_offset, batch.horizon) for batch in stored(log)[:-1]] == [
        (1, NOW + 1 + DAY),
        (3, NOW + 1 + DAY),
        (4, None),
    ]
    assert log.aborted(0, 5) == []
    compact(log, now_ms=NOW + 1 + DAY)
    assert [batch.base_offset for batch in stored(log)[:-1]] == [4]


def test_a_marker_stays_while_data_of_its_transaction_does() -> None:
    log = filled(transaction(7, 0, (b"a", b"1"), (b"b", b"1")))
    append_marker(log, COMMIT, 7)
    append(log, keyed((b"a", b"2")))
    log.roll(NOW)
    for number in range(4):
        compact(log, now_ms=NOW + number * 2 * DAY)
    assert [(batch.base_offset, batch.is_control, batch.horizon) for batch in stored(log)] == [
        (0, False, None),
        (2, False, None),
        (3, True, None),
        (4, False, None),
    ]


def test_a_marker_that_alone_knows_the_epoch_of_its_producer_stays_empty() -> None:
    log = open_log(config=CONFIG)
    append(log, transaction(7, 0, (b"a", b"1")))
    append_marker(log, ABORT, 7, epoch=1)
    append(log, keyed((b"b", b"1")))
    log.roll(NOW)
    for number in range(3):
        compact(log, now_ms=NOW + number * DAY)
    marker = stored(log)[0]
    assert (marker.base_offset, marker.is_control, marker.records) == (1, True, [])
    assert marker.producer[:2] == (7, 1)


def test_a_transaction_that_ends_in_another_segment_is_aborted_in_all() -> None:
    log = open_log(config=CONFIG)
    for sequence in range(3):
        append(log, transaction(7, sequence, (b"a", b"%d" % sequence)))
        log.roll(NOW)
    append_marker(log, ABORT, 7)
    compact(log)
    assert kept(log) == []
    # The last batch of a pass, and of its producer.
    assert [batch.base_offset for batch in stored(log)] == [2, 3]


def test_a_producer_whose_aborted_transaction_lies_in_the_clean_part_is_not_aborted_for_good() -> None:
    log = open_log(config=CONFIG)
    append(log, transaction(7, 0, (b"a", b"1")))
    append_marker(log, ABORT, 7)
    log.roll(NOW)
    compact(log)
    append(log, transaction(7, 1, (b"b", b"1")))
    append(log, transaction(7, 2, (b"b", b"2")))
    append_marker(log, COMMIT, 7)
    log.roll(NOW)
    compact(log)
    assert kept(log) == [(3, b"b", b"2")]


# Segments


def in_segments(count: int, config: LogConfig = CONFIG) -> Log:
    log = open_log(config=config)
    for number in range(count):
        append(log, keyed((b"same", b"%d" % number), (b"own %d" % number, b"")))
        log.roll(NOW)
    return log


def test_small_segments_become_one() -> None:
    log = in_segments(5)
    compact(log)
    assert [segment.base_offset for segment in log.segments] == [0, 10]
    assert [offset for offset, *_ in kept(log)] == [1, 3, 5, 7, 8, 9]


def test_a_group_stays_within_the_limits_of_a_segment() -> None:
    log = in_segments(6)
    size = log.segments[0].size
    assert [len(group) for group in grouped(log.segments[:6], LogConfig(segment_bytes=2 * size), 12)] == [
        2,
        2,
        2,
    ]
    assert [len(group) for group in grouped(log.segments[:6], LogConfig(segment_bytes=1), 12)] == [1] * 6
    # Each of them has one entry in its time index.
    assert [len(group) for group in grouped(log.segments[:6], LogConfig(segment_index_bytes=36), 12)] == [
        3,
        3,
    ]
    assert [len(group) for group in grouped(log.segments[:6], CONFIG, 2**31 + 1)] == [5, 1]


def test_a_map_that_is_full_ends_the_pass_and_the_next_goes_on() -> None:
    log = in_segments(6)
    expected = [1, 3, 5, 7, 9, 10, 11]
    ends = []
    for _ in range(20):
        ends.append(compact(log, room=4 * 24).end_offset)
        if ends[-1] == 12:
            break
    assert len(ends) > 1
    assert ends == sorted(set(ends))
    assert [offset for offset, *_ in kept(log)] == expected


def test_indexes_are_those_of_the_segment_that_is_left() -> None:
    config = LogConfig(compact=True, index_interval_bytes=100)
    log = open_log(config=config)
    for number in range(200):
        append(log, keyed((b"k%d" % (number % 50), b"v" * 20)))
        if number % 40 == 39:
            log.roll(NOW)
    append(log, keyed((b"z", b"")))
    compact(log)
    assert log.segments[0].index_sizes > (0, 0)
    for offset in range(201):
        found = headers(log.read(offset, 1, at_least_one=True))
        assert found[0].base_offset == max(offset, 150)


def test_old_segments_are_removed_after_a_delay_and_their_snapshots_at_once() -> None:
    fs = MemoryFileSystem()
    log = open_log(fs, CONFIG)
    for number in range(3):
        append(log, keyed((b"a", b"%d" % number)))
        log.roll(NOW)
    compact(log)
    deleted = [name for name in fs.list(DIRECTORY) if name.endswith(".deleted")]
    assert {name.partition(".")[0] for name in deleted} == {f"{base:020d}" for base in range(3)}
    assert [name for name in fs.list(DIRECTORY) if name.endswith(".snapshot")] == [f"{3:020d}.snapshot"]
    log.deleted.remove_due(NOW + 59_999)
    assert [name for name in fs.list(DIRECTORY) if name.endswith(".deleted")] == deleted
    log.deleted.remove_due(NOW + 60_000)
    assert not [name for name in fs.list(DIRECTORY) if name.endswith(".deleted")]
    assert values(log) == [b"2"]


def test_a_log_that_is_opened_again_is_the_same() -> None:
    fs = MemoryFileSystem()
    log = open_log(fs, CONFIG)
    for number in range(5):
        append(log, transaction(7, number, (b"a", b"%d" % number)))
        append_marker(log, ABORT if number % 2 else COMMIT, 7)
        log.roll(NOW)
    compact(log)
    expected, aborted = stored(log), log.aborted(0, 100)
    log.close()
    reopened = open_log(fs, CONFIG, known=Checkpointed(recovery_point=None))
    assert stored(reopened) == expected
    assert reopened.aborted(0, 100) == aborted
    assert reopened.log_end_offset == log.log_end_offset
    # Read anew, as after a crash, it has no index of transactions whose records are gone: no reader needs it.
    recovered = open_log(fs, CONFIG)
    assert stored(recovered) == expected
    assert recovered.log_end_offset == log.log_end_offset


@pytest.mark.parametrize("seed", range(20))
def test_a_compacted_segment_is_on_the_disk_before_its_sources_go(seed: int) -> None:
    fs = FaultyFileSystem(random.Random(seed))
    log = Log.open(fs, DIRECTORY, CONFIG, NOW)
    for number in range(5):
        append(log, keyed((b"a", b"%d" % number), (b"%d" % number, b"")))
        log.roll(NOW)
    log.flush(NOW)
    compact(log)
    expected, flushed = stored(log), log.recovery_point
    fs.power_loss()
    again = Log.open(fs, DIRECTORY, CONFIG, NOW, Checkpointed(recovery_point=flushed))
    assert stored(again) == expected


def test_the_time_of_the_last_write_is_that_of_the_newest_source() -> None:
    log = open_log(config=CONFIG)
    data = encode_batch([(0, -1, b"a", b"1", [])])
    for number in range(2):
        append(log, bytearray(data), now_ms=NOW + number)
        log.roll(NOW + number)
    compact(log, now_ms=NOW + DAY)
    assert log.segments[0].largest_timestamp == NOW + 1


# What happens meanwhile


def test_a_pass_lets_the_log_be_used_between_its_slices() -> None:
    log = in_segments(4)
    slices = 0
    for _ in compaction_of(log).slices():
        append(log, keyed((b"same", b"meanwhile")))
        assert [offset for offset, *_ in kept(log)][-1] == log.log_end_offset - 1
        slices += 1
    assert slices == 10
    assert [offset for offset, *_ in kept(log)] == [1, 3, 5, 6, 7, *range(8, 8 + slices)]


def test_a_roll_does_not_end_a_pass() -> None:
    log = in_segments(2)
    append(log, keyed((b"same", b"later")))
    for _ in compaction_of(log).slices():
        log.roll(NOW)
    assert [offset for offset, *_ in kept(log)] == [1, 2, 3, 4]


@pytest.mark.parametrize("at", range(9))
def test_a_truncation_ends_a_pass_and_what_was_cut_off_does_not_come_back(at: int) -> None:
    fs = MemoryFileSystem()
    log = open_log(fs, CONFIG)
    for number in range(4):
        append(log, keyed((b"same", b"%d" % number)))
        log.roll(NOW)
    slices = compaction_of(log).slices()
    for _ in range(at):
        next(slices, None)
    log.truncate_to(2)
    append(log, keyed((b"new", b"")))
    append(log, keyed((b"newer", b"")))
    log.roll(NOW)
    expected = stored(log)
    with pytest.raises(CompactionAbortedError, match="truncated"):
        for _ in slices:
            pass
    assert stored(log) == expected
    assert not [name for name in fs.list(DIRECTORY) if name.endswith(".cleaned")]


def test_a_truncation_makes_what_is_clean_dirty_again() -> None:
    log = in_segments(3)
    compact(log)
    assert log.first_dirty_offset == 6
    log.truncate_to(3)
    assert log.first_dirty_offset == 3
    log.truncate_fully(1)
    assert log.first_dirty_offset == 1


def test_deleted_segments_end_a_pass() -> None:
    log = in_segments(3, LogConfig(compact=True, delete=True, retention_ms=1000))
    slices = compaction_of(log).slices()
    next(slices)
    assert log.enforce_retention(NOW + DAY)
    with pytest.raises(CompactionAbortedError, match="deleted"):
        for _ in slices:
            pass


def test_another_policy_ends_a_pass() -> None:
    log = in_segments(3)
    slices = compaction_of(log).slices()
    next(slices)
    log.reconfigure(LogConfig())
    with pytest.raises(CompactionAbortedError, match="not to be compacted"):
        for _ in slices:
            pass


def test_a_pass_that_is_given_up_leaves_nothing_behind() -> None:
    fs = MemoryFileSystem()
    log = open_log(fs, CONFIG)
    for number in range(4):
        append(log, keyed((b"same", b"%d" % number), (b"own %d" % number, b"")))
        log.roll(NOW)
    expected, names = stored(log), fs.list(DIRECTORY)
    slices = compaction_of(log).slices()
    for _ in range(6):
        next(slices)
    assert fs.list(DIRECTORY) != names
    slices.close()
    assert fs.list(DIRECTORY) == names
    assert stored(log) == expected


def test_a_damaged_batch_is_not_made_whole() -> None:
    fs = MemoryFileSystem()
    log = filled(keyed((b"a", b"1")), keyed((b"a", b"2")), fs=fs)
    path = f"{DIRECTORY}/{0:020d}.log"
    data = bytearray(b"".join(fs.open(path).read(0, 1 << 20)))
    data[-1] ^= 1
    fs.open(path).truncate(0)
    fs.open(path).append(data)
    with pytest.raises(CorruptBatchError, match="offset 1 of partition orders-0 is damaged"):
        compact(log)
    assert not [name for name in fs.list(DIRECTORY) if name.endswith(".cleaned")]
