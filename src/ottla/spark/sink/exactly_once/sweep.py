"""Transactions that dead attempts have left open: found and aborted, so that no reader waits for them.

A slot that the next batch uses is cleaned by its own task, which initializes the slot's id. This is for the others:
a batch may be narrower than the one before. Only ids of this sink are touched, by the producer id and epoch that were
seen, only while the driver that sweeps is the current one, and only when it is certain that no decision lists them: a
leader that was replaced may have hidden the last one from this driver.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.client.transactions.prepared import PreparedTransaction
from ottla.spark.sink.exactly_once.control_topic import last_decision, store_barrier
from ottla.spark.sink.exactly_once.endings import ONGOING, described, end_all
from ottla.spark.sink.exactly_once.errors import SinkError, SinkFencedError
from ottla.spark.sink.exactly_once.names import SinkNames
from ottla.spark.sink.exactly_once.values import SinkDriver

if TYPE_CHECKING:
    from ottla.client.client import AsyncClient

_logger = logging.getLogger("ottla.spark.sink")


async def sweep(kafka: AsyncClient, names: SinkNames, driver: SinkDriver, slots: int) -> None:
    """Aborts what is open in any slot. Call it when every transaction of the last decision has its outcome.

    What is listed there has ended then, as decided, or was replaced: so whatever is open now is a leftover.
    """
    known = await described(kafka, [names.slot_id(slot) for slot in range(slots)])
    leftovers = [
        PreparedTransaction(each.transactional_id, each.producer_id, each.producer_epoch)
        for each in known.values()
        if each.state == ONGOING
    ]
    if not leftovers:
        return
    # After the slots were looked at: if no other driver had come by then, what was seen there is not one's of its.
    await check_current(kafka, names, driver)
    await check_undecided(kafka, names, leftovers)
    for prepared, ending in zip(leftovers, await end_all(kafka, leftovers, commit=False), strict=True):
        if ending.is_done:
            _logger.info("aborted what was left open by an earlier attempt: %s", prepared)
        else:
            # Refused: it has ended meanwhile. Not known: the next sweep, or its timeout, ends it.
            _logger.warning(
                "%s, left open by an earlier attempt, was not aborted: %s", prepared, ending.error
            )


async def check_undecided(
    kafka: AsyncClient, names: SinkNames, transactions: Sequence[PreparedTransaction]
) -> None:
    """Raises if the last decision lists one of them, where it was thought that none does."""
    decision = await last_decision(kafka, names, before=await store_barrier(kafka, names))
    if decision is not None and any(each in transactions for _, each in decision.transactions):
        raise SinkError(
            f"batch {decision.batch_id} of sink {names.sink_id!r} is decided, which a broker that had been replaced "
            "did not say at first. Nothing is lost: run this again"
        )


async def check_current(kafka: AsyncClient, names: SinkNames, driver: SinkDriver) -> None:
    """Raises if another driver has initialized the sink's driver id since this one has."""
    known = (await described(kafka, [names.driver_id])).get(names.driver_id)
    if known is None or (known.producer_id, known.producer_epoch) != driver:
        raise fenced(names)


def fenced(names: SinkNames) -> SinkFencedError:
    return SinkFencedError(
        f"another driver has taken over sink {names.sink_id!r}, and this one has to stop. If two queries are to run "
        "at once, give each a sink id of its own"
    )
