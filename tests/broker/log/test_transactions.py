"""Transactions in a log: what is stable, what was aborted, and what a marker says."""

from __future__ import annotations

import struct

from ottla.broker.log.fs import FileSystem
from ottla.broker.log.log import Log, LogConfig
from ottla.broker.log.transactions import (
    AbortedIndex,
    AbortedTransaction,
    Completed,
    Marker,
    OpenTransactions,
    aborted_between,
    read_marker,
)
from ottla.wire.batches import ControlType, encode_batch
from tests.broker.log.support import NOW, append, append_marker, make_batch, make_marker, open_log

PATH = "orders-0/00000000000000000000.txnindex"


def begin(log: Log, producer_id: int, sequence: int = 0, count: int = 1) -> int:
    data = make_batch(count, producer=(producer_id, 0, sequence), transactional=True)
    return append(log, data).base_offset


def test_without_transactions_everything_is_stable() -> None:
    assert OpenTransactions().first_undecided_offset is None


def test_the_oldest_open_transaction_holds_back_what_is_stable() -> None:
    opened = OpenTransactions()
    opened.begin(1, 5)
    opened.begin(2, 8)
    assert opened.first_undecided_offset == 5
    opened.complete(Completed(1, 5, 9))
    assert opened.first_undecided_offset == 5, "its marker may not be on all replicas"
    opened.replicated_to(9)
    assert opened.first_undecided_offset == 5
    opened.replicated_to(10)
    assert opened.first_undecided_offset == 8


def test_the_first_of_several_whose_markers_are_not_replicated_counts() -> None:
    opened = OpenTransactions()
    for producer_id in (1, 2, 3):
        opened.begin(producer_id, producer_id)
    opened.complete(Completed(2, 2, 10))
    opened.complete(Completed(1, 1, 11))
    opened.replicated_to(11)
    assert opened.first_undecided_offset == 1
    opened.replicated_to(12)
    assert opened.first_undecided_offset == 3


def test_nothing_is_kept_of_transactions_that_are_complete() -> None:
    opened = OpenTransactions()
    empty = sizes(opened)
    for offset in range(100):
        opened.begin(1, offset)
        opened.complete(Completed(1, offset, offset))
    opened.replicated_to(100)
    assert opened.first_undecided_offset is None
    assert sizes(opened) == empty


def sizes(opened: OpenTransactions) -> dict[str, int]:
    return {name: len(kept) for name, kept in vars(opened).items()}


def test_a_marker_is_read() -> None:
    assert read_marker(make_marker(ControlType.ABORT, 7, coordinator_epoch=3)) == Marker(True, 3, NOW)
    assert read_marker(make_marker(ControlType.COMMIT, 7, coordinator_epoch=4)) == Marker(False, 4, NOW)


def test_other_control_batches_are_no_markers() -> None:
    leader_change = encode_batch([(0, NOW, struct.pack(">hh", 0, 2), b"", [])], control=True)
    emptied = encode_batch([], base_offset=3, last_offset=3, control=True, transactional=True, producer_id=7)
    assert read_marker(leader_change) is None
    assert read_marker(emptied) is None


def test_the_index_of_aborted_transactions_has_kafkas_format(fs: FileSystem) -> None:
    index = AbortedIndex(fs, PATH)
    index.append(AbortedTransaction(7, 3, 9, 10))
    index.flush()
    index.close()
    file = fs.open(PATH)
    assert b"".join(file.read(0, file.size)) == struct.pack(">hqqqq", 0, 7, 3, 9, 10)
    again = AbortedIndex(fs, PATH)
    again.load()
    assert list(again) == [AbortedTransaction(7, 3, 9, 10)]


def test_a_torn_entry_is_cut_off(fs: FileSystem) -> None:
    fs.open(PATH).append(struct.pack(">hqqqq", 0, 7, 3, 9, 10) + b"\0" * 5)
    index = AbortedIndex(fs, PATH)
    index.load()
    assert len(list(index)) == 1
    assert fs.open(PATH).size == 34


def test_an_index_without_aborts_has_no_file(fs: FileSystem) -> None:
    index = AbortedIndex(fs, PATH)
    index.load()
    index.truncate_to(0)
    index.flush()
    index.close()
    assert not fs.exists(PATH)


def test_markers_behind_a_cut_are_forgotten(fs: FileSystem) -> None:
    index = AbortedIndex(fs, PATH)
    index.append(AbortedTransaction(7, 3, 9, 10))
    index.append(AbortedTransaction(8, 4, 12, 13))
    index.truncate_to(12)
    assert [entry.producer_id for entry in index] == [7]
    assert fs.open(PATH).size == 34


def test_a_search_ends_where_later_markers_concern_later_data(fs: FileSystem) -> None:
    class Untouchable(AbortedIndex):
        def __init__(self) -> None:
            pass

    index = AbortedIndex(fs, PATH)
    index.append(AbortedTransaction(7, 3, 9, 10))
    index.append(AbortedTransaction(8, 11, 14, 15))
    assert aborted_between(iter([index, Untouchable()]), 0, 12) == [(7, 3), (8, 11)]
    assert aborted_between(iter([index, Untouchable()]), 0, 9) == [(7, 3)]
    assert aborted_between(iter([index]), 10, 11) == []


def test_committed_transactions_are_not_reported_and_aborted_ones_are() -> None:
    log = open_log()
    begin(log, 1)  # 0
    begin(log, 2)  # 1
    append(log, make_batch())  # 2
    unstable = [log.first_unstable_offset]
    append_marker(log, ControlType.COMMIT, 1)  # 3
    unstable.append(log.first_unstable_offset)
    log.replicated_to(4)
    unstable.append(log.first_unstable_offset)
    append_marker(log, ControlType.ABORT, 2)  # 4
    log.replicated_to(5)
    unstable.append(log.first_unstable_offset)
    assert unstable == [0, 0, 1, None]
    assert log.aborted(0, 5) == [(2, 1)]
    assert log.aborted(0, 1) == []
    assert log.aborted(4, 5) == [(2, 1)]
    assert log.aborted(5, 5) == []


def test_what_a_fetch_names_reaches_as_far_as_the_index_can_tell() -> None:
    log = open_log(config=LogConfig(index_interval_bytes=400))
    for number in range(4):  # the index has every second marker
        begin(log, number, count=10)
        append_marker(log, ControlType.ABORT, number)
    everything = [(0, 0), (1, 11), (2, 22), (3, 33)]
    assert log.aborted_in_fetch(0, 1) == [(0, 0), (1, 11)]
    assert log.aborted_in_fetch(11, 1) == [(1, 11)]
    assert log.aborted_in_fetch(0, 1000) == log.aborted_in_fetch(0, 100_000) == everything
    log.roll(NOW)
    begin(log, 9)
    append_marker(log, ControlType.ABORT, 9)
    assert log.aborted_in_fetch(0, 100_000) == everything, "a fetch ends with its segment"
    assert log.aborted_in_fetch(44, 10) == [(9, 44)]
    assert log.aborted_in_fetch(46, 10) == []


def test_an_aborted_transaction_is_found_from_every_segment_that_has_some_of_it() -> None:
    log = open_log()
    begin(log, 1)
    log.roll(NOW)
    begin(log, 1, 1)
    log.roll(NOW)
    append_marker(log, ControlType.ABORT, 1)
    for start in range(3):
        assert log.aborted(start, start + 1) == [(1, 0)]


def test_a_marker_without_data_changes_nothing_for_readers() -> None:
    log = open_log()
    append_marker(log, ControlType.ABORT, 1)
    assert log.aborted(0, 1) == []
    assert log.first_unstable_offset is None


def test_what_is_stable_is_never_before_the_start_of_the_log() -> None:
    log = open_log()
    begin(log, 1)
    append(log, make_batch())
    log.delete_records(2)
    assert log.first_unstable_offset == 2
