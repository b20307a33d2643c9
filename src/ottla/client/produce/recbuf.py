"""RecBuf: the batches of one partition on their way out, in order, with their sequence numbers.

A state machine of the loop: events and the time come in, nothing is awaited, and what is to be done next is what it
returns (`ready_at`, `next_batch`, `overdue`). Records that still gather are in the native RecordBuffer, which belongs
to the appending side; batches are taken from there when they can be sent, so that an open one keeps filling while the
broker is busy.

Sequence numbers are the partition's: a batch keeps its own whichever broker leads. They are given when a batch is
first sent. One request at a time until a first success (a broker that does not know the producer takes any sequence
as the first), then as many as the connection may have, until one of them has to be sent again: that goes alone.

A batch that is given up leaves a gap in the sequence, and the broker refuses what comes behind it:
- If neither it nor anything behind it may be stored, those behind get their sequences anew, from the gap on.
- If something behind it may be stored, everything goes on as it is. Either the broker has the one that was given up,
  and takes the others, or it answers OUT_OF_ORDER_SEQUENCE_NUMBER for the first of them. Of one that was never stored
  this proves that the log has none of them, and a new epoch begins. Of one that may be stored it proves nothing: a
  leader recognizes the last five batches, but after a restart only the last one, and it fails.
- If it may be stored itself, which sequence comes next is unknown: the epoch is over.

A new epoch begins with sequence 0 (KIP-360), and a broker does not recognize in it what it stored in the old one. So
it begins only when no open batch may be stored. What becomes of those that may be depends on `EpochEnd`.

Invariant: in `batches` there are all that are neither delivered nor failed, in the order of their records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import Enum, auto
from itertools import islice
from typing import Final, NamedTuple

from ottla.client.produce.batch import NO_SEQUENCE, ProducerBatch
from ottla.client.produce.producer_id import NO_PRODUCER, ProducerIdentity
from ottla.wire import ZERO_UUID, Uuid
from ottla.wire.records import EncodedBatch, RecordBuffer
from ottla.wire.templates import AcknowledgementTemplate, RecordsTemplate

_SEQUENCES: Final = 1 << 31


def next_sequence(sequence: int, count: int) -> int:
    """The sequence number that follows `count` records from `sequence` on; after 2^31 - 1 comes 0."""
    return (sequence + count) % _SEQUENCES


class EpochEnd(Enum):
    """Why a partition's epoch is over, which decides about the batches that may be stored in it."""

    NOT_STORED = auto()
    """The leader has none of them: it lacks what comes before."""
    GAP = auto()
    """A batch that may be stored was given up. The leader still recognizes those before it, and they go on."""
    FORGOTTEN = auto()
    """Brokers have forgotten the producer, or the topic was created anew: no broker can say whether they are stored,
    and they are given up."""


class BatchTemplate(NamedTuple):
    """A request with one batch of one partition, and the response to it."""

    request: RecordsTemplate
    acknowledgement: AcknowledgementTemplate


class RecBuf:
    """One partition's batches, from the moment they leave the buffer until they are done."""

    def __init__(
        self,
        buffer: RecordBuffer,
        *,
        linger: float,
        max_in_flight: int,
        is_idempotent: bool,
        is_transactional: bool = False,
    ) -> None:
        self.topic = buffer.topic
        self.partition = buffer.partition
        self.topic_id: Uuid = ZERO_UUID
        self.buffer = buffer
        self.batches: deque[ProducerBatch] = deque()
        self.leader: int | None = None
        """The broker whose sink sends the batches."""
        self.in_flight = 0
        self.is_compressing = False
        """A thread compresses its next batch."""
        self.is_deleted = False
        """The topic was created anew without this partition: there is nowhere to send anything to."""
        self.is_purged = False
        """The program has purged the topic: nothing is sent, and what is in flight ends with its response."""
        self.is_urgent = False
        """What gathers does not linger: a caller waits for it, or for the memory that it takes."""
        self.template: BatchTemplate | None = None
        """Of requests with one batch of this partition alone."""
        self.alarm_at: float | None = None
        """When the loop will look at it again (wakeups.py)."""
        self.identity: ProducerIdentity | None = None if is_idempotent else NO_PRODUCER
        self.retired_id: int | None = None
        """A producer id that this partition may not use again: a broker refused it, or its epochs are used up."""
        self.used_at = 0.0
        """When its last batch got its first record."""
        self.failures = 0
        """How often in a row a batch had to be sent again."""
        self.has_gap = False
        """A batch was given up whose sequences the broker expects next: it is going to refuse those behind it."""
        self._is_idempotent = is_idempotent
        self._is_transactional = is_transactional
        self._linger = linger
        self._max_in_flight = max_in_flight
        self._may_pipeline = False
        self._epoch_end: EpochEnd | None = None
        self._sequence = 0
        self._not_before = 0.0
        self.queued = 0
        """Of `batches`, how many are not in flight."""
        self._queued_bytes = 0

    # What there is to send

    @property
    def waiting_bytes(self) -> int:
        """What is in no request yet; any thread may read it."""
        return self.buffer.bytes + self._queued_bytes

    @property
    def is_empty(self) -> bool:
        return not self.batches and self.buffer.records == 0

    def ready_at(self) -> float | None:
        """From when on there is a batch to send; None while that depends on an event, or there is nothing."""
        if self.leader is None or self.is_compressing:
            return None
        # Behind an epoch that is over nothing is sent: its sequences would be given out, and then once more.
        in_flight = self.in_flight
        if in_flight and (self._epoch_end or in_flight >= (self._max_in_flight if self._may_pipeline else 1)):
            return None
        if self._epoch_end is EpochEnd.FORGOTTEN and any(batch.is_ambiguous for batch in self.batches):
            return None
        buffer = self.buffer
        if self.queued or buffer.full_batches or (self.is_urgent and buffer.records):
            return self._not_before
        opened_at = buffer.opened_at
        return None if opened_at is None else max(self._not_before, opened_at + self._linger)

    def next_batch(self, now: float, slack: float) -> ProducerBatch | None:
        """The batch to send now; it stays here. `slack` is how much less than `linger_ms` it may have lingered."""
        when = self.ready_at()
        if when is None or when > now + slack or self._not_before > now:
            return None
        if not self.queued:
            # Gathering is over for all records: either a batch is full, or it is time for the open one.
            opened_at = self.buffer.opened_at
            lingered = opened_at is not None and opened_at + self._linger <= now + slack
            self._take(self.buffer.drain(0, self.is_urgent or lingered))
        return self._first_queued()

    def _first_queued(self) -> ProducerBatch | None:
        if not self.in_flight:
            return self.batches[0] if self.batches else None
        for batch in self.batches:
            if not batch.is_in_flight:
                return batch
        return None

    def _take(self, drained: list[EncodedBatch]) -> None:
        for encoded in drained:
            self._append(ProducerBatch(encoded, encoded.opened_at))
        if self.buffer.records == 0:
            self.is_urgent = False

    def _append(self, batch: ProducerBatch) -> None:
        self.batches.append(batch)
        self.used_at = batch.opened_at
        self._enqueue(batch)

    def _enqueue(self, batch: ProducerBatch) -> None:
        self.queued += 1
        self._queued_bytes += batch.encoded.raw_size

    def _dequeue(self, batch: ProducerBatch) -> None:
        self.queued -= 1
        self._queued_bytes -= batch.encoded.raw_size

    def take_all(self) -> None:
        """Ends all gathering: what was appended until now is in `batches`."""
        self._take(self.buffer.drain(None, True))

    def take_full(self) -> None:
        """The full batches only."""
        self._take(self.buffer.drain(None, False))

    def append(self, batch: ProducerBatch) -> None:
        """A batch that was made elsewhere; it goes behind everything appended before."""
        self.take_all()
        self._append(batch)

    # Sending

    def send(self, batch: ProducerBatch, given: ProducerIdentity | None, node_id: int, now: float) -> bool:
        """The batch goes into a request, with its producer and sequence; False if there is no id for it yet.

        `given` is the client's id, with which a partition begins. A transactional producer has one for all, and every
        batch needs it: without it, there is no transaction to send it in.
        """
        if self._is_transactional:
            if given is None:
                return False
            if given != self.identity:
                self._begin_identity(given)
        if self._epoch_end is not None and not any(each.may_be_stored for each in self.batches):
            self._begin_epoch()
        if batch.sequence == NO_SEQUENCE:
            if self.identity is None:
                if given is None or given.producer_id == self.retired_id:
                    return False
                self.identity = given
            if self._is_idempotent:
                batch.identity = self.identity
                batch.sequence = self._sequence
                self._sequence = next_sequence(self._sequence, batch.encoded.count)
        batch.is_in_flight = True
        batch.node_id = node_id
        batch.attempts += 1
        batch.written_at = now
        self.in_flight += 1
        self._dequeue(batch)
        return True

    def _begin_identity(self, identity: ProducerIdentity) -> None:
        """Of another transaction; every batch of the one before is done."""
        self.identity = identity
        self._may_pipeline = False
        self.has_gap = False
        self._number_from(0, self.batches)

    def _begin_epoch(self) -> None:
        """Everything that is left begins anew: it is known not to be stored under the sequences it had."""
        self._epoch_end = None
        self.has_gap = False
        if self.identity is not None and (bumped := self.identity.bumped()) is not None:
            self.identity = bumped
        else:
            self._retire_id()
        self._number_from(0, self.batches)

    def _number_from(self, sequence: int, batches: Iterable[ProducerBatch]) -> None:
        """The next of these batches that is sent gets this sequence; none of them is stored under another one."""
        self._sequence = sequence
        for batch in batches:
            batch.sequence = NO_SEQUENCE

    def _retire_id(self) -> None:
        if self.identity is not None:
            self.retired_id = self.identity.producer_id
            self.identity = None

    # What came of it

    def request_done(self, batch: ProducerBatch) -> bool:
        """The request with the batch is over; False if the batch was given up in the meantime."""
        self.in_flight -= 1
        batch.is_in_flight = False
        if batch.encoded.completed:
            return False
        self._enqueue(batch)
        return True

    def delivered(self, batch: ProducerBatch) -> bool:
        """The request with the batch is over, and it is stored; False if it was given up in the meantime."""
        self.in_flight -= 1
        batch.is_in_flight = False
        if batch.encoded.completed:
            return False
        if self.batches[0] is batch:
            self.batches.popleft()
            self._may_pipeline = True
            self.failures = 0
            self._not_before = 0.0
        else:
            # What is before it may be stored too. If more were sent now, the log would end with five later batches,
            # and the leader would no longer recognize that one.
            self.batches.remove(batch)
        return True

    def mark_ambiguous(self, batch: ProducerBatch) -> None:
        """The request with the batch ended without a clear response: the batch may be stored from now on."""
        if self._epoch_end is not EpochEnd.NOT_STORED:
            batch.is_ambiguous = True

    def retry(self, batch: ProducerBatch, error: BaseException, not_before: float) -> None:
        """Stays where it is, with its sequence."""
        batch.last_error = error
        self._may_pipeline = False
        # Of those that fail together the first one counts: it is the one to be sent next.
        if self.is_first(batch):
            self.failures += 1
            self._not_before = not_before

    def blocked_by(self, error: BaseException) -> None:
        """Nothing could be sent: a batch that expires has its reason from here."""
        first = self._first_queued()
        if first is not None:
            first.last_error = error

    def is_first(self, batch: ProducerBatch) -> bool:
        """Whether nothing before it is open. A response about the sequence says something only then."""
        return bool(self.batches) and self.batches[0] is batch

    def end_epoch(self, end: EpochEnd, *, new_id: bool = False) -> None:
        """Another epoch begins, or another id, as soon as no batch of this one is in flight or may be stored.

        Not so of a transactional producer: its transaction ends with it, and the next one has another identity.
        """
        if not self._is_idempotent or self._is_transactional:
            return
        self._may_pipeline = False
        self._epoch_end = end
        if end is EpochEnd.NOT_STORED:
            for batch in self.batches:
                batch.is_ambiguous = False
        if new_id:
            self._retire_id()

    def split(self, batch: ProducerBatch) -> None:
        """The parts take its place and, since they have as many records, its sequence numbers."""
        parts = batch.split()
        index = self.batches.index(batch)
        del self.batches[index]
        self._dequeue(batch)
        sequence = batch.sequence
        for offset, part in enumerate(parts):
            part.identity, part.sequence = batch.identity, sequence
            if sequence != NO_SEQUENCE:
                sequence = next_sequence(sequence, part.encoded.count)
            self.batches.insert(index + offset, part)
            self._enqueue(part)
        self._may_pipeline = False

    def give_up(self, batch: ProducerBatch) -> None:
        """It will not be sent (again). The gap it leaves: see above."""
        index = self.batches.index(batch)
        del self.batches[index]
        if not batch.is_in_flight:
            self._dequeue(batch)
        if batch.sequence == NO_SEQUENCE or self._epoch_end is not None:
            return
        behind = list(islice(self.batches, index, None))
        if any(each.may_be_stored for each in behind):
            self.has_gap = True
        elif batch.may_be_stored:
            self.end_epoch(EpochEnd.GAP)
        else:
            self._number_from(batch.sequence, behind)

    def may_fail(self, batch: ProducerBatch) -> bool:
        """Whether it can be given up without leaving open what became of it, or no broker can ever say.

        Not while a response is pending, and not if an earlier attempt may have stored it: then it is sent until a
        broker says. Without idempotence nothing is ever certain, so any batch may fail at any time. A transaction of
        which a batch fails is aborted, and then it does not matter whether it is stored.
        """
        if not self._is_idempotent or not batch.may_be_stored:
            return True
        if self._is_transactional:
            return not batch.is_in_flight
        return not batch.is_in_flight and (self.is_deleted or self.is_forgotten(batch))

    def is_forgotten(self, batch: ProducerBatch) -> bool:
        """Whether it may be stored and no broker can say any more."""
        return self._epoch_end is EpochEnd.FORGOTTEN and batch.is_ambiguous

    def overdue(self, opened_before: float) -> list[ProducerBatch]:
        """Batches to give up now, the oldest first: those that may fail and whose first record is older than that.

        At any age what brokers have forgotten, and everything of a partition that is deleted.
        """
        if self.is_deleted:
            self.take_all()
            return [batch for batch in self.batches if self.may_fail(batch)]
        self.take_full()
        opened_at = self.buffer.opened_at
        if opened_at is not None and opened_at < opened_before:
            self.take_all()
        return [
            batch
            for batch in self.batches
            if self.may_fail(batch) and (batch.opened_at < opened_before or self.is_forgotten(batch))
        ]

    # Where it goes

    def set_leader(self, leader: int | None) -> None:
        """Another leader, or none: what is queued goes there at once, with the sequences it has."""
        self.leader = leader
        self._may_pipeline = False
        self._not_before = 0.0

    def set_topic_id(self, topic_id: Uuid) -> None:
        """A topic that was created anew knows nothing of our sequences, and what the old one had is gone."""
        if self.topic_id not in (ZERO_UUID, topic_id):
            self.end_epoch(EpochEnd.FORGOTTEN)
        if self.topic_id != topic_id:
            self.template = None
        self.topic_id = topic_id
        self.is_deleted = False

    def purge(self) -> list[ProducerBatch]:
        """Nothing is sent from now on; the batches that are given up with that. Those in flight stay."""
        self.take_all()
        self.is_purged = True
        self.set_leader(None)
        given_up = [batch for batch in self.batches if not batch.is_in_flight]
        for batch in reversed(given_up):
            self.give_up(batch)
        return given_up

    def delete(self) -> None:
        """The topic has fewer partitions than it had."""
        self.is_deleted = True
        self.set_leader(None)
