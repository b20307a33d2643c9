"""The transactional ids of one partition of the transaction topic: what requests and time do to them.

An operation takes the state of an id (state.py) to the next, and the next state is the record that is written. The
markers of an end leave when its Prepare record is on every replica in sync, whatever became of the request; until
then a coordinator that fails might take the end back. A coordinator that loads sends the markers of every end that is
prepared, under its own epoch.

What needs a producer id that is not at hand raises `ProducerIdNeeded`, before anything is changed, and is called
again with one (coordinator.py).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from ottla.broker.coordinator.shard import CoordinatorRecord, Result
from ottla.broker.coordinator.transactions import records
from ottla.broker.coordinator.transactions.markers import MarkerSender, PendingEnd
from ottla.broker.coordinator.transactions.state import (
    ProducerIdAndEpoch,
    ProducerIdNeeded,
    TopicPartition,
    TransactionalIdState,
    TransactionalIdStatus,
)
from ottla.broker.metadata.features import TRANSACTION_VERSION
from ottla.errors import InvalidProducerIdMappingError, UnsupportedVersionError

if TYPE_CHECKING:
    from ottla.broker.coordinator.shard import ShardContext
    from ottla.broker.metadata.image import Delta

_log = logging.getLogger("ottla.broker.coordinator.transactions.manager")

_TIMEOUTS: Final = "timeouts"
_EXPIRY: Final = "expiry"


class TransactionShard:
    """One shard. `allocate` gets a producer id and calls back with it; `coordinator_epoch` is the leader epoch."""

    def __init__(
        self,
        context: ShardContext,
        markers: MarkerSender,
        coordinator_epoch: Callable[[], int],
        allocate: Callable[[Callable[[int], object]], object],
    ) -> None:
        self.context = context
        self.states: dict[str, TransactionalIdState] = {}
        self.ends: dict[str, PendingEnd] = {}
        """The ends whose markers are on their way, by transactional id."""
        self._markers = markers
        self._coordinator_epoch = coordinator_epoch
        self._allocate = allocate
        # What was decided last, with its bytes: the log does not have the last epoch, and memory keeps it.
        self._decided: dict[str, tuple[bytes | None, TransactionalIdState | None]] = {}
        # Prepare records that are not yet committed, in the order of the log, and the newest record of each id.
        self._prepared: deque[tuple[int, str]] = deque()
        self._newest: dict[str, int] = {}
        self._committed_to = 0
        self._is_loaded = False

    @property
    def transaction_version(self) -> int:
        """Of the cluster."""
        return self.context.image.features.get(TRANSACTION_VERSION.name, 0)

    # Records

    def replay(self, key: bytes, value: bytes | None, offset: int) -> None:
        decoded = records.decode(key, None)
        if decoded is None:
            _log.warning("a record of %s-%s is left out: a newer release may have written it", *self._place)
            return
        transactional_id, _ = decoded
        written, state = self._decided.pop(transactional_id, (b"", None))
        if written is not value:
            decoded = records.decode(key, value)
            state = None if decoded is None else decoded[1]
        # After Prepare* comes Complete*, and nothing else: the end that was on its way is over.
        self.ends.pop(transactional_id, None)
        if state is None:
            self.states.pop(transactional_id, None)
            self._newest.pop(transactional_id, None)
            return
        self.states[transactional_id] = state
        self._newest[transactional_id] = offset
        if state.is_pending:
            self._prepared.append((offset, transactional_id))
        if self._is_loaded:
            self._arm(is_ongoing=state.status is TransactionalIdStatus.ONGOING)

    def replay_transactional(self, producer_id: int, key: bytes, value: bytes | None, offset: int) -> None:
        raise ValueError("the transaction topic has no transactional records")

    def end_transaction(self, producer_id: int, is_commit: bool, offset: int) -> None:
        raise ValueError("the transaction topic has no markers")

    @property
    def _place(self) -> tuple[str, int]:
        return "__transaction_state", self.context.partition

    def _write(self, transactional_id: str, state: TransactionalIdState | None) -> CoordinatorRecord:
        record = records.encode(transactional_id, state, transaction_version=self.transaction_version)
        self._decided[transactional_id] = (record.value, state)
        return record

    # What happens to the shard

    def on_loaded(self) -> None:
        self._is_loaded = True
        self._arm(is_ongoing=self._has_ongoing())
        self.on_committed(self._committed_to)

    def on_unloaded(self) -> None:
        self._markers.drop(self.context.partition)

    def on_metadata(self, delta: Delta) -> None:
        """The sender looks at the image by itself."""

    def on_committed(self, offset: int) -> None:
        self._committed_to = max(self._committed_to, offset)
        if not self._is_loaded:
            return
        while self._prepared and self._prepared[0][0] < self._committed_to:
            written_at, transactional_id = self._prepared.popleft()
            if self._newest.get(transactional_id) == written_at:
                self._send_markers(transactional_id, self.states[transactional_id])

    def _send_markers(self, transactional_id: str, state: TransactionalIdState) -> None:
        end = PendingEnd(
            transactional_id=transactional_id,
            shard=self.context.partition,
            producer=state.producer,
            is_commit=state.is_commit,
            coordinator_epoch=self._coordinator_epoch(),
            transaction_version=state.client_version,
            remaining=dict.fromkeys(state.partitions),
            on_written=lambda: self.context.submit(lambda shard: self._complete(transactional_id, end)),
        )
        self.ends[transactional_id] = end
        self._markers.send(end)

    def _complete(self, transactional_id: str, end: PendingEnd) -> Result[None]:
        state = self.states.get(transactional_id)
        if state is None or not state.is_pending or self.ends.get(transactional_id) is not end:
            return Result([], None)  # a first attempt has been written after all
        record = self._write(transactional_id, state.complete(self.context.now_ms()))
        return Result([record], None)

    # Requests

    def init(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None,
        spare_id: int | None,
    ) -> Result[ProducerIdAndEpoch | None]:
        """The producer to be; None where a transaction has to be aborted first, and the request to come again."""
        state = self.states.get(transactional_id)
        now = self.context.now_ms()
        if state is None:
            if spare_id is None:
                raise ProducerIdNeeded
            state = TransactionalIdState(producer_id=spare_id, timeout_ms=timeout_ms)
        state.check_initialize(expected)
        if state.status is TransactionalIdStatus.ONGOING:
            fenced = state.fence(self.transaction_version, now, spare_id)
            return Result([self._write(transactional_id, fenced)], None)
        initialized = state.initialize(expected, timeout_ms, now, spare_id)
        return Result([self._write(transactional_id, initialized)], initialized.producer)

    def add(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Sequence[TopicPartition],
        client_version: int,
    ) -> Result[None]:
        added = self._known(transactional_id).add(producer, partitions, client_version, self.context.now_ms())
        return Result([] if added is None else [self._write_of_client(transactional_id, added)], None)

    def verify(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Sequence[TopicPartition]
    ) -> Result[dict[TopicPartition, int]]:
        return Result([], self._known(transactional_id).verify(producer, partitions))

    def end(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        is_commit: bool,
        bumps: bool,
        spare_id: int | None,
    ) -> Result[ProducerIdAndEpoch]:
        """What the producer goes on with."""
        state = self._known(transactional_id)
        now = self.context.now_ms()
        ended = (
            state.end_and_bump(producer, is_commit, now, spare_id)
            if bumps
            else state.end(producer, is_commit, now)
        )
        if ended is None:
            return Result([], state.producer)
        return Result([self._write_of_client(transactional_id, ended)], ended.next_producer)

    def _write_of_client(self, transactional_id: str, state: TransactionalIdState) -> CoordinatorRecord:
        """The log of transaction.version 0 has no place for what producers of version 2 do: it refuses them."""
        if state.client_version and not self.transaction_version:
            raise UnsupportedVersionError
        return self._write(transactional_id, state)

    def _known(self, transactional_id: str) -> TransactionalIdState:
        state = self.states.get(transactional_id)
        if state is None:
            raise InvalidProducerIdMappingError
        return state

    # What time does

    def _arm(self, *, is_ongoing: bool) -> None:
        """The sweeps run while there is something that they may find."""
        if self.states and _EXPIRY not in self.context.timers:
            self._sweep_later(_EXPIRY, "transaction.remove.expired.transaction.cleanup.interval.ms")
        if is_ongoing and _TIMEOUTS not in self.context.timers:
            self._sweep_later(_TIMEOUTS, "transaction.abort.timed.out.transaction.cleanup.interval.ms")

    def _has_ongoing(self) -> bool:
        return any(state.status is TransactionalIdStatus.ONGOING for state in self.states.values())

    def _sweep_later(self, name: str, interval: str) -> None:
        sweep = self._expire if name == _EXPIRY else self._abort_timed_out
        self.context.timers.schedule(name, self.context.configs.value(interval) / 1000, lambda shard: sweep())

    def _expire(self) -> Result[None]:
        now, expiration = self.context.now_ms(), self.context.configs.value("transactional.id.expiration.ms")
        expired = [name for name, state in self.states.items() if state.is_expired(now, expiration)]
        tombstones = [self._write(transactional_id, None) for transactional_id in expired]
        self._arm(is_ongoing=False)
        return Result(tombstones, None, atomic=False)

    def _abort_timed_out(self) -> Result[None]:
        now = self.context.now_ms()
        late = [name for name, state in self.states.items() if state.has_timed_out(now)]
        for transactional_id in late:
            # Each in an operation of its own: what one of them lacks does not hold up the others.
            self._abort_soon(transactional_id, self.states[transactional_id], None)
        self._arm(is_ongoing=self._has_ongoing())
        return Result([], None)

    def _abort_soon(self, transactional_id: str, late: TransactionalIdState, spare_id: int | None) -> None:
        def abort(shard: TransactionShard) -> Result[None]:
            now = self.context.now_ms()
            state = self.states.get(transactional_id)
            if state is None or state.producer != late.producer or not state.has_timed_out(now):
                return Result([], None)
            try:
                fenced = state.fence(self.transaction_version, now, spare_id)
            except ProducerIdNeeded:
                self._allocate(lambda new_id: self._abort_soon(transactional_id, late, new_id))
                return Result([], None)
            _log.info("the transaction of %r has timed out and is aborted", transactional_id)
            return Result([self._write(transactional_id, fenced)], None)

        self.context.submit(abort)
