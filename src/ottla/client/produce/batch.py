"""One batch on its way to the broker, as the loop sees it: how often it was sent, and what is known of its fate.

Everything here belongs to the loop. The bytes, and the receipts of the records, are the native EncodedBatch's.

A batch may end in an error at any time as far as the caller is concerned, but an idempotent producer has to know
what that means: `is_in_flight` while a request with it has no response, `is_ambiguous` once such a request ended
without a response that says whether the batch is stored. A batch that is neither has certainly not been stored.
"""

from __future__ import annotations

from typing import Final, Protocol

from ottla.client.produce.producer_id import NO_PRODUCER, ProducerIdentity
from ottla.errors import AbortedError, TransactionAbortedError
from ottla.hooks import ProducedBatch
from ottla.wire.records import EncodedBatch

NO_SEQUENCE: Final = -1


class BatchListener(Protocol):
    """What counts batches until all are done: a flush, the receipt of a table."""

    @property
    def is_over(self) -> bool:
        """Whether it need not be notified any more."""

    def on_split(self, parts: int) -> None:
        """One batch that is counted has become so many."""

    def on_done(self, batch: ProducerBatch, base_offset: int, error: BaseException | None) -> None: ...


class ProducerBatch:
    """A batch that no record is added to any more."""

    __slots__ = (
        "attempts",
        "encoded",
        "identity",
        "is_ambiguous",
        "is_compressed",
        "is_in_flight",
        "last_error",
        "listeners",
        "node_id",
        "opened_at",
        "sealed_at",
        "sequence",
        "written_at",
    )

    def __init__(self, encoded: EncodedBatch, opened_at: float) -> None:
        self.encoded = encoded
        self.opened_at = opened_at
        self.identity: ProducerIdentity = NO_PRODUCER
        self.sequence = NO_SEQUENCE
        self.attempts = 0
        self.is_compressed = False
        """By a thread, before it is sealed."""
        self.is_in_flight = False
        self.is_ambiguous = False
        self.last_error: BaseException | None = None
        self.listeners: list[BatchListener] = []
        self.node_id = -1
        self.sealed_at: float | None = None
        self.written_at: float | None = None

    @property
    def may_be_stored(self) -> bool:
        return self.is_in_flight or self.is_ambiguous

    @property
    def is_done(self) -> bool:
        return self.encoded.completed

    def complete(self, base_offset: int, log_append_time: int, error: BaseException | None) -> bool:
        """Completes the records' receipts, then notifies the listeners; False if that was done before."""
        if not self.encoded.complete(base_offset, log_append_time, error):
            return False
        for listener in self.listeners:
            listener.on_done(self, base_offset, error)
        return True

    def final_error(self, error: BaseException) -> BaseException:
        """The error for the receipts when the batch is given up: it says so if an earlier attempt may be stored."""
        if not self.is_ambiguous or getattr(error, "may_be_stored", False):
            return error
        if isinstance(error, TransactionAbortedError):
            # Stored or not, no reader of committed records gets to see it.
            return error
        # The error is about the last attempt only, and a program that produces the record again must know that.
        ambiguous = AbortedError(
            f"a record for {self.encoded.topic}-{self.encoded.partition} was given up and may be stored by an "
            f"earlier try; the last one ended with: {error}",
            may_be_stored=True,
        )
        ambiguous.__cause__ = error
        return ambiguous

    def split(self) -> list[ProducerBatch]:
        """Smaller batches with the same records; what is known of the whole holds for each of them."""
        parts = [ProducerBatch(encoded, self.opened_at) for encoded in self.encoded.split()]
        for listener in self.listeners:
            listener.on_split(len(parts))
        for part in parts:
            part.listeners = list(self.listeners)
            part.last_error = self.last_error
        return parts

    def view(self, acknowledged_at: float | None = None) -> ProducedBatch:
        """For hooks."""
        encoded = self.encoded
        # By position: half the time of naming them, and this is done for every batch.
        return ProducedBatch(
            self.node_id,
            encoded.topic or "",
            encoded.partition,
            encoded.count,
            encoded.raw_size,
            encoded.size,
            self.opened_at,
            self.sealed_at,
            self.written_at,
            acknowledged_at,
            self.attempts,
        )
