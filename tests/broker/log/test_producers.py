"""Idempotent producers: every batch once and in order, and fencing by epochs.

Duplicates, gaps, epochs and sequences that begin anew are as Apache Kafka 4.3.1 answered them. What coordinators
write was not tried there: markers follow the rules of its ProducerAppendInfo.
"""

from __future__ import annotations

import pytest

from ottla.broker.log.log import Log, Origin
from ottla.broker.log.producers import ProducerStates
from ottla.broker.log.validation import only_batch
from ottla.errors import (
    BrokerError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceNumberError,
    TransactionCoordinatorFencedError,
)
from ottla.wire.batches import ControlType
from tests.broker.log.support import (
    NOW,
    append,
    append_marker,
    guard_of,
    make_batch,
    make_marker,
    open_log,
)

LARGEST = 2**31 - 1


def send(
    log: Log, producer_id: int, epoch: int, sequence: int, count: int = 1, transactional: bool = False
) -> tuple[int, bool]:
    """The base offset, and whether it was known."""
    data = make_batch(count, producer=(producer_id, epoch, sequence), transactional=transactional)
    appended = append(log, data)
    return appended.base_offset, appended.duplicate


def test_batches_follow_each_other() -> None:
    log = open_log()
    assert [send(log, 1, 0, sequence, 2) for sequence in (0, 2, 4)] == [(0, False), (2, False), (4, False)]


def test_a_duplicate_is_answered_with_its_old_offset_and_timestamp() -> None:
    log = open_log()
    send(log, 1, 0, 0, 2)
    append(log, make_batch())
    again = append(log, make_batch(2, producer=(1, 0, 0), timestamp=NOW))
    assert (again.base_offset, again.last_offset, again.duplicate) == (0, 1, True)
    assert again.append_time_ms == NOW
    assert log.log_end_offset == 3


def test_the_last_five_batches_are_remembered() -> None:
    log = open_log()
    for sequence in range(8):
        send(log, 3, 0, sequence)
    assert [send(log, 3, 0, sequence) for sequence in (7, 5, 3)] == [(7, True), (5, True), (3, True)]
    with pytest.raises(OutOfOrderSequenceNumberError):
        send(log, 3, 0, 2)


@pytest.mark.parametrize("sequence", [1, 3, LARGEST])
def test_a_gap_or_an_unknown_repetition_is_out_of_order(sequence: int) -> None:
    log = open_log()
    send(log, 1, 0, 0, 2)
    with pytest.raises(OutOfOrderSequenceNumberError) as raised:
        send(log, 1, 0, sequence)
    assert type(raised.value) is OutOfOrderSequenceNumberError
    assert log.log_end_offset == 2


def test_another_length_makes_another_batch() -> None:
    log = open_log()
    send(log, 6, 0, 0)
    with pytest.raises(OutOfOrderSequenceNumberError):
        send(log, 6, 0, 0, 2)


def test_an_epoch_below_minus_one_is_older_than_none() -> None:
    log = open_log()
    with pytest.raises(InvalidProducerEpochError):
        send(log, 1, -2, 0)
    assert log.producers.get(1) is None
    assert send(log, 1, -1, 0) == (0, False)


def test_a_producer_of_which_nothing_is_known_may_begin_anywhere() -> None:
    log = open_log()
    assert send(log, 2, 0, 9) == (0, False)
    assert send(log, 2, 0, 10) == (1, False)
    assert send(log, 2, 0, 9) == (0, True)


def test_a_new_epoch_begins_with_sequence_zero() -> None:
    log = open_log()
    send(log, 1, 0, 0)
    with pytest.raises(OutOfOrderSequenceNumberError):
        send(log, 1, 1, 1)
    assert send(log, 1, 1, 0) == (1, False)
    assert send(log, 1, 1, 0) == (1, True)


def test_an_older_epoch_is_fenced() -> None:
    log = open_log()
    send(log, 5, 5, 0)
    with pytest.raises(InvalidProducerEpochError):
        send(log, 5, 4, 1)


def test_sequences_begin_anew_behind_the_largest() -> None:
    log = open_log()
    assert send(log, 4, 0, LARGEST - 2, 2) == (0, False)
    assert send(log, 4, 0, LARGEST, 3) == (2, False)
    assert send(log, 4, 0, 2) == (5, False)
    assert send(log, 4, 0, LARGEST, 3) == (2, True)


def test_behind_the_largest_sequence_comes_zero() -> None:
    log = open_log()
    send(log, 4, 0, LARGEST)
    assert send(log, 4, 0, 0) == (1, False)


@pytest.mark.parametrize("producer_id", [-1, -5])
def test_a_batch_without_a_producer_is_not_remembered(producer_id: int) -> None:
    log = open_log()
    assert [send(log, producer_id, 0, 4), send(log, producer_id, 0, 4)] == [(0, False), (1, False)]
    assert log.producers.active() == []


def test_producers_are_told_apart() -> None:
    log = open_log()
    assert [send(log, producer, 0, 0) for producer in (9, 2, 5)] == [(0, False), (1, False), (2, False)]
    assert [state.producer_id for state in log.producers.active()] == [2, 5, 9]


def test_what_is_known_of_a_producer() -> None:
    log = open_log()
    send(log, 9, 3, 0, 4, transactional=True)
    (state,) = log.producers.active()
    assert (state.producer_id, state.epoch, state.last_sequence, state.last_timestamp) == (9, 3, 3, NOW)
    assert (state.coordinator_epoch, state.transaction_first_offset) == (-1, 0)


def test_a_plain_batch_does_not_go_into_a_transaction() -> None:
    log = open_log()
    send(log, 1, 0, 0, transactional=True)
    with pytest.raises(InvalidTxnStateError):
        send(log, 1, 0, 1)
    append_marker(log, ControlType.COMMIT, 1)
    assert send(log, 1, 0, 1) == (2, False)


def test_a_coordinator_writes_data_without_sequences() -> None:
    log = open_log()
    for _ in range(2):
        batch = only_batch(make_batch(producer=(1, 0, -1), transactional=True))
        log.append_as_leader(batch, 0, NOW, origin=Origin.COORDINATOR, guard=guard_of(log, batch))
    assert log.log_end_offset == 2
    with pytest.raises(InvalidProducerEpochError):
        log.append_as_leader(only_batch(make_batch(producer=(1, -1, -1))), 0, NOW, origin=Origin.COORDINATOR)


def test_a_marker_keeps_the_sequences_of_its_epoch() -> None:
    log = open_log()
    send(log, 1, 0, 0, transactional=True)
    append_marker(log, ControlType.COMMIT, 1)
    assert send(log, 1, 0, 0, transactional=True) == (0, True)
    assert send(log, 1, 0, 1, transactional=True) == (2, False)


def test_a_marker_of_a_new_epoch_begins_the_sequences_anew() -> None:
    log = open_log()
    send(log, 1, 0, 0, 3, transactional=True)
    append_marker(log, ControlType.ABORT, 1, epoch=1)
    with pytest.raises(InvalidProducerEpochError):
        send(log, 1, 0, 3, transactional=True)
    assert send(log, 1, 1, 0, transactional=True) == (4, False)


def test_an_older_coordinator_is_fenced() -> None:
    log = open_log()
    append_marker(log, ControlType.COMMIT, 1, coordinator_epoch=5)
    with pytest.raises(TransactionCoordinatorFencedError):
        append_marker(log, ControlType.COMMIT, 1, coordinator_epoch=4)
    append_marker(log, ControlType.COMMIT, 1, coordinator_epoch=5)
    assert log.log_end_offset == 2


def test_a_marker_of_an_older_epoch_is_fenced() -> None:
    log = open_log()
    send(log, 1, 3, 0, transactional=True)
    with pytest.raises(InvalidProducerEpochError):
        append_marker(log, ControlType.ABORT, 1, epoch=2)
    append_marker(log, ControlType.ABORT, 1, epoch=3)


@pytest.mark.parametrize(
    ("epoch", "ended", "refused"),
    [(2, False, True), (3, False, True), (4, False, False), (3, True, False), (2, True, True)],
)
def test_with_transactions_v2_a_marker_brings_the_next_epoch(epoch: int, ended: bool, refused: bool) -> None:
    log = open_log()
    send(log, 1, 3, 0, transactional=True)
    if ended:
        append_marker(log, ControlType.COMMIT, 1, epoch=3)

    def end() -> None:
        marker = make_marker(ControlType.COMMIT, 1, epoch=epoch)
        log.append_as_leader(only_batch(marker), 0, NOW, origin=Origin.COORDINATOR, transaction_version=2)

    if refused:
        with pytest.raises(InvalidProducerEpochError):
            end()
    else:
        end()


def test_the_largest_epoch_has_no_next_one() -> None:
    log = open_log()
    send(log, 1, 2**15 - 1, 0, transactional=True)
    marker = make_marker(ControlType.COMMIT, 1, epoch=2**15 - 1)
    log.append_as_leader(only_batch(marker), 0, NOW, origin=Origin.COORDINATOR, transaction_version=2)
    assert log.producers.active()[0].transaction_first_offset is None


def test_who_has_not_written_for_long_is_forgotten() -> None:
    log = open_log()
    expiration = log.config.producer_id_expiration_ms
    send(log, 1, 0, 0)
    send(log, 2, 0, 0, transactional=True)
    log.producers.expire(NOW + expiration - 1)
    assert len(log.producers) == 2
    log.producers.expire(NOW + expiration)
    assert [state.producer_id for state in log.producers.active()] == [2]
    assert send(log, 1, 0, 77) == (2, False)


def test_a_refused_batch_is_not_remembered() -> None:
    log = open_log()
    send(log, 1, 0, 0)
    for _ in range(2):
        with pytest.raises(BrokerError):
            send(log, 1, 0, 5)
    assert send(log, 1, 0, 1) == (1, False)


def test_nothing_is_known_at_the_beginning() -> None:
    states = ProducerStates("orders-0", 1000)
    assert (len(states), states.get(1), states.active()) == (0, None, [])
