"""The steps of a driver (`ottla.spark.sink.exactly_once.driver` and `sweep`), in their order.

start    initialize the driver's id
read     the last decision
finish   commit what it lists, one after the other in any order
look     what is open in any slot
check    is this driver still the current one, and is nothing of what was seen decided
sweep    abort what was seen
run      the tasks (`task`)
commit   compare with the last decision; is everything open; write the decision
end      the EndTxn that decides
ending   commit what it lists
done     `commit_batch` has returned
settle   after a failure: abort the driver's own transaction
abort    ... and, if that was accepted, what the tasks have prepared
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.spark.sink.exactly_once.model.commit import commit, end_decision, settle
from tests.spark.sink.exactly_once.model.coordinator import end, initialize, is_listed
from tests.spark.sink.exactly_once.model.faults import may_strike, name_of, sent_too_late, struck
from tests.spark.sink.exactly_once.model.leaving import failed, gone, returned, with_driver
from tests.spark.sink.exactly_once.model.settings import Mistake, Settings
from tests.spark.sink.exactly_once.model.state import (
    DRIVER,
    NOW,
    ONGOING,
    SKIPPED,
    SLOTS,
    Decision,
    Driver,
    LastBatch,
    Listed,
    Rows,
    State,
    Step,
    replaced,
)
from tests.spark.sink.exactly_once.model.task import first_attempt

_SHIPPED: Final = ("start", "read", "finish", "look", "check", "sweep", "run")
_ORDERS: Final = {
    Mistake.SWEEP_FIRST: ("start", "look", "check", "sweep", "read", "finish", "run"),
    Mistake.SWEEP_UNCHECKED: ("start", "read", "finish", "look", "sweep", "run"),
    Mistake.SWEEP_CHECKED_EARLY: ("start", "read", "finish", "check", "look", "sweep", "run"),
}


def driver_steps(settings: Settings, state: State, index: int) -> Iterator[Step]:
    """What the driver itself may do next; its tasks do the rest of a run."""
    match state.drivers[index].step:
        case "start":
            yield from _start(settings, state, index)
        case "read":
            yield from _read(settings, state, index)
        case "finish":
            yield from _commit_listed(settings, state, index, "finishes")
        case "look":
            yield from _look(settings, state, index)
        case "check":
            yield from _check(settings, state, index)
        case "sweep":
            yield from _abort_listed(settings, state, index, "sweeps")
        case "commit":
            yield from commit(settings, state, index)
        case "end":
            yield from end_decision(settings, state, index)
        case "ending":
            yield from _commit_listed(settings, state, index, "commits")
        case "settle":
            yield from settle(settings, state, index)
        case "abort":
            yield from _abort_listed(settings, state, index, "aborts")


def _next(settings: Settings, state: State, index: int, what: str, driver: Driver) -> Iterator[Step]:
    """The step behind the one that is done; behind the last, the tasks."""
    order = next((_ORDERS[each] for each in settings.mistakes if each in _ORDERS), _SHIPPED)
    step = order[order.index(driver.step) + 1]
    is_check_of_todo = step == "check" and driver.step == "look"
    if not driver.todo and (step in ("finish", "sweep") or is_check_of_todo):
        # Nothing to end: the step behind it is the next one.
        yield from _next(settings, state, index, what, driver._replace(step=step))
    elif step == "run":
        yield from _run(settings, state, index, what, driver)
    else:
        yield what, with_driver(state, index, driver._replace(step=step))


def _start(settings: Settings, state: State, index: int) -> Iterator[Step]:
    driver = state.drivers[index]
    what = f"driver {index} initializes its id, for batch {driver.batch}"
    if Mistake.NO_FENCE not in settings.mistakes or not state.decisions:
        state = initialize(settings, state, DRIVER)
    left = tuple(
        each._replace(content=each.content._replace(is_left=True)) if isinstance(each.content, Rows) else each
        for each in state.slots
    )
    state = state._replace(slots=left)
    yield from _next(settings, state, index, what, driver._replace(epoch=NOW))


def _read(settings: Settings, state: State, index: int) -> Iterator[Step]:
    driver = state.drivers[index]
    seen: list[tuple[Decision | None, State]] = [(_visible(settings, state), state)]
    if may_strike(state, "stale") and state.decisions:
        older = state.decisions[-2] if len(state.decisions) > 1 else None
        seen.append((older, struck(state, "stale")))
    for decision, then in seen:
        what = f"driver {index} reads {decision}"
        if then is not state:
            what += ", from a LEADER THAT WAS REPLACED"
        if decision is None:
            yield from _next(settings, then, index, what, driver)
            continue
        last = LastBatch(decision.batch, decision.tasks, True)
        todo = () if Mistake.NO_RECOVERY in settings.mistakes else decision.listed
        yield from _next(settings, then, index, what, driver._replace(last=last, todo=todo))


def _visible(settings: Settings, state: State) -> Decision | None:
    """The last decision, up to the last stable offset."""
    last = state.last_decision
    if last is None or Mistake.SHARED_PARTITION not in settings.mistakes:
        return last
    # What it lists has written its marker before it: the first one that is open hides the decision.
    if any(epoch == NOW and state.slots[slot].status == ONGOING for slot, epoch in last.listed):
        return state.decisions[-2] if len(state.decisions) > 1 else None
    return last


def _commit_listed(settings: Settings, state: State, index: int, word: str) -> Iterator[Step]:
    """EndTxn(commit) of what a decision lists; a refusal is looked into by its marker."""
    driver = state.drivers[index]
    batch = driver.last.batch if driver.step == "finish" else driver.batch
    for each in driver.todo:
        slot, epoch = each
        what = f"driver {index} {word} batch {batch} in slot {slot}"
        then, accepted, _ = end(settings, state, slot, epoch, is_commit=True)
        if accepted:
            yield from _one_done(settings, then, index, f"{what}: accepted", slot, False)
            if may_strike(state, "lost") and then != state:
                yield f"{what}: accepted, and the RESPONSE IS LOST", struck(then, "lost")
        else:
            marker = state.markers[slot]
            yield from _one_done(
                settings, then, index, f"{what}: refused, marker {marker}", slot, marker < batch
            )
            if marker >= batch and may_strike(state, "stale"):
                stale = f"{what}: refused, no marker by a LEADER THAT WAS REPLACED"
                yield from _one_done(settings, struck(then, "stale"), index, stale, slot, True)
        if may_strike(state, "lost") and epoch == NOW and state.slots[slot].status == ONGOING:
            late = sent_too_late(state, slot, is_commit=True)
            yield from _unknown(settings, late, index, f"{what}: the REQUEST IS LATE, and given up")


def _unknown(settings: Settings, state: State, index: int, what: str) -> Iterator[Step]:
    if state.drivers[index].step == "finish":
        yield from gone(state, index, what)
    else:
        yield from failed(settings, state, index, what)


def _one_done(
    settings: Settings, state: State, index: int, what: str, slot: int, is_lost: bool
) -> Iterator[Step]:
    """One transaction of `todo` has its outcome."""
    driver = state.drivers[index]
    todo = tuple(each for each in driver.todo if each.slot != slot)
    driver = driver._replace(todo=todo, has_lost=driver.has_lost or is_lost)
    if driver.step == "finish" and is_lost and Mistake.RECOVERY_RAISES in settings.mistakes:
        yield from gone(state, index, f"{what}: raises")
    elif todo:
        yield what, with_driver(state, index, driver)
    elif driver.step == "finish":
        last = driver.last._replace(complete=not driver.has_lost)
        yield from _next(settings, state, index, what, driver._replace(last=last, has_lost=False))
    elif driver.step == "sweep":
        yield from _next(settings, state, index, what, driver)
    elif driver.step == "abort":
        yield from gone(state, index, f"{what}, ends")
    elif driver.has_lost:
        yield from failed(
            settings, with_driver(state, index, driver), index, f"{what}: rows are missing, raises"
        )
    else:
        yield what, with_driver(state, index, returned(settings, driver))


def _look(settings: Settings, state: State, index: int) -> Iterator[Step]:
    driver = state.drivers[index]
    slots = range(SLOTS)
    if Mistake.SWEEP_LAST_BATCH in settings.mistakes:
        slots = range(driver.last.tasks)
    leftovers = tuple(Listed(slot, NOW) for slot in slots if state.slots[slot].status == ONGOING)
    what = f"driver {index} finds open: {[slot for slot, _ in leftovers]}"
    yield from _next(settings, state, index, what, driver._replace(todo=leftovers))


def _check(settings: Settings, state: State, index: int) -> Iterator[Step]:
    driver = state.drivers[index]
    if driver.epoch != NOW:
        yield from gone(state, index, f"driver {index} finds itself replaced, ends")
    elif Mistake.SWEEP_UNSURE not in settings.mistakes and any(
        epoch == NOW and is_listed(state, slot) for slot, epoch in driver.todo
    ):
        yield from gone(state, index, f"driver {index} finds a decision that it was not shown, ends")
    else:
        yield from _next(settings, state, index, f"driver {index} finds itself current", driver)


def _abort_listed(settings: Settings, state: State, index: int, word: str) -> Iterator[Step]:
    """EndTxn(abort) of what was seen, or prepared; the outcome does not matter."""
    driver = state.drivers[index]
    for slot, seen in driver.todo:
        epoch = seen
        if driver.step == "sweep" and Mistake.SWEEP_ANY_EPOCH in settings.mistakes:
            epoch = NOW
        what = f"driver {index} {word} slot {slot}"
        then = aborted(settings, state, slot, epoch)
        yield from _one_done(settings, then, index, what, slot, False)
        if may_strike(state, "lost") and epoch == NOW and state.slots[slot].status == ONGOING:
            late = _not_left(sent_too_late(state, slot, is_commit=False), slot)
            yield from _one_done(
                settings, late, index, f"{what}: the REQUEST IS LATE, and given up", slot, False
            )


def aborted(settings: Settings, state: State, slot: int, epoch: int) -> State:
    """EndTxn(abort) by a driver of the sink, which must not strike what is decided."""
    then, _, is_ended = end(settings, state, slot, epoch, is_commit=False)
    if is_ended and slot != DRIVER and is_listed(state, slot):
        return then._replace(broken=f"what is decided was aborted in {name_of(slot)}")
    return then


def _not_left(state: State, slot: int) -> State:
    """It is swept as far as the driver can."""
    transaction = state.slots[slot]
    assert isinstance(transaction.content, Rows)
    content = transaction.content._replace(is_left=False)
    return state._replace(slots=replaced(state.slots, slot, transaction._replace(content=content)))


def _run(settings: Settings, state: State, index: int, what: str, driver: Driver) -> Iterator[Step]:
    if driver.epoch == NOW:
        state = _swept(state)
    last, batch = driver.last, driver.batch
    is_complete = last.complete and Mistake.OWN_MARKERS_ONLY not in settings.mistakes
    if batch < last.batch or (batch == last.batch and is_complete):
        skipping = driver._replace(step="commit", tasks=1, outcomes=(SKIPPED,), kept=())
        yield f"{what}; all tasks skip", with_driver(state, index, skipping)
        return
    for tasks in settings.widths:
        kept = driver.kept or (None,) * SLOTS
        running = driver._replace(
            step="run",
            tasks=tasks,
            attempts=tuple(first_attempt(settings, kept[slot]) for slot in range(tasks)),
            outcomes=(None,) * tasks,
            kept=(),
        )
        yield f"{what}; batch {batch} has {tasks} tasks", with_driver(state, index, running)


def _swept(state: State) -> State:
    """Before the tasks of the current driver, nothing is open that was open when it began."""
    broken = state.broken
    for slot, each in enumerate(state.slots):
        if isinstance(each.content, Rows) and each.content.is_left:
            broken = f"what was left open in slot {slot} was not swept"
            state = _not_left(state, slot)
    return state._replace(broken=broken)
