"""What a partition remembers of the producers that write to it: idempotence and fencing (KIP-98, KIP-890).

A batch of an idempotent producer is appended exactly once and in order. Its last five batches are remembered, so
that one which was sent again gets its old offset instead; a gap or an older epoch is refused. These are
the rules of Kafka's ProducerStateManager and ProducerAppendInfo. A transaction begins with a batch for which the
leader has asked the coordinator (guards.py), and ends with a marker.

A state machine: `check` refuses or not, `record` takes what was appended. Files are in snapshots.py.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Final, NamedTuple

from ottla._native.record_batch import Batch
from ottla.broker.log.batch import NO_EPOCH, NO_SEQUENCE, NO_TIMESTAMP
from ottla.broker.log.guards import Guard, Guards
from ottla.broker.log.transactions import (
    AbortedIndex,
    AbortedTransaction,
    Completed,
    Marker,
    OpenTransactions,
)
from ottla.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceNumberError,
    TransactionCoordinatorFencedError,
)
from ottla.wire.batch_header import LARGEST_SEQUENCE

REMEMBERED_BATCHES: Final = 5
_LARGEST_EPOCH: Final = 2**15 - 1
_TRANSACTIONS_V2: Final = 2


class Origin(Enum):
    """Who wrote a batch: it decides what is checked."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"


class RememberedBatch(NamedTuple):
    """A batch that may come again."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ProducerStateEntry:
    """One producer, by the batches that it has in the log."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "producer_id",
        "transaction_first_offset",
    )

    def __init__(
        self,
        producer_id: int,
        epoch: int = NO_EPOCH,
        coordinator_epoch: int = NO_EPOCH,
        last_timestamp: int = NO_TIMESTAMP,
        transaction_first_offset: int | None = None,
    ) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.transaction_first_offset = transaction_first_offset
        self.batches: deque[RememberedBatch] = deque(maxlen=REMEMBERED_BATCHES)

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def is_in_transaction(self, epoch: int) -> bool:
        return self.transaction_first_offset is not None and self.epoch == epoch

    def begin_epoch(self, epoch: int) -> None:
        """Sequences begin anew with an epoch."""
        self.batches.clear()
        self.epoch = epoch


class ProducerStates:
    """The producers of one partition, and their open transactions."""

    def __init__(self, partition: str, expiration_ms: int, *, guarded: bool = True) -> None:
        self._partition = partition
        self.expiration_ms = expiration_ms
        self.guarded = guarded
        """Whether data begins a transaction only with a guard: transaction.partition.verification.enable."""
        self._states: dict[int, ProducerStateEntry] = {}
        self.guards = Guards()
        self.transactions = OpenTransactions()

    def get(self, producer_id: int) -> ProducerStateEntry | None:
        return self._states.get(producer_id)

    def active(self) -> list[ProducerStateEntry]:
        """All producers that are remembered, in the order of their ids."""
        return [self._states[producer_id] for producer_id in sorted(self._states)]

    def __len__(self) -> int:
        return len(self._states)

    def duplicate_of(self, batch: Batch) -> RememberedBatch | None:
        """The appended batch of which this one is a repetition."""
        state = self._states.get(batch.producer_id)
        if state is None or state.epoch != batch.producer_epoch:
            return None
        first, last = batch.base_sequence, batch.last_sequence
        for known in state.batches:
            if known.first_sequence == first and known.last_sequence == last:
                return known
        return None

    def guard(
        self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, adds_partitions: bool
    ) -> Guard | None:
        """What the leader asks the coordinator for, before it appends transactional data; None: it need not ask.

        `adds_partitions` says that the coordinator adds the partition instead of looking whether it is there, as for
        producers with transactions of version 2. Data of the coordinator of groups has no sequence.
        """
        state = self._states.get(producer_id)
        if state is not None:
            if epoch < state.epoch:
                raise InvalidProducerEpochError(
                    f"Epoch of producer {producer_id} in {self._partition} is {epoch}, which is smaller than the "
                    f"last seen epoch {state.epoch}"
                )
            if state.is_in_transaction(epoch):
                return None
        return self.guards.place(producer_id, epoch, sequence, now_ms, adds_partitions=adds_partitions)

    def check(self, batch: Batch, offset: int, origin: Origin, guard: Guard | None = None) -> None:
        """Whether a leader may append the producer's data at `offset`; `guard` is the one it has asked with."""
        state = self._states.get(batch.producer_id)
        if batch.is_transactional and (state is None or not state.is_in_transaction(batch.producer_epoch)):
            self._check_guard(batch.producer_id, guard)
        if state is None:
            # Nothing is known: any sequence is as good as another, as the log may have forgotten the producer.
            state = ProducerStateEntry(batch.producer_id)
        self._check_epoch(state, batch.producer_epoch, offset)
        if origin is Origin.CLIENT:
            self._check_guarded_sequence(state, batch, offset)
            self._check_sequence(state, batch, offset)
        if state.transaction_first_offset is not None and not batch.is_transactional:
            raise InvalidTxnStateError(
                f"Expected transactional write from producer {batch.producer_id} at offset {offset} "
                f"in partition {self._partition}"
            )

    def _check_guard(self, producer_id: int, guard: Guard | None) -> None:
        if self.guarded and (guard is None or self.guards.get(producer_id) is not guard):
            raise InvalidTxnStateError("Record was not part of an ongoing transaction")

    def _check_epoch(self, state: ProducerStateEntry, epoch: int, offset: int) -> None:
        if epoch < state.epoch:
            raise self._old_epoch(state, epoch, offset)

    def _old_epoch(self, state: ProducerStateEntry, epoch: int, offset: int) -> InvalidProducerEpochError:
        return InvalidProducerEpochError(
            f"Epoch of producer {state.producer_id} at offset {offset} in {self._partition} is {epoch}; "
            f"the last seen epoch is {state.epoch}"
        )

    def _check_guarded_sequence(self, state: ProducerStateEntry, batch: Batch, offset: int) -> None:
        guard = self.guards.get(batch.producer_id)
        if guard is None:
            return
        sequence = batch.base_sequence
        where = f"for producer {batch.producer_id} at offset {offset} in partition {self._partition}"
        if guard.adds_partitions and sequence != 0 and not state.batches:
            raise OutOfOrderSequenceNumberError(
                f"Invalid sequence number {where}: {sequence} (incoming seq. number). Expected sequence 0 for "
                "transactions v2 idempotent producer with no existing state."
            )
        if sequence > guard.lowest_sequence:
            raise OutOfOrderSequenceNumberError(
                f"Out of order sequence number {where}: {sequence} (incoming seq. number), "
                f"{guard.lowest_sequence} (earliest seen sequence)"
            )

    def _check_sequence(self, state: ProducerStateEntry, batch: Batch, offset: int) -> None:
        sequence = batch.base_sequence
        if batch.producer_epoch != state.epoch:
            if sequence != 0 and state.epoch != NO_EPOCH:
                raise OutOfOrderSequenceNumberError(
                    f"Invalid sequence number for new epoch of producer {batch.producer_id} at offset {offset} in "
                    f"partition {self._partition}: {batch.producer_epoch} (request epoch), {sequence} "
                    f"(seq. number), {state.epoch} (current producer epoch)"
                )
        elif state.epoch != NO_EPOCH and sequence != (state.last_sequence + 1) & LARGEST_SEQUENCE:
            raise OutOfOrderSequenceNumberError(
                f"Out of order sequence number for producer {batch.producer_id} at offset {offset} in partition "
                f"{self._partition}: {sequence} (incoming seq. number), {state.last_sequence} "
                "(current end sequence number)"
            )

    def check_marker(self, batch: Batch, marker: Marker, offset: int, transaction_version: int) -> None:
        """Whether a leader may append a coordinator's marker at `offset`."""
        state = self._states.get(batch.producer_id)
        if state is None:
            return
        epoch = batch.producer_epoch
        if transaction_version >= _TRANSACTIONS_V2:
            # Each transaction has an epoch of its own, and its end the next one (KIP-890). The same marker may
            # come again; and at the largest epoch there is no next one.
            again = state.transaction_first_offset is None or epoch == _LARGEST_EPOCH
            if epoch < state.epoch or (epoch == state.epoch and not again):
                raise self._old_epoch(state, epoch, offset)
        else:
            self._check_epoch(state, epoch, offset)
        if marker.coordinator_epoch < state.coordinator_epoch:
            raise TransactionCoordinatorFencedError(
                f"Invalid coordinator epoch for producerId {batch.producer_id} at offset {offset} in partition "
                f"{self._partition}: {marker.coordinator_epoch} (zombie), {state.coordinator_epoch} (current)"
            )

    def record(self, batch: Batch, marker: Marker | None, aborted: AbortedIndex) -> None:
        """A batch has been appended to the segment that has the index `aborted`."""
        if batch.has_producer_id:
            # What is written comes before what is remembered: a write that fails has changed nothing here.
            if marker is not None and marker.is_abort:
                entry = self._aborted_by(batch)
                if entry is not None:
                    aborted.append(entry)
            self.update(batch, marker)

    def _aborted_by(self, batch: Batch) -> AbortedTransaction | None:
        state = self._states.get(batch.producer_id)
        if state is None or state.transaction_first_offset is None:
            return None
        completed = Completed(batch.producer_id, state.transaction_first_offset, batch.base_offset)
        return AbortedTransaction(*completed, self.transactions.stable_after(completed))

    def update(self, batch: Batch, marker: Marker | None = None) -> None:
        """A producer's batch has been appended."""
        producer_id = batch.producer_id
        state = self._states.get(producer_id)
        if state is None:
            state = self._states[producer_id] = ProducerStateEntry(producer_id)
        if state.epoch != batch.producer_epoch:
            state.begin_epoch(batch.producer_epoch)
        if batch.is_transactional:
            self.guards.remove(producer_id)
        if batch.is_control:
            if marker is not None:
                self._end_transaction(state, batch, marker)
            return
        state.batches.append(
            RememberedBatch(
                batch.base_sequence,
                batch.last_sequence,
                batch.base_offset,
                batch.last_offset,
                batch.max_timestamp,
            )
        )
        state.last_timestamp = batch.max_timestamp
        if batch.is_transactional and state.transaction_first_offset is None:
            state.transaction_first_offset = batch.base_offset
            self.transactions.begin(producer_id, batch.base_offset)

    def _end_transaction(self, state: ProducerStateEntry, batch: Batch, marker: Marker) -> None:
        first_offset = state.transaction_first_offset
        state.coordinator_epoch = marker.coordinator_epoch
        state.last_timestamp = marker.timestamp
        state.transaction_first_offset = None
        # A transaction without data in this partition changes nothing for its readers.
        if first_offset is not None:
            self.transactions.complete(Completed(batch.producer_id, first_offset, batch.base_offset))

    def expire(self, now_ms: int) -> None:
        """Forgets producers that have not written for producer.id.expiration.ms and have no transaction open."""
        for producer_id, state in list(self._states.items()):
            idle_ms = now_ms - state.last_timestamp
            if state.transaction_first_offset is None and idle_ms >= self.expiration_ms:
                del self._states[producer_id]
        self.guards.expire(now_ms, self.expiration_ms)

    def reset(self, states: list[ProducerStateEntry]) -> None:
        """Forgets everything and begins with what a snapshot says."""
        self._states = {state.producer_id: state for state in states}
        self.transactions.clear()
        # Only a log that follows another begins anew: what its leader was asked, it was not.
        self.guards.clear()
        opened = [
            (state.transaction_first_offset, state.producer_id)
            for state in states
            if state.transaction_first_offset is not None
        ]
        for first_offset, producer_id in sorted(opened):
            self.transactions.begin(producer_id, first_offset)
