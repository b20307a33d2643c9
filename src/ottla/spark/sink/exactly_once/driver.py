"""The driver of a batch: what it does before the tasks, and after them.

    start    initialize the driver's id, which fences an older driver; read the last decision; commit again what it
             lists; sweep. From here on only this driver can decide
    commit   every transaction of the tasks is open: write the decision; commit what it lists
    abort    make sure that no decision can follow; abort what the tasks have prepared

A decision is the one record that makes a batch committed: before it nothing is, after it everything will be. So
`commit_batch` never initializes the driver's id, by which a driver that is late would fence the one that has taken
its place; it goes on as the producer that `start_batch` has initialized, wherever that was.

Invariants: batch ids of decisions never go down. `commit_batch` returns only when every row is visible.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ottla.client.deadline import Deadline
from ottla.client.transactions.prepared import PreparedTransaction
from ottla.errors import (
    BrokerError,
    InvalidTxnStateError,
    KafkaError,
    ProducerLostError,
    TransactionError,
    TransactionPendingError,
    TransactionStateError,
)
from ottla.spark.sink.exactly_once.control_records import DECISION_KEY, BatchDecision, SlotTransaction
from ottla.spark.sink.exactly_once.control_topic import (
    ensure_control_topic,
    last_decision,
    last_marker,
    produce_control,
)
from ottla.spark.sink.exactly_once.endings import PATIENCE_S, described, end_all, is_open, side_by_side
from ottla.spark.sink.exactly_once.errors import (
    ForeignSinkError,
    MismatchingReplayError,
    OutdatedBatchError,
    SinkError,
    TransactionLostError,
    UnknownOutcomeError,
)
from ottla.spark.sink.exactly_once.names import SinkNames
from ottla.spark.sink.exactly_once.sweep import fenced, sweep
from ottla.spark.sink.exactly_once.values import BatchStart, LastDecision, SinkDriver, TaskOutcome

if TYPE_CHECKING:
    from ottla.client.client import AsyncClient

_logger = logging.getLogger("ottla.spark.sink")

_KAFKAS_LARGEST_TIMEOUT_MS: Final = 15 * 60 * 1000
"""The brokers' default of transaction.max.timeout.ms."""
_LARGEST_TIMEOUT_CONFIG: Final = "transaction.max.timeout.ms"
_GIVE_UP_S: Final = 5.0
"""For the abort of a decision that could not be sent: the next driver's initialization ends it as well."""


# Before the tasks


async def start_batch(
    kafka: AsyncClient,
    names: SinkNames,
    *,
    timeout_ms: int | None = None,
    replication_factor: int = -1,
    topic_configs: Mapping[str, object] | None = None,
    patience: float = PATIENCE_S,
) -> BatchStart:
    """Takes the sink over, finishes what the last driver has decided, and sweeps; what the tasks have to know.

    `timeout_ms` is after how long brokers abort a transaction of the sink, the largest that they allow unless it is
    given. `replication_factor` and `topic_configs` are for the control topic, if it is created now.
    """
    timeout_ms = await largest_timeout_ms(kafka) if timeout_ms is None else timeout_ms
    driver = await initialize_driver(kafka, names, timeout_ms)
    # Only now: what the last driver's tasks have added to the topic is counted, and has to be swept.
    slots = await ensure_control_topic(
        kafka, names, replication_factor=replication_factor, configs=topic_configs
    )
    decision = await last_decision(kafka, names)
    last = None
    if decision is not None:
        complete = await finish_decision(kafka, names, decision, patience=patience)
        last = LastDecision(
            decision.query_id, decision.batch_id, decision.tasks, complete, decision.is_released
        )
    # A broker may not have heard of the newest partitions: what was decided has used at least these.
    await sweep(kafka, names, driver, max(slots, 0 if last is None else last.tasks))
    return BatchStart(names, driver, last, timeout_ms, slots)


async def largest_timeout_ms(kafka: AsyncClient) -> int:
    """What brokers allow at most; Kafka's default where they do not tell."""
    try:
        brokers = await kafka.admin.list_brokers()
        configs = await kafka.admin.describe_configs(broker=min(each.node_id for each in brokers))
        return int(configs[_LARGEST_TIMEOUT_CONFIG].value or _KAFKAS_LARGEST_TIMEOUT_MS)
    except (BrokerError, KeyError) as error:
        _logger.info("%s is not known, and taken to be the default: %s", _LARGEST_TIMEOUT_CONFIG, error)
        return _KAFKAS_LARGEST_TIMEOUT_MS


async def initialize_driver(kafka: AsyncClient, names: SinkNames, timeout_ms: int) -> SinkDriver:
    """Fences an older driver; a decision that it had not sent will never be."""
    await kafka.take_transactional_id(names.driver_id, transaction_timeout_ms=timeout_ms)
    try:
        await kafka.init_transactions()
    except KafkaError:
        # What is still repeated in the background would fence this sink's next driver.
        await kafka.take_transactional_id(names.driver_id)
        raise
    state = kafka.transaction_state
    return SinkDriver(state.producer_id, state.epoch)


async def finish_decision(
    kafka: AsyncClient, names: SinkNames, decision: BatchDecision, *, patience: float = PATIENCE_S
) -> bool:
    """Commits all that a decision lists; whether all of it is committed now.

    A transaction that is refused was committed before, which its marker says, or is gone: then its slot has to be
    written again.
    """
    lost = await _commit_listed(kafka, names, decision, patience)
    for slot in lost:
        _logger.warning(
            "sink %r, batch %d: the transaction of task %d was decided, and is gone; its rows are written again",
            names.sink_id,
            decision.batch_id,
            slot,
        )
    return not lost


async def _commit_listed(
    kafka: AsyncClient, names: SinkNames, decision: BatchDecision, patience: float
) -> list[int]:
    """The slots whose transactions are gone."""
    listed = [prepared for _, prepared in decision.transactions]
    endings = await end_all(kafka, listed, commit=True, patience=patience)
    refused: list[int] = []
    for (slot, prepared), ending in zip(decision.transactions, endings, strict=True):
        if ending.is_refused:
            refused.append(slot)
        elif ending.error is not None:
            raise UnknownOutcomeError(
                f"batch {decision.batch_id} of sink {names.sink_id!r} is decided, and whether the transaction of "
                f"task {slot} ({prepared}) is committed is not known after {patience:g} s. Nothing is lost: run the "
                f"query again when the brokers can be reached. The last error was: {ending.error}"
            ) from ending.error

    async def is_lost(slot: int) -> bool:
        return not decision.is_covered_by(await last_marker(kafka, names, slot))

    return [slot for slot, lost in zip(refused, await side_by_side(is_lost, refused), strict=True) if lost]


# After the tasks


async def commit_batch(
    kafka: AsyncClient,
    query_id: str,
    batch_id: int,
    outcomes: Sequence[TaskOutcome | None],
    *,
    patience: float = PATIENCE_S,
) -> None:
    """Decides that the batch is committed, and commits it. When it raises, Spark runs the batch again."""
    tasks = _checked(query_id, batch_id, outcomes)
    start = tasks[0].start
    names = start.names
    if not _is_to_be_decided(start, query_id, batch_id, len(tasks)):
        return
    transactions = tuple(
        SlotTransaction(task.slot, task.prepared) for task in tasks if task.prepared is not None
    )
    if not transactions:
        return
    _warn_if_late(kafka, start, batch_id, tasks)
    await _check_all_open(kafka, names, batch_id, transactions)
    decision = BatchDecision(query_id, batch_id, len(tasks), transactions)
    await _decide(kafka, start, decision, patience)
    lost = await _commit_listed(kafka, names, decision, patience)
    if lost:
        raise TransactionLostError(
            f"batch {batch_id} of sink {names.sink_id!r} is decided, but the transactions of tasks {lost} were gone "
            "before they could be committed: they were open for longer than their timeout "
            f"({start.timeout_ms} ms), or a late attempt of the same task has taken their place. The others are "
            "committed. Run the query again: it writes the rows of these tasks, and no others"
        )


def _checked(query_id: str, batch_id: int, outcomes: Sequence[TaskOutcome | None]) -> list[TaskOutcome]:
    """All tasks of the batch, by slot."""
    tasks = sorted((each for each in outcomes if each is not None), key=lambda each: each.slot)
    if not tasks or len(tasks) != len(outcomes):
        raise SinkError(
            f"batch {batch_id} cannot be committed: of {len(outcomes)} tasks, {len(outcomes) - len(tasks)} have not "
            "said what they have written"
        )
    slots = [each.slot for each in tasks]
    if slots != list(range(len(tasks))):
        raise SinkError(
            f"batch {batch_id} cannot be committed: tasks 0 to {len(tasks) - 1} are meant, not {slots}"
        )
    for each in tasks:
        if (each.query_id, each.batch_id, each.start) != (query_id, batch_id, tasks[0].start):
            raise SinkError(
                f"batch {batch_id} of query {query_id} cannot be committed: task {each.slot} has written batch "
                f"{each.batch_id} of query {each.query_id}, or was started by another driver"
            )
    return tasks


def _is_to_be_decided(start: BatchStart, query_id: str, batch_id: int, tasks: int) -> bool:
    """By what the last decision was when the batch began; False if the batch is committed."""
    last = last_of_query(start, query_id)
    if last is None:
        return True
    if batch_id < last.batch_id:
        raise outdated(start, batch_id)
    if batch_id > last.batch_id:
        return True
    if last.complete:
        return False
    if tasks != last.tasks:
        raise MismatchingReplayError(
            f"batch {batch_id} of sink {start.names.sink_id!r} was decided with {last.tasks} tasks, of which not all "
            f"are committed, and is run again with {tasks}: rows would be lost or doubled. Restore what decides the "
            "number of tasks as it was: spark.sql.shuffle.partitions, a repartition, the options of the source"
        )
    return True


def last_of_query(start: BatchStart, query_id: str) -> LastDecision | None:
    """The decision that batches of this query are compared with. Raises where the sink belongs to another query."""
    last = start.last
    if last is None or last.query_id == query_id:
        return last
    if last.released:
        return None
    raise foreign(start.names, last.query_id, query_id)


def foreign(names: SinkNames, found: str, query_id: str) -> ForeignSinkError:
    return ForeignSinkError(
        f"sink {names.sink_id!r} was used by query {found}, and this is query {query_id}: its batches would be taken "
        "for those of the other one, and skipped. Give a query with a new checkpoint a new sink id, or have this "
        f"one forgotten first (`ottla pipeline recover --sink {names.sink_id} --forget`)"
    )


def outdated(start: BatchStart, batch_id: int) -> OutdatedBatchError:
    assert start.last is not None
    return OutdatedBatchError(
        f"batch {batch_id} of sink {start.names.sink_id!r} is older than the last one that is decided, "
        f"{start.last.batch_id}: the checkpoint is an old copy, or another driver has gone on"
    )


def _warn_if_late(kafka: AsyncClient, start: BatchStart, batch_id: int, tasks: Sequence[TaskOutcome]) -> None:
    took = kafka._runtime.clock.time() - min(each.began_at for each in tasks)
    if took > start.timeout_ms / 2000:
        _logger.warning(
            "batch %d of sink %r took %.0f s so far, and after %.0f s brokers abort what it has written: raise "
            "kafka.transaction.timeout.ms (and transaction.max.timeout.ms of the brokers), or make batches smaller",
            batch_id,
            start.names.sink_id,
            took,
            start.timeout_ms / 1000,
        )


async def _check_all_open(
    kafka: AsyncClient, names: SinkNames, batch_id: int, transactions: Sequence[SlotTransaction]
) -> None:
    known = await described(kafka, [prepared.transactional_id for _, prepared in transactions])
    lost = [
        slot for slot, prepared in transactions if not is_open(known.get(prepared.transactional_id), prepared)
    ]
    if lost:
        raise TransactionLostError(
            f"batch {batch_id} of sink {names.sink_id!r} is not committed: the transactions of tasks {lost} are "
            "gone. They were open for longer than their timeout, or another driver or a late attempt has taken their "
            "place. Nothing of the batch is visible; run the query again"
        )


async def _decide(kafka: AsyncClient, start: BatchStart, decision: BatchDecision, patience: float) -> None:
    """Returns when the decision is committed. An error may leave that open, and then says so."""
    names = start.names
    deadline = Deadline(kafka._runtime.clock, patience)
    await kafka.take_transactional_id(names.driver_id, start.driver, transaction_timeout_ms=start.timeout_ms)
    transaction = await kafka.begin_transaction()
    try:
        written = await produce_control(kafka, names.decisions, DECISION_KEY, decision.encode())
        await kafka.flush(deadline.left())
        await _check_nothing_was_missed(kafka, start, written.offset)
        await transaction.commit(deadline.left())
    except KafkaError as error:
        # From here on nothing may be sent that decides, unless it was sent before.
        try:
            await transaction.abort(_GIVE_UP_S)
        except TransactionPendingError:
            pass
        except TransactionStateError:
            raise UnknownOutcomeError(
                f"whether batch {decision.batch_id} of sink {names.sink_id!r} is decided is not known after "
                f"{patience:g} s. Nothing is lost: run the query again, which finds out. The last error was: {error}"
            ) from error
        except TransactionError as lost:
            raise _undecided(names, decision, lost) from error
        raise _undecided(names, decision, error) from error


async def _check_nothing_was_missed(kafka: AsyncClient, start: BatchStart, before: int) -> None:
    """Whether the decision that this driver has begun with is the last one before its own.

    What was read when the batch began may have come from a leader that was replaced and did not know it. Before this
    driver's own record no decision can come any more: older drivers are fenced, and a newer one fences this.
    """
    found = await last_decision(kafka, start.names, before=before)
    seen = start.last
    is_same = (
        seen is None
        if found is None
        else seen is not None
        and (seen.query_id, seen.batch_id, seen.tasks) == (found.query_id, found.batch_id, found.tasks)
    )
    if not is_same:
        raise SinkError(
            f"the last decision of sink {start.names.sink_id!r} is about batch {found and found.batch_id}, and about "
            f"batch {seen and seen.batch_id} when this batch began, as a broker said that had been replaced"
        )


def _undecided(names: SinkNames, decision: BatchDecision, error: KafkaError) -> SinkError:
    if isinstance(error, ProducerLostError):
        return fenced(names)
    return SinkError(
        f"batch {decision.batch_id} of sink {names.sink_id!r} is not committed: the decision could not be written. "
        f"Run the query again. The error was: {error}"
    )


async def abort_batch(
    kafka: AsyncClient, outcomes: Sequence[TaskOutcome | None], *, patience: float = PATIENCE_S
) -> None:
    """Aborts what the tasks of a batch have prepared, if it is certain that no decision lists it."""
    tasks = [each for each in outcomes if each is not None]
    prepared = [each.prepared for each in tasks if each.prepared is not None]
    if not prepared:
        return
    start = tasks[0].start
    if any(each.start != start for each in tasks):
        raise SinkError("the tasks of a batch that is to be aborted were started by several drivers")
    if not await _is_undecided(kafka, start, prepared, patience):
        _logger.warning(
            "what the tasks of a batch of sink %r have prepared is left open: a decision may list it, which the next "
            "driver finds out",
            start.names.sink_id,
        )
        return
    for each, ending in zip(
        prepared, await end_all(kafka, prepared, commit=False, patience=patience), strict=True
    ):
        if not ending.is_done:
            _logger.info("%s was not aborted: %s", each, ending.error)


async def _is_undecided(
    kafka: AsyncClient, start: BatchStart, prepared: Sequence[PreparedTransaction], patience: float
) -> bool:
    """Whether the driver of this batch has certainly not decided, and never will."""
    own = PreparedTransaction(start.names.driver_id, *start.driver)
    [ending] = await end_all(kafka, [own], commit=False, patience=patience)
    if ending.is_done:
        # Below transaction.version 2 the end of a decision leaves the epoch as it is. Where the version was raised
        # since, the coordinator accepts this abort also behind the decision: as that of an empty transaction.
        decision = await last_decision(kafka, start.names)
        return decision is None or not any(each in prepared for _, each in decision.transactions)
    if ending.error is None or not isinstance(ending.error.__cause__, InvalidTxnStateError):
        return False
    # Below transaction.version 2 this also answers an abort where nothing has begun, as if a task has failed.
    known = (await described(kafka, [own.transactional_id])).get(own.transactional_id)
    return (
        known is not None
        and known.state == "Empty"
        and (known.producer_id, known.producer_epoch) == start.driver
    )
