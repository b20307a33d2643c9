"""Names for batch writes, which have no checkpoint to keep one: a bounded pool, of which each write leases one.

A lease is an open transaction of the driver's id of its name, which becomes the transaction of the decision. So it
ends with the decision, with an abort, or, after a crash, with its timeout: no process has to clean up, and a name
that has an open transaction is taken. The record that opens it lies in a topic of the pool, in a partition of
its own: the process that commits is another one and begins the decision's partition with sequence 0.

Invariant: two writes that take the same name at once are told apart by the driver's epoch. The one that was first is
fenced, before its tasks begin if it sees it then, and takes another name.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ottla.client.topic_partition import TopicPartition
from ottla.client.transactions.prepared import PreparedTransaction
from ottla.errors import (
    KafkaError,
    TopicAlreadyExistsError,
    TransactionError,
    UnknownTopicOrPartitionError,
)
from ottla.spark.sink.exactly_once.control_topic import ensure_control_topic, produce_control
from ottla.spark.sink.exactly_once.driver import largest_timeout_ms, start_batch
from ottla.spark.sink.exactly_once.endings import ONGOING, described, end_all
from ottla.spark.sink.exactly_once.errors import SinkError, SinkFencedError
from ottla.spark.sink.exactly_once.names import SinkNames
from ottla.spark.sink.exactly_once.sweep import check_current
from ottla.spark.sink.exactly_once.values import BatchStart, SinkDriver

if TYPE_CHECKING:
    from ottla.client.admin.results import TransactionDescription
    from ottla.client.client import AsyncClient

_logger = logging.getLogger("ottla.spark.sink")

MOST_LEASES: Final = 16
_KEY: Final = b"lease"
_RELEASE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Lease:
    """What a batch write goes by: the start of its batch, and the ids that stand for a query's."""

    start: BatchStart
    query_id: str
    batch_id: int


class NoLeaseError(SinkError):
    """As many batch writes as the pool has names are under way, or have crashed not long ago."""


async def take_lease(
    kafka: AsyncClient,
    pool: str,
    *,
    control_topic: str = "",
    most: int = MOST_LEASES,
    timeout_ms: int | None = None,
    replication_factor: int = -1,
) -> Lease:
    """Starts a batch under a free name of the pool, after what its last holder has decided is finished."""
    whole = SinkNames(pool, control_topic)
    partitions = await _ensure_pool_topic(kafka, whole, most, replication_factor)
    timeout_ms = await largest_timeout_ms(kafka) if timeout_ms is None else timeout_ms
    names_there_are = min(most, partitions)
    # In order, so that few names come to be, and what a crashed write has decided is soon finished by another.
    for number in range(names_there_are):
        names = SinkNames(f"{pool}-{number}", control_topic and f"{control_topic}-{number}")
        # Before it is looked whether the name is free, so that little time passes until it is taken.
        await ensure_control_topic(kafka, names, replication_factor=replication_factor)
        known = (await described(kafka, [names.driver_id])).get(names.driver_id)
        if known is not None and known.state == ONGOING:
            continue
        try:
            start = await start_batch(kafka, names, timeout_ms=timeout_ms)
            if not _is_next(known, start.driver):
                # Another write has taken the name since: it is fenced now, but its tasks may still run.
                continue
            await _open(kafka, start, TopicPartition(whole.control_topic, number))
            await check_current(kafka, names, start.driver)
        except (SinkFencedError, TransactionError) as error:
            _logger.info("lease %s was taken by another write: %s", names.sink_id, error)
            continue
        last = start.last
        return Lease(start, names.sink_id, 0 if last is None else last.batch_id + 1)
    raise NoLeaseError(
        f"all {names_there_are} names of pool {pool!r} are taken: as many writes are under way, or have crashed and "
        "are held until the timeout of their transactions. Wait for one of them, or set another ottla.sink.id for "
        "this write"
    )


def _is_next(known: TransactionDescription | None, driver: SinkDriver) -> bool:
    """Whether no other driver has been initialized since the name was looked at."""
    if known is None:
        return driver.epoch == 0
    return driver == (known.producer_id, known.producer_epoch + 1)


async def _ensure_pool_topic(kafka: AsyncClient, whole: SinkNames, most: int, replication_factor: int) -> int:
    try:
        return len((await kafka.admin.describe_topic(whole.control_topic)).partitions)
    except UnknownTopicOrPartitionError:
        pass
    try:
        await kafka.admin.create_topic(
            whole.control_topic, most, replication_factor, configs={"cleanup.policy": "compact"}
        )
    except TopicAlreadyExistsError:
        _logger.debug("%s was made by another write", whole.control_topic)
    return most


async def _open(kafka: AsyncClient, start: BatchStart, partition: TopicPartition) -> None:
    """Opens the driver's transaction, and leaves it to the process that commits."""
    transaction = await kafka.begin_transaction()
    try:
        await produce_control(kafka, partition, _KEY, start.names.sink_id.encode())
        await transaction.prepare()
    except KafkaError:
        # The client is to take another name, for which nothing of this one may be open.
        with suppress(TransactionError):
            await transaction.abort()
        raise


async def release_lease(kafka: AsyncClient, start: BatchStart) -> None:
    """Gives the name back, if the write has decided nothing; otherwise the decision has done it."""
    own = PreparedTransaction(start.names.driver_id, *start.driver)
    [ending] = await end_all(kafka, [own], commit=False, patience=_RELEASE_S)
    if ending.error is not None and not ending.is_refused:
        _logger.info("%s is held until its timeout: %s", start.names.sink_id, ending.error)
