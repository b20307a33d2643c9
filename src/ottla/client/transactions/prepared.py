"""Prepared transactions: everything is sent, and who knows the three values of one can end it, in any process.

Ending one does not initialize anything: EndTxn names the producer id and epoch of the transaction itself, so that a
producer which has taken its place since is neither fenced nor ended by mistake.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.client.connections.features import TRANSACTION_VERSION
from ottla.client.deadline import within
from ottla.client.produce.producer_id import ProducerIdentity
from ottla.client.transactions.calls import CallOutcome, CoordinatorCalls
from ottla.client.transactions.error_table import Consequence
from ottla.client.transactions.machine import ADDED_BY_LEADER
from ottla.client.transactions.messages import end_transaction
from ottla.errors import InvalidTxnStateError, PreparedTransactionError, TransactionPendingError

if TYPE_CHECKING:
    from ottla.client.context import ClientContext
    from ottla.client.requests.requests import Requests
    from ottla.wire.messages import EndTxnResponse


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
        outcome = await within(
            context.runtime.clock, seconds, _settled(context, requests, calls, prepared, commit)
        )
    except TimeoutError:
        word = "commit" if commit else "abort"
        last = calls.last_error
        raise TransactionPendingError(
            f"whether the prepared transaction of {transactional_id!r} has ended is not known after {seconds:g} s: "
            f"{word} it again" + ("" if last is None else f". The last error was: {last}")
        ) from last
    if outcome.consequence is Consequence.GO_ON:
        return
    is_other = isinstance(outcome.error, InvalidTxnStateError)
    wanted, other = ("committed", "aborted") if commit else ("aborted", "committed")
    known = (
        f"it is {other}, by another process or after its timeout"
        if is_other
        else "it may have ended either way before: read what it wrote"
    )
    raise PreparedTransactionError(
        f"the prepared transaction of {transactional_id!r} (producer {producer_id}, epoch {epoch}) cannot be "
        f"{wanted}: {known}. The coordinator says: {outcome.error}",
        is_other_outcome=is_other,
    ) from outcome.error


async def _settled(
    context: ClientContext,
    requests: Requests,
    calls: CoordinatorCalls,
    prepared: PreparedTransaction,
    commit: bool,
) -> CallOutcome[EndTxnResponse]:
    # A broker that has said who coordinates has said before what the cluster has agreed to.
    await requests.brokers_known()
    bumps = context.brokers.features.level(TRANSACTION_VERSION) >= ADDED_BY_LEADER
    identity = ProducerIdentity(prepared.producer_id, prepared.epoch)
    outcome = await calls.settle(
        end_transaction(prepared.transactional_id, identity, commit=commit, bumps=bumps)
    )
    assert outcome is not None
    return outcome
