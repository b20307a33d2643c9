"""The state machine of the transactional producer: what leads where, and what may be sent when."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.client.produce.producer_id import NO_PRODUCER, ProducerIdentity
from ottla.client.topic_partition import TopicPartition
from ottla.client.transactions.error_table import Consequence
from ottla.client.transactions.machine import _MOVES, TransactionMachine, TransactionStatus, producer_lost
from ottla.errors import (
    AbortNeededError,
    KafkaError,
    ProducerFencedError,
    ProducerLostError,
    TransactionStateError,
)

S = TransactionStatus
FIRST = ProducerIdentity(7, 0)
ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)
WRONG = KafkaError("something went wrong")


def ready(version: int = 2) -> TransactionMachine:
    machine = TransactionMachine("billing")
    assert machine.initialize() == NO_PRODUCER
    machine.initialized(FIRST, version)
    return machine


def begun(version: int = 2) -> TransactionMachine:
    machine = ready(version)
    machine.begin()
    return machine


def test_it_goes_from_uninitialized_through_a_commit_to_ready() -> None:
    machine = TransactionMachine("billing")
    seen = [machine.status]
    machine.initialize()
    seen.append(machine.status)
    machine.initialized(FIRST, 2)
    seen.append(machine.status)
    assert machine.begin() == 1
    seen.append(machine.status)
    machine.commit()
    seen.append(machine.status)
    assert machine.end() is None
    machine.ended(None)
    assert [*seen, machine.status] == [
        S.UNINITIALIZED,
        S.INITIALIZING,
        S.READY,
        S.IN_TRANSACTION,
        S.COMMITTING,
        S.READY,
    ]


def test_every_status_has_its_moves_and_a_fatal_error_has_none() -> None:
    assert set(_MOVES) == set(S)
    assert [status for status, moves in _MOVES.items() if not moves] == [S.FATAL_ERROR]
    reached = {status for moves in _MOVES.values() for status in moves}
    assert reached == set(S)


@pytest.mark.parametrize(
    "status", [S.UNINITIALIZED, S.INITIALIZING, S.READY, S.PREPARED, S.COMMITTING, S.ABORTING]
)
def test_records_need_an_open_transaction(status: TransactionStatus) -> None:
    machine = begun()
    machine.status = status
    with pytest.raises(TransactionStateError, match="no transaction of 'billing' is open"):
        machine.check_open()


@pytest.mark.parametrize(
    "status", [S.IN_TRANSACTION, S.PREPARED, S.COMMITTING, S.ABORTING, S.ABORTABLE_ERROR]
)
def test_no_transaction_begins_before_the_last_one_has_ended(status: TransactionStatus) -> None:
    machine = begun()
    machine.status = status
    with pytest.raises(TransactionStateError, match="has not ended"):
        machine.check_begin()


def test_below_version_2_a_partition_is_sent_to_only_when_it_was_added() -> None:
    machine = begun(version=1)
    assert machine.identity_for(ONE) is None
    assert machine.identity_for(TWO) is None
    assert machine.to_add() == [ONE, TWO]
    machine.added([ONE])
    assert machine.identity_for(ONE) == FIRST
    assert machine.identity_for(TWO) is None
    assert machine.to_add() == [TWO]
    assert machine.state().partitions == (ONE,)


def test_with_version_2_a_partition_is_sent_to_at_once() -> None:
    machine = begun()
    assert machine.identity_for(ONE) == FIRST
    assert machine.to_add() == []
    assert machine.state().partitions == (ONE,)


@pytest.mark.parametrize("version", [1, 2])
def test_nothing_is_ended_of_which_the_coordinator_cannot_know(version: int) -> None:
    machine = begun(version)
    if version == 1:
        assert machine.identity_for(ONE) is None
    machine.abort()
    assert machine.end() is None
    machine.ended(None)
    assert (machine.identity, machine.must_initialize) == (FIRST, False)


def test_what_was_sent_is_ended_whatever_came_of_it() -> None:
    machine = begun()
    machine.identity_for(ONE)
    machine.failed(WRONG, Consequence.ABORT)
    machine.abort()
    assert machine.end() == FIRST


def test_an_add_without_a_response_is_ended_and_may_turn_out_to_be_nothing() -> None:
    machine = begun(version=1)
    machine.identity_for(ONE)
    machine.tried()
    machine.abort()
    assert machine.end() == FIRST
    assert machine.is_nothing_open
    machine = begun(version=1)
    machine.added([ONE])
    assert not machine.is_nothing_open


def test_the_next_transaction_has_the_identity_that_the_end_gave() -> None:
    machine = begun()
    machine.identity_for(ONE)
    machine.commit()
    machine.end()
    machine.ended(ProducerIdentity(7, 1))
    machine.begin()
    assert machine.identity_for(ONE) == (7, 1)
    assert machine.number == 2


def test_nothing_belongs_to_a_transaction_once_its_end_was_sent() -> None:
    machine = begun()
    machine.identity_for(ONE)
    machine.commit()
    assert machine.identity_for(ONE) == FIRST
    machine.end()
    assert machine.identity_for(ONE) is None
    with pytest.raises(TransactionStateError, match="its commit was sent"):
        machine.abort()
    assert machine.status is S.COMMITTING


def test_a_commit_that_still_waits_for_its_records_can_be_aborted() -> None:
    machine = begun()
    machine.identity_for(ONE)
    machine.commit()
    machine.abort()
    assert machine.end() == FIRST


def test_an_abortable_error_stays_until_the_abort() -> None:
    machine = begun()
    machine.identity_for(ONE)
    machine.failed(WRONG, Consequence.ABORT)
    machine.failed(KafkaError("another"), Consequence.ABORT)
    for refused in (machine.check_open, machine.commit, machine.prepare):
        with pytest.raises(AbortNeededError, match="something went wrong") as caught:
            refused()
        assert caught.value.__cause__ is WRONG
        assert (caught.value.abortable, caught.value.fatal, caught.value.retriable) == (True, False, False)
    assert machine.state().error is WRONG
    machine.abort()
    assert machine.end() == FIRST
    machine.ended(ProducerIdentity(7, 1))
    assert machine.state().error is None
    machine.begin()
    machine.check_open()


def test_a_fatal_error_is_raised_by_everything_from_then_on() -> None:
    machine = begun()
    fenced = ProducerFencedError()
    machine.failed(WRONG, Consequence.ABORT)
    machine.failed(fenced, Consequence.FATAL)
    machine.failed(WRONG, Consequence.FATAL)
    for refused in (machine.check_open, machine.commit, machine.abort, machine.check_begin, machine.prepare):
        with pytest.raises(ProducerLostError, match="PRODUCER_FENCED") as caught:
            refused()
        assert (caught.value.abortable, caught.value.fatal, caught.value.retriable) == (False, True, False)
    assert machine.state().error is fenced


@pytest.mark.parametrize(("version", "needed"), [(1, True), (2, False)])
def test_missing_sequences_need_an_epoch_that_version_2_gives_anyway(version: int, needed: bool) -> None:
    machine = begun(version)
    machine.added([ONE])
    machine.failed(WRONG, Consequence.ABORT_AND_BUMP)
    machine.abort()
    machine.end()
    machine.ended(None if version == 1 else ProducerIdentity(7, 1))
    assert machine.must_initialize is needed
    if needed:
        assert machine.initialize() == FIRST


def test_a_commit_that_the_coordinator_wants_aborted_can_be() -> None:
    machine = begun()
    machine.identity_for(ONE)
    machine.commit()
    machine.end()
    machine.commit_refused(WRONG, Consequence.ABORT)
    assert machine.status is S.ABORTABLE_ERROR
    machine.abort()
    assert machine.end() == FIRST


def test_records_that_fail_outside_of_a_transaction_do_not_concern_the_next() -> None:
    machine = ready()
    machine.failed(WRONG, Consequence.ABORT)
    assert machine.status is S.READY


def test_a_rise_of_the_version_needs_another_epoch_and_a_fall_does_not() -> None:
    machine = ready(version=1)
    machine.use_version(2)
    assert machine.must_initialize
    machine = ready(version=2)
    machine.use_version(1)
    assert (machine.must_initialize, machine.version) == (False, 1)


def test_an_initialization_that_is_refused_for_now_can_be_tried_again() -> None:
    machine = TransactionMachine("billing")
    machine.initialize()
    machine.not_initialized(WRONG)
    assert machine.status is S.UNINITIALIZED
    machine.check_begin()
    assert machine.initialize() == NO_PRODUCER


def test_a_move_that_there_is_not_says_from_where() -> None:
    machine = ready()
    with pytest.raises(TransactionStateError, match="is 'ready', and cannot become 'aborting'"):
        machine.abort()


def test_a_lost_producer_tells_what_is_known_of_its_last_commit() -> None:
    sure = producer_lost("billing", ProducerFencedError())
    unsure = producer_lost("billing", ProducerFencedError(), may_be_committed=True)
    assert "not committed by it" in str(sure)
    assert "is unknown" in str(unsure)
    again = producer_lost("billing", unsure)
    assert again.may_be_committed
    assert again is not unsure
    assert isinstance(again.__cause__, ProducerFencedError)


@pytest.mark.parametrize(
    "close",
    [
        TransactionMachine.prepare,
        TransactionMachine.commit,
        TransactionMachine.abort,
        lambda machine: machine.failed(WRONG, Consequence.ABORT),
        lambda machine: machine.failed(WRONG, Consequence.FATAL),
    ],
)
def test_what_closes_a_transaction_to_records_is_told_once_the_status_has_changed(
    close: Callable[[TransactionMachine], None],
) -> None:
    machine = begun()
    seen: list[TransactionStatus] = []
    machine.on_closed = lambda: seen.append(machine.status)
    close(machine)
    assert seen == [machine.status]
    assert machine.status is not S.IN_TRANSACTION
