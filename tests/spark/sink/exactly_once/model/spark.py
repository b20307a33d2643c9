"""Spark, which starts drivers and runs tasks, and all that goes wrong beside the protocol: every next state.

A query that has ended is started again, from the last batch that is not in the log of commits; this is no fault, and
may happen as often as it has to.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.spark.sink.exactly_once.model.coordinator import end, expire, transaction_of
from tests.spark.sink.exactly_once.model.driver import aborted, driver_steps
from tests.spark.sink.exactly_once.model.faults import may_strike, name_of, struck
from tests.spark.sink.exactly_once.model.leaving import failed, gone, with_driver
from tests.spark.sink.exactly_once.model.settings import Form, Settings
from tests.spark.sink.exactly_once.model.state import (
    BATCHES,
    DRIVER,
    NOW,
    ONGOING,
    SLOTS,
    Attempt,
    Driver,
    State,
    Step,
    replaced,
)
from tests.spark.sink.exactly_once.model.task import attempt_steps, first_attempt, is_harmless, orphaned

_COMMITTING = ("commit", "end", "ending")


def next_steps(settings: Settings, state: State) -> Iterator[Step]:
    for what, then in _all_steps(settings, state):
        if then.orphans:
            then = then._replace(
                orphans=tuple(sorted(each for each in then.orphans if not is_harmless(each)))
            )
        yield what, then


def is_good_end(state: State) -> bool:
    """All batches are committed, and the query has ended."""
    return state.committed == BATCHES and not state.drivers


def _all_steps(settings: Settings, state: State) -> Iterator[Step]:
    yield from _starts(settings, state)
    yield from _timeouts(settings, state)
    yield from _late_requests(settings, state)
    for number, orphan in enumerate(state.orphans):
        for what, then, outcome in attempt_steps(settings, state, orphan):
            if isinstance(outcome, Attempt):
                left = replaced(then.orphans, number, then.orphans[number]._replace(attempt=outcome))
            else:
                left = (*then.orphans[:number], *then.orphans[number + 1 :])
            yield f"an orphan: {what}", then._replace(orphans=left)
    for index, driver in enumerate(state.drivers):
        if driver.step == "run":
            yield from _task_steps(settings, state, index)
        elif driver.step == "done":
            yield from _returned(settings, state, index)
        else:
            yield from driver_steps(settings, state, index)
        yield from _crashes(settings, state, index)


# Drivers


def _starts(settings: Settings, state: State) -> Iterator[Step]:
    if state.committed == BATCHES:
        return
    starting = Driver("start", state.committed, settings.oldest)
    then = state._replace(drivers=(*state.drivers, starting), planned=max(state.planned, state.committed + 1))
    what = f"Spark starts a driver, for batch {state.committed}"
    if not state.drivers:
        yield what, then
    elif len(state.drivers) == 1 and state.drivers[0].step != "start" and may_strike(state, "zombie"):
        yield f"{what}, while ANOTHER ONE LIVES", struck(then, "zombie")


def _crashes(settings: Settings, state: State, index: int) -> Iterator[Step]:
    if not may_strike(state, "crash"):
        return
    step = state.drivers[index].step
    yield from gone(struck(state, "crash"), index, f"driver {index} CRASHES at step {step}")
    if settings.form is Form.DATA_SOURCE and step in _COMMITTING:
        what = f"the process that commits for driver {index} CRASHES at step {step}"
        yield from failed(settings, struck(state, "crash"), index, what)


def _returned(settings: Settings, state: State, index: int) -> Iterator[Step]:
    """The batch goes into the log of commits, and the next one into that of offsets: each only once."""
    driver = state.drivers[index]
    batch = driver.batch
    if state.committed > batch:
        yield from gone(state, index, f"driver {index} finds batch {batch} in the log of commits, ends")
        return
    then = state._replace(committed=batch + 1)
    what = f"Spark logs the commit of batch {batch}"
    if batch + 1 == BATCHES or state.planned > batch + 1:
        yield from gone(then, index, f"{what}, and driver {index} ends")
    else:
        starting = Driver("start", batch + 1, driver.epoch, kept=driver.kept)
        yield what, with_driver(then._replace(planned=batch + 2), index, starting)


# Tasks


def _task_steps(settings: Settings, state: State, index: int) -> Iterator[Step]:
    driver = state.drivers[index]
    for slot, attempt in enumerate(driver.attempts):
        if attempt is not None:
            for what, then, outcome in attempt_steps(settings, state, orphaned(driver, slot, attempt)):
                of = then.drivers[index]
                if isinstance(outcome, Attempt):
                    of = of._replace(attempts=replaced(of.attempts, slot, outcome))
                    yield what, with_driver(then, index, of)
                    continue
                of = of._replace(attempts=replaced(of.attempts, slot, None))
                if outcome is None:
                    yield from failed(settings, with_driver(then, index, of), index, f"{what}: the job fails")
                    continue
                of = of._replace(outcomes=replaced(of.outcomes, slot, outcome))
                if None not in of.outcomes:
                    of = of._replace(step="commit", attempts=())
                yield what, with_driver(then, index, of)
        if may_strike(state, "retry"):
            yield from _retries(settings, state, index, slot)


def _retries(settings: Settings, state: State, index: int, slot: int) -> Iterator[Step]:
    """The attempt is lost with its executor, or what it has returned is; another one begins."""
    driver = state.drivers[index]
    attempt = driver.attempts[slot]
    again = driver._replace(
        attempts=replaced(driver.attempts, slot, first_attempt(settings)),
        outcomes=replaced(driver.outcomes, slot, None),
    )
    then = struck(with_driver(state, index, again), "retry")
    if attempt is None:
        yield f"the OUTCOME of task {slot} IS LOST, and it runs again", then
    elif attempt != first_attempt(settings):
        yield f"task {slot} FAILS, and runs again", then
    if attempt is not None and state.left.orphan:
        yield (
            f"task {slot} runs again, and its old ATTEMPT LIVES ON",
            then._replace(
                orphans=(*then.orphans, orphaned(driver, slot, attempt)),
                left=then.left._replace(orphan=then.left.orphan - 1),
            ),
        )


# Brokers


def _timeouts(settings: Settings, state: State) -> Iterator[Step]:
    if may_strike(state, "timeout"):
        for slot in (DRIVER, *range(SLOTS)):
            if transaction_of(state, slot).status == ONGOING:
                yield f"the TIME OF {name_of(slot)} IS UP", struck(expire(settings, state, slot), "timeout")


def _late_requests(settings: Settings, state: State) -> Iterator[Step]:
    for request in state.late:
        slot, is_commit = request
        then = state._replace(late=tuple(each for each in state.late if each != request))
        what = f"a late {'commit' if is_commit else 'abort'} of {name_of(slot)} arrives"
        # It is of the current epoch: otherwise it were not kept.
        if is_commit:
            yield what, end(settings, then, slot, NOW, is_commit=True).state
        else:
            yield what, aborted(settings, then, slot, NOW)
