"""One transactional id as its coordinator sees it (KIP-98, KIP-360, KIP-890): a value, and the moves from it.

A state never changes: an event gives the state after it, None where nothing is to be written, or the error of the
request. Every change of `status` goes through `_move`, which knows the legal moves and raises on any other. What is
written, when it counts, and who sends the markers is not known here.

While its markers are on their way an id is pending: Kafka has decided that the state after Prepare* is Complete*, and
everything but a look at it is CONCURRENT_TRANSACTIONS. PrepareEpochFence and Dead are states of a coordinator that
has not written yet; here a fence is part of the abort that it leads to, and a dead id is gone.

Two ways lead to an end. Up to EndTxn version 4 the epoch stays (`bumps` is False, transaction.version 0 and 1); since
version 5 every end bumps it (2), and a request that is sent again is recognized by the epoch before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Final, NamedTuple

from ottla.errors import (
    ConcurrentTransactionsError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    ProducerFencedError,
    TransactionAbortableError,
)

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
HIGHEST_EPOCH: Final = 32767
"""Of markers only: a producer that has the epoch before it gets another id instead."""
EPOCH_BUMP_SINCE: Final = 2
"""The transaction.version from which on each end of a transaction bumps the epoch."""
_NOT_STARTED: Final = -1

TopicPartition = tuple[str, int]


class TransactionalIdStatus(IntEnum):
    """Kafka's states, by their numbers in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """As clients see it."""
        return "".join(word.capitalize() for word in self.name.split("_"))


_EMPTY: Final = TransactionalIdStatus.EMPTY
_ONGOING: Final = TransactionalIdStatus.ONGOING
_COMPLETE: Final = (TransactionalIdStatus.COMPLETE_COMMIT, TransactionalIdStatus.COMPLETE_ABORT)
_PREPARE: Final = (TransactionalIdStatus.PREPARE_COMMIT, TransactionalIdStatus.PREPARE_ABORT)

_LEGAL: Final[Mapping[TransactionalIdStatus, tuple[TransactionalIdStatus, ...]]] = {
    TransactionalIdStatus.EMPTY: (_EMPTY, *_COMPLETE),
    TransactionalIdStatus.ONGOING: (_ONGOING, _EMPTY, *_COMPLETE),
    TransactionalIdStatus.PREPARE_COMMIT: (_ONGOING,),
    TransactionalIdStatus.PREPARE_ABORT: (_ONGOING, _EMPTY, *_COMPLETE),
    TransactionalIdStatus.COMPLETE_COMMIT: (TransactionalIdStatus.PREPARE_COMMIT,),
    TransactionalIdStatus.COMPLETE_ABORT: (TransactionalIdStatus.PREPARE_ABORT,),
}
"""From which states each can be reached."""


class ProducerIdAndEpoch(NamedTuple):
    """A producer id and the epoch that it is in."""

    producer_id: int
    epoch: int


class ProducerIdNeeded(Exception):  # noqa: N818 - it is no error: the caller comes back with an id
    """An event leads to another producer id; it has to come with one, which takes a request to the controller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalIdState:
    """All that there is to know of a transactional id."""

    producer_id: int
    epoch: int = NO_PRODUCER_EPOCH
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the last move."""
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id after the end that is prepared, where the epochs of this one are used up."""
    last_epoch: int = NO_PRODUCER_EPOCH
    """The epoch before a bump that the same producer brought about; not in the log, so lost with its coordinator."""
    timeout_ms: int
    status: TransactionalIdStatus = TransactionalIdStatus.EMPTY
    partitions: tuple[TopicPartition, ...] = ()
    """In order."""
    started_ms: int = _NOT_STARTED
    updated_ms: int = -1
    client_version: int = 0
    """The transaction.version that the last request of its producer stands for."""

    # What can be seen

    @property
    def producer(self) -> ProducerIdAndEpoch:
        return ProducerIdAndEpoch(self.producer_id, self.epoch)

    @property
    def is_pending(self) -> bool:
        """Whether its end is decided, and its markers are on their way."""
        return self.status in _PREPARE

    @property
    def is_commit(self) -> bool:
        return self.status in (TransactionalIdStatus.PREPARE_COMMIT, TransactionalIdStatus.COMPLETE_COMMIT)

    @property
    def next_producer(self) -> ProducerIdAndEpoch:
        """What the producer goes on with after the end that is prepared."""
        if self._rotates:
            return ProducerIdAndEpoch(self.next_producer_id, 0)
        return self.producer

    @property
    def _rotates(self) -> bool:
        return self.client_version >= EPOCH_BUMP_SINCE and self.next_producer_id != NO_PRODUCER_ID

    @property
    def _is_exhausted(self) -> bool:
        return self.epoch >= HIGHEST_EPOCH - 1

    def has_timed_out(self, now_ms: int) -> bool:
        return self.status is _ONGOING and self.started_ms + self.timeout_ms < now_ms

    def is_expired(self, now_ms: int, expiration_ms: int) -> bool:
        """Whether nothing has used it for so long that it may be forgotten."""
        return self.status in (_EMPTY, *_COMPLETE) and self.updated_ms <= now_ms - expiration_ms

    # InitProducerId

    def check_initialize(self, expected: ProducerIdAndEpoch | None) -> None:
        """Whether a producer, which says who it was before, may begin here."""
        if self.is_pending:
            raise ConcurrentTransactionsError
        if expected is None or self.epoch == NO_PRODUCER_EPOCH or expected.producer_id == self.producer_id:
            return
        # The response that brought another id may be lost: then the producer has the last epoch of the one before.
        if expected.producer_id != self.previous_producer_id or expected.epoch < HIGHEST_EPOCH - 1:
            raise ProducerFencedError

    def initialize(
        self, expected: ProducerIdAndEpoch | None, timeout_ms: int, now_ms: int, spare_id: int | None
    ) -> TransactionalIdState:
        """A producer begins: in the next epoch, which fences those before it, or with another id.

        One that says who it was goes on after an error (KIP-360), and gets the same response to the same request.
        """
        self.check_initialize(expected)
        producer_id, epoch, last = self.producer_id, self.epoch + 1, NO_PRODUCER_EPOCH
        if self._is_exhausted and (expected is None or expected.epoch == self.epoch):
            producer_id, epoch = _needed(spare_id), 0
            last = self.epoch if expected is not None else NO_PRODUCER_EPOCH
        elif expected is not None and self.epoch != NO_PRODUCER_EPOCH:
            if expected.epoch == self.epoch:
                last = self.epoch
            elif expected.epoch == self.last_epoch:
                epoch, last = self.epoch, self.last_epoch
            else:
                raise ProducerFencedError
        return self._move(
            _EMPTY,
            now_ms,
            producer_id=producer_id,
            epoch=epoch,
            last_epoch=last,
            timeout_ms=timeout_ms,
            partitions=(),
            started_ms=_NOT_STARTED,
        )

    # AddPartitionsToTxn, AddOffsetsToTxn

    def add(
        self,
        producer: ProducerIdAndEpoch,
        partitions: Iterable[TopicPartition],
        client_version: int,
        now_ms: int,
    ) -> TransactionalIdState | None:
        """The transaction gets more partitions; it begins with the first."""
        if self.is_pending:
            raise ConcurrentTransactionsError
        self._check_producer(producer)
        merged = tuple(sorted({*self.partitions, *partitions}))
        if self.status is _ONGOING and len(merged) == len(self.partitions):
            return None
        return self._move(
            _ONGOING,
            now_ms,
            partitions=merged,
            started_ms=self.started_ms if self.status is _ONGOING else now_ms,
            client_version=client_version,
        )

    def verify(
        self, producer: ProducerIdAndEpoch, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The error code of each partition: whether the transaction has it."""
        self._check_producer(producer)
        if self.is_pending:
            raise ConcurrentTransactionsError
        known = frozenset(self.partitions)
        return {each: 0 if each in known else TransactionAbortableError.code for each in partitions}

    # EndTxn

    def end(self, producer: ProducerIdAndEpoch, is_commit: bool, now_ms: int) -> TransactionalIdState | None:
        """The end, as producers up to EndTxn version 4 request it. None where it has ended so before."""
        self._check_producer(producer)
        if self.is_pending:
            raise ConcurrentTransactionsError
        if self.status is _ONGOING:
            return self._prepare(is_commit, now_ms)
        if self.status in _COMPLETE and self.is_commit == is_commit:
            return None
        raise InvalidTxnStateError

    def end_and_bump(
        self, producer: ProducerIdAndEpoch, is_commit: bool, now_ms: int, spare_id: int | None
    ) -> TransactionalIdState | None:
        """The end since EndTxn version 5. None where this very request has ended it before."""
        if self.is_pending:
            raise ConcurrentTransactionsError
        has_rotated = (
            producer == (self.previous_producer_id, HIGHEST_EPOCH - 1)
            and producer.producer_id != self.producer_id
            and self.epoch == 0
        )
        if producer.producer_id != self.producer_id and not has_rotated:
            raise InvalidProducerIdMappingError
        is_again = self.status in _COMPLETE and (has_rotated or producer.epoch == self.epoch - 1)
        if is_again:
            if self.is_commit == is_commit:
                return None
            raise InvalidTxnStateError
        if producer.epoch != self.epoch or has_rotated:
            raise ProducerFencedError
        if self.status is not _ONGOING and is_commit:
            raise InvalidTxnStateError
        # An abort needs no transaction: its producer may not know whether one of its records has begun it.
        return self._prepare_and_bump(is_commit, now_ms, spare_id)

    def fence(self, transaction_version: int, now_ms: int, spare_id: int | None) -> TransactionalIdState:
        """The coordinator itself aborts: the time is up, or another producer begins. Its producer is fenced."""
        if transaction_version >= EPOCH_BUMP_SINCE:
            return self._prepare_and_bump(False, now_ms, spare_id)
        bumped = replace(self, epoch=min(self.epoch + 1, HIGHEST_EPOCH), last_epoch=NO_PRODUCER_EPOCH)
        return bumped._prepare(False, now_ms)

    def complete(self, now_ms: int) -> TransactionalIdState:
        """Every marker is written."""
        is_commit = self.status is TransactionalIdStatus.PREPARE_COMMIT
        return self._move(
            TransactionalIdStatus.COMPLETE_COMMIT if is_commit else TransactionalIdStatus.COMPLETE_ABORT,
            now_ms,
            producer_id=self.next_producer.producer_id,
            epoch=self.next_producer.epoch,
            next_producer_id=NO_PRODUCER_ID,
            partitions=(),
        )

    # How it moves

    def _check_producer(self, producer: ProducerIdAndEpoch) -> None:
        if producer.producer_id != self.producer_id:
            raise InvalidProducerIdMappingError
        if producer.epoch != self.epoch:
            raise ProducerFencedError

    def _prepare(self, is_commit: bool, now_ms: int) -> TransactionalIdState:
        status = TransactionalIdStatus.PREPARE_COMMIT if is_commit else TransactionalIdStatus.PREPARE_ABORT
        return self._move(status, now_ms, client_version=0)

    def _prepare_and_bump(self, is_commit: bool, now_ms: int, spare_id: int | None) -> TransactionalIdState:
        status = TransactionalIdStatus.PREPARE_COMMIT if is_commit else TransactionalIdStatus.PREPARE_ABORT
        return self._move(
            status,
            now_ms,
            epoch=min(self.epoch + 1, HIGHEST_EPOCH),
            last_epoch=self.epoch,
            next_producer_id=_needed(spare_id) if self._is_exhausted else NO_PRODUCER_ID,
            started_ms=self.started_ms if self.status is _ONGOING else now_ms,
            client_version=EPOCH_BUMP_SINCE,
        )

    def _move(self, status: TransactionalIdStatus, now_ms: int, **changes: Any) -> TransactionalIdState:
        if self.status not in _LEGAL[status]:
            raise RuntimeError(f"a transactional id cannot go from {self.status.label} to {status.label}")
        return replace(
            self, status=status, previous_producer_id=self.producer_id, updated_ms=now_ms, **changes
        )


def _needed(spare_id: int | None) -> int:
    if spare_id is None:
        raise ProducerIdNeeded
    return spare_id
