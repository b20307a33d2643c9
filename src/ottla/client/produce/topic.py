"""One topic that is produced to: held until it is known, then its partitions, their leaders, and its partitioner.

Who owns what: `held` and `appender` take records from any thread, under the locks of the native core. Everything else
belongs to the loop, which is told of new metadata here; a `TopicLoad` is replaced as a whole, so that an appending
thread never sees half of a change.

Invariant: a partition that the appender knows has a RecBuf.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ottla.client.metadata import PartitionView, TopicView
from ottla.client.metadata.refresh_policy import UNKNOWN_RESPONSES
from ottla.client.partitioners import LeaderLatency, TopicPartitioner
from ottla.client.produce.flushes import Flush
from ottla.client.produce.recbuf import Outlet, RecBuf
from ottla.errors import BrokerError, UnknownTopicIdError, UnknownTopicOrPartitionError, from_code
from ottla.wire.records import Accumulator, HeldRecords, TopicAppender

UNKNOWN_TOPIC: Final = (UnknownTopicOrPartitionError, UnknownTopicIdError)


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
        return [number for number in self.available if self._is_slow(self.recbufs[number])]

    def _is_slow(self, recbuf: RecBuf) -> bool:
        sink = recbuf.sink
        return sink is not None and self.latency.is_slow(sink.node_id)

    def buffered(self) -> Sequence[int]:
        return [recbuf.waiting_bytes for recbuf in self.recbufs]


class TopicParts(NamedTuple):
    """What the topics of a producer share, and what they make of it."""

    accumulator: Accumulator
    latency: LeaderLatency
    partitioner: Callable[[str], TopicPartitioner]
    recbuf: Callable[[str, int], RecBuf]
    sink: Callable[[int], Outlet]
    consider: Callable[[RecBuf], None]
    count_failed: Callable[[int, BaseException], None]


class TopicProducer:
    """The records of one topic; `held` until the first metadata with partitions."""

    def __init__(self, name: str, parts: TopicParts) -> None:
        self.name = name
        self.partitioner = parts.partitioner(name)
        self.held = HeldRecords(parts.accumulator, name)
        self.appender: TopicAppender | None = None
        self.recbufs: list[RecBuf] = []
        self.load = TopicLoad((), (), parts.latency)
        self.is_asked_for = False
        """Whether metadata tracks it for us."""
        self.asked_at = 0.0
        """Since when."""
        self.flushes: list[Flush] = []
        """Those that wait for held records."""
        self.last_error: BrokerError | None = None
        self.failure: BaseException | None = None
        """Why what was held has been given up; who produces next begins with another TopicProducer."""
        self.is_forgotten = False
        """Nothing was produced to it for long, and its RecBufs were let go; another TopicProducer, as above."""
        self._parts = parts
        self._seen: TopicView | None = None
        self._unknown_loads = 0

    def on_metadata(self, view: TopicView | None) -> BrokerError | None:
        """Takes what is known of the topic; an error if its records cannot be delivered."""
        if view is None or view is self._seen:
            return None
        self._seen = view
        error = self.last_error = from_code(view.error_code, topic=self.name)
        if error is None:
            self._unknown_loads = 0
        elif isinstance(error, UNKNOWN_TOPIC):
            self._unknown_loads += 1
            if self._unknown_loads >= UNKNOWN_RESPONSES:
                self._unknown_loads = 0
                return error
        elif not error.retriable:
            return error
        if view.partitions:
            self._update(view)
        return None

    def _update(self, view: TopicView) -> None:
        for partition in view.partitions:
            self._update_partition(partition, view)
        known = self.recbufs[: len(view.partitions)]
        for recbuf in self.recbufs[len(known) :]:
            recbuf.gone()
        available = tuple(part.index for part in view.partitions if part.has_leader)
        if available == self.load.available:
            # It is by its identity that partitioners notice a change.
            available = self.load.available
        if len(self.load.recbufs) != len(known) or available is not self.load.available:
            self.load = TopicLoad(tuple(known), available, self._parts.latency)
            if self.appender is not None:
                self.appender.update(self.load)
        if self.appender is None:
            self._release()

    def _update_partition(self, partition: PartitionView, view: TopicView) -> None:
        if partition.index == len(self.recbufs):
            self.recbufs.append(self._parts.recbuf(self.name, partition.index))
        recbuf = self.recbufs[partition.index]
        recbuf.set_topic_id(view.topic_id)
        node_id = None if recbuf.sink is None else recbuf.sink.node_id
        leader = partition.leader if partition.has_leader else None
        if leader != node_id:
            recbuf.move_to(None if leader is None else self._parts.sink(leader))
        self._parts.consider(recbuf)

    def _release(self) -> None:
        self.appender = TopicAppender(self._parts.accumulator, self.name, self.partitioner, self.load)
        failed, error = self.held.release(self.appender)
        if error is not None:
            self._parts.count_failed(failed, error)
        flushes, self.flushes = self.flushes, []
        for flush in flushes:
            self.flush(flush)
            flush.release()

    @property
    def is_busy(self) -> bool:
        """Whether there are records."""
        return bool(self.held.records) or any(not recbuf.is_empty for recbuf in self.recbufs)

    @property
    def used_at(self) -> float:
        """When something was last produced to it, as far as batches tell: when the last of them was opened."""
        return max([self.asked_at, *(recbuf.used_at for recbuf in self.recbufs)])

    def flush(self, flush: Flush) -> None:
        """Everything that is here goes out at once, and `flush` waits for it."""
        if self.appender is None and self.held.records:
            flush.hold()
            self.flushes = [each for each in self.flushes if not each.is_over]
            self.flushes.append(flush)
        for recbuf in self.recbufs:
            recbuf.cut()
            for batch in recbuf.batches:
                flush.watch(batch)
            self._parts.consider(recbuf)

    def fail_held(self, error: BaseException) -> None:
        """Gives up what waits for metadata."""
        self.failure = error
        self.held.fail(error)
        flushes, self.flushes = self.flushes, []
        for flush in flushes:
            flush.release()
