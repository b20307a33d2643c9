"""Bugs for the trial of the exactly-once sink to find: the careless readings of its protocol.

A bug is a function that patches the sink for as long as its `MonkeyPatch` lasts.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import pytest

from ottla.client.client import AsyncClient
from ottla.client.transactions.prepared import PreparedTransaction
from ottla.errors import KafkaError
from ottla.spark.sink.exactly_once import driver, recovery, sweep, task
from ottla.spark.sink.exactly_once.control_records import MARKER_KEY, BatchDecision, SlotMarker
from ottla.spark.sink.exactly_once.control_topic import last_marker, produce_control, slots_of
from ottla.spark.sink.exactly_once.endings import PATIENCE_S, described
from ottla.spark.sink.exactly_once.names import SinkNames
from ottla.spark.sink.exactly_once.task import Attempt
from ottla.spark.sink.exactly_once.values import BatchStart, SinkDriver, TaskOutcome
from tests.sim.planted_bugs import Plant

_LONG_ENOUGH: Final = 20.0


async def _do_nothing(*arguments: Any) -> None:
    """In place of a step, or a check."""


# Fencing


async def _known_identity(kafka: AsyncClient, transactional_id: str) -> tuple[int, int] | None:
    """As the last process that was initialized has it."""
    known = (await described(kafka, [transactional_id])).get(transactional_id)
    return None if known is None else (known.producer_id, known.producer_epoch)


def drivers_do_not_initialize(patch: pytest.MonkeyPatch) -> None:
    """But go on in the epoch of the one before."""
    initialize = driver.initialize_driver

    async def adopt(kafka: AsyncClient, names: SinkNames, timeout_ms: int) -> SinkDriver:
        known = await _known_identity(kafka, names.driver_id)
        return await initialize(kafka, names, timeout_ms) if known is None else SinkDriver(*known)

    patch.setattr(driver, "initialize_driver", adopt)


def attempts_do_not_initialize(patch: pytest.MonkeyPatch) -> None:
    """But share the epoch of the one before, and what that has open."""
    initialize = task._initialize

    async def adopt(kafka: AsyncClient, start: BatchStart, slot: int) -> None:
        slot_id = start.names.slot_id(slot)
        known = await _known_identity(kafka, slot_id)
        if known is None:
            await initialize(kafka, start, slot)
        else:
            await kafka.take_transactional_id(slot_id, known)

    patch.setattr(task, "_initialize", adopt)


def commits_initialize(patch: pytest.MonkeyPatch) -> None:
    """A driver that is late takes the sink back."""
    decide = driver._decide

    async def initialize_and_decide(
        kafka: AsyncClient, start: BatchStart, decision: BatchDecision, patience: float
    ) -> None:
        own = await driver.initialize_driver(kafka, start.names, start.timeout_ms)
        await decide(kafka, replace(start, driver=own), decision, patience)

    patch.setattr(driver, "_decide", initialize_and_decide)


# What an attempt writes


def attempts_do_not_flush(patch: pytest.MonkeyPatch) -> None:
    """A batch is decided while its rows are still on their way."""
    prepare = Attempt.prepare

    async def prepare_early(self: Attempt, rows: int) -> TaskOutcome:
        if self.skips or rows == 0:
            return await prepare(self, rows)
        state = self._kafka.transaction_state

        async def prepare_behind() -> None:
            with suppress(KafkaError, TimeoutError):
                async with asyncio.timeout(_LONG_ENOUGH):
                    await prepare(self, rows)

        # The attempt keeps it, as a loop does not.
        self._behind = asyncio.get_running_loop().create_task(prepare_behind())  # type: ignore[attr-defined]
        slot_id = self.start.names.slot_id(self.slot)
        return self._outcome(PreparedTransaction(slot_id, state.producer_id, state.epoch), rows=rows)

    patch.setattr(Attempt, "prepare", prepare_early)


def markers_are_not_of_the_transaction(patch: pytest.MonkeyPatch) -> None:
    prepare = Attempt.prepare

    async def prepare_with_marker(self: Attempt, rows: int) -> TaskOutcome:
        if self.skips or rows == 0:
            return await prepare(self, rows)
        config = self._kafka.config.replace(transactional_id=None)
        async with AsyncClient(config=config, runtime=self._kafka._runtime) as other:
            await _write_marker(self, other)
            await other.flush()
        assert self._transaction is not None
        prepared = await self._transaction.prepare(self._kafka.config.delivery_timeout_ms / 1000)
        self._is_over = True
        return self._outcome(prepared, rows=rows)

    patch.setattr(Attempt, "prepare", prepare_with_marker)


async def _write_marker(attempt: Attempt, kafka: AsyncClient) -> None:
    marker = SlotMarker(attempt.query_id, attempt.batch_id, attempt.slot)
    await produce_control(kafka, attempt.start.names.markers(attempt.slot), MARKER_KEY, marker.encode())


def attempts_skip_by_any_marker(patch: pytest.MonkeyPatch) -> None:
    """Also by that of another query, which has had a batch of this number too."""

    async def is_written(
        kafka: AsyncClient, start: BatchStart, query_id: str, batch_id: int, slot: int
    ) -> bool:
        marker = await last_marker(kafka, start.names, slot)
        return marker is not None and marker.batch_id >= batch_id

    patch.setattr(task, "_is_written", is_written)


def attempts_do_not_look_for_markers(patch: pytest.MonkeyPatch) -> None:
    async def nothing_is_written(*arguments: Any) -> bool:
        return False

    patch.setattr(task, "_is_written", nothing_is_written)
    patch.setattr(Attempt, "_was_written_before", nothing_is_written)


# What a driver decides


def nothing_is_checked_before_it_is_decided(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(driver, "_check_all_open", _do_nothing)


def numbers_of_tasks_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    is_to_be_decided = driver._is_to_be_decided

    def whatever_their_number(start: BatchStart, query_id: str, batch_id: int, tasks: int) -> bool:
        same = start if start.last is None else replace(start, last=replace(start.last, tasks=tasks))
        return is_to_be_decided(same, query_id, batch_id, tasks)

    patch.setattr(driver, "_is_to_be_decided", whatever_their_number)


def commits_return_after_the_decision(patch: pytest.MonkeyPatch) -> None:
    """What is decided is committed, so why look what became of it."""
    commit_listed = driver._commit_listed

    async def nothing_is_lost(*arguments: Any) -> list[int]:
        await commit_listed(*arguments)
        return []

    patch.setattr(driver, "_commit_listed", nothing_is_lost)


def later_markers_are_taken_for_its_own(patch: pytest.MonkeyPatch) -> None:
    """A write that comes back late finds that of another, under the same name.

    It needs a transaction that is lost behind its decision; without the check before that it is lost more often.
    """

    def is_covered_by(self: BatchDecision, marker: SlotMarker | None) -> bool:
        return marker is not None and marker.query_id == self.query_id and marker.batch_id >= self.batch_id

    patch.setattr(BatchDecision, "is_covered_by", is_covered_by)
    nothing_is_checked_before_it_is_decided(patch)


# What is aborted


def aborts_do_not_ask_whether_it_is_decided(patch: pytest.MonkeyPatch) -> None:
    async def never_decided(*arguments: Any) -> bool:
        return True

    patch.setattr(driver, "_is_undecided", never_decided)


def nothing_is_swept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(driver, "sweep", _do_nothing)
    patch.setattr(recovery, "sweep", _do_nothing)


def sweeps_come_before_the_decision_is_finished(patch: pytest.MonkeyPatch) -> None:
    finish_decision = driver.finish_decision

    async def sweep_first(
        kafka: AsyncClient, names: SinkNames, decision: BatchDecision, *, patience: float = PATIENCE_S
    ) -> bool:
        state = kafka.transaction_state
        own = SinkDriver(state.producer_id, state.epoch)
        await sweep.sweep(kafka, names, own, await slots_of(kafka, names))
        return await finish_decision(kafka, names, decision, patience=patience)

    patch.setattr(driver, "finish_decision", sweep_first)
    patch.setattr(sweep, "check_undecided", _do_nothing)


def operators_abort_what_is_decided(patch: pytest.MonkeyPatch) -> None:
    sink_state = recovery.sink_state

    async def nothing_is_decided(kafka: AsyncClient, names: SinkNames) -> recovery.SinkState:
        state = await sink_state(kafka, names)
        return replace(state, open=tuple(replace(left, is_decided=False) for left in state.open))

    patch.setattr(recovery, "sink_state", nothing_is_decided)
    patch.setattr(recovery, "check_undecided", _do_nothing)


PLANTED_IN_THE_SINK: Final[dict[Plant, tuple[tuple[str, ...], tuple[int, ...]]]] = {
    drivers_do_not_initialize: (("seen without a decision",), (15,)),
    attempts_do_not_initialize: (("shared epoch",), (1,)),
    commits_initialize: (("decided and aborted",), (2,)),
    attempts_do_not_flush: (("row missing",), (45,)),
    markers_are_not_of_the_transaction: (("not well again",), (0,)),
    attempts_skip_by_any_marker: (("row missing",), (4,)),
    attempts_do_not_look_for_markers: (("row twice", "marker again"), (3,)),
    nothing_is_checked_before_it_is_decided: (("gone before it was decided",), (16,)),
    numbers_of_tasks_are_not_compared: (("row missing",), (105,)),
    commits_return_after_the_decision: (("row missing",), (3,)),
    later_markers_are_taken_for_its_own: (("row missing",), (365,)),
    aborts_do_not_ask_whether_it_is_decided: (("decided and aborted",), (3,)),
    nothing_is_swept: (("left open",), (0,)),
    sweeps_come_before_the_decision_is_finished: (("decided and aborted",), (5,)),
    operators_abort_what_is_decided: (("decided and aborted",), (25,)),
}
"""Every bug, with the rules that find it, and seeds that have shown it."""
