"""Guards: no data begins a transaction without the word of its coordinator (KIP-890)."""

from __future__ import annotations

import pytest

from ottla.broker.log.config import LogConfig
from ottla.broker.log.fs import MemoryFileSystem
from ottla.broker.log.guards import Guard, Guards
from ottla.broker.log.log import Log, Origin
from ottla.broker.log.validation import only_batch
from ottla.errors import InvalidProducerEpochError, InvalidTxnStateError, OutOfOrderSequenceNumberError
from ottla.wire.batches import ControlType
from tests.broker.log.support import NOW, append_marker, joined, make_batch, open_log


def guard(log: Log, sequence: int = 0, *, epoch: int = 0, adds: bool = False) -> Guard | None:
    return log.producers.guard(1, epoch, sequence, NOW, adds_partitions=adds)


def send(
    log: Log,
    asked: Guard | None,
    sequence: int = 0,
    *,
    epoch: int = 0,
    count: int = 1,
    origin: Origin = Origin.CLIENT,
) -> int:
    data = make_batch(count, producer=(1, epoch, sequence), transactional=True)
    return log.append_as_leader(only_batch(data), 0, NOW, guard=asked, origin=origin).base_offset


@pytest.mark.parametrize("origin", [Origin.CLIENT, Origin.COORDINATOR])
def test_data_begins_a_transaction_only_with_the_guard_that_its_leader_has_asked_with(origin: Origin) -> None:
    log = open_log()
    with pytest.raises(InvalidTxnStateError):
        send(log, None, origin=origin)
    stranger = Guards().place(1, 0, 0, NOW, adds_partitions=False)
    asked = guard(log)
    with pytest.raises(InvalidTxnStateError):
        send(log, stranger, origin=origin)
    assert send(log, asked, origin=origin) == 0


def test_an_open_transaction_needs_no_guard_and_data_removes_it() -> None:
    log = open_log()
    send(log, guard(log))
    assert len(log.producers.guards) == 0
    assert guard(log, 1) is None
    assert send(log, None, 1) == 1


def test_a_transaction_that_is_open_at_an_older_epoch_is_another_one() -> None:
    log = open_log()
    send(log, guard(log))
    asked = guard(log, epoch=1)
    assert asked is not None
    with pytest.raises(InvalidTxnStateError):
        send(log, None, epoch=1)
    assert send(log, asked, epoch=1) == 1


def test_an_answer_that_comes_after_the_end_of_its_transaction_admits_nothing() -> None:
    log = open_log()
    asked = guard(log)
    append_marker(log, ControlType.ABORT, 1)
    with pytest.raises(InvalidTxnStateError):
        send(log, asked)
    later = guard(log)
    assert later is not asked
    with pytest.raises(InvalidTxnStateError):
        send(log, asked)
    assert send(log, later) == 1


def test_a_stale_epoch_gets_no_guard() -> None:
    log = open_log()
    append_marker(log, ControlType.ABORT, 1, epoch=3)
    with pytest.raises(InvalidProducerEpochError):
        guard(log, epoch=2)
    assert len(log.producers.guards) == 0


def test_batches_that_wait_for_one_answer_are_appended_in_their_order() -> None:
    log = open_log()
    asked = guard(log, 5)
    assert guard(log, 3) is asked
    assert guard(log, 4) is asked
    with pytest.raises(OutOfOrderSequenceNumberError):
        send(log, asked, 4)
    assert [send(log, asked, sequence) for sequence in (3, 4, 5)] == [0, 1, 2]


def test_the_sequences_of_an_older_epoch_do_not_count_for_a_newer_one() -> None:
    log = open_log()
    asked = guard(log, 2)
    assert guard(log, 7, epoch=1) is asked
    assert guard(log, 0) is asked
    assert asked is not None
    assert (asked.epoch, asked.lowest_sequence) == (1, 7)


@pytest.mark.parametrize("with_state", [False, True])
def test_sequences_of_version_2_begin_with_0_where_no_batch_is_known(with_state: bool) -> None:
    log = open_log()
    if with_state:
        send(log, guard(log, adds=True))
        append_marker(log, ControlType.COMMIT, 1, epoch=1)
    asked = guard(log, 4, epoch=1, adds=True)
    with pytest.raises(OutOfOrderSequenceNumberError):
        send(log, asked, 4, epoch=1)
    assert guard(log, 0, epoch=1, adds=True) is asked
    send(log, asked, 0, epoch=1)


def test_sequences_of_version_1_go_on_after_a_marker_and_may_begin_anywhere() -> None:
    log = open_log()
    assert send(log, guard(log, 7), 7, count=3) == 0
    append_marker(log, ControlType.COMMIT, 1)
    assert send(log, guard(log, 10), 10) == 4


def test_without_verification_no_guard_is_needed() -> None:
    log = open_log(config=LogConfig(transaction_partition_verification_enable=False))
    assert send(log, None) == 0
    log.reconfigure(LogConfig())
    append_marker(log, ControlType.COMMIT, 1)
    with pytest.raises(InvalidTxnStateError):
        send(log, None, 1)


def test_a_refused_batch_leaves_the_guard() -> None:
    log = open_log()
    asked = guard(log)
    with pytest.raises(OutOfOrderSequenceNumberError):
        send(log, asked, 1)
    assert log.producers.guards.get(1) is asked


def test_a_guard_is_forgotten_with_the_time_of_idle_producers() -> None:
    log = open_log()
    guard(log)
    expiration = log.config.producer_id_expiration_ms
    log.producers.expire(NOW + expiration - 1)
    assert len(log.producers.guards) == 1
    log.producers.expire(NOW + expiration)
    assert len(log.producers.guards) == 0


def test_a_log_that_is_cut_off_has_no_guards() -> None:
    log = open_log()
    append_marker(log, ControlType.COMMIT, 2)
    guard(log)
    log.truncate_to(1)
    assert len(log.producers.guards) == 1, "nothing was cut off"
    log.truncate_to(0)
    assert len(log.producers.guards) == 0
    guard(log)
    log.truncate_fully(5)
    assert len(log.producers.guards) == 0


def test_guards_are_lost_with_the_leader_and_removed_by_what_a_follower_appends() -> None:
    leader, follower = open_log(), open_log(MemoryFileSystem())
    send(leader, guard(leader))
    guard(follower)
    follower.append_as_follower(joined(leader.read(0, 1 << 20)), NOW)
    assert len(follower.producers.guards) == 0
    assert guard(follower, 1) is None, "the transaction is open there as well"
    assert send(follower, None, 1) == 1
