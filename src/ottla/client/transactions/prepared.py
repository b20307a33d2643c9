"""Prepared transactions: everything is sent, and who knows the three values of one can end it, in any process.

Ending one does not initialize anything: EndTxn names the producer id and epoch of the transaction itself, so that a
producer which has taken its place since is neither fenced nor ended by mistake.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.client.connections.features import TRANSACTION_VERSION
from ottla.client.deadline import within
from ottla.client.produce.producer_id import ProducerIdentity
from ottla.client.transactions.calls import CoordinatorCalls
from ottla.client.transactions.error_table import Consequence
from ottla.client.transactions.machine import ADDED_BY_LEADER
from ottla.client.transactions.messages import end_transaction
from ottla.errors import InvalidTxnStateError, KafkaError, PreparedTransactionError, TransactionPendingError
from ottla.wire.messages import DescribeTransactionsRequest, DescribeTransactionsResponse

if TYPE_CHECKING:
    from ottla.client.context import ClientContext
    from ottla.client.requests.requests import Requests

_COMMITTED: Final = ("PrepareCommit", "CompleteCommit")
_ABORTED: Final = ("PrepareAbort", "CompleteAbort")


class PreparedTransaction(NamedTuple):
    """A transaction that is sent, and open: `commit_prepared` or `abort_prepared` of any client ends it."""

    transactional_id: str
    producer_id: int
    epoch: int


async def end_prepared(
    context: ClientContext,
    requests: Requests,
    prepared: PreparedTransaction,
    *,
    commit: bool,
    timeout: float | None = None,
) -> None:
    """Ends it, or raises; also where an earlier call, whose outcome is not known, has ended it in the same way."""
    seconds = context.config.default_api_timeout_ms / 1000 if timeout is None else timeout
    calls = CoordinatorCalls(context, requests)
    transactional_id, producer_id, epoch = prepared
    try:
        outcome, refused = await within(
            context.runtime.clock, seconds, _settled(context, requests, calls, prepared, commit)
        )
    except TimeoutError:
        word = "commit" if commit else "abort"
        last = calls.last_error
        raise TransactionPendingError(
            f"whether the prepared transaction of {transactional_id!r} has ended is not known after {seconds:g} s: "
            f"{word} it again" + ("" if last is None else f". The last error was: {last}")
        ) from last
    if outcome is _Ending.AS_WANTED:
        return
    is_other = outcome is _Ending.OTHERWISE
    wanted, other = ("committed", "aborted") if commit else ("aborted", "committed")
    known = (
        f"it is {other}, by another process or after its timeout"
        if is_other
        else "it may have ended either way before: read what it wrote"
    )
    raise PreparedTransactionError(
        f"the prepared transaction of {transactional_id!r} (producer {producer_id}, epoch {epoch}) cannot be "
        f"{wanted}: {known}. The coordinator says: {refused}",
        is_other_outcome=is_other,
    ) from refused


class _Ending(Enum):
    """What has become of the transaction, as far as its coordinator knows."""

    AS_WANTED = "as wanted"
    OTHERWISE = "otherwise"
    UNKNOWN = "unknown"


async def _settled(
    context: ClientContext,
    requests: Requests,
    calls: CoordinatorCalls,
    prepared: PreparedTransaction,
    commit: bool,
) -> tuple[_Ending, KafkaError | None]:
    # A broker that has said who coordinates has said before what the cluster has agreed to.
    await requests.brokers_known()
    bumps = context.brokers.features.level(TRANSACTION_VERSION) >= ADDED_BY_LEADER
    identity = ProducerIdentity(prepared.producer_id, prepared.epoch)
    outcome = await calls.settle(
        end_transaction(prepared.transactional_id, identity, commit=commit, bumps=bumps)
    )
    assert outcome is not None
    if outcome.consequence is Consequence.GO_ON:
        return _Ending.AS_WANTED, None
    if not isinstance(outcome.error, InvalidTxnStateError):
        return _Ending.UNKNOWN, outcome.error
    if commit and bumps:
        return await _commit_refused(requests, prepared), outcome.error
    return _Ending.OTHERWISE, outcome.error


async def _commit_refused(requests: Requests, prepared: PreparedTransaction) -> _Ending:
    """Which end a transaction has had whose commit, with a new epoch, a coordinator finds in no state for it.

    It says so of an abort, but also of a commit that an earlier call has sent before transaction.version rose, and
    whose epoch has stayed. Once another producer has taken the id over, either may have been before that.
    """
    request = DescribeTransactionsRequest(transactional_ids=[prepared.transactional_id])
    response = await requests.send(request)
    assert isinstance(response, DescribeTransactionsResponse)
    (known,) = response.transaction_states
    producer_id, epoch = prepared.producer_id, prepared.epoch
    if (known.producer_id, known.producer_epoch) == (
        producer_id,
        epoch,
    ) and known.transaction_state in _COMMITTED:
        return _Ending.AS_WANTED
    is_same = known.producer_id == producer_id and known.producer_epoch in (epoch, epoch + 1)
    return _Ending.OTHERWISE if is_same and known.transaction_state in _ABORTED else _Ending.UNKNOWN
