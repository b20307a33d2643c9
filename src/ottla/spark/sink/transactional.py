"""Exactly once, as Spark's processes call it: the protocol's steps on the client of this process.

| who | calls | step of the protocol |
| --- | --- | --- |
| the driver, before the tasks | `start_rows` | 1 |
| a task | `write_rows` | 2 and 3 |
| the driver, when all tasks are done | `commit_rows` | 4 to 6 |
| the driver, when the job has failed | `abort_rows` | |

A batch write has no query and no checkpoint: `lease_rows` starts it under a name of a pool, and `commit_lease` and
`abort_lease` give the name back.

The protocol itself is in `exactly_once`, coroutines that know neither Spark nor processes. When Spark calls what, is
in `writers` and `foreach_batch`.

Invariant: only a task that has returned its outcome leaves its transaction open; one that fails aborts it, and leaves
no client behind in which there is something of it.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import pyarrow
from pyspark.sql.datasource import WriterCommitMessage

from ottla.client.blocking.client import Client
from ottla.errors import (
    AuthorizationError,
    InvalidTransactionTimeoutError,
    KafkaError,
    UnsupportedApiError,
    UnsupportedVersionError,
)
from ottla.spark.options.client import partitioner, transactional_config
from ottla.spark.options.connector import SinkOptions
from ottla.spark.options.parsing import OptionError
from ottla.spark.process import clients
from ottla.spark.sink.columns import SinkColumns
from ottla.spark.sink.exactly_once.driver import abort_batch, commit_batch, start_batch
from ottla.spark.sink.exactly_once.errors import MismatchingReplayError, SinkError
from ottla.spark.sink.exactly_once.leases import Lease, release_lease, take_lease
from ottla.spark.sink.exactly_once.names import SinkNames
from ottla.spark.sink.exactly_once.task import Attempt, begin_attempt
from ottla.spark.sink.exactly_once.values import BatchStart, TaskOutcome
from ottla.spark.sink.row_sender import RowSender
from ottla.spark.sink.sent_rows import Sent, SentRows

if TYPE_CHECKING:
    from ottla.client.client import AsyncClient
    from ottla.config import ClientConfig

_T = TypeVar("_T")

_ABORTED: Final = (
    "their transaction is aborted, and if Spark tries the task again, it sends all of them in another"
)
_AT_LEAST_ONCE: Final = "or set ottla.delivery to at-least-once, which takes no transactions"
_POOL: Final = "ottla-batch"
_turns: Final[defaultdict[ClientConfig, threading.Lock]] = defaultdict(threading.Lock)
"""A client is one producer at a time, and threads of foreachBatch may be of two queries with one sink id."""
_largest_ms: Final[dict[ClientConfig, int]] = {}
"""The longest timeout of transactions that brokers allow, as they have said when the first batch of a query began."""


class TaskNumber(NamedTuple):
    """Which rows a task writes: those of this query, batch and partition, in every attempt."""

    query_id: str
    batch_id: int
    slot: int


def start_rows(options: SinkOptions, sink_id: str, query_id: str | None) -> BatchStart:
    """On the driver, before any task of the batch: an older driver is fenced, and what it decided is finished."""
    names, timeout_ms, config = SinkNames(sink_id), _timeout_ms(options), _config(options, sink_id)
    known_ms = _largest_ms.get(config) if timeout_ms is None else None

    def start(timeout_ms: int | None) -> BatchStart:
        return _run(options, sink_id, lambda kafka: start_batch(kafka, names, timeout_ms=timeout_ms))

    with _options_to_change(names, timeout_ms):
        try:
            started = start(timeout_ms or known_ms)
        except KafkaError as error:
            if known_ms is None or not _has_cause(error, InvalidTransactionTimeoutError):
                raise
            # Brokers allow less than they did.
            started = start(None)
    _largest_ms[config] = started.timeout_ms
    return started


def lease_rows(options: SinkOptions) -> Lease:
    """The same for a batch write."""
    pool, timeout_ms = options.sink_id or _POOL, _timeout_ms(options)
    with _options_to_change(SinkNames(pool), timeout_ms):
        return _run(options, pool, lambda kafka: take_lease(kafka, pool, timeout_ms=timeout_ms))


def _timeout_ms(options: SinkOptions) -> int | None:
    given = options.kafka.get("transaction.timeout.ms")
    return None if given is None else int(given)


@contextmanager
def _options_to_change(names: SinkNames, timeout_ms: int | None) -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        if (wrong := _option_to_change(error, names, timeout_ms)) is not None:
            raise wrong from error
        raise


def _option_to_change(error: KafkaError, names: SinkNames, timeout_ms: int | None) -> OptionError | None:
    """Where that is what helps."""
    if _has_cause(error, InvalidTransactionTimeoutError):
        return OptionError(
            f"option 'kafka.transaction.timeout.ms' cannot be '{timeout_ms}': brokers allow no more than their "
            "transaction.max.timeout.ms. Lower it, or leave it out, which takes the largest that is allowed"
        )
    refused = (AuthorizationError, UnsupportedApiError, UnsupportedVersionError)
    for cause in _causes(error):
        if isinstance(cause, refused):
            return OptionError(
                f"exactly-once delivery is not possible here: {cause} The sink {names.sink_id} writes in "
                f"transactions whose ids begin with {names.sink_id}-, and to the topic {names.control_topic}, which "
                f"it creates: allow that, {_AT_LEAST_ONCE}"
            )
    return None


def _has_cause(error: BaseException, kind: type[BaseException]) -> bool:
    return any(isinstance(each, kind) for each in _causes(error))


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error itself, and what has led to it."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__


def write_rows(
    batches: Iterator[pyarrow.RecordBatch],
    options: SinkOptions,
    columns: SinkColumns,
    start: BatchStart,
    number: TaskNumber,
) -> SentRows:
    """In a task: sends all rows in one transaction, and leaves that open for the driver."""
    client = _client(options, start.names.sink_id)
    attempt: Attempt | None = None
    try:
        attempt = client.run(lambda kafka: begin_attempt(kafka, start, **number._asdict()))
        sent = _passed_over(batches) if attempt.skips else _sent(batches, client, columns)
        return SentRows(sent, _prepared(client, attempt, sent))
    except BaseException:
        if attempt is not None:
            _give_up(client, attempt)
        clients.discard(client.config, partitioner(options.kafka))
        raise


def commit_rows(options: SinkOptions, messages: Iterable[WriterCommitMessage | None]) -> None:
    """On the driver, when every task has returned: decides that the batch is committed, and commits it."""
    outcomes = [_outcome(message) for message in messages]
    first = next((each for each in outcomes if each is not None), None)
    if first is None:
        raise SinkError(
            "no task has said what it wrote, so that nothing can be committed: Spark runs at least one, also for a "
            "batch without rows"
        )
    _run(
        options,
        first.start.names.sink_id,
        lambda kafka: commit_batch(kafka, first.query_id, first.batch_id, outcomes),
    )


def commit_lease(options: SinkOptions, lease: Lease, messages: Iterable[WriterCommitMessage | None]) -> None:
    commit_rows(options, messages)
    _release(options, lease)


def abort_lease(options: SinkOptions, lease: Lease, messages: Iterable[WriterCommitMessage | None]) -> None:
    abort_rows(options, messages)
    _release(options, lease)


def _release(options: SinkOptions, lease: Lease) -> None:
    """Where nothing was decided, as of a job without rows; otherwise the decision has done it."""
    _run(options, lease.start.names.sink_id, lambda kafka: release_lease(kafka, lease.start))


def check_nothing_missing(start: BatchStart, batch_id: int) -> None:
    """On the driver, for a batch without any task; Spark makes such a one in foreachBatch only."""
    last = start.last
    if last is not None and last.batch_id == batch_id and not last.complete:
        raise MismatchingReplayError(
            f"batch {batch_id} of sink {start.names.sink_id!r} was decided with {last.tasks} tasks, of which not all "
            "are committed, and is run again with none: rows would be lost. Restore what was written of the batch"
        )


def abort_rows(options: SinkOptions, messages: Iterable[WriterCommitMessage | None]) -> None:
    """On the driver, after a failure: what tasks have left open is aborted, unless it may be decided already."""
    outcomes = [each for each in map(_outcome, messages) if each is not None]
    if outcomes:
        _run(options, outcomes[0].start.names.sink_id, lambda kafka: abort_batch(kafka, outcomes))


def _outcome(message: WriterCommitMessage | None) -> TaskOutcome | None:
    """A task that failed has none."""
    return message.outcome if isinstance(message, SentRows) else None


def _config(options: SinkOptions, sink_id: str) -> ClientConfig:
    return transactional_config(options.kafka, sink_id)


def _client(options: SinkOptions, sink_id: str) -> Client:
    return clients.client(_config(options, sink_id), partitioner(options.kafka))


def _run(options: SinkOptions, sink_id: str, step: Callable[[AsyncClient], Awaitable[_T]]) -> _T:
    """A step of the driver. After an error the next one has a client of its own: the state of this is in doubt."""
    client = _client(options, sink_id)
    with _turns[client.config]:
        try:
            return client.run(step)
        except BaseException:
            clients.discard(client.config, partitioner(options.kafka))
            raise


def _sent(batches: Iterator[pyarrow.RecordBatch], client: Client, columns: SinkColumns) -> dict[str, Sent]:
    sender = RowSender(client, columns, _ABORTED)
    for batch in batches:
        if batch.num_rows:
            sender.send(batch)
    return sender.finish()


def _passed_over(batches: Iterator[pyarrow.RecordBatch]) -> dict[str, Sent]:
    """Rows that are stored already. They are taken, as Spark ends the worker of a task that leaves some."""
    for _ in batches:
        pass
    return {}


def _prepared(client: Client, attempt: Attempt, sent: Mapping[str, Sent]) -> TaskOutcome:
    rows = sum(each.rows for each in sent.values())
    return client.run(lambda _kafka: attempt.prepare(rows))


def _give_up(client: Client, attempt: Attempt) -> None:
    """The error that ends the task is what the user is to see; the coordinator ends what this cannot."""
    with suppress(KafkaError, TimeoutError):
        client.abort_buffered()
        client.run(lambda _kafka: attempt.fail())
