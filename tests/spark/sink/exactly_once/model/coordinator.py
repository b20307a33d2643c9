"""Transaction coordinators: InitProducerId, the first record of a transaction, EndTxn, timeouts.

As `ottla.broker.coordinator.transactions.state` has it, and Apache Kafka; the markers of an end are written in one
step with it, since coordinators have everything else wait for them.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.spark.sink.exactly_once.model.settings import Settings
from tests.spark.sink.exactly_once.model.state import (
    ABORTED,
    COMMITTED,
    DRIVER,
    EMPTY,
    LAST,
    NOW,
    ONGOING,
    ROWS,
    Decision,
    Driver,
    Listed,
    Rows,
    State,
    Transaction,
    replaced,
)

DOUBLE = 2
"""A row that is committed more often is as bad."""


def transaction_of(state: State, slot: int) -> Transaction:
    return state.driver_id if slot == DRIVER else state.slots[slot]


def initialize(settings: Settings, state: State, slot: int) -> State:
    """A producer begins, in an epoch that is NOW: it aborts what is open, and fences those before it."""
    epochs = 2 if transaction_of(state, slot).status == ONGOING else 1
    return _aged(settings, _with(state, slot, Transaction(EMPTY, None)), slot, epochs)


def begin(state: State, slot: int, epoch: int, content: Rows | Decision) -> State | None:
    """The records of a transaction; None if its producer is fenced."""
    if epoch != NOW:
        return None
    return _with(state, slot, Transaction(ONGOING, content))


class Ended(NamedTuple):
    """What an EndTxn has led to."""

    state: State
    is_accepted: bool
    is_new: bool
    """It has ended an open transaction, and not found one that had ended so."""


def end(settings: Settings, state: State, slot: int, epoch: int, *, is_commit: bool) -> Ended:
    """EndTxn. One that ends nothing is accepted where the same producer has been told the same before."""
    status, content = transaction_of(state, slot)
    wanted = COMMITTED if is_commit else ABORTED
    if epoch == NOW and status == ONGOING:
        ended = _ended(settings, state, slot, content, is_commit)
        return Ended(_aged(settings, ended, slot, 1) if settings.version == 2 else ended, True, True)
    if settings.version == 1:
        return Ended(state, epoch == NOW and status == wanted, False)
    if epoch == NOW and not is_commit:
        # An abort needs no transaction, and takes an epoch all the same.
        return Ended(_without(settings, state, slot), True, False)
    return Ended(state, epoch == LAST and status == wanted, False)


def expire(settings: Settings, state: State, slot: int) -> State:
    """The time of an open transaction is up: it is aborted, and its producer fenced."""
    return _without(settings, state, slot)


def _without(settings: Settings, state: State, slot: int) -> State:
    """An abort that takes an epoch."""
    return _aged(settings, _with(state, slot, Transaction(ABORTED, None)), slot, 1)


def is_listed(state: State, slot: int) -> bool:
    """Whether what is open in a slot is decided, or in a decision that is open."""
    listed = Listed(slot, NOW)
    last, pending = state.last_decision, state.driver_id.content
    return (last is not None and listed in last.listed) or (
        isinstance(pending, Decision) and listed in pending.listed
    )


def _ended(
    settings: Settings, state: State, slot: int, content: Rows | Decision | None, is_commit: bool
) -> State:
    state = _with(state, slot, Transaction(COMMITTED if is_commit else ABORTED, None))
    if not is_commit:
        return state
    if isinstance(content, Decision):
        last = state.last_decision
        broken = state.broken
        if last is not None and content.batch < last.batch:
            broken = f"batch {content.batch} is decided after batch {last.batch}"
        return state._replace(
            decisions=(*state.decisions, content)[-settings.decisions_kept :], broken=broken
        )
    assert content is not None
    rows = list(state.rows)
    for row in range(ROWS) if content.tasks == 1 else (slot,):
        number = content.batch * ROWS + row
        rows[number] = min(rows[number] + 1, DOUBLE)
    return state._replace(rows=tuple(rows), markers=replaced(state.markers, slot, content.batch))


def _with(state: State, slot: int, transaction: Transaction) -> State:
    if slot == DRIVER:
        return state._replace(driver_id=transaction)
    return state._replace(slots=replaced(state.slots, slot, transaction))


# What is known by an epoch gets older


def _aged(settings: Settings, state: State, slot: int, by: int) -> State:
    oldest = settings.oldest
    # What is late and not of the current epoch changes nothing any more.
    late = tuple(each for each in state.late if each.slot != slot)
    if slot == DRIVER:
        return state._replace(
            late=late,
            drivers=tuple(each._replace(epoch=min(each.epoch + by, oldest)) for each in state.drivers),
            orphans=tuple(each._replace(driver=min(each.driver + by, oldest)) for each in state.orphans),
        )

    def listed(items: tuple[Listed, ...]) -> tuple[Listed, ...]:
        return tuple(Listed(slot, min(at + by, oldest)) if of == slot else Listed(of, at) for of, at in items)

    def decision(of: Decision) -> Decision:
        return of._replace(listed=listed(of.listed))

    def older(epochs: tuple[int | None, ...]) -> tuple[int | None, ...]:
        at = epochs[slot] if slot < len(epochs) else None
        return epochs if at is None or at < NOW else replaced(epochs, slot, min(at + by, oldest))

    def driver(of: Driver) -> Driver:
        attempts = of.attempts
        if slot < len(attempts) and (attempt := attempts[slot]) is not None:
            attempts = replaced(attempts, slot, attempt._replace(epoch=min(attempt.epoch + by, oldest)))
        return of._replace(
            attempts=attempts, outcomes=older(of.outcomes), todo=listed(of.todo), kept=older(of.kept)
        )

    pending = state.driver_id
    if isinstance(pending.content, Decision):
        pending = pending._replace(content=decision(pending.content))
    return state._replace(
        late=late,
        drivers=tuple(driver(each) for each in state.drivers),
        orphans=tuple(
            each._replace(attempt=each.attempt._replace(epoch=min(each.attempt.epoch + by, oldest)))
            if each.slot == slot
            else each
            for each in state.orphans
        ),
        decisions=tuple(decision(each) for each in state.decisions),
        driver_id=pending,
    )
