"""Topics that are produced to: unknown until metadata has partitions, then their RecBufs, and forgotten when idle.

Who owns what: those in `appenders` take records from any thread, under the locks of the native core; `open` is
for any thread, too. Everything else belongs to the loop. A `TopicLoad` is replaced as a whole, so that an appending
thread never sees half of a change.

A topic that nothing is produced to for `metadata_max_idle_ms` is forgotten with its RecBufs and all that they know,
their sequence numbers included, so that a client which produces to ever new topics does not grow; and so is one that
the program purges, whatever there is of it. A partition that comes back begins with sequence 0, and under the same id
and epoch a broker would take that for a batch that it has, or refuse it. So nothing begins where a forgotten RecBuf
may have been: epochs belong to partitions (producer_id.py), a broker lets any partition begin a higher one with
sequence 0, and one number, the epoch that new RecBufs begin with, remembers enough for all that were ever forgotten.

Invariants: a partition that an appender knows has a RecBuf; a topic is forgotten only when nothing of it waits,
is in flight or may still be appended, and purged only with every batch given up that is not in flight; and a RecBuf
is in `by_buffer` as long as it has batches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from ottla.client.metadata import PartitionView, TopicView, check_name
from ottla.client.metadata.refresh_policy import UNKNOWN_RESPONSES
from ottla.client.partitioners import LeaderLatency, TopicPartitioner
from ottla.client.produce.batch import ProducerBatch
from ottla.client.produce.completions import Flush
from ottla.client.produce.producer_id import Identities
from ottla.client.produce.recbuf import RecBuf
from ottla.client.produce.settings import ProduceSettings
from ottla.errors import BrokerError, UnknownTopicIdError, UnknownTopicOrPartitionError, from_code
from ottla.wire.records import (
    Accumulator,
    Delivery,
    RecordBuffer,
    TopicAppender,
    UnknownTopicBuffer,
)

UNKNOWN_TOPIC: Final = (UnknownTopicOrPartitionError, UnknownTopicIdError)


class Appender(Protocol):
    """The way of records into the buffers of one topic."""

    def append(
        self,
        key: Any,
        value: Any,
        headers: Any = None,
        partition: int | None = None,
        timestamp: int | None = None,
        /,
    ) -> Delivery:
        """The key and the value are bytes."""


class TopicLoad(NamedTuple):
    """How the partitions are doing, for partitioners (partitioners/base.py has the interface)."""

    recbufs: tuple[RecBuf, ...]
    available: tuple[int, ...]
    latency: LeaderLatency

    @property
    def partitions(self) -> int:
        return len(self.recbufs)

    @property
    def slow(self) -> Sequence[int]:
        return [number for number in self.available if self._is_slow(self.recbufs[number].leader)]

    def _is_slow(self, leader: int | None) -> bool:
        return leader is not None and self.latency.is_slow(leader)

    def buffered(self) -> Sequence[int]:
        return [recbuf.waiting_bytes for recbuf in self.recbufs]


@dataclass(slots=True)
class TopicUpdate:
    """What is to be done after a topic has taken new metadata."""

    error: BrokerError | None = None
    """Its records cannot be delivered."""
    moved: list[tuple[RecBuf, int | None]] = field(default_factory=list)
    """RecBufs with another leader, each with the one it had."""
    becomes_known: bool = False
    """It has partitions for the first time: `release` what has been waiting for them, once their sinks exist."""


class TopicProducer:
    """The records of one topic: in `unknown` until the first metadata with partitions, then in its RecBufs."""

    def __init__(
        self,
        name: str,
        partitioner: TopicPartitioner,
        accumulator: Accumulator,
        settings: ProduceSettings,
        latency: LeaderLatency,
    ) -> None:
        self.name = name
        self.partitioner = partitioner
        self.unknown = UnknownTopicBuffer(accumulator, name)
        self.appender: TopicAppender | None = None
        self.recbufs: list[RecBuf] = []
        self.load = TopicLoad((), (), latency)
        self.tracked_at: float | None = None
        """Since when metadata tracks it for us."""
        self.flushes: list[Flush] = []
        """Those that wait for records of the unknown topic."""
        self.last_error: BrokerError | None = None
        self.failure: BaseException | None = None
        """Why its records have failed while it was unknown; the next one begins with another TopicProducer."""
        self.is_forgotten = False
        """It was idle for long, or purged, and its RecBufs were let go; another TopicProducer, as above."""
        self._accumulator = accumulator
        self._settings = settings
        self._latency = latency
        self._seen: TopicView | None = None
        self._unknown_responses = 0

    def on_metadata(self, view: TopicView | None) -> TopicUpdate | None:
        """Takes what is known of the topic; None if that is nothing new."""
        if view is None or view is self._seen:
            return None
        self._seen = view
        update = TopicUpdate()
        error = self.last_error = from_code(view.error_code, topic=self.name)
        if error is None:
            self._unknown_responses = 0
        elif isinstance(error, UNKNOWN_TOPIC):
            self._unknown_responses += 1
            if self._unknown_responses >= UNKNOWN_RESPONSES:
                self._unknown_responses = 0
                update.error = error
        elif not error.retriable:
            update.error = error
        if update.error is None and view.partitions:
            self._update(view, update)
        return update

    def _update(self, view: TopicView, update: TopicUpdate) -> None:
        for partition in view.partitions:
            self._update_partition(partition, view, update)
        known = self.recbufs[: len(view.partitions)]
        for recbuf in self.recbufs[len(known) :]:
            update.moved.append((recbuf, recbuf.leader))
            recbuf.delete()
        available = tuple(part.index for part in view.partitions if part.has_leader)
        if available == self.load.available:
            # It is by its identity that partitioners notice a change.
            available = self.load.available
        if len(self.load.recbufs) != len(known) or available is not self.load.available:
            self.load = TopicLoad(tuple(known), available, self._latency)
            if self.appender is not None:
                self.appender.update(self.load)
        update.becomes_known = self.appender is None

    def _update_partition(self, partition: PartitionView, view: TopicView, update: TopicUpdate) -> None:
        if partition.index == len(self.recbufs):
            self.recbufs.append(self._new_recbuf(partition.index))
        recbuf = self.recbufs[partition.index]
        recbuf.set_topic_id(view.topic_id)
        leader = partition.leader if partition.has_leader else None
        if leader != recbuf.leader:
            update.moved.append((recbuf, recbuf.leader))
            recbuf.set_leader(leader)

    def _new_recbuf(self, number: int) -> RecBuf:
        settings = self._settings
        return RecBuf(
            self._accumulator.buffer(self.name, number),
            linger=settings.linger,
            max_in_flight=settings.max_in_flight,
            is_idempotent=settings.is_idempotent,
            is_transactional=settings.transactional_id is not None,
        )

    def release(self) -> tuple[int, BaseException | None]:
        """Puts the records that have been waiting into the buffers of their partitions.

        How many have failed, because they name a partition that the topic does not have, and the first error.
        """
        self.appender = TopicAppender(self._accumulator, self.name, self.partitioner, self.load)
        failed, error = self.unknown.release(self.appender)
        flushes, self.flushes = self.flushes, []
        for flush in flushes:
            self.flush(flush)
            flush.release()
        return failed, error

    @property
    def is_busy(self) -> bool:
        """Whether there are records."""
        return bool(self.unknown.records) or any(not recbuf.is_empty for recbuf in self.recbufs)

    @property
    def used_at(self) -> float:
        """When something was last produced to it, as far as batches show: when the last of them was opened."""
        return max([self.tracked_at or 0.0, *(recbuf.used_at for recbuf in self.recbufs)])

    def idle_at(self, now: float) -> float:
        """When it will have been idle for long enough to be forgotten; a time before `now` if it is that already."""
        return (now if self.is_busy else self.used_at) + self._settings.max_idle

    def flush(self, flush: Flush) -> None:
        """Takes everything that is here from the buffers, and `flush` waits for it."""
        if self.appender is None and self.unknown.records:
            flush.hold()
            self.flushes = [each for each in self.flushes if not each.is_over]
            self.flushes.append(flush)
        for recbuf in self.recbufs:
            recbuf.take_all()
            for batch in recbuf.batches:
                flush.watch(batch)

    def fail_unknown(self, error: BaseException) -> None:
        """Gives up what waits for metadata."""
        self.failure = error
        self.unknown.fail(error)
        flushes, self.flushes = self.flushes, []
        for flush in flushes:
            flush.release()


class ProducerTopics:
    """The topics of a producer, by name, and their RecBufs, by buffer."""

    def __init__(
        self,
        accumulator: Accumulator,
        settings: ProduceSettings,
        latency: LeaderLatency,
        ids: Identities,
        new_partitioner: Callable[[str], TopicPartitioner],
    ) -> None:
        self.by_name: dict[str, TopicProducer] = {}
        self.by_buffer: dict[RecordBuffer, RecBuf] = {}
        self.appenders: dict[str, Appender] = {}
        """What the appending side looks into: how a record gets into the buffers of a topic."""
        self._accumulator = accumulator
        self._settings = settings
        self._latency = latency
        self._ids = ids
        self._new_partitioner = new_partitioner
        # Names of topics, and how many calls want each of them kept.
        self._kept: Counter[str] = Counter()

    # Any thread

    def open(self, name: str, track: Callable[[], object]) -> TopicProducer:
        """A topic of which nothing is known yet: its records wait; `track()` has the loop begin to track it."""
        check_name(name)
        opened = TopicProducer(
            name, self._new_partitioner(name), self._accumulator, self._settings, self._latency
        )
        known = self.by_name.setdefault(name, opened)
        if name not in self.appenders:
            # In this order, or Ctrl-C between the two would leave a topic that is never tracked.
            track()
            self.appenders.setdefault(name, known.unknown)
            if known.failure is not None or known.is_forgotten:
                # The loop was faster: the next record begins anew.
                self.appenders.pop(name, None)
        return known

    def gathering(self, name: str, number: int) -> RecBuf | None:
        """The RecBuf of a partition if records gather in its buffer."""
        topic = self.by_name.get(name)
        if topic is None or not 0 <= number < len(topic.recbufs):
            return None
        recbuf = topic.recbufs[number]
        return recbuf if recbuf.buffer.records else None

    # The loop

    def on_metadata(self, topic: TopicProducer, view: TopicView | None) -> TopicUpdate | None:
        """Takes what is known of one of them; None if that is nothing new."""
        known = len(topic.recbufs)
        update = topic.on_metadata(view)
        for recbuf in topic.recbufs[known:]:
            self.by_buffer[recbuf.buffer] = recbuf
        if topic.appender is not None:
            self.appenders[topic.name] = topic.appender
        return update

    def release(self, topic: TopicProducer) -> tuple[int, BaseException | None]:
        """Makes a topic known that `becomes_known`; see `TopicProducer.release`."""
        failed, error = topic.release()
        assert topic.appender is not None
        self.appenders[topic.name] = topic.appender
        return failed, error

    def remove(self, topic: TopicProducer) -> None:
        """The next record for it begins anew. Call this after what `open` looks at has been set."""
        self.appenders.pop(topic.name, None)
        del self.by_name[topic.name]

    @contextmanager
    def kept(self, name: str) -> Iterator[None]:
        """The topic is not forgotten as long as this lasts."""
        self._kept[name] += 1
        try:
            yield
        finally:
            self._kept[name] -= 1
            if not self._kept[name]:
                del self._kept[name]

    def forget(self, topic: TopicProducer) -> bool:
        """Lets a topic go, with its partitions and their buffers; False if records have come, and all stays.

        A thread that still has the topic's appender in its hands gets BufferRetired from it.
        """
        if topic.name in self._kept or not self._ids.may_forget:
            return False
        if any(recbuf.in_flight or recbuf.is_compressing or not recbuf.is_empty for recbuf in topic.recbufs):
            return False
        if topic.appender is None and not topic.unknown.retire():
            return False
        if not self._accumulator.forget(topic.name):
            return False
        for recbuf in topic.recbufs:
            del self.by_buffer[recbuf.buffer]
            self._ids.leave(recbuf.identity, recbuf.retired_id)
        topic.is_forgotten = True
        self.remove(topic)
        return True

    def purge(self, topic: TopicProducer) -> list[tuple[RecBuf, ProducerBatch]]:
        """Lets a known topic go as it is; the batches that are given up with it, which are to fail.

        RecBufs with batches in flight stay in `by_buffer` until `drop_purged`.
        """
        # First: a record that comes now begins anew, and only a thread that is appending right now can still get
        # one in. That one has no second try, so this ends.
        topic.is_forgotten = True
        self.remove(topic)
        given_up: list[tuple[RecBuf, ProducerBatch]] = []
        is_retired = False
        while not is_retired:
            for recbuf in topic.recbufs:
                given_up += [(recbuf, batch) for batch in recbuf.purge()]
            is_retired = self._accumulator.forget(topic.name)
        for recbuf in topic.recbufs:
            self._ids.leave(recbuf.identity, recbuf.retired_id)
        self.drop_purged()
        return given_up

    def purged(self) -> list[RecBuf]:
        """Those of purged topics that still have batches in flight."""
        return [recbuf for recbuf in self.by_buffer.values() if recbuf.is_purged]

    def drop_purged(self) -> None:
        """Lets RecBufs of purged topics go that have nothing in flight any more."""
        for recbuf in self.purged():
            if not recbuf.batches and not recbuf.in_flight:
                del self.by_buffer[recbuf.buffer]
