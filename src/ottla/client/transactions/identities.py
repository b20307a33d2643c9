"""TransactionalIds: what sinks and the appending side see of the transactional producer.

A sink takes the identity for each batch from here, and gets none where the batch has to wait: for a transaction to
begin, for the coordinator to be told of its partition, or for the markers of the last transaction (marker_pause.py).
It is drained again when that has changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla.client.produce.producer_id import ProducerIdentity
from ottla.client.topic_partition import TopicPartition
from ottla.client.transactions.machine import ADDED_BY_LEADER, TransactionMachine, TransactionStatus
from ottla.client.transactions.marker_pause import MarkerPause
from ottla.errors import TransactionAbortedError
from ottla.runtime import Clock, Timer

_PRODUCE_OF_CLIENT: Final = 11
"""From version 12 on a Produce request adds its partitions to the transaction (KIP-890)."""
_STOPPED: Final = (
    TransactionStatus.ABORTING,
    TransactionStatus.ABORTABLE_ERROR,
    TransactionStatus.FATAL_ERROR,
)


class TransactionalIds:
    """The identities of a client with a transactional id."""

    def __init__(
        self,
        machine: TransactionMachine,
        clock: Clock,
        add_soon: Callable[[], None],
        resume: Callable[[], None],
    ) -> None:
        """`add_soon()` has the coordinator told of the partitions that wait for it, `resume()` the sinks drained."""
        self.last_error: BaseException | None = None
        """Why nothing can be sent yet, for what is overdue."""
        self.transactional_id: str | None = machine.transactional_id
        self.pause = MarkerPause()
        self._machine = machine
        self._clock = clock
        self._add_soon = add_soon
        self._resume = resume
        self._timer: Timer | None = None
        self._is_closed = False

    def use(self, machine: TransactionMachine) -> None:
        """The client has taken another transactional id."""
        machine.on_closed, self._machine.on_closed = self._machine.on_closed, None
        self._machine = machine
        self.transactional_id = machine.transactional_id

    @property
    def most_version(self) -> int | None:
        """The highest version of Produce that this transaction may use."""
        return None if self._machine.version >= ADDED_BY_LEADER else _PRODUCE_OF_CLIENT

    @property
    def stopped(self) -> BaseException | None:
        """What a batch ends with that would have to be sent again; None while it may be."""
        return self.why_aborted() if self._machine.status in _STOPPED else None

    def why_aborted(self) -> TransactionAbortedError:
        """For a record that is not going to be committed."""
        machine = self._machine
        why = "" if machine.error is None else f" because of: {machine.error}"
        word = "has to be aborted" if machine.status is TransactionStatus.ABORTABLE_ERROR else "was aborted"
        error = TransactionAbortedError(
            f"the record was not delivered: its transaction {word}{why}", may_be_stored=False
        )
        error.__cause__ = machine.error
        return error

    @property
    def may_forget(self) -> bool:
        """Whether the sequences of a partition may be: not while the identity that they go with is used further."""
        machine = self._machine
        return machine.version >= ADDED_BY_LEADER and not machine.may_send

    def identity_for(self, topic: str, partition: int) -> ProducerIdentity | None:
        machine = self._machine
        if machine.is_first_produce and not self._is_closed:
            now = self._clock.monotonic()
            if self.pause.left(now):
                return None
            self.pause.sent(now)
        return machine.identity_for(TopicPartition(topic, partition))

    def want(self, other_than: int | None = None) -> None:
        """A sink has got none."""
        machine = self._machine
        if machine.to_add():
            self._add_soon()
        elif machine.is_first_produce and self._timer is None and not self._is_closed:
            left = self.pause.left(self._clock.monotonic())
            self._timer = self._clock.call_later(left, self._pause_over)

    def _pause_over(self) -> None:
        self._timer = None
        self._resume()

    def delivered(self, now: float) -> None:
        """A batch is."""
        self.pause.delivered(now)

    def close(self) -> None:
        """Nothing is held back any more."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._pause_over()

    def leave(self, used: ProducerIdentity | None, retired_id: int | None) -> None:
        """A partition is forgotten: the next transaction has another identity anyway."""

    def check_open(self) -> None:
        """Raises unless a record can be produced now; in the thread that produces."""
        self._machine.check_open()

    def on_closed(self, callback: Callable[[], object]) -> None:
        """Has it called, on the loop, whenever `check_open` has begun to raise."""
        self._machine.on_closed = callback
