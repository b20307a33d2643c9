"""The steps of a driver when its tasks are done (`ottla.spark.sink.exactly_once.driver`).

    commit   compare with the last decision; is everything open; write the decision
    end      the EndTxn that decides
    settle   after a failure: abort the driver's own transaction, so that no decision can follow

What is between them, the ends of the tasks' transactions, is in `driver`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.spark.sink.exactly_once.model.coordinator import begin, end, initialize
from tests.spark.sink.exactly_once.model.faults import may_strike, sent_too_late, struck
from tests.spark.sink.exactly_once.model.leaving import failed, gone, prepared_in, returned, with_driver
from tests.spark.sink.exactly_once.model.settings import Mistake, Settings
from tests.spark.sink.exactly_once.model.state import (
    DRIVER,
    EMPTY,
    NOTHING,
    NOW,
    ONGOING,
    Decision,
    Driver,
    State,
    Step,
)


def commit(settings: Settings, state: State, index: int) -> Iterator[Step]:
    driver = state.drivers[index]
    last, batch = driver.last, driver.batch
    what = f"driver {index}, commit of batch {batch}"
    if batch < last.batch:
        yield from failed(settings, state, index, f"{what}: a later one is decided, raises")
        return
    if batch == last.batch and Mistake.OWN_MARKERS_ONLY not in settings.mistakes:
        if last.complete:
            yield f"{what}: it is complete", with_driver(state, index, returned(settings, driver))
            return
        if driver.tasks != last.tasks and Mistake.ANY_WIDTH not in settings.mistakes:
            yield from failed(settings, state, index, f"{what}: decided with {last.tasks} tasks, raises")
            return
    prepared = prepared_in(driver.outcomes)
    if not prepared:
        yield f"{what}: nothing to decide", with_driver(state, index, returned(settings, driver))
        return
    if any(epoch != NOW or state.slots[slot].status != ONGOING for slot, epoch in prepared):
        yield from failed(settings, state, index, f"{what}: a transaction is gone, raises")
        return
    if Mistake.COMMIT_INITIALIZES in settings.mistakes:
        state = initialize(settings, state, DRIVER)
        driver = driver._replace(epoch=NOW)
    written = begin(state, DRIVER, driver.epoch, Decision(batch, driver.tasks, prepared))
    if written is None:
        yield from failed(settings, state, index, f"{what}: fenced, raises")
        return
    written = with_driver(written, index, driver._replace(step="end"))
    if _missed(settings, state, driver):
        yield from failed(settings, written, index, f"{what}: began with another decision, raises")
    else:
        yield f"{what}: everything is open, writes the decision", written


def _missed(settings: Settings, state: State, driver: Driver) -> bool:
    """By what lies before its own decision, which no leader that was replaced has."""
    if Mistake.DECISION_UNCHECKED in settings.mistakes or Mistake.SHARED_PARTITION in settings.mistakes:
        return False
    found = state.last_decision or NOTHING
    return (found.batch, found.tasks) != (driver.last.batch, driver.last.tasks)


def end_decision(settings: Settings, state: State, index: int) -> Iterator[Step]:
    driver = state.drivers[index]
    what = f"driver {index} decides batch {driver.batch}"
    then, accepted, _ = end(settings, state, DRIVER, driver.epoch, is_commit=True)
    if accepted:
        ending = then.drivers[index]._replace(step="ending", todo=prepared_in(driver.outcomes))
        yield f"{what}: accepted", with_driver(then, index, ending)
        if may_strike(state, "lost") and then != state:
            yield f"{what}: accepted, and the RESPONSE IS LOST", struck(then, "lost")
    else:
        yield from failed(settings, state, index, f"{what}: refused, raises")
    if may_strike(state, "lost") and driver.epoch == NOW and state.driver_id.status == ONGOING:
        late = sent_too_late(state, DRIVER, is_commit=True)
        yield from failed(settings, late, index, f"{what}: the REQUEST IS LATE, and given up")


def settle(settings: Settings, state: State, index: int) -> Iterator[Step]:
    driver = state.drivers[index]
    what = f"driver {index} gives batch {driver.batch} up"
    if Mistake.ABORT_LOOKS in settings.mistakes:
        last = state.last_decision
        if last is not None and last.batch == driver.batch:
            yield from gone(state, index, f"{what}: sees a decision, ends")
        else:
            yield f"{what}: sees no decision", with_driver(state, index, driver._replace(step="abort"))
        return
    then, accepted, _ = end(settings, state, DRIVER, driver.epoch, is_commit=False)
    # Below transaction.version 2 an abort where nothing has begun is refused, and the id described.
    if accepted or (driver.epoch == NOW and state.driver_id.status == EMPTY):
        yield (
            f"{what}: it is not decided",
            with_driver(then, index, then.drivers[index]._replace(step="abort")),
        )
    else:
        yield from gone(then, index, f"{what}: it may be decided, ends")
    if may_strike(state, "lost") and driver.epoch == NOW and state.driver_id.status == ONGOING:
        late = sent_too_late(state, DRIVER, is_commit=False)
        yield from gone(late, index, f"{what}: the REQUEST IS LATE, and given up")
