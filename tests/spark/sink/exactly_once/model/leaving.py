"""How a driver leaves a batch: it ends, or fails and has what was prepared aborted, or its commit has returned."""

from __future__ import annotations

from collections.abc import Iterator

from tests.spark.sink.exactly_once.model.settings import Form, Mistake, Settings
from tests.spark.sink.exactly_once.model.state import SKIPPED, SLOTS, Driver, Listed, State, Step, replaced
from tests.spark.sink.exactly_once.model.task import let_go


def with_driver(state: State, index: int, driver: Driver) -> State:
    return state._replace(drivers=replaced(state.drivers, index, driver))


def gone(state: State, index: int, what: str) -> Iterator[Step]:
    """The driver has ended, in whatever way."""
    driver = state.drivers[index]
    rest = state._replace(drivers=(*state.drivers[:index], *state.drivers[index + 1 :]))
    yield from let_go(rest, driver, what)


def failed(settings: Settings, state: State, index: int, what: str) -> Iterator[Step]:
    """A task has failed, or the commit: Spark has the sink abort what it is told that was prepared."""
    driver = state.drivers[index]
    told = driver.outcomes
    if driver.step == "run" and settings.form is Form.FOREACH_BATCH:
        # What the other tasks have returned is lost with the job.
        told = ()
    prepared = prepared_in(told)
    if not prepared:
        yield from gone(state, index, f"{what}, ends")
        return
    for label, then in let_go(state, driver, what):
        aborts = driver._replace(
            step="settle", todo=prepared, attempts=(), outcomes=(), has_lost=False, kept=()
        )
        yield label, with_driver(then, index, aborts)


def prepared_in(outcomes: tuple[int | None, ...]) -> tuple[Listed, ...]:
    return tuple(
        Listed(slot, epoch) for slot, epoch in enumerate(outcomes) if epoch is not None and epoch != SKIPPED
    )


def returned(settings: Settings, driver: Driver) -> Driver:
    kept: tuple[int | None, ...] = ()
    if Mistake.EPOCH_KEPT in settings.mistakes:
        epochs = dict(prepared_in(driver.outcomes))
        kept = tuple(epochs.get(slot) for slot in range(SLOTS))
    return Driver("done", driver.batch, driver.epoch, kept=kept)
