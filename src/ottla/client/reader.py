"""Reader: the side of a consumer that its user works with: positions, iteration, pause, seek, skip.

Plain and synchronous, for one thread: the asynchronous consumer calls it on the loop, the blocking one in the thread
that polls. It takes whole parts (FetchedPartition) from the queue and decodes them, natively and once. What the
loop has to know goes through `queue.wake`.

How a twin iterates, with nothing per record but one store and one test:

    while (records := reader.records()) is not None:
        for record in records:
            reader.last = record
            yield record
            if reader.interrupted:
                break
        else:
            reader.exhausted()

Invariants: a position is behind the last record that was handed out, and moves only forward but for a seek or an
error that says so. What was fetched for an older generation of a partition, that is before a seek, is never seen.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from ottla.client.deserialized import Deserialized, Intercepted
from ottla.client.fetch_queue import Failure, FetchQueue
from ottla.client.fetched import FetchedPartition, wanted
from ottla.client.topic_partition import TopicPartition
from ottla.errors import DeserializationError
from ottla.hooks import ConsumerInterceptor, Hooks
from ottla.serde import Deserialize
from ottla.wire.records import Records, to_arrow

if TYPE_CHECKING:
    import pyarrow

_logger = logging.getLogger("ottla.client.consumer")


class Reader:
    """What the user of one consumer sees of it."""

    def __init__(
        self,
        queue: FetchQueue,
        hooks: Hooks,
        now: Callable[[], float],
        refetch: Callable[[TopicPartition, int], None],
        *,
        key_deserializer: Deserialize | None = None,
        value_deserializer: Deserialize | None = None,
        interceptors: Sequence[ConsumerInterceptor] = (),
        skips: bool = False,
    ) -> None:
        self._queue = queue
        self._hooks = hooks
        self._now = now
        self._refetch = refetch
        """Has a partition fetched again from an offset; seeks there."""
        self._key = key_deserializer
        self._value = value_deserializer
        self._interceptors = interceptors
        self._skips = skips
        self._positions: dict[TopicPartition, int] = {}
        self._generations: dict[TopicPartition, int] = {}
        self._paused: dict[TopicPartition, None] = {}
        self._held: dict[TopicPartition, list[FetchedPartition]] = {}
        self._resumed: deque[FetchedPartition] = deque()
        self._current: FetchedPartition | None = None
        self._behind = 0
        """Where the records that were decoded of the current part end."""
        self._iterator: Iterator[Any] | None = None
        self.last: Any = None
        """The record of the current part that was handed out last."""
        self.interrupted = False
        """What is being iterated must not go on: look for `records` anew."""
        self._deserialized: Deserialized | None = None
        self._deferred: Exception | None = None
        self._skipped = 0

    # Records

    def records(self) -> Iterator[Any] | None:
        """The rest of the current part, else those of the next that has any; None: nothing is there now."""
        self.interrupted = False
        while self._current is not None or self._take():
            if self._iterator is None:
                self._iterator = self._open()
            if self._iterator is not None:
                return self._iterator
        return None

    def exhausted(self) -> None:
        """Everything that was decoded has been handed out."""
        part = self._current
        if part is None:
            return
        self._close()
        if self._behind < part.end:
            # A batch follows that cannot be read together with those before it, or not at all. As the first of a
            # fetch it says which.
            self._refetch(part.tp, self._behind)
            return
        self._positions[part.tp] = part.end
        self._current = None

    def take(self, records: Iterator[Any], most: int) -> list[Any]:
        """Up to `most` of them; an error waits for the next call if there were records before it."""
        taken: list[Any] = []
        try:
            # Not list(): what came before an error must not be lost.
            taken.extend(islice(records, most))
        except DeserializationError:
            if not taken:
                raise
        else:
            if len(taken) < most:
                self.exhausted()
                return taken
        self.last = taken[-1]
        return taken

    def defer(self, error: Exception) -> None:
        """An error that has to wait until the records before it are handed out."""
        if self._current is None:
            self._deferred = error

    def batch(self) -> pyarrow.RecordBatch | None:
        """The next part, or what is left of the current one, as Arrow columns; None: nothing is there now.

        Deserializers and interceptors see records, not columns: keys and values are as they were fetched.
        """
        self.interrupted = False
        while self._current is not None or self._take():
            part = self._current
            assert part is not None
            self._settle()
            records = self._decode(part)
            rows = wanted(records, part.stop) if part.is_cut else len(records)
            batch = to_arrow(records) if rows else None
            self.exhausted()
            if batch is not None:
                return batch if rows == len(records) else batch.slice(0, rows)
        return None

    def skip(self, error: DeserializationError) -> None:
        """Goes on behind the record that raised."""
        tp = TopicPartition(error.topic, error.partition)
        is_current = self._current is not None and self._current.tp == tp
        if not is_current or self._deserialized is None or self._deserialized.failed_offset != error.offset:
            raise ValueError(f"{tp}: the consumer is not at offset {error.offset} any more: seek instead")
        self._deserialized.skip()
        self._positions[tp] = error.offset + 1
        self.last = None

    @property
    def skipped(self) -> int:
        """How many records could not be deserialized and were skipped."""
        return self._skipped + (self._deserialized.skipped if self._deserialized is not None else 0)

    @property
    def is_finished(self) -> bool:
        """Every partition has reached its stop, and all of it has been handed out."""
        return (
            self._queue.is_complete
            and self._current is None
            and not (self._resumed or self._held)
            and not len(self._queue)
        )

    def close(self) -> None:
        """Lets go of everything that was fetched; positions stay."""
        self._settle()
        self._current = None
        self._held.clear()
        self._resumed.clear()
        self.interrupted = True

    # Positions

    def position(self, tp: TopicPartition) -> int | None:
        """The offset of the next record, gaps aside; None while nothing of the partition was read or sought."""
        if self._current is not None and self._current.tp == tp and self.last is not None:
            return int(self.last.offset) + 1
        return self._positions.get(tp)

    def generation(self, tp: TopicPartition) -> int:
        return self._generations.get(tp, 0)

    def seek(self, tp: TopicPartition, offset: int | None) -> int:
        """From now on, nothing that was fetched before counts; the new generation. None: to be looked up."""
        self._drop(tp)
        if offset is None:
            self._positions.pop(tp, None)
        else:
            self._positions[tp] = offset
        self._generations[tp] = generation = self.generation(tp) + 1
        return generation

    def forget(self, tp: TopicPartition) -> None:
        """The partition is not read any more."""
        self.seek(tp, None)
        self._paused.pop(tp, None)

    def pause(self, tp: TopicPartition) -> None:
        self._paused[tp] = None
        if self._current is not None and self._current.tp == tp:
            self._settle()
            self._held.setdefault(tp, []).append(self._current)
            self._current = None
            self.interrupted = True

    def resume(self, tp: TopicPartition) -> None:
        self._paused.pop(tp, None)
        self._resumed.extend(self._held.pop(tp, ()))

    @property
    def paused(self) -> list[TopicPartition]:
        return list(self._paused)

    @property
    def has_resumed(self) -> bool:
        """Whether parts wait here that no `on_ready` will tell of."""
        return len(self._resumed) > 0

    # Parts

    def _take(self) -> bool:
        """Makes the next part the current one; raises an error whose turn it is."""
        if self._deferred is not None:
            deferred, self._deferred = self._deferred, None
            try:
                raise deferred
            finally:
                del deferred
        while True:
            if self._resumed:
                part = self._resumed.popleft()
            else:
                item = self._queue.take_nowait()
                if item is None:
                    return False
                if isinstance(item, Failure):
                    self._raise(item)
                    continue
                part = item
                if part.generation < self.generation(part.tp):
                    continue
                self._tell_taken(part)
                self._positions[part.tp] = part.offset
            if part.tp in self._paused:
                self._held.setdefault(part.tp, []).append(part)
                continue
            self._current = part
            return True

    def _raise(self, failure: Failure) -> None:
        if failure.tp is not None:
            if failure.generation < self.generation(failure.tp):
                return
            if failure.position is not None:
                self._positions[failure.tp] = failure.position
        error = failure.take_error()
        try:
            raise error
        finally:
            del error  # a frame that an error leads to must not lead to the error

    def _tell_taken(self, part: FetchedPartition) -> None:
        if (tell := self._hooks.on_fetch_taken) is not None:
            tell(part.seen_by_hooks(self._now()))

    def _open(self) -> Iterator[Any] | None:
        part = self._current
        assert part is not None
        records = self._decode(part)
        found: Iterator[Any] = iter(records)
        if part.is_cut:
            found = islice(found, wanted(records, part.stop))
        if self._key is not None or self._value is not None:
            found = self._deserialized = Deserialized(found, self._key, self._value, self._skips)
        if self._interceptors:
            found = Intercepted(found, self._interceptors)
        if len(records) == 0:
            self.exhausted()
            return None
        return found

    def _decode(self, part: FetchedPartition) -> Records:
        records = part.records(self._positions[part.tp])
        self._behind = records.next_offset
        return records

    def _settle(self) -> None:
        """Keeps the position of the current part, whose iterator is given up."""
        part = self._current
        if part is not None and (position := self.position(part.tp)) is not None:
            self._positions[part.tp] = position
        self._close()

    def _drop(self, tp: TopicPartition) -> None:
        self._held.pop(tp, None)
        self._resumed = deque(part for part in self._resumed if part.tp != tp)
        if self._current is not None and self._current.tp == tp:
            self._settle()
            self._current = None
            self.interrupted = True

    def _close(self) -> None:
        """Gives up the iterator, not the part."""
        self._skipped = self.skipped
        self._iterator, self._deserialized, self.last = None, None, None
