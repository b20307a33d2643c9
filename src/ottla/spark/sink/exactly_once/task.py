"""One attempt of a task: it takes its slot over, writes rows and marker in one transaction, and leaves that open.

`begin_attempt` initializes the slot's id exactly once, which fences an older attempt of the same task and aborts what
that has left open. After any error the attempt is over: it must not get another epoch and carry on, since its driver
knows the transaction by its epoch.

Invariant: an epoch is used by one attempt, and named in one outcome, at most.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from ottla.client.transactions.prepared import PreparedTransaction
from ottla.errors import KafkaError
from ottla.spark.sink.exactly_once.control_records import MARKER_KEY, SlotMarker
from ottla.spark.sink.exactly_once.control_topic import ensure_slot, last_marker, produce_control
from ottla.spark.sink.exactly_once.driver import last_of_query
from ottla.spark.sink.exactly_once.errors import OutdatedBatchError
from ottla.spark.sink.exactly_once.sweep import check_current
from ottla.spark.sink.exactly_once.values import BatchStart, TaskOutcome

if TYPE_CHECKING:
    from ottla.client.client import AsyncClient
    from ottla.client.transactions.transaction import AsyncTransaction

_logger = logging.getLogger("ottla.spark.sink")

_GIVE_UP_S: Final = 10.0
"""For the abort of an attempt that has failed: the next attempt's initialization ends it as well."""


async def begin_attempt(
    kafka: AsyncClient, start: BatchStart, *, query_id: str, batch_id: int, slot: int
) -> Attempt:
    """Takes the slot over, unless its rows are written already, and begins a transaction.

    After an error, close the client: what it may still be sending must not come behind the next attempt.
    """
    _check_number("batch id", batch_id)
    _check_number("slot", slot)
    last = last_of_query(start, query_id)
    began_at = kafka._runtime.clock.time()
    if last is not None and (batch_id < last.batch_id or (batch_id == last.batch_id and last.complete)):
        return Attempt(kafka, start, query_id, batch_id, slot, began_at, None)
    # A late attempt of a driver that was replaced must not abort what the new one's has prepared.
    await check_current(kafka, start.names, start.driver)
    if slot >= start.slots:
        await ensure_slot(kafka, start.names, slot)
    await _initialize(kafka, start, slot)
    if await _is_written(kafka, start, query_id, batch_id, slot):
        return Attempt(kafka, start, query_id, batch_id, slot, began_at, None)
    transaction = await kafka.begin_transaction()
    return Attempt(kafka, start, query_id, batch_id, slot, began_at, transaction)


async def _initialize(kafka: AsyncClient, start: BatchStart, slot: int) -> None:
    slot_id = start.names.slot_id(slot)
    await kafka.take_transactional_id(slot_id, transaction_timeout_ms=start.timeout_ms)
    try:
        await kafka.init_transactions()
    except KafkaError:
        # What is still repeated in the background would fence the next attempt.
        await kafka.take_transactional_id(slot_id)
        raise


async def _is_written(kafka: AsyncClient, start: BatchStart, query_id: str, batch_id: int, slot: int) -> bool:
    """By the slot's marker; an error where it says what the last decision does not explain."""
    marker = await last_marker(kafka, start.names, slot)
    # A marker of another query is of one that has let the sink go: the driver has looked at its last decision.
    if marker is None or marker.query_id != query_id or marker.batch_id < batch_id:
        return False
    last = last_of_query(start, query_id)
    if last is not None and batch_id == last.batch_id == marker.batch_id:
        return True
    raise OutdatedBatchError(
        f"task {slot} of batch {batch_id} of sink {start.names.sink_id!r} finds batch {marker.batch_id} written, "
        "which was not decided when this batch began: another driver with this sink id has gone on"
    )


class Attempt:
    """An attempt that has begun. What its caller produces belongs to it, unless it `skips`."""

    def __init__(
        self,
        kafka: AsyncClient,
        start: BatchStart,
        query_id: str,
        batch_id: int,
        slot: int,
        began_at: float,
        transaction: AsyncTransaction | None,
    ) -> None:
        self.start = start
        self.query_id = query_id
        self.batch_id = batch_id
        self.slot = slot
        self._kafka = kafka
        self._began_at = began_at
        self._transaction = transaction
        self._is_over = False

    @property
    def skips(self) -> bool:
        """Whether the rows are written already: the caller must not produce any."""
        return self._transaction is None

    async def prepare(self, rows: int) -> TaskOutcome:
        """Sends everything, with the marker, and leaves the transaction open; `rows` is how many were produced."""
        transaction = self._transaction
        if transaction is None:
            return self._outcome(None, rows=0, skipped=True)
        if rows == 0:
            # Nothing was sent, and nothing is to be committed: a reader need not wait for this task.
            await transaction.abort()
            self._is_over = True
            return self._outcome(None, rows=0)
        marker = SlotMarker(self.query_id, self.batch_id, self.slot)
        written = await produce_control(
            self._kafka, self.start.names.markers(self.slot), MARKER_KEY, marker.encode()
        )
        prepared = await transaction.prepare(self._kafka.config.delivery_timeout_ms / 1000)
        if await self._was_written_before(written.offset):
            await self._kafka.abort_prepared(prepared)
            self._is_over = True
            return self._outcome(None, rows=0, skipped=True)
        self._is_over = True
        return self._outcome(prepared, rows=rows)

    async def _was_written_before(self, before: int) -> bool:
        """Whether the slot has a marker of this batch after all, which a leader that was replaced did not show.

        In any other batch the driver's own look at the decisions finds that out.
        """
        last = last_of_query(self.start, self.query_id)
        if last is None or self.batch_id != last.batch_id:
            return False
        marker = await last_marker(self._kafka, self.start.names, self.slot, before=before)
        return marker is not None and marker.query_id == self.query_id and marker.batch_id >= self.batch_id

    async def fail(self) -> None:
        """The attempt is over without an outcome: aborts what it has open, as far as that is possible."""
        if self._transaction is None or self._is_over:
            return
        self._is_over = True
        try:
            await self._transaction.abort(_GIVE_UP_S)
        except KafkaError as error:
            _logger.info(
                "the transaction of task %d of batch %d is left to the next attempt: %s",
                self.slot,
                self.batch_id,
                error,
            )

    def _outcome(
        self, prepared: PreparedTransaction | None, *, rows: int, skipped: bool = False
    ) -> TaskOutcome:
        return TaskOutcome(
            self.slot, self.start, self.query_id, self.batch_id, prepared, skipped, rows, self._began_at
        )


def _check_number(what: str, given: object) -> None:
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise ValueError(f"{what} {given!r}: a number of 0 or more is needed")
