"""Transactions that dead attempts have left open: found and aborted, so that no reader waits for them.

A slot that the next batch uses is cleaned by its own task, which initializes the slot's id. This is for the others:
a batch may be narrower than the one before. Only ids of this sink are touched, by the producer id and epoch that were
seen, and only while the driver that sweeps is the current one.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.client.transactions.prepared import PreparedTransaction
from ottla.spark.sink.exactly_once.endings import ONGOING, described, end_all
from ottla.spark.sink.exactly_once.errors import SinkFencedError
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
    for prepared, ending in zip(leftovers, await end_all(kafka, leftovers, commit=False), strict=True):
        if ending.is_done:
            _logger.info("aborted what was left open by an earlier attempt: %s", prepared)
        else:
            # Refused: it has ended meanwhile. Not known: the next sweep, or its timeout, ends it.
            _logger.warning(
                "%s, left open by an earlier attempt, was not aborted: %s", prepared, ending.error
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
