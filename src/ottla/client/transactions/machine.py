"""TransactionMachine: the transactional producer of a client, as a state machine. Every move of it is here.

    uninitialized -> initializing -> ready -> in transaction -> committing -> ready
                  -> ready, as the producer that another process has initialized
                                                             -> aborting   -> ready
                                                             -> prepared   -> committing, aborting

What goes wrong leads to "abortable error", from which only an abort leads away, or to "fatal error", from which
nothing does. No I/O, no clock: the manager carries out what follows from a state, and says what came of it.

Invariants: one identity, that is producer id and epoch, for all partitions and for a whole transaction. A partition
is sent to only if its coordinator knows, or will be told by the leader (transaction.version 2), that it belongs to
the transaction. Once a request has been sent that may end a transaction, nothing belongs to it any more, and no other
one begins before its outcome is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ottla.client.produce.producer_id import NO_PRODUCER, ProducerIdentity
from ottla.client.topic_partition import TopicPartition
from ottla.client.transactions.error_table import Consequence
from ottla.errors import AbortNeededError, KafkaError, ProducerLostError, TransactionStateError

ADDED_BY_CLIENT: Final = 1
"""Below transaction.version 2 the client says which partitions belong to a transaction, before it sends to them."""
ADDED_BY_LEADER: Final = 2


class TransactionStatus(Enum):
    """What the transactional producer is doing; the words are those of errors."""

    UNINITIALIZED = "uninitialized"
    INITIALIZING = "initializing"
    READY = "ready"
    IN_TRANSACTION = "in transaction"
    PREPARED = "prepared"
    COMMITTING = "committing"
    ABORTING = "aborting"
    ABORTABLE_ERROR = "abortable error"
    FATAL_ERROR = "fatal error"


_S = TransactionStatus

_MOVES: Final[Mapping[TransactionStatus, tuple[TransactionStatus, ...]]] = {
    _S.UNINITIALIZED: (_S.INITIALIZING, _S.READY),
    _S.INITIALIZING: (_S.READY, _S.UNINITIALIZED, _S.FATAL_ERROR),
    _S.READY: (_S.IN_TRANSACTION, _S.INITIALIZING, _S.FATAL_ERROR),
    _S.IN_TRANSACTION: (_S.PREPARED, _S.COMMITTING, _S.ABORTING, _S.ABORTABLE_ERROR, _S.FATAL_ERROR),
    _S.PREPARED: (_S.COMMITTING, _S.ABORTING, _S.ABORTABLE_ERROR, _S.FATAL_ERROR),
    _S.COMMITTING: (_S.READY, _S.ABORTING, _S.ABORTABLE_ERROR, _S.FATAL_ERROR),
    _S.ABORTING: (_S.READY, _S.FATAL_ERROR),
    _S.ABORTABLE_ERROR: (_S.ABORTING, _S.FATAL_ERROR),
    _S.FATAL_ERROR: (),
}
_OPEN: Final = (_S.IN_TRANSACTION, _S.PREPARED, _S.COMMITTING)
"""Records may be on their way."""
_UNSETTLED: Final = (_S.IN_TRANSACTION, _S.COMMITTING, _S.ABORTING, _S.ABORTABLE_ERROR)


@dataclass(frozen=True, slots=True)
class TransactionState:
    """The transactional producer at one moment, for programs, logs and errors."""

    status: TransactionStatus
    transactional_id: str
    producer_id: int
    """-1 before it is initialized."""
    epoch: int
    transaction_version: int
    """2 where leaders add partitions to the transaction, else 1."""
    partitions: tuple[TopicPartition, ...]
    """Those of the open transaction, as far as they have been sent to, or added."""
    error: KafkaError | None
    """What it has to be aborted for, or is of no use any more."""


class TransactionMachine:
    """The transactional producer of one client. Other threads read `status` only."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.status = _S.UNINITIALIZED
        self.identity: ProducerIdentity = NO_PRODUCER
        self.version = ADDED_BY_CLIENT
        self.number = 0
        """Of the transaction that is open, or was last."""
        self.error: KafkaError | None = None
        self.needs_bump = False
        """The next transaction needs an epoch of its own, which only InitProducerId gives."""
        self.is_adopted = False
        """Another process has initialized it, and this one may not."""
        self.is_end_sent = False
        self.groups: dict[str, None] = {}
        """Whose offsets belong to the transaction."""
        self.on_closed: Callable[[], object] | None = None
        """Called when `check_open` has begun to raise."""
        self._wanted: dict[TopicPartition, None] = {}
        self._added: dict[TopicPartition, None] = {}
        self._is_started = False
        self._may_be_started = False

    def _move(self, status: TransactionStatus) -> None:
        if status not in _MOVES[self.status]:
            raise TransactionStateError(
                f"the transactional producer {self.transactional_id!r} is {self.status.value!r}, and cannot become "
                f"{status.value!r} from there"
            )
        self._become(status)

    def _become(self, status: TransactionStatus) -> None:
        was_open, self.status = self.status is _S.IN_TRANSACTION, status
        if was_open and self.on_closed is not None:
            self.on_closed()

    def state(self) -> TransactionState:
        return TransactionState(
            self.status,
            self.transactional_id,
            self.identity.producer_id,
            self.identity.epoch,
            self.version,
            tuple(self._added),
            self.error,
        )

    # Initializing

    @property
    def must_initialize(self) -> bool:
        """Whether it has to be (again), before a transaction can begin."""
        return self.status in (_S.UNINITIALIZED, _S.INITIALIZING) or self.needs_bump

    def initialize(self) -> ProducerIdentity:
        """What InitProducerId is to say: the identity that is to be replaced (KIP-360), or none."""
        self._move(_S.INITIALIZING)
        return self.identity

    def initialized(self, identity: ProducerIdentity, version: int) -> None:
        self._move(_S.READY)
        self.identity, self.version = identity, version
        self.needs_bump = False
        self.error = None

    def adopt(self, identity: ProducerIdentity, version: int) -> None:
        """Goes on as the producer that another process has initialized, with which nothing was sent yet."""
        self._move(_S.READY)
        self.identity, self.version = identity, version
        self.is_adopted = True

    def check_initialize(self) -> None:
        """Raises where InitProducerId would take the id away from the process that has initialized it."""
        if self.is_adopted:
            raise TransactionStateError(
                f"the producer {self.identity} of {self.transactional_id!r} was initialized by another process, and "
                "after an error it does not go on in this one: take a transactional id anew"
            )

    def check_leave(self) -> None:
        """Raises while the client may not take another transactional id: a transaction is open, or in doubt."""
        if self.status in _UNSETTLED:
            raise TransactionStateError(
                f"the client cannot take another transactional id: the transaction of {self.transactional_id!r} has "
                f"not ended ({self.status.value}). Commit, abort or prepare it first"
            )

    def not_initialized(self, error: KafkaError) -> None:
        """Refused for now; the next begin tries again."""
        self._move(_S.UNINITIALIZED)
        self.error = error

    # From begin to end

    def check_begin(self) -> None:
        """Whether a transaction may begin, now or once it is initialized."""
        self.raise_if_fatal()
        if self.status not in (_S.UNINITIALIZED, _S.INITIALIZING, _S.READY):
            hint = {
                _S.ABORTABLE_ERROR: "abort it first",
                _S.COMMITTING: "how it ends is not known yet: call commit again, to wait for that",
                _S.ABORTING: "how it ends is not known yet: call abort again, to wait for that",
            }.get(self.status, "commit or abort it first")
            raise TransactionStateError(
                f"the last transaction of {self.transactional_id!r} has not ended ({self.status.value}): {hint}"
            )

    def use_version(self, version: int) -> None:
        """Of the next transaction. A rise needs an epoch at which no transaction was written the older way."""
        if version > self.version and not self.is_adopted:
            self.needs_bump = True
        self.version = version

    def begin(self) -> int:
        """Its number."""
        self._move(_S.IN_TRANSACTION)
        self.number += 1
        self.error = None
        self.is_end_sent = False
        self.groups, self._wanted, self._added = {}, {}, {}
        self._is_started = self._may_be_started = False
        return self.number

    def check_open(self) -> None:
        """Raises unless records and offsets can be given to a transaction now."""
        if self.status is _S.IN_TRANSACTION:
            return
        self.raise_if_failed()
        raise TransactionStateError(
            f"no transaction of {self.transactional_id!r} is open, it is {self.status.value!r}: a client with a "
            "transactional_id produces between begin_transaction() and commit(), or in `with client.transaction():`"
        )

    def raise_if_failed(self) -> None:
        self.raise_if_fatal()
        if self.status is _S.ABORTABLE_ERROR:
            assert self.error is not None
            raise abort_needed(self.error)

    def raise_if_fatal(self) -> None:
        if self.status is _S.FATAL_ERROR:
            assert self.error is not None
            raise producer_lost(self.transactional_id, self.error)

    def prepare(self) -> None:
        if self.status is not _S.PREPARED:
            self.check_open()
            self._move(_S.PREPARED)

    def commit(self) -> None:
        if self.status is not _S.PREPARED:
            self.check_open()
        self._move(_S.COMMITTING)

    def abort(self) -> None:
        """From anywhere but a commit that may have been sent."""
        self.raise_if_fatal()
        if self.status is _S.COMMITTING and self.is_end_sent:
            raise TransactionStateError(
                f"the transaction of {self.transactional_id!r} cannot be aborted: its commit was sent, and what came "
                "of it is not known yet. Call commit again, to wait for that"
            )
        self._move(_S.ABORTING)

    def end(self) -> ProducerIdentity | None:
        """Whom EndTxn is to name; None: the coordinator knows nothing of this transaction, and none is sent."""
        assert self.status in (_S.COMMITTING, _S.ABORTING)
        if not self.is_known_to_coordinator:
            return None
        self.is_end_sent = True
        return self.identity

    @property
    def is_nothing_open(self) -> bool:
        """Whether the coordinator may rightly say that there is nothing to abort."""
        return self.version < ADDED_BY_LEADER and not self._is_started

    def ended(self, following: ProducerIdentity | None) -> None:
        """With the identity of the next transaction, where the coordinator gives one (transaction.version 2)."""
        self._move(_S.READY)
        if following is not None:
            self.identity = following
            self.needs_bump = False
        elif self.version >= ADDED_BY_LEADER and self.is_end_sent:
            self.needs_bump = True
        self.error = None
        self._wanted, self._added = {}, {}

    # What belongs to it

    @property
    def is_known_to_coordinator(self) -> bool:
        """Whether there is anything that another process could end."""
        return self._is_started or self._may_be_started

    @property
    def may_send(self) -> bool:
        """Whether what belongs to the transaction may still go out."""
        return self.status in _OPEN and not self.is_end_sent

    @property
    def is_first_produce(self) -> bool:
        """Whether the next Produce is what its coordinator first hears of the transaction, from a leader."""
        return not self._may_be_started and self.version >= ADDED_BY_LEADER and self.may_send

    def identity_for(self, tp: TopicPartition) -> ProducerIdentity | None:
        """With what a batch of this partition is sent now; None: not yet, or not at all."""
        if not self.may_send:
            return None
        if tp not in self._added:
            if self.version < ADDED_BY_LEADER:
                self._wanted[tp] = None
                return None
            self.tried([tp])
        return self.identity

    def tried(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Something is sent by which the coordinator hears of the transaction, whatever comes of it."""
        self._added.update(dict.fromkeys(partitions))
        self._may_be_started = True

    def to_add(self) -> list[TopicPartition]:
        """What the coordinator has to be told before it is sent to."""
        return list(self._wanted) if self.may_send else []

    def added(self, partitions: Iterable[TopicPartition]) -> None:
        for tp in partitions:
            self._wanted.pop(tp, None)
            self._added[tp] = None
        self._is_started = self._may_be_started = True

    # What goes wrong

    def may_come_late(self) -> None:
        """A request of the transaction has had no answer, and may still be on its way.

        Since version 2 each transaction has an epoch of its own. Below it, an EndTxn that arrives in the next
        transaction would end that one, and offsets would join it: only another epoch keeps them out.
        """
        if self.version < ADDED_BY_LEADER and not self.is_adopted:
            self.needs_bump = True

    def failed(self, error: KafkaError, consequence: Consequence) -> None:
        """Something of the transaction has failed for good. The first reason stays, unless a worse one comes."""
        if consequence is Consequence.ABORT_AND_BUMP and self.version < ADDED_BY_LEADER:
            self.needs_bump = True
        if consequence is Consequence.FATAL:
            if self.status is not _S.FATAL_ERROR:
                self.error = error
                self._become(_S.FATAL_ERROR)
        elif self.may_send:
            self.error = error
            self._move(_S.ABORTABLE_ERROR)

    def commit_refused(self, error: KafkaError, consequence: Consequence) -> None:
        """The response to EndTxn says that the transaction is open, and that it can only be aborted."""
        self.is_end_sent = False
        self.failed(error, consequence)


def abort_needed(cause: KafkaError) -> AbortNeededError:
    error = AbortNeededError(
        f"the transaction cannot be committed: abort it, and begin another. Why: {cause}"
    )
    error.__cause__ = cause
    return error


def producer_lost(
    transactional_id: str, cause: KafkaError, *, may_be_committed: bool = False
) -> ProducerLostError:
    if isinstance(cause, ProducerLostError):
        # A new one for each raise, as a traceback is of one only.
        may_be_committed = cause.may_be_committed
        cause = cause.__cause__ if isinstance(cause.__cause__, KafkaError) else cause
    known = (
        "Whether its last transaction is committed is unknown: read what it wrote"
        if may_be_committed
        else "Its last transaction is not committed by it"
    )
    error = ProducerLostError(
        f"the transactional producer {transactional_id!r} cannot go on: {cause} {known}. Close this client; a new "
        "one with the same transactional_id takes its place",
        may_be_committed=may_be_committed,
    )
    error.__cause__ = cause
    return error
