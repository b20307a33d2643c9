"""The steps of an attempt (`ottla.spark.sink.exactly_once.task`), and of attempts that nobody waits for any more.

    check   is the driver that has started it still the current one
    init    take the slot over
    write   is there a marker of this batch, or of a later one; if not: rows and marker, and leave that open

The last is one step: whatever another attempt does to the slot begins with its initialization, after which this one
cannot write, whether it has read its marker by then or not.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.spark.sink.exactly_once.model.coordinator import begin, initialize
from tests.spark.sink.exactly_once.model.faults import may_strike, struck
from tests.spark.sink.exactly_once.model.settings import Mistake, Settings
from tests.spark.sink.exactly_once.model.state import (
    NOW,
    SKIPPED,
    Attempt,
    Driver,
    Orphan,
    Rows,
    State,
    Step,
)


def first_attempt(settings: Settings, kept: int | None = None) -> Attempt:
    if kept is not None:
        return Attempt("write", kept)
    return Attempt("check", settings.oldest)


def attempt_steps(
    settings: Settings, state: State, of: Orphan
) -> Iterator[tuple[str, State, Attempt | int | None]]:
    """What the attempt may do next: what happens, what there is then, and what has become of it.

    That is the attempt, its outcome (the epoch of what it has prepared, or SKIPPED), or None where it has failed.
    """
    name = f"task {of.slot} of batch {of.batch}"
    if of.attempt.step == "init":
        yield f"{name} takes its slot over", initialize(settings, state, of.slot), Attempt("write", NOW)
    elif of.attempt.step == "write":
        yield from _read(settings, state, of, name)
    elif of.driver == NOW:
        yield f"{name} finds its driver current", state, Attempt("init", of.attempt.epoch)
    else:
        yield f"{name} finds its driver replaced", state, None


def _read(
    settings: Settings, state: State, of: Orphan, name: str
) -> Iterator[tuple[str, State, Attempt | int | None]]:
    marker = state.markers[of.slot]
    seen = [(marker, state)]
    if may_strike(state, "stale"):
        seen += [(older, struck(state, "stale")) for older in range(-1, marker)]
    for found, then in seen:
        what = f"{name} reads marker {found}" + ("" if then is state else ", from a LEADER THAT WAS REPLACED")
        if found < of.batch:
            yield _write(settings, then, of, what)
        elif of.last.batch == of.batch == found or Mistake.ANY_MARKER_SKIPS in settings.mistakes:
            is_listed = Mistake.SKIP_IS_LISTED in settings.mistakes
            yield f"{what}, skips", then, of.attempt.epoch if is_listed else SKIPPED
        else:
            yield f"{what}, which its driver has not decided", then, None


def _write(settings: Settings, state: State, of: Orphan, what: str) -> tuple[str, State, int | None]:
    written = begin(state, of.slot, of.attempt.epoch, Rows(of.batch, of.tasks, False))
    if written is None:
        return f"{what}, and is fenced", state, None
    if _was_written_before(settings, state, of):
        return f"{what}, and finds its rows written after all", state, SKIPPED
    return f"{what}, writes, and leaves its transaction open", written, NOW


def _was_written_before(settings: Settings, state: State, of: Orphan) -> bool:
    """By what lies before its own marker, which no leader that was replaced has."""
    return (
        of.last.batch == of.batch
        and state.markers[of.slot] >= of.batch
        and Mistake.MARKER_UNCHECKED not in settings.mistakes
    )


# Attempts whose driver is gone, or does not wait for them


def orphaned(driver: Driver, slot: int, attempt: Attempt) -> Orphan:
    return Orphan(slot, driver.batch, driver.tasks, driver.last, driver.epoch, attempt)


def let_go(state: State, driver: Driver, what: str) -> Iterator[Step]:
    """Each attempt of the driver ends with it, or lives on, as far as faults are left."""
    running = [
        orphaned(driver, slot, attempt)
        for slot, attempt in enumerate(driver.attempts)
        if attempt is not None and driver.outcomes[slot] is None
    ]
    for chosen in range(1 << len(running)):
        alive = [each for number, each in enumerate(running) if chosen >> number & 1]
        if len(alive) > state.left.orphan:
            continue
        suffix = "".join(f", and its TASK {each.slot} LIVES ON" for each in alive)
        yield (
            what + suffix,
            state._replace(
                orphans=(*state.orphans, *alive),
                left=state.left._replace(orphan=state.left.orphan - len(alive)),
            ),
        )


def is_harmless(orphan: Orphan) -> bool:
    """Whether nothing that the orphan does can be seen by others: it ends at its next step that matters."""
    step, epoch = orphan.attempt
    if step == "check":
        return orphan.driver != NOW
    return step == "write" and epoch != NOW
