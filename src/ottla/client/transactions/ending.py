"""TransactionEnds: how transactions end, from the wish of a program until it is known what came of it.

A commit waits for its batches, then for the response to EndTxn. Where all is as usual there is no task for it: a
program that commits one small transaction after the other would spend most of its time on those. What is not usual
is left to a task: a coordinator that has to be found, a response that is no success, a request of the transaction
that is still under way.

Invariant: a future that `begin` gives has the outcome that a coordinator has told, or is cancelled with the client. A
caller that waits no longer does not cancel it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ottla.client.produce.producer_id import ProducerIdentity
from ottla.client.transactions.calls import CallOutcome, CoordinatorRequest
from ottla.client.transactions.error_table import Consequence, TransactionalCall
from ottla.client.transactions.machine import (
    ADDED_BY_LEADER,
    TransactionStatus,
    abort_needed,
    producer_lost,
)
from ottla.client.transactions.messages import end_transaction
from ottla.errors import ClientClosedError, InvalidTxnStateError, TransactionError, TransactionStateError

if TYPE_CHECKING:
    from ottla.client.transactions.manager import TransactionManager
    from ottla.wire.messages import EndTxnResponse

_S: Final = TransactionStatus


class TransactionEnds:
    """The ends of the transactions of one client; one at a time."""

    def __init__(self, manager: TransactionManager) -> None:
        self._manager = manager
        self.pending: asyncio.Future[TransactionError | None] | None = None
        """The end that is under way."""
        self._wanted: tuple[int, bool] | None = None
        """Of which transaction that is, by its number, and whether it is a commit."""
        self._ended_as: tuple[int, bool] | None = None
        """The same of the last transaction that is known to have ended as wanted."""

    def begin(self, number: int, *, commit: bool) -> asyncio.Future[TransactionError | None]:
        """Has it ended as wanted; what comes of it is in the future, which is not to be cancelled."""
        ending, wanted = self.pending, (number, commit)
        # The state of the machine changes a moment before a task that has brought that about is over: what is
        # pending may be the end of the transaction before, of which its callers have not heard yet.
        if ending is not None and self._wanted == wanted:
            return ending
        if self._ended_as == wanted:
            # A caller that waited no longer comes again.
            known: asyncio.Future[TransactionError | None] = asyncio.get_running_loop().create_future()
            known.set_result(None)
            return known
        if self._ended_as == (number, not commit):
            raise TransactionStateError(f"the transaction is {'aborted' if commit else 'committed'} already")
        if commit:
            self._manager.machine.commit()
        else:
            self._manager.machine.abort()
        self._wanted = wanted
        behind, self.pending = ending, asyncio.get_running_loop().create_future()
        if commit:
            # Records go out before anything is waited for.
            flushed = self._manager.producer.flush_now().done
            flushed.add_done_callback(partial(self._commit_now, self.pending))
        else:
            # What an abort may come behind is a commit that still waits for its records.
            self._end_in_task(self.pending, self._abort(behind))
        return self.pending

    def _ended(self, ending: asyncio.Future[TransactionError | None], error: TransactionError | None) -> None:
        if self.pending is ending:
            self.pending = None
            if error is None and not ending.cancelled():
                self._ended_as = self._wanted
        if not ending.done():
            ending.set_result(error)

    def _end_in_task(
        self,
        ending: asyncio.Future[TransactionError | None],
        work: Coroutine[Any, Any, TransactionError | None],
    ) -> None:
        def done(task: asyncio.Task[TransactionError | None]) -> None:
            if task.cancelled() or task.exception() is not None:
                # The client is closed, or has crashed, which stops it.
                ending.cancel()
            self._ended(ending, None if ending.done() else task.result())

        try:
            self._manager.spawn(work, "end a transaction").add_done_callback(done)
        except ClientClosedError:
            ending.cancel()
            self._ended(ending, None)

    def _commit_now(self, ending: asyncio.Future[TransactionError | None], _: object) -> None:
        """Every batch is done. Where all is as usual, EndTxn is sent from here; a task does the rest."""
        machine = self._manager.machine
        is_usual = machine.status is _S.COMMITTING and not self._manager.is_busy
        # What another thread was about to append when the commit began belongs to it.
        if not is_usual or self._manager.producer.buffered_records:
            self._end_in_task(ending, self._commit())
            return
        identity = machine.end()
        if identity is None:
            machine.ended(None)
            self._ended(ending, None)
            return
        asked_at = self._manager.clock.monotonic()
        request = self._end_request(TransactionalCall.COMMIT, identity)

        def answered(outcome: CallOutcome[EndTxnResponse]) -> None:
            if outcome.consequence is Consequence.GO_ON and machine.status is _S.COMMITTING:
                self._ended(ending, self._take_end(TransactionalCall.COMMIT, outcome, asked_at))
            else:
                self._end_in_task(ending, self._settle_end(TransactionalCall.COMMIT, identity, outcome))

        if not self._manager.calls.begin(request, answered):
            self._end_in_task(ending, self._commit())

    async def _commit(self) -> TransactionError | None:
        while True:
            await self._manager.producer.drained()
            async with self._manager.turn:
                if self._manager.machine.status is not _S.COMMITTING:
                    return self._manager.why_not()
                # What another thread was about to append when the commit began belongs to it.
                if not self._manager.producer.buffered_records:
                    return await self._end(TransactionalCall.COMMIT)

    async def _abort(self, behind: asyncio.Future[Any] | None) -> TransactionError | None:
        self._manager.producer.abort_transaction(self._manager.ids.why_aborted())
        if behind is not None:
            await asyncio.gather(behind, return_exceptions=True)
        # Those in flight: a leader that gets a batch after the abort would have to refuse it.
        await self._manager.producer.drained()
        async with self._manager.turn:
            if self._manager.machine.status is not _S.ABORTING:
                return self._manager.why_not()
            error = await self._end(TransactionalCall.ABORT)
        # They have had their errors, and the abort has told the program.
        self._manager.producer.forget_failures()
        return error

    async def _end(self, call: TransactionalCall) -> TransactionError | None:
        identity = self._manager.machine.end()
        if identity is None:
            self._manager.machine.ended(None)
            return None
        return await self._settle_end(call, identity)

    def _end_request(
        self, call: TransactionalCall, identity: ProducerIdentity
    ) -> CoordinatorRequest[EndTxnResponse]:
        return end_transaction(
            self._manager.machine.transactional_id,
            identity,
            commit=call is TransactionalCall.COMMIT,
            bumps=self._manager.machine.version >= ADDED_BY_LEADER,
        )

    async def _settle_end(
        self,
        call: TransactionalCall,
        identity: ProducerIdentity,
        first: CallOutcome[EndTxnResponse] | None = None,
    ) -> TransactionError | None:
        asked_at = self._manager.clock.monotonic()
        outcome = await self._manager.calls.settle(self._end_request(call, identity), first=first)
        assert outcome is not None
        return self._take_end(call, outcome, asked_at)

    def _take_end(
        self, call: TransactionalCall, outcome: CallOutcome[EndTxnResponse], asked_at: float
    ) -> TransactionError | None:
        machine = self._manager.machine
        self._manager.may_come_late(outcome)
        self._manager.ids.pause.ended(asked_at, self._manager.clock.monotonic())
        if outcome.consequence is Consequence.GO_ON or self._is_nothing_open(call, outcome):
            machine.ended(_following(outcome))
            return None
        error = outcome.error
        assert error is not None
        if outcome.consequence is Consequence.FATAL:
            lost = producer_lost(
                machine.transactional_id,
                error,
                may_be_committed=call is TransactionalCall.COMMIT and _leaves_open(outcome),
            )
            self._manager.failed(lost, Consequence.FATAL)
            return lost
        machine.commit_refused(error, outcome.consequence)
        return abort_needed(error)

    def _is_nothing_open(self, call: TransactionalCall, outcome: CallOutcome[EndTxnResponse]) -> bool:
        """A partition was to be added, without a word from the coordinator, and it was not."""
        return (
            call is TransactionalCall.ABORT
            and isinstance(outcome.error, InvalidTxnStateError)
            and self._manager.machine.is_nothing_open
        )


def _following(outcome: CallOutcome[EndTxnResponse]) -> ProducerIdentity | None:
    response = outcome.response
    if response is None or response.producer_id < 0:
        return None
    return ProducerIdentity(response.producer_id, response.producer_epoch)


def _leaves_open(outcome: CallOutcome[EndTxnResponse]) -> bool:
    """Whether a refused commit may have been carried out by an attempt before, whose response is missing.

    INVALID_TXN_STATE is the one refusal that says it: the transaction has ended the other way.
    """
    return outcome.is_unsure and not isinstance(outcome.error, InvalidTxnStateError)
