"""TransactionManager: the transactions of one client, on its loop. It carries out what the machine's states ask for.

    take      another transactional id takes the place of this one; nothing is sent
    init      InitProducerId, by which the coordinator fences an older producer and ends what that left open
    begin     nothing is sent; the first begin initializes, unless a session has done so
    add       partitions that batches wait for, gathered, one request for all (below transaction.version 2)
    offsets   AddOffsetsToTxn (likewise) and TxnOffsetCommit
    end       every batch done, then EndTxn, until its outcome is known (ending.py)

Requests about a transaction go one at a time, so that none overtakes another. Whatever a caller waits for runs in a
task of its own: a caller that is cancelled, or waits no longer, leaves it under way, and joins it by calling again.

Invariant: a commit is reported only after a coordinator has said that it is committed, an abort after it has said
that it is aborted, or that there was nothing to end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla.client.connections.features import TRANSACTION_VERSION
from ottla.client.deadline import within
from ottla.client.produce.producer_id import ProducerIdentity
from ottla.client.topic_partition import TopicPartition
from ottla.client.transactions.calls import CallOutcome, CoordinatorCalls
from ottla.client.transactions.ending import TransactionEnds
from ottla.client.transactions.error_table import Consequence, TransactionalCall, consequence_of
from ottla.client.transactions.identities import TransactionalIds
from ottla.client.transactions.machine import (
    ADDED_BY_CLIENT,
    ADDED_BY_LEADER,
    TransactionMachine,
    TransactionState,
    TransactionStatus,
    abort_needed,
    producer_lost,
)
from ottla.client.transactions.messages import (
    GROUPS_CHECKED_SINCE,
    REPLACED_SINCE,
    add_offsets,
    add_partitions,
    commit_offsets,
    init_producer,
)
from ottla.client.transactions.prepared import PreparedTransaction
from ottla.errors import (
    BrokerError,
    ClientClosedError,
    KafkaError,
    TransactionError,
    TransactionPendingError,
    TransactionStateError,
)

if TYPE_CHECKING:
    from ottla.client.context import ClientContext
    from ottla.client.group.membership import GroupMetadata
    from ottla.client.group.offsets import OffsetAndMetadata
    from ottla.client.produce.producer import Producer
    from ottla.client.requests.requests import Requests

_logger = logging.getLogger("ottla.client.transactions")

_T = TypeVar("_T")
_S: Final = TransactionStatus


class TransactionManager:
    """The transactions of a client with a transactional id."""

    def __init__(self, context: ClientContext, requests: Requests) -> None:
        config = context.config
        self.clock = context.runtime.clock
        self._tasks = context.tasks
        self._features = context.brokers.features
        self.call_timeout = config.default_api_timeout_ms / 1000
        self._configured_timeout_ms = config.transaction_timeout_ms
        self.timeout_ms = config.transaction_timeout_ms
        """After how long the coordinator aborts a transaction; InitProducerId says it."""
        self.machine = TransactionMachine(config.transactional_id)
        self.ids = TransactionalIds(self.machine, self.clock, self._add_soon, self._pause_over)
        self.calls = CoordinatorCalls(context, requests)
        self._requests = requests
        self.producer: Producer
        self.turn = asyncio.Lock()
        """Held by the one request that is under way."""
        self._sending = 0
        """How many calls have offsets to send, or are sending them."""
        self._init: asyncio.Task[KafkaError | None] | None = None
        self._adding: asyncio.Task[None] | None = None
        self._ends = TransactionEnds(self)
        self._replaces_epochs = False
        """Whether the brokers let a producer go on in another epoch (KIP-360)."""
        self.checks_groups = True
        """Whether the last TxnOffsetCommit was of a version in which the coordinator checks the member (KIP-447)."""

    def attach(self, producer: Producer) -> None:
        """Before the first use: what sends the records."""
        self.producer = producer

    def state(self) -> TransactionState:
        return self.machine.state()

    def limit(self, timeout_ms: int) -> None:
        """The coordinator is to abort transactions after that at the latest, from the next one on."""
        if timeout_ms < self.timeout_ms:
            self.timeout_ms = timeout_ms
            if self.machine.status is _S.READY:
                self.machine.needs_bump = True

    # Another transactional id

    async def take(
        self,
        transactional_id: str,
        identity: ProducerIdentity | None,
        timeout_ms: int | None,
        timeout: float | None,
    ) -> None:
        """Leaves the transactional id as it is, with what is prepared there, and goes on with another one."""
        self.machine.check_leave()
        seconds = self.call_timeout if timeout is None else timeout
        try:
            await within(self.clock, seconds, self._settled(identity is not None))
        except TimeoutError:
            raise TransactionPendingError(
                f"{transactional_id!r} cannot be taken yet: after {seconds:g} s records are still under way, or no "
                "broker has said which transactions the cluster has"
            ) from None
        # The last of its records may have failed meanwhile.
        self.machine.check_leave()
        machine = TransactionMachine(transactional_id)
        # A transaction of the id before must not be taken for one of this.
        machine.number = self.machine.number + 1
        if identity is not None:
            machine.adopt(identity, self._version())
        self.timeout_ms = self._configured_timeout_ms if timeout_ms is None else timeout_ms
        self.machine = machine
        # An InitProducerId that is still repeated for the id before ends by itself.
        self._init = None
        self.ids.use(machine)
        self.producer.on_transactional_id()
        self.producer.forget_failures()

    async def _settled(self, needs_version: bool) -> None:
        await self.producer.drained()
        if needs_version:
            # A broker that has been connected to has said what the cluster has agreed to.
            await self._requests.brokers_known()

    # Initializing

    async def init(self, timeout: float | None = None) -> None:
        """Returns when the coordinator knows this producer, and has ended what an older one left open."""
        self.machine.raise_if_fatal()
        if not self.machine.must_initialize:
            return
        self.machine.check_begin()
        self.machine.check_initialize()
        if self._init is None:
            self._init = self.spawn(self._initialize(), "initialize transactions")
        error = await self._joined(self._init, timeout, "InitProducerId has no outcome yet")
        if error is not None:
            self.machine.raise_if_fatal()
            raise error

    def init_soon(self) -> None:
        """Initializes without a caller that waits; `begin` joins it, and tries again if it fails."""
        if self.machine.status is _S.UNINITIALIZED and self._init is None:
            self._init = self.spawn(self._initialize(), "initialize transactions")

    async def _initialize(self) -> KafkaError | None:
        machine = self.machine
        try:
            async with self.turn:
                replaced = machine.initialize()
                outcome = await self.calls.settle(
                    init_producer(machine.transactional_id, self.timeout_ms, replaced),
                    lambda: self.machine is machine,
                )
                if outcome is None or self.machine is not machine:
                    return TransactionStateError("the client has taken another transactional id meanwhile")
                if outcome.consequence is Consequence.GO_ON:
                    assert outcome.response is not None
                    self._replaces_epochs = outcome.version >= REPLACED_SINCE
                    identity = ProducerIdentity(outcome.response.producer_id, outcome.response.producer_epoch)
                    self.machine.initialized(identity, self._version())
                    _logger.info("%s produces as %s", self.machine.transactional_id, identity)
                    return None
                assert outcome.error is not None
                if outcome.consequence is Consequence.FATAL:
                    self.failed(outcome.error, Consequence.FATAL)
                else:
                    self.machine.not_initialized(outcome.error)
                return outcome.error
        finally:
            if self.machine is machine:
                self._init = None

    def _version(self) -> int:
        level = self._features.level(TRANSACTION_VERSION)
        return ADDED_BY_LEADER if level >= ADDED_BY_LEADER else ADDED_BY_CLIENT

    # From begin to end

    async def begin(self, timeout: float | None = None) -> int:
        """The number of the transaction that is open from now on."""
        while (number := self.begin_now()) is None:
            await self.init(timeout)
            # Another caller may have begun one meanwhile, or have taken another transactional id.
        return number

    def begin_now(self) -> int | None:
        """The same, without waiting; None if it has to be initialized first."""
        self.machine.check_begin()
        if self.machine.status is _S.READY:
            self.machine.use_version(self._version())
        if self.machine.must_initialize:
            return None
        number = self.machine.begin()
        # What a thread appended while the last one ended has waited for this.
        self.producer.resume()
        return number

    def check_current(self, number: int) -> None:
        """Raises for a transaction that is over."""
        if number != self.machine.number:
            raise TransactionStateError("this transaction is over, and another one has begun since")

    async def prepare(self, number: int, timeout: float | None = None) -> PreparedTransaction:
        """Sends everything, and leaves the transaction open; by what it can be ended from now on."""
        self.check_current(number)
        machine = self.machine
        machine.prepare()
        # Not read behind the wait: by then it may have been ended, and the client have another identity.
        prepared = PreparedTransaction(machine.transactional_id, *machine.identity)
        task = self.spawn(self._prepared(), "prepare a transaction")
        error = await self._joined(task, timeout, "the records of the transaction are not all delivered yet")
        if error is not None:
            raise error
        return prepared

    async def _prepared(self) -> TransactionError | None:
        while True:
            await self.producer.drained()
            async with self.turn:
                if self.machine.status is not _S.PREPARED:
                    return self.why_not()
                # What another thread was about to append when this began belongs to it.
                if self.producer.buffered_records:
                    continue
                if not self.machine.is_known_to_coordinator:
                    return TransactionStateError(
                        "a transaction in which nothing was produced cannot be prepared: there is nothing for "
                        "another process to commit. Abort it"
                    )
                return None

    def has_prepared(self, transactional_id: str, producer_id: int, epoch: int) -> bool:
        """Whether it is this client's own."""
        machine = self.machine
        return (
            machine.status is _S.PREPARED
            and machine.transactional_id == transactional_id
            and machine.identity == (producer_id, epoch)
        )

    async def drained(self) -> None:
        """Until everything that was produced before is delivered or failed."""
        await self.producer.drained()

    async def end(self, number: int, *, commit: bool, timeout: float | None = None) -> None:
        """Ends it as wanted, or raises; TransactionPendingError: call the same again."""
        ending = self.begin_end(number, commit=commit)
        error = await self._joined(ending, timeout, _open_end(commit))
        if error is not None:
            raise error

    def begin_end(self, number: int, *, commit: bool) -> asyncio.Future[TransactionError | None]:
        """Has it ended as wanted; what comes of it is in the future, which is not to be cancelled."""
        self.check_current(number)
        return self._ends.begin(number, commit=commit)

    def raise_end(
        self, ending: asyncio.Future[TransactionError | None], commit: bool, seconds: float
    ) -> None:
        """What `end` raises after so many seconds."""
        if not ending.done():
            raise self._pending(_open_end(commit), seconds)
        if ending.cancelled():
            raise ClientClosedError
        error = ending.result()
        if error is not None:
            raise error

    def why_not(self) -> TransactionError:
        machine = self.machine
        if machine.status is _S.FATAL_ERROR:
            assert machine.error is not None
            return producer_lost(machine.transactional_id, machine.error)
        if machine.error is not None:
            return abort_needed(machine.error)
        word = "committed" if machine.status is _S.COMMITTING else "aborted"
        return TransactionStateError(f"the transaction was {word} meanwhile")

    @property
    def is_busy(self) -> bool:
        """Whether a request of the transaction is under way, or waits for its turn."""
        # The lock itself is free for a moment before the next that waits for it has it.
        return self.turn.locked() or self._sending > 0

    def may_come_late(self, outcome: CallOutcome[Any] | None) -> None:
        """A request may be carried out yet that has no response."""
        if self._replaces_epochs and (outcome is None or outcome.is_unsure):
            self.machine.may_come_late()

    # What belongs to it

    def _pause_over(self) -> None:
        self.producer.drain()

    def _add_soon(self) -> None:
        if self._adding is None:
            self._adding = self._tasks.spawn(self._add(), "add partitions to a transaction")

    async def _add(self) -> None:
        machine = self.machine
        try:
            async with self.turn:
                while partitions := machine.to_add():
                    outcome = await self.calls.settle(
                        add_partitions(machine.transactional_id, machine.identity, partitions),
                        lambda: machine.may_send,
                    )
                    if outcome is None or outcome.is_unsure:
                        machine.tried()
                    if outcome is None:
                        return
                    if outcome.consequence is not Consequence.GO_ON:
                        assert outcome.error is not None
                        self.failed(outcome.error, outcome.consequence)
                        return
                    machine.added(partitions)
                    self.producer.resume()
        finally:
            self._adding = None

    async def send_offsets(
        self,
        number: int,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: GroupMetadata,
        timeout: float | None = None,
    ) -> None:
        """They are committed with the transaction, or not at all."""
        self.check_current(number)
        self.machine.check_open()
        if not offsets:
            return
        task = self.spawn(self._send_offsets(dict(offsets), group), "send offsets to a transaction")
        self._sending += 1
        task.add_done_callback(self._sent)
        error = await self._joined(task, timeout, f"the offsets of group {group.group_id} are not sent yet")
        if error is not None:
            raise error

    def _sent(self, _: object) -> None:
        self._sending -= 1

    async def _send_offsets(
        self, offsets: dict[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> TransactionError | None:
        machine = self.machine
        async with self.turn:
            if not machine.may_send:
                return self.why_not()
            if machine.version < ADDED_BY_LEADER and group.group_id not in machine.groups:
                added = await self.calls.settle(
                    add_offsets(machine.transactional_id, machine.identity, group.group_id),
                    lambda: machine.may_send,
                )
                if added is None or added.is_unsure:
                    machine.tried()
                if (error := self._error_of(added)) is not None:
                    return error
                machine.added(())
            machine.groups[group.group_id] = None
            machine.tried()
            outcome = await self.calls.settle(
                commit_offsets(
                    machine.transactional_id,
                    machine.identity,
                    group,
                    offsets,
                    adds=machine.version >= ADDED_BY_LEADER,
                ),
                lambda: machine.may_send,
            )
            self.may_come_late(outcome)
            if outcome is not None and outcome.version >= 0:
                self.checks_groups = outcome.version >= GROUPS_CHECKED_SINCE
            return self._error_of(outcome)

    def _error_of(self, outcome: CallOutcome[Any] | None) -> TransactionError | None:
        """What a caller is to raise; the machine knows it then."""
        if outcome is None:
            return self.why_not()
        if outcome.consequence is Consequence.GO_ON:
            return None
        assert outcome.error is not None
        self.failed(outcome.error, outcome.consequence)
        return self.why_not()

    # What goes wrong

    def on_records_failed(self, error: BaseException, is_sent: bool) -> None:
        """Records were given up. Of a batch that was sent, the broker may wait for the sequences, or have them."""
        consequence = (
            consequence_of(TransactionalCall.PRODUCE, error.code)
            if isinstance(error, BrokerError)
            else Consequence.ABORT
        )
        if is_sent and consequence is Consequence.ABORT:
            consequence = Consequence.ABORT_AND_BUMP
        known = (
            error if isinstance(error, KafkaError) else KafkaError(f"records were not delivered: {error!r}")
        )
        self.failed(known, consequence)

    def failed(self, error: KafkaError, consequence: Consequence) -> None:
        before = self.machine.status
        self.machine.failed(error, consequence)
        if self.machine.status is before:
            return
        _logger.warning(
            "the transaction of %s has to end: %s: %s",
            self.machine.transactional_id,
            self.machine.status.value,
            error,
        )
        # Not from here: this may be in the middle of the batches that are to fail.
        asyncio.get_running_loop().call_soon(self._fail_unsent)

    def _fail_unsent(self) -> None:
        """Nothing more of it is sent: what waits need not wait any longer."""
        if (stopped := self.ids.stopped) is not None:
            self.producer.abort_transaction(stopped)

    # The end of the client

    async def close(self, timeout: float) -> None:
        """Aborts what is open, as far as that is possible in time; a transaction that is prepared stays."""
        try:
            if self._ends.pending is not None:
                await within(self.clock, timeout, asyncio.shield(self._ends.pending))
            elif self.machine.status in (_S.IN_TRANSACTION, _S.ABORTABLE_ERROR):
                await self.end(self.machine.number, commit=False, timeout=timeout)
        except (TimeoutError, TransactionError) as error:
            _logger.warning(
                "the client of %s is closed before its transaction has ended, which its coordinator will do: %s",
                self.machine.transactional_id,
                str(error) or "no response in time",
            )
        finally:
            self.ids.close()

    # Waiting

    def spawn(self, work: Coroutine[Any, Any, _T], name: str) -> asyncio.Task[_T]:
        return self._tasks.spawn(work, name)

    async def _joined(self, work: asyncio.Future[_T], timeout: float | None, pending: str) -> _T:
        seconds = self.call_timeout if timeout is None else timeout
        try:
            return await within(self.clock, seconds, asyncio.shield(work))
        except TimeoutError:
            raise self._pending(pending, seconds) from self.calls.last_error
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if work.cancelled() and caller is not None and not caller.cancelling():
                # Not the caller was cancelled, but with the client what it waits for.
                raise ClientClosedError from None
            raise

    def _pending(self, pending: str, seconds: float) -> TransactionPendingError:
        last = self.calls.last_error
        error = TransactionPendingError(
            f"{pending} (timeout={seconds:g} s"
            + ("" if last is None else f"; the last error was: {last}")
            + ")"
        )
        error.__cause__ = last
        return error


def _open_end(commit: bool) -> str:
    word = "commit" if commit else "abort"
    return f"how the transaction ends is not known yet: call {word} again, to wait for that"
