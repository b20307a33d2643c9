"""What a query that is gone has left, as values; and how to finish it, or to abort it, without the query.

Looking changes nothing. Both ways to end it take the sink over first, as a new driver would: a query that still runs
is fenced, and fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ottla.client.topic_partition import TopicPartition
from ottla.client.transactions.prepared import PreparedTransaction
from ottla.errors import UnknownTopicOrPartitionError
from ottla.spark.sink.exactly_once.control_records import DECISION_KEY, BatchDecision, SlotMarker
from ottla.spark.sink.exactly_once.control_topic import (
    last_decision,
    last_marker,
    produce_control,
    slots_of,
)
from ottla.spark.sink.exactly_once.driver import finish_decision, initialize_driver, largest_timeout_ms
from ottla.spark.sink.exactly_once.endings import ONGOING, described, end_all, side_by_side
from ottla.spark.sink.exactly_once.errors import SinkError
from ottla.spark.sink.exactly_once.names import SinkNames
from ottla.spark.sink.exactly_once.sweep import check_current, check_undecided, sweep

if TYPE_CHECKING:
    from ottla.client.client import AsyncClient


class UnknownSinkError(SinkError):
    """No query has ever written under this sink id, as far as its control topic tells."""


@dataclass(frozen=True, slots=True)
class LeftTransaction:
    """A transaction of a slot that is open."""

    slot: int
    prepared: PreparedTransaction
    started_at: int | None
    """Milliseconds since 1970."""
    timeout_ms: int
    partitions: tuple[TopicPartition, ...]
    """What it has written to: no reader of committed records gets past it there."""
    is_decided: bool
    """The last decision lists it: it will be committed, and must not be aborted."""


@dataclass(frozen=True, slots=True)
class SinkState:
    """A sink at one moment."""

    names: SinkNames
    slots: int
    last: BatchDecision | None
    markers: Mapping[int, SlotMarker]
    """The last one of each slot that has any."""
    open: tuple[LeftTransaction, ...]
    driver_is_open: bool
    """A decision is being written, or the lease of a batch write is held."""
    lost: tuple[int, ...]
    """Slots whose transaction was decided, and is neither open nor committed: the query has to run this batch
    again."""

    @property
    def blocked(self) -> dict[TopicPartition, tuple[int, ...]]:
        """The partitions in which readers of committed records wait, and for which slots."""
        held: dict[TopicPartition, list[int]] = {}
        for left in self.open:
            for partition in left.partitions:
                held.setdefault(partition, []).append(left.slot)
        return {partition: tuple(slots) for partition, slots in sorted(held.items())}

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to do: all that was decided is committed, and nothing is open."""
        return not self.open and not self.lost and not self.driver_is_open


async def sink_state(kafka: AsyncClient, names: SinkNames) -> SinkState:
    """What there is of a sink; UnknownSinkError where there is nothing."""
    try:
        slots = await slots_of(kafka, names)
    except UnknownTopicOrPartitionError as missing:
        raise UnknownSinkError(
            f"sink {names.sink_id!r} has no topic {names.control_topic}: no query has used it on this cluster, or it "
            "has another control topic"
        ) from missing
    last = await last_decision(kafka, names)
    listed = () if last is None else last.transactions
    by_id = {names.slot_id(slot): slot for slot in range(max(slots, 0 if last is None else last.tasks))}
    known = await described(kafka, [*by_id, names.driver_id])
    decided = [prepared for _, prepared in listed]
    left = [
        LeftTransaction(
            by_id[each.transactional_id],
            prepared := PreparedTransaction(each.transactional_id, each.producer_id, each.producer_epoch),
            each.started_at,
            each.timeout_ms,
            tuple(sorted(each.partitions)),
            prepared in decided,
        )
        for each in known.values()
        if each.state == ONGOING and each.transactional_id in by_id
    ]

    async def marker(slot: int) -> SlotMarker | None:
        return await last_marker(kafka, names, slot)

    found = await side_by_side(marker, range(slots))
    markers = {slot: each for slot, each in enumerate(found) if each is not None}
    driver = known.get(names.driver_id)
    return SinkState(
        names,
        slots,
        last,
        markers,
        tuple(sorted(left, key=lambda each: each.slot)),
        driver is not None and driver.state == ONGOING,
        _lost(last, markers, [each.prepared for each in left]),
    )


def _lost(
    last: BatchDecision | None, markers: Mapping[int, SlotMarker], still_open: list[PreparedTransaction]
) -> tuple[int, ...]:
    if last is None:
        return ()
    return tuple(
        slot
        for slot, prepared in last.transactions
        if prepared not in still_open and not last.is_covered_by(markers.get(slot))
    )


async def finish_sink(kafka: AsyncClient, names: SinkNames) -> SinkState:
    """Commits what was decided, and aborts the rest; what is left then."""
    await sink_state(kafka, names)
    driver = await initialize_driver(kafka, names, await largest_timeout_ms(kafka))
    decision = await last_decision(kafka, names)
    if decision is not None:
        await finish_decision(kafka, names, decision)
    slots = await slots_of(kafka, names)
    await sweep(kafka, names, driver, max(slots, 0 if decision is None else decision.tasks))
    return await sink_state(kafka, names)


async def abort_sink(kafka: AsyncClient, names: SinkNames) -> SinkState:
    """Aborts what was not decided; what is left then. What was decided stays open, to be finished."""
    await sink_state(kafka, names)
    driver = await initialize_driver(kafka, names, await largest_timeout_ms(kafka))
    # Only now: a decision that the last driver had under way has landed, or never will.
    state = await sink_state(kafka, names)
    await check_current(kafka, names, driver)
    undecided = [left.prepared for left in state.open if not left.is_decided]
    if undecided:
        await check_undecided(kafka, names, undecided)
        await end_all(kafka, undecided, commit=False)
    return await sink_state(kafka, names)


async def forget_sink(kafka: AsyncClient, names: SinkNames) -> SinkState:
    """Lets another query use the sink id, when all that was decided is committed; what is there then.

    The last decision is written again, with a word that it binds its own query only. So a query that is started from
    the old checkpoint after all still finds what it has written.
    """
    state = await finish_sink(kafka, names)
    if state.lost:
        raise SinkError(
            f"sink {names.sink_id!r} is not forgotten: of batch {state.last and state.last.batch_id} the tasks "
            f"{list(state.lost)} are not committed. Run its query again, which writes them"
        )
    # From here on in the same epoch: a driver that comes meanwhile makes this fail.
    if state.last is not None and not state.last.is_released:
        async with kafka.transaction():
            released = replace(state.last, is_released=True)
            await produce_control(kafka, names.decisions, DECISION_KEY, released.encode())
    return await sink_state(kafka, names)
