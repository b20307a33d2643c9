"""Rows of a task on their way to Kafka, in the Python worker of an executor.

Batches go to the producer as whole columns, which blocks while its buffer is full; their receipts are looked at with
every batch, so that a send that failed ends the task then and not after the last row. At the end everything is waited
for. Which columns make a record is sink_columns.py's.

Invariant: when `send_rows` returns, every row is acknowledged. When it raises, nothing of this attempt is left in the
client that the next task finds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from time import monotonic
from typing import Final

import pyarrow

from ottla.client.blocking.client import Client
from ottla.client.produce.batch_delivery import BatchDelivery, PartlySentError
from ottla.errors import DeliveryTimeoutError, KafkaError
from ottla.spark import clients
from ottla.spark.client_options import sink_config
from ottla.spark.options import SinkOptions
from ottla.spark.partitioner_option import partitioner
from ottla.spark.receipts import Receipts
from ottla.spark.sent_rows import Sent, SentRows, named
from ottla.spark.sink_columns import SinkColumns

_LOOK_EVERY: Final = 1.0
"""Seconds: while one receipt is waited for, another may have failed."""


class SendError(KafkaError):
    """Rows of a task were not stored, or not certainly; the first error is the cause."""


def send_rows(batches: Iterator[pyarrow.RecordBatch], options: SinkOptions, columns: SinkColumns) -> SentRows:
    """Sends all rows and waits until they are stored; a task without rows asks nothing of Kafka."""
    config, chosen = sink_config(options.kafka), partitioner(options.kafka)
    sender: _Sender | None = None
    try:
        for batch in batches:
            if batch.num_rows == 0:
                continue
            if sender is None:
                sender = _Sender(clients.client(config, chosen), columns)
            sender.send(batch)
        return SentRows({}) if sender is None else sender.finish()
    except BaseException:
        if sender is not None:
            sender.give_up()
            clients.discard(config, chosen)
        raise


class _Sender:
    """The rows of one task, and the receipts that are open."""

    def __init__(self, client: Client, columns: SinkColumns) -> None:
        self._client = client
        self._columns = columns
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
            # What was sent before may be what is wrong: the first error is the one to tell.
            self._check()
            raise SendError(
                f"{batch.num_rows} rows cannot be sent to {named(tables)}: {_told(error)}"
            ) from error
        for topic, records in tables.items():
            self._sent[topic] = self._sent.get(topic, Sent()) + Sent(records.num_rows, records.nbytes)
        self._check()

    def finish(self) -> SentRows:
        """Waits for everything."""
        patience = self._client.config.delivery_timeout_ms / 1000
        give_up_at = monotonic() + patience
        while self._open:
            if self._wait(self._open.oldest):
                give_up_at = monotonic() + patience
            self._check()
            if self._open and monotonic() > give_up_at:
                raise self._failure(self._open.oldest.topic, _silence(patience))
        return SentRows(self._sent)

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
            f"rows could not be written to topic {topic}: {_told(error)}. Of {self._open.rows} rows of this task it "
            "is not certain whether they are stored, others are; if Spark tries the task again, it sends all of them "
            "again"
        )
        failure.__cause__ = error
        return failure

    def give_up(self) -> None:
        """What is certainly not stored must not go out any more: the attempt that comes next sends it again."""
        with suppress(KafkaError):
            self._client.abort_buffered()


def _silence(seconds: float) -> DeliveryTimeoutError:
    """The client goes on asking, for whoever must know; a task that is tried again must not."""
    return DeliveryTimeoutError(
        f"no broker has told for {seconds:g} seconds whether they are stored; kafka.delivery.timeout.ms says how "
        "long to wait",
        may_be_stored=True,
    )


def _told(error: BaseException) -> str:
    """With its notes, which say of which topic it is, and the option's name as it is in Spark."""
    reason = error.__cause__ if isinstance(error, PartlySentError) else error
    limit = getattr(reason, "limit", None)
    option = [f"the option for that is kafka.{limit.replace('_', '.')}"] if isinstance(limit, str) else []
    return "; ".join([str(error), *getattr(reason, "__notes__", ()), *option])
