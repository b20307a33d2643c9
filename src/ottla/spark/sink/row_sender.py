"""Rows of a task on their way to Kafka, in the Python worker of an executor.

Batches go to the producer as whole columns, which blocks while its buffer is full; their receipts are looked at with
every batch, so that a send that failed ends the task then and not after the last row. At the end everything is waited
for. Which columns make a record is in `columns`, what the driver gets to know in `sent_rows`.

Two ways in: `send_rows` for a task that writes at least once, and `RowSender` for one that does so in a transaction,
whose begin and end are elsewhere (`transactional`).

Invariant: when `send_rows` or `RowSender.finish` returns, every row is acknowledged. When `send_rows` raises, nothing
of this attempt is left in the client that the next task finds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from time import monotonic
from typing import Final

import pyarrow

from ottla.client.blocking.client import Client
from ottla.client.produce.batch_delivery import BatchDelivery, PartlySentError
from ottla.errors import DeliveryTimeoutError, KafkaError
from ottla.spark.options.client import partitioner, sink_config
from ottla.spark.options.connector import SinkOptions
from ottla.spark.process import clients
from ottla.spark.sink.columns import SinkColumns
from ottla.spark.sink.sent_rows import Sent, SentRows, named

_LOOK_EVERY: Final = 1.0
"""Seconds: while one receipt is waited for, another may have failed."""
_SENT_AGAIN: Final = "if Spark tries the task again, it sends all of them again"


class SendError(KafkaError):
    """Rows of a task were not stored, or not certainly; the first error is the cause."""


def send_rows(batches: Iterator[pyarrow.RecordBatch], options: SinkOptions, columns: SinkColumns) -> SentRows:
    """Sends all rows and waits until they are stored; a task without rows makes no client."""
    config, chosen = sink_config(options.kafka), partitioner(options.kafka)
    sender: RowSender | None = None
    try:
        for batch in batches:
            if batch.num_rows == 0:
                continue
            if sender is None:
                sender = RowSender(clients.client(config, chosen), columns, _SENT_AGAIN)
            sender.send(batch)
        return SentRows({}) if sender is None else SentRows(sender.finish())
    except BaseException:
        if sender is not None:
            sender.give_up()
            clients.discard(config, chosen)
        raise


class RowSender:
    """The rows of one task, and the receipts that are open."""

    def __init__(self, client: Client, columns: SinkColumns, consequence: str) -> None:
        """`consequence` is what an error says of the rows that are sent already."""
        self._client = client
        self._columns = columns
        self._consequence = consequence
        self._open = Receipts()
        self._sent: dict[str, Sent] = {}

    def send(self, batch: pyarrow.RecordBatch) -> None:
        """Hands the rows over; blocks while there is no room for them."""
        tables = self._columns.by_topic(batch)
        try:
            self._open.add(self._client.produce_batches(tables).values())
        except (KafkaError, ValueError) as error:
            if isinstance(error, PartlySentError):
                self._open.add(error.sent.values())
            # What was sent before may be what is wrong: the first error is the one that the task reports.
            self._check()
            raise SendError(
                f"{batch.num_rows} rows cannot be sent to {named(tables)}: {_reason(error)}"
            ) from error
        for topic, records in tables.items():
            self._sent[topic] = self._sent.get(topic, Sent()) + Sent(records.num_rows, records.nbytes)
        self._check()

    def finish(self) -> dict[str, Sent]:
        """Waits for everything; what was sent, by topic."""
        patience = self._client.config.delivery_timeout_ms / 1000
        give_up_at = monotonic() + patience
        while self._open:
            if self._wait(self._open.oldest):
                give_up_at = monotonic() + patience
            self._check()
            if self._open and monotonic() > give_up_at:
                raise self._failure(self._open.oldest.topic, _silence(patience))
        return self._sent

    def _wait(self, delivery: BatchDelivery) -> bool:
        """Until it is done, or for a moment; whether it is."""
        with suppress(KafkaError, TimeoutError):
            delivery.result(timeout=_LOOK_EVERY)
        return delivery.done()

    def _check(self) -> None:
        """Raises if any receipt has an error."""
        failed = self._open.first_failed()
        if failed is not None and failed.error is not None:
            raise self._failure(failed.topic, failed.error)

    def _failure(self, topic: str, error: BaseException) -> SendError:
        failure = SendError(
            f"rows could not be written to topic {topic}: {_reason(error)}. Of {self._open.rows} rows of this task "
            f"it is not certain whether they are stored, others are; {self._consequence}"
        )
        failure.__cause__ = error
        return failure

    def give_up(self) -> None:
        """What is certainly not stored must not go out any more: the attempt that comes next sends it again."""
        with suppress(KafkaError):
            self._client.abort_buffered()


def _silence(seconds: float) -> DeliveryTimeoutError:
    """The client goes on until the outcome is known; a task, which Spark tries again, must not wait for that."""
    return DeliveryTimeoutError(
        f"for {seconds:g} seconds no broker has said whether they are stored; kafka.delivery.timeout.ms sets how "
        "long to wait",
        may_be_stored=True,
    )


def _reason(error: BaseException) -> str:
    """With its notes, which say of which topic it is, and the option's name as it is in Spark."""
    cause = error.__cause__ if isinstance(error, PartlySentError) else error
    limit = getattr(cause, "limit", None)
    option = [f"the option for that is kafka.{limit.replace('_', '.')}"] if isinstance(limit, str) else []
    return "; ".join([str(error), *getattr(cause, "__notes__", ()), *option])


class Receipts:
    """What a task has handed over and does not know to be stored yet, in the order in which it was handed over.

    A receipt is completed by the thread that runs the client's loop, while the task looks at it here. So `done` is
    read before `error`: the other way round, a failure that comes in between would be forgotten.

    Invariants: one that failed is never forgotten; those that are stored are, wherever they stand, so that a
    partition that hangs does not let them pile up.
    """

    def __init__(self) -> None:
        self._open: list[BatchDelivery] = []

    def __len__(self) -> int:
        return len(self._open)

    @property
    def oldest(self) -> BatchDelivery:
        return self._open[0]

    @property
    def rows(self) -> int:
        return sum(delivery.count for delivery in self._open)

    def add(self, deliveries: Iterable[BatchDelivery]) -> None:
        self._open.extend(deliveries)

    def first_failed(self) -> BatchDelivery | None:
        """Forgets those that are stored; one that has an error, if there is any."""
        still_open = []
        for delivery in self._open:
            is_done = delivery.done()
            if delivery.error is not None:
                return delivery
            if not is_done:
                still_open.append(delivery)
        self._open = still_open
        return None
