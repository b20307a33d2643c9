"""AsyncTransactSession: consume, process, produce; what was read and what was made of it in one transaction.

    records = await session.poll()
    await session.begin()
    ...
    is_committed = await session.end()

One client does both, so the producer knows what happens to the consumer, and a rebalance cannot go wrong:

- Partitions that are revoked or lost before the end turn a commit into an abort: other members read them again.
- Offsets go into the transaction with the member that has read them (KIP-447): its coordinator refuses a former one.
- A heartbeat has to succeed directly before the commit. The transaction's timeout is below that of the session by
  default, so a commit that hangs from there on is aborted before the group gives the partitions to another member.
- While the commit is under way partitions are not given up. Brokers that do not know KIP-447 give out offsets while
  its markers are still being written: after a commit there, they are not for half a second more. The next
  transaction may begin meanwhile, and not end.
- After an abort the positions are what is committed, and the same records come again.
- What a predecessor of the same transactional id has left open is aborted as soon as there is a session: the group
  waits for its offsets.

Invariant: `end` returns True only for a transaction that is committed, with the offsets of all that was polled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from ottla.client.deadline import Deadline, DeadlinePassed, check_timeout
from ottla.client.group.reactions import Reaction
from ottla.client.topic_partition import TopicPartition
from ottla.client.transactions.machine import TransactionStatus
from ottla.client.transactions.transaction import AsyncTransaction
from ottla.config import ClientConfig
from ottla.errors import (
    AbortNeededError,
    FencedInstanceIdError,
    FencedMemberEpochError,
    IllegalGenerationError,
    KafkaError,
    StaleMemberEpochError,
    TransactionPendingError,
    TransactionStateError,
    UnknownMemberIdError,
)
from ottla.wire.records import Delivery

if TYPE_CHECKING:
    from ottla.client.group.consumer import AsyncGroupConsumer
    from ottla.client.group.offsets import OffsetAndMetadata
    from ottla.client.home_loop import HomeLoop
    from ottla.client.transactions.manager import TransactionManager

_logger = logging.getLogger("ottla.client.transactions")

_HOLD_BACK_S: Final = 0.5
"""As in franz-go: markers go from broker to broker, which is quicker than a member that joins and fetches offsets."""
_FORMER_MEMBER: Final = (
    UnknownMemberIdError,
    IllegalGenerationError,
    FencedInstanceIdError,
    FencedMemberEpochError,
    StaleMemberEpochError,
)


def session_config(config: ClientConfig, manager: TransactionManager) -> ClientConfig:
    """The options of the session's consumer; the manager's timeout is brought below that of the group's session."""
    if not config.names("transaction_timeout_ms"):
        manager.limit(config.session_timeout_ms * 8 // 9)
    elif config.transaction_timeout_ms >= config.session_timeout_ms:
        _logger.warning(
            "transaction_timeout_ms=%d is not below session_timeout_ms=%d: a commit that hangs may come after the "
            "group has given the partitions to another member, which reads the same again",
            config.transaction_timeout_ms,
            config.session_timeout_ms,
        )
    # Offsets are the transaction's; what is read committed also waits for offsets of open transactions.
    return config.replace(enable_auto_commit=False, isolation_level="read_committed")


class AsyncTransactSession:
    """What `AsyncClient.transact_session()` gives. Leaves the group with `close` or its `async with`."""

    def __init__(
        self,
        manager: TransactionManager,
        consumer: AsyncGroupConsumer,
        produce: Callable[..., Awaitable[Delivery]],
        home: HomeLoop,
    ) -> None:
        self.consumer = consumer
        """What reads: for `assignment()`, `health()`, `pause()` and the like. It commits nothing itself."""
        self._manager = manager
        self._clock = consumer.clock
        self._produce = produce
        self._home = home
        self._transaction: AsyncTransaction | None = None
        self._is_polled = False
        self._is_taken = False
        self._is_free = asyncio.Event()
        """Whether partitions may be given up."""
        self._is_free.set()
        self._sent: Mapping[TopicPartition, OffsetAndMetadata] = {}
        self._is_ending = False
        """An end was called, and what comes of it has not been told."""
        self._is_committing = False
        self._is_aborting = False
        self._failure: AbortNeededError | None = None
        self.must_rewind = False
        """A transaction was aborted, and positions are still behind what it had read."""
        consumer.guard(self)
        # A predecessor that crashed may have left a transaction open, with offsets of the group in it. Until it ends
        # the group has no stable offsets to begin from, and nothing is polled for which the program would begin.
        manager.init_soon()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.leave(error)

    # The program

    async def poll(self, max_records: int | None = None, timeout: float | None = None) -> list[Any]:
        """The next records, as `poll` of a consumer gives them."""
        was_polled = self.about_to_poll()
        records = await self.consumer.poll(max_records, timeout)
        self.polled(was_polled, records)
        return records

    async def begin(self, timeout: float | None = None) -> None:
        """Begins a transaction, for what was polled since the last one ended."""
        self._home.check()
        check_timeout(timeout)
        self._transaction = AsyncTransaction(self._manager, self._home, await self._manager.begin(timeout))

    async def produce(self, topic: str, value: Any = None, key: Any = None, **options: Any) -> Delivery:
        """As `produce` of the client, which may be used as well."""
        return await self._produce(topic, value, key, **options)

    async def end(self, commit: bool = True, timeout: float | None = None) -> bool:
        """Commits what was produced, with the offsets of what was polled; whether it is committed.

        False: it was aborted, since that was wanted or a rebalance has taken partitions; the same records come again,
        here or elsewhere. AbortNeededError: aborted because something failed, and the program can go on all the same.
        TransactionPendingError: nothing is known yet; call it again. ProducerLostError: make a new client.
        """
        self._home.check()
        check_timeout(timeout)
        try:
            return await self.finish(commit, self.consumer.uncommitted(), timeout)
        finally:
            if self.must_rewind:
                self.rewind()

    async def close(self) -> None:
        """Aborts a transaction that is open, and leaves the group."""
        await self.leave(None)

    async def leave(self, error: BaseException | None) -> None:
        """`close`, after this error; what goes wrong with the abort is noted there."""
        try:
            if self._is_open and not self._is_committing:
                assert self._transaction is not None
                await self._transaction.abort()
        except KafkaError as also:
            if error is None:
                raise
            error.add_note(f"aborting the transaction failed too: {also}")
        finally:
            self._free()
            await self.consumer.close()

    @property
    def _is_open(self) -> bool:
        """Whether there is something to abort."""
        is_lost = self._manager.machine.status is TransactionStatus.FATAL_ERROR
        return self._transaction is not None and not self._transaction.is_over and not is_lost

    # In the thread that reads

    def about_to_poll(self) -> bool:
        """Before records are handed out; for `polled`."""
        if self._is_ending or self.must_rewind:
            # They would belong to neither transaction: this one's offsets are chosen, and an abort goes back.
            raise TransactionStateError(
                "nothing can be polled while the transaction ends: poll again when end() has returned, and call "
                "end() again where it was not waited for"
            )
        was_polled, self._is_polled = self._is_polled, True
        return was_polled

    def polled(self, was_polled: bool, records: list[Any]) -> None:
        if not records:
            self._is_polled = was_polled

    def rewind(self) -> None:
        self.must_rewind = False
        self.consumer.rewind()

    # The group

    async def released(self) -> None:
        while not self._is_free.is_set():
            await self._is_free.wait()

    def taken(self) -> None:
        # Set before anything is handed out, so a poll that has begun by now counts.
        if self._is_polled:
            self._is_taken = True

    # The end of a transaction

    async def finish(
        self, commit: bool, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float | None
    ) -> bool:
        """`end`, on the loop, but for the positions."""
        transaction = self._transaction
        if transaction is None or transaction.is_over:
            raise TransactionStateError("there is no transaction to end: begin() comes first")
        self._is_ending = True
        try:
            is_committed = await self._finished(transaction, commit, offsets, timeout)
        except (TransactionPendingError, TransactionStateError, asyncio.CancelledError):
            raise
        except BaseException:
            self._is_ending = False
            raise
        self._is_ending = False
        return is_committed

    async def _finished(
        self,
        transaction: AsyncTransaction,
        commit: bool,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        timeout: float | None,
    ) -> bool:
        deadline = Deadline(self._clock, self._manager.call_timeout if timeout is None else timeout)
        if not (self._is_committing or self._is_aborting):
            if commit and await self._is_ready(transaction, offsets, deadline):
                self._is_committing = True
                self._sent = offsets
            else:
                self._is_aborting = True
        if self._is_committing and await self._commit(transaction, commit, deadline):
            return True
        await transaction.abort(deadline.left())
        failure = self._failure
        self._settled()
        self.must_rewind = True
        if failure is not None:
            raise failure
        return False

    async def _is_ready(
        self,
        transaction: AsyncTransaction,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        deadline: Deadline,
    ) -> bool:
        """Whether everything is as it has to be for a commit; if so, partitions are held from here on."""
        try:
            # What the last commit still holds back.
            await deadline.bound(self.released())
            await deadline.bound(self._manager.drained())
            if self._has_lost():
                return False
            if offsets:
                await transaction.send_offsets(offsets, self.consumer, deadline.left())
                if not await self._is_member(deadline):
                    return False
            self._manager.machine.check_open()
        except DeadlinePassed:
            raise TransactionPendingError(
                f"the transaction is not ready to be committed after {deadline.seconds:g} s: its records are not all "
                "delivered. Call end again"
            ) from None
        except AbortNeededError as error:
            if not isinstance(error.__cause__, _FORMER_MEMBER):
                self._failure = error
            return False
        if self._has_lost():
            return False
        self._is_free.clear()
        return True

    def _has_lost(self) -> bool:
        if self._is_taken:
            _logger.info("a transaction is aborted: a rebalance has taken partitions that it has read")
        return self._is_taken

    async def _is_member(self, deadline: Deadline) -> bool:
        reaction = await self.consumer.confirm(deadline.left())
        # A rebalance that has begun waits for this member; with KIP-447 the next owner waits for the offsets, too.
        if reaction is Reaction.REJOIN and self._manager.checks_groups:
            return True
        if reaction is not Reaction.GO_ON:
            _logger.info(
                "a transaction is aborted: a heartbeat before its commit was answered with %s", reaction
            )
        return reaction is Reaction.GO_ON

    async def _commit(self, transaction: AsyncTransaction, commit: bool, deadline: Deadline) -> bool:
        """Whether it is committed; False: it has to be aborted. While nothing is known, partitions stay held."""
        if not commit:
            raise TransactionStateError(
                "the commit of the transaction was sent, and what came of it is not known yet: call end() again"
            )
        try:
            await transaction.commit(deadline.left())
        except AbortNeededError as error:
            self._failure = error
            self._is_committing, self._is_aborting = False, True
            self._free()
            return False
        except TransactionPendingError:
            raise
        except KafkaError:
            self._settled()
            self._free()
            raise
        self.consumer.was_committed(self._sent)
        if self._sent and not self._manager.checks_groups:
            self._clock.call_later(_HOLD_BACK_S, self._free)
        else:
            self._free()
        self._settled()
        return True

    def _settled(self) -> None:
        self._is_polled = self._is_taken = False
        self._is_committing = self._is_aborting = False
        self._failure = None
        self._sent = {}

    def _free(self) -> None:
        self._is_free.set()
