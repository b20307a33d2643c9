"""The state of a transactional id: what every request does in every state, and what no event can do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ottla.broker.coordinator.transactions.state import (
    ProducerIdAndEpoch,
    ProducerIdNeeded,
    TransactionalIdState,
    TransactionalIdStatus,
)
from ottla.errors import (
    BrokerError,
    ConcurrentTransactionsError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    ProducerFencedError,
    TransactionAbortableError,
)

P, Q, STRANGER = 1000, 1001, 999
NOW = 5_000
ORDERS, PAYMENTS = ("orders", 0), ("payments", 1)
CONCURRENT, INVALID_STATE, FENCED = ConcurrentTransactionsError, InvalidTxnStateError, ProducerFencedError
STATUSES = [
    TransactionalIdStatus.EMPTY,
    TransactionalIdStatus.ONGOING,
    TransactionalIdStatus.PREPARE_COMMIT,
    TransactionalIdStatus.PREPARE_ABORT,
    TransactionalIdStatus.COMPLETE_COMMIT,
    TransactionalIdStatus.COMPLETE_ABORT,
]
EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = STATUSES
IDLE = [EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT]

Outcome = TransactionalIdState | type[BrokerError] | None


def at(
    status: TransactionalIdStatus, epoch: int = 5, *, last: int = 4, version: int = 2
) -> TransactionalIdState:
    """An id in some state; what has happened to it before is of no matter."""
    has_partitions = status in (ONGOING, PREPARE_COMMIT, PREPARE_ABORT)
    return TransactionalIdState(
        producer_id=P,
        epoch=epoch,
        previous_producer_id=P,
        last_epoch=last,
        timeout_ms=1000,
        status=status,
        partitions=(ORDERS,) if has_partitions else (),
        started_ms=-1 if status is EMPTY else 4_000,
        updated_ms=4_500,
        client_version=version,
    )


def outcome(event: Callable[[], TransactionalIdState | None]) -> Outcome:
    try:
        return event()
    except BrokerError as error:
        return type(error)


def expect(found: Outcome, wanted: tuple[TransactionalIdStatus, int] | type[BrokerError] | None) -> None:
    """An error, nothing to write, or a status with its epoch."""
    if isinstance(found, TransactionalIdState):
        assert (found.status, found.epoch) == wanted
        assert (found.previous_producer_id, found.updated_ms) == (P, NOW)
    else:
        assert found is wanted


# InitProducerId


def test_the_first_producer_gets_epoch_0() -> None:
    first = TransactionalIdState(producer_id=P, timeout_ms=7).initialize(None, 60_000, NOW, None)
    assert first.producer == (P, 0)
    assert (first.status, first.last_epoch, first.timeout_ms, first.started_ms) == (EMPTY, -1, 60_000, -1)


def test_a_producer_whose_id_has_expired_gets_a_new_one_whatever_it_was() -> None:
    first = TransactionalIdState(producer_id=Q, timeout_ms=7)
    assert first.initialize(ProducerIdAndEpoch(P, 12), 7, NOW, None).producer == (Q, 0)


@pytest.mark.parametrize("status", IDLE)
def test_another_producer_gets_the_next_epoch_and_no_retry_of_the_one_before(
    status: TransactionalIdStatus,
) -> None:
    new = at(status).initialize(None, 9, NOW, None)
    assert (new.producer, new.last_epoch, new.status, new.started_ms) == ((P, 6), -1, EMPTY, -1)


@pytest.mark.parametrize("status", IDLE)
@pytest.mark.parametrize(
    ("expected", "wanted"),
    [
        ((P, 5), (6, 5)),
        ((P, 4), (5, 4)),  # the response to the same request got lost
        ((P, 3), FENCED),
        ((P, 6), FENCED),
        ((STRANGER, 5), FENCED),
        ((STRANGER, 32766), FENCED),
    ],
)
def test_a_producer_that_says_who_it_was_goes_on_or_is_fenced(
    status: TransactionalIdStatus,
    expected: tuple[int, int],
    wanted: tuple[int, int] | type[BrokerError],
) -> None:
    found = outcome(lambda: at(status).initialize(ProducerIdAndEpoch(*expected), 9, NOW, None))
    if isinstance(found, TransactionalIdState):
        assert (found.epoch, found.last_epoch) == wanted
        # Once more, and nothing changes.
        again = found.initialize(ProducerIdAndEpoch(*expected), 9, NOW, None)
        assert again.producer == found.producer
    else:
        assert found is wanted


@pytest.mark.parametrize("expected", [None, ProducerIdAndEpoch(P, 5), ProducerIdAndEpoch(STRANGER, 1)])
@pytest.mark.parametrize("status", [PREPARE_COMMIT, PREPARE_ABORT])
def test_no_producer_begins_while_markers_are_on_their_way(
    status: TransactionalIdStatus, expected: ProducerIdAndEpoch | None
) -> None:
    with pytest.raises(CONCURRENT):
        at(status).check_initialize(expected)


def test_in_an_ongoing_transaction_the_epoch_of_the_next_producer_is_not_looked_at() -> None:
    at(ONGOING).check_initialize(ProducerIdAndEpoch(P, 2))
    with pytest.raises(FENCED):
        at(ONGOING).check_initialize(ProducerIdAndEpoch(STRANGER, 5))


def test_when_the_epochs_are_used_up_another_producer_id_begins_at_0() -> None:
    state = at(COMPLETE_COMMIT, 32766)
    with pytest.raises(ProducerIdNeeded):
        state.initialize(None, 9, NOW, None)
    rotated = state.initialize(None, 9, NOW, Q)
    assert (rotated.producer, rotated.previous_producer_id, rotated.last_epoch) == ((Q, 0), P, -1)
    mine = ProducerIdAndEpoch(P, 32766)
    continued = state.initialize(mine, 9, NOW, Q)
    assert (continued.producer, continued.last_epoch) == ((Q, 0), 32766)
    # The response was lost: the producer still has its old id, and gets the new one.
    assert continued.initialize(mine, 9, NOW, None).producer == (Q, 0)
    with pytest.raises(FENCED):
        continued.initialize(ProducerIdAndEpoch(P, 32765), 9, NOW, None)


# AddPartitionsToTxn


@pytest.mark.parametrize("status", IDLE)
def test_the_first_partition_begins_a_transaction(status: TransactionalIdStatus) -> None:
    begun = at(status).add(ProducerIdAndEpoch(P, 5), [ORDERS, PAYMENTS, ORDERS], 2, NOW)
    assert begun is not None
    assert (begun.status, begun.partitions, begun.started_ms) == (ONGOING, (ORDERS, PAYMENTS), NOW)
    assert begun.producer == (P, 5)


def test_a_partition_more_changes_nothing_else_and_one_that_is_known_writes_nothing() -> None:
    ongoing = at(ONGOING)
    more = ongoing.add(ongoing.producer, [PAYMENTS], 2, NOW)
    assert more is not None
    assert more == replace(ongoing, partitions=(ORDERS, PAYMENTS), updated_ms=NOW)
    assert more.add(more.producer, [ORDERS], 2, NOW) is None


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize(
    ("producer", "error"),
    [((STRANGER, 5), InvalidProducerIdMappingError), ((P, 4), FENCED), ((P, 6), FENCED)],
)
def test_another_producer_adds_nothing(
    status: TransactionalIdStatus, producer: tuple[int, int], error: type[BrokerError]
) -> None:
    expected = CONCURRENT if status in (PREPARE_COMMIT, PREPARE_ABORT) else error
    with pytest.raises(expected):
        at(status).add(ProducerIdAndEpoch(*producer), [ORDERS], 2, NOW)
    with pytest.raises(error):
        at(status).verify(ProducerIdAndEpoch(*producer), [ORDERS])


@pytest.mark.parametrize("status", STATUSES)
def test_what_a_leader_learns_of_a_partition(status: TransactionalIdStatus) -> None:
    mine, aborted = ProducerIdAndEpoch(P, 5), TransactionAbortableError.code
    if status in (PREPARE_COMMIT, PREPARE_ABORT):
        with pytest.raises(CONCURRENT):
            at(status).verify(mine, [ORDERS])
        with pytest.raises(CONCURRENT):
            at(status).add(mine, [ORDERS], 2, NOW)
    else:
        known = 0 if status is ONGOING else aborted
        assert at(status).verify(mine, [ORDERS, PAYMENTS]) == {ORDERS: known, PAYMENTS: aborted}


# EndTxn up to version 4

_ENDS: list[
    tuple[TransactionalIdStatus, bool, tuple[TransactionalIdStatus, int] | type[BrokerError] | None]
] = [
    (EMPTY, True, INVALID_STATE),
    (EMPTY, False, INVALID_STATE),
    (ONGOING, True, (PREPARE_COMMIT, 5)),
    (ONGOING, False, (PREPARE_ABORT, 5)),
    (PREPARE_COMMIT, True, CONCURRENT),
    (PREPARE_COMMIT, False, CONCURRENT),
    (PREPARE_ABORT, True, CONCURRENT),
    (PREPARE_ABORT, False, CONCURRENT),
    (COMPLETE_COMMIT, True, None),
    (COMPLETE_COMMIT, False, INVALID_STATE),
    (COMPLETE_ABORT, True, INVALID_STATE),
    (COMPLETE_ABORT, False, None),
]


@pytest.mark.parametrize(("status", "is_commit", "wanted"), _ENDS)
def test_an_end_that_keeps_the_epoch(
    status: TransactionalIdStatus,
    is_commit: bool,
    wanted: tuple[TransactionalIdStatus, int] | type[BrokerError] | None,
) -> None:
    found = outcome(lambda: at(status).end(ProducerIdAndEpoch(P, 5), is_commit, NOW))
    expect(found, wanted)
    if isinstance(found, TransactionalIdState):
        assert (found.client_version, found.last_epoch, found.started_ms) == (0, 4, 4_000)


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("is_commit", [True, False])
def test_an_end_that_keeps_the_epoch_is_for_the_producer_alone(
    status: TransactionalIdStatus, is_commit: bool
) -> None:
    for producer, error in [
        (ProducerIdAndEpoch(STRANGER, 5), InvalidProducerIdMappingError),
        (ProducerIdAndEpoch(P, 4), FENCED),
        (ProducerIdAndEpoch(P, 6), FENCED),
    ]:
        with pytest.raises(error):
            at(status).end(producer, is_commit, NOW)


# EndTxn since version 5

_BUMPS: list[
    tuple[TransactionalIdStatus, int, bool, tuple[TransactionalIdStatus, int] | type[BrokerError] | None]
] = [
    (EMPTY, 5, True, INVALID_STATE),
    (EMPTY, 5, False, (PREPARE_ABORT, 6)),
    (EMPTY, 4, True, FENCED),
    (EMPTY, 4, False, FENCED),
    (ONGOING, 5, True, (PREPARE_COMMIT, 6)),
    (ONGOING, 5, False, (PREPARE_ABORT, 6)),
    (ONGOING, 4, True, FENCED),
    (ONGOING, 4, False, FENCED),
    (COMPLETE_COMMIT, 5, True, INVALID_STATE),
    (COMPLETE_COMMIT, 5, False, (PREPARE_ABORT, 6)),
    (COMPLETE_COMMIT, 4, True, None),
    (COMPLETE_COMMIT, 4, False, INVALID_STATE),
    (COMPLETE_ABORT, 5, True, INVALID_STATE),
    (COMPLETE_ABORT, 5, False, (PREPARE_ABORT, 6)),
    (COMPLETE_ABORT, 4, True, INVALID_STATE),
    (COMPLETE_ABORT, 4, False, None),
    (COMPLETE_ABORT, 3, False, FENCED),
    (COMPLETE_ABORT, 6, False, FENCED),
    *[
        (status, epoch, is_commit, CONCURRENT)
        for status in (PREPARE_COMMIT, PREPARE_ABORT)
        for epoch in (5, 4, 3)
        for is_commit in (True, False)
    ],
]


@pytest.mark.parametrize(("status", "epoch", "is_commit", "wanted"), _BUMPS)
def test_an_end_that_bumps_the_epoch(
    status: TransactionalIdStatus,
    epoch: int,
    is_commit: bool,
    wanted: tuple[TransactionalIdStatus, int] | type[BrokerError] | None,
) -> None:
    found = outcome(lambda: at(status).end_and_bump(ProducerIdAndEpoch(P, epoch), is_commit, NOW, None))
    expect(found, wanted)
    if isinstance(found, TransactionalIdState):
        assert (found.client_version, found.last_epoch) == (2, 5)
        assert found.started_ms == (4_000 if status is ONGOING else NOW)
        assert found.next_producer == (P, 6)


@pytest.mark.parametrize("status", STATUSES)
def test_an_end_that_bumps_the_epoch_is_for_the_producer_alone(status: TransactionalIdStatus) -> None:
    pending = status in (PREPARE_COMMIT, PREPARE_ABORT)
    with pytest.raises(CONCURRENT if pending else InvalidProducerIdMappingError):
        at(status).end_and_bump(ProducerIdAndEpoch(STRANGER, 5), True, NOW, None)


def test_the_last_epoch_ends_with_another_producer_id() -> None:
    mine = ProducerIdAndEpoch(P, 32766)
    with pytest.raises(ProducerIdNeeded):
        at(ONGOING, 32766).end_and_bump(mine, True, NOW, None)
    prepared = at(ONGOING, 32766).end_and_bump(mine, True, NOW, Q)
    assert prepared is not None
    assert (prepared.producer, prepared.next_producer_id, prepared.next_producer) == ((P, 32767), Q, (Q, 0))
    completed = prepared.complete(NOW)
    assert (completed.producer, completed.next_producer_id) == ((Q, 0), -1)
    # The response was lost: it is the same once more, and the other outcome is none.
    assert completed.end_and_bump(mine, True, NOW, None) is None
    assert outcome(lambda: completed.end_and_bump(mine, False, NOW, None)) is INVALID_STATE
    # Once the next transaction has begun, the old id is nobody's.
    begun = completed.add(completed.producer, [ORDERS], 2, NOW)
    assert begun is not None
    assert outcome(lambda: begun.end_and_bump(mine, True, NOW, None)) is InvalidProducerIdMappingError


# The coordinator's own aborts, and the end of all markers


def test_a_fence_up_to_version_1_bumps_the_epoch_for_good() -> None:
    fenced = at(ONGOING, version=0).fence(1, NOW, None)
    assert (fenced.status, fenced.producer, fenced.last_epoch) == (PREPARE_ABORT, (P, 6), -1)
    aborted = fenced.complete(NOW)
    old = ProducerIdAndEpoch(P, 5)
    assert outcome(lambda: aborted.end(old, False, NOW)) is FENCED
    assert outcome(lambda: aborted.initialize(old, 9, NOW, None)) is FENCED
    assert aborted.initialize(None, 9, NOW, None).producer == (P, 7)


def test_a_fence_at_version_2_is_an_abort_that_its_producer_may_have_requested() -> None:
    aborted = at(ONGOING).fence(2, NOW, None).complete(NOW)
    old = ProducerIdAndEpoch(P, 5)
    assert aborted.producer == (P, 6)
    assert aborted.end_and_bump(old, False, NOW, None) is None
    assert outcome(lambda: aborted.end_and_bump(old, True, NOW, None)) is INVALID_STATE
    assert aborted.initialize(old, 9, NOW, None).producer == (P, 6)
    assert aborted.initialize(None, 9, NOW, None).producer == (P, 7)


def test_a_fence_of_the_last_epoch() -> None:
    one = at(ONGOING, 32766, version=0).fence(1, NOW, None)
    assert one.complete(NOW).producer == (P, 32767)
    assert one.complete(NOW).initialize(None, 9, NOW, Q).producer == (Q, 0)
    with pytest.raises(ProducerIdNeeded):
        at(ONGOING, 32766).fence(2, NOW, None)
    two = at(ONGOING, 32766).fence(2, NOW, Q)
    assert (two.producer, two.complete(NOW).producer) == ((P, 32767), (Q, 0))


@pytest.mark.parametrize(
    ("prepared", "completed"), [(PREPARE_COMMIT, COMPLETE_COMMIT), (PREPARE_ABORT, COMPLETE_ABORT)]
)
def test_with_its_last_marker_a_transaction_is_complete(
    prepared: TransactionalIdStatus, completed: TransactionalIdStatus
) -> None:
    done = at(prepared).complete(NOW)
    assert (done.status, done.partitions, done.producer) == (completed, (), (P, 5))
    assert (done.started_ms, done.updated_ms) == (4_000, NOW)


@pytest.mark.parametrize("status", IDLE)
def test_what_is_not_prepared_cannot_complete(status: TransactionalIdStatus) -> None:
    with pytest.raises(RuntimeError, match="cannot go from"):
        at(status).complete(NOW)


def test_time() -> None:
    assert not at(ONGOING).has_timed_out(5_000)
    assert at(ONGOING).has_timed_out(5_001)
    assert not any(at(status).has_timed_out(9_999) for status in STATUSES if status is not ONGOING)
    assert {status for status in STATUSES if at(status).is_expired(5_500, 1000)} == set(IDLE)
    assert not at(EMPTY).is_expired(5_499, 1000)


def test_the_names_of_states() -> None:
    assert [status.label for status in TransactionalIdStatus] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]
