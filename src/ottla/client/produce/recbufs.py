"""RecBufs: one for each partition that is produced to, made when it becomes known and let go with its topic.

A RecBuf is let go with all that it knows, its sequence numbers included, so that a client which produces to ever new
topics does not grow. A partition that comes back begins with sequence 0, and under the same id and epoch a broker
would take that for a batch that it has, or refuse it. So nothing begins where a RecBuf that was let go may have been:
epochs belong to partitions (producer_id.py), a broker lets any partition begin a higher one with sequence 0, and one
number, the epoch that new RecBufs begin with, remembers enough for all that were ever let go.

Invariant: a RecBuf is let go only when nothing of it waits, is under way or may still be appended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from ottla.client.produce.producer_id import ProducerIds
from ottla.client.produce.recbuf import RecBuf
from ottla.client.produce.settings import ProduceSettings
from ottla.client.produce.topic import TopicProducer
from ottla.wire.records import Accumulator, RecordBuffer


class RecBufs:
    """The partitions of a producer, by their buffers; the loop's."""

    def __init__(self, settings: ProduceSettings, accumulator: Accumulator, ids: ProducerIds) -> None:
        self.by_buffer: dict[RecordBuffer, RecBuf] = {}
        self._settings = settings
        self._accumulator = accumulator
        self._ids = ids
        # Names of topics, and how many want each of them kept.
        self._kept: Counter[str] = Counter()

    def get(self, topic: str, number: int) -> RecBuf:
        """The partition's own, made where there is none."""
        settings = self._settings
        buffer = self._accumulator.buffer(topic, number)
        recbuf = self.by_buffer.get(buffer)
        if recbuf is None:
            recbuf = self.by_buffer[buffer] = RecBuf(
                buffer,
                linger=settings.linger,
                max_in_flight=settings.max_in_flight,
                is_idempotent=settings.is_idempotent,
            )
        return recbuf

    @contextmanager
    def kept(self, topic: str) -> Iterator[None]:
        """The topic is not let go as long as this lasts."""
        self._kept[topic] += 1
        try:
            yield
        finally:
            self._kept[topic] -= 1
            if not self._kept[topic]:
                del self._kept[topic]

    def let_go(self, topic: TopicProducer) -> bool:
        """Lets the partitions of a topic go, with their buffers; False if records have come, and all stay.

        A thread that still has the topic's `append` in its hands gets BufferRetired from it.
        """
        if topic.name in self._kept:
            return False
        if any(recbuf.in_flight or recbuf.is_packing or not recbuf.is_empty for recbuf in topic.recbufs):
            return False
        if topic.appender is None and not topic.held.retire():
            return False
        if not self._accumulator.forget(topic.name):
            return False
        for recbuf in topic.recbufs:
            recbuf.move_to(None)
            del self.by_buffer[recbuf.buffer]
            self._ids.leave(recbuf.identity, recbuf.retired_id)
        return True
