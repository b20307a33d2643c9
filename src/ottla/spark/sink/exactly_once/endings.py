"""Many prepared transactions, ended side by side: each until its outcome is known, a bounded number at a time.

None of this initializes anything. A transaction is named by its producer id and epoch, so that one which has taken
its place since is not touched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from ottla.client.deadline import Deadline
from ottla.client.transactions.prepared import PreparedTransaction
from ottla.errors import (
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    KafkaError,
    PreparedTransactionError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionalIdNotFoundError,
    TransactionPendingError,
)

if TYPE_CHECKING:
    from ottla.client.admin.results import TransactionDescription
    from ottla.client.client import AsyncClient

ONGOING: Final = "Ongoing"
PATIENCE_S: Final = 120.0
"""How long the outcome of a transaction is waited for. The coordinator may be moving, or restarting."""
_AT_ONCE: Final = 64
_DEFINITE: Final = (
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    ProducerFencedError,
    TransactionAbortableError,
)
"""With these a coordinator says that the transaction will never be ended as wanted. Others say something about the
request: that it is not allowed, or not understood."""

_T = TypeVar("_T")
_R = TypeVar("_R")


class Ending(NamedTuple):
    """What has become of one transaction."""

    is_done: bool
    """It has ended as wanted."""
    error: KafkaError | None
    """Why not. A PreparedTransactionError is the coordinator's refusal, which nothing will change; with any other
    error the outcome is not known."""

    @property
    def is_refused(self) -> bool:
        return isinstance(self.error, PreparedTransactionError)


async def end_all(
    kafka: AsyncClient,
    transactions: Sequence[PreparedTransaction],
    *,
    commit: bool,
    patience: float = PATIENCE_S,
) -> list[Ending]:
    """What has become of each, in the same order."""
    deadline = Deadline(kafka._runtime.clock, patience)

    async def end(prepared: PreparedTransaction) -> Ending:
        return await _ended(kafka, prepared, commit, deadline)

    return await side_by_side(end, transactions)


async def _ended(
    kafka: AsyncClient, prepared: PreparedTransaction, commit: bool, deadline: Deadline
) -> Ending:
    try:
        if commit:
            await kafka.commit_prepared(prepared, deadline.left())
        else:
            await kafka.abort_prepared(prepared, deadline.left())
    except PreparedTransactionError as refused:
        cause = refused.__cause__
        if isinstance(cause, KafkaError) and not isinstance(cause, _DEFINITE):
            return Ending(False, cause)
        return Ending(False, refused)
    except TransactionPendingError as pending:
        return Ending(False, pending)
    return Ending(True, None)


async def side_by_side(work: Callable[[_T], Awaitable[_R]], items: Iterable[_T]) -> list[_R]:
    """The results of all, in order; a bounded number at a time."""
    turns = asyncio.Semaphore(_AT_ONCE)

    async def one(item: _T) -> _R:
        async with turns:
            return await work(item)

    # All of them end before the first error is raised: none goes on behind the caller's back.
    results = await asyncio.gather(*(one(item) for item in items), return_exceptions=True)
    done: list[_R] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        done.append(result)
    return done


async def described(
    kafka: AsyncClient, transactional_ids: Sequence[str]
) -> dict[str, TransactionDescription]:
    """What coordinators know of these ids; those that they do not know are left out."""
    results = await kafka.admin.describe_transactions(transactional_ids, errors="collect")
    for error in results.errors.values():
        if not isinstance(error, TransactionalIdNotFoundError):
            raise error
    return dict(results)


def is_open(known: TransactionDescription | None, prepared: PreparedTransaction) -> bool:
    """Whether this very transaction is still open."""
    return (
        known is not None
        and known.state == ONGOING
        and (known.producer_id, known.producer_epoch) == (prepared.producer_id, prepared.epoch)
    )
