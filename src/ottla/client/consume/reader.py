"""Reader: the side of a consumer that its user works with: positions, iteration, pause, seek, skip.

Plain and synchronous, for one thread: the asynchronous consumer calls it on the loop, the blocking one in the thread
that polls. It takes whole parts (PartitionRecords) from the queue and decodes them, natively and once. What the
loop has to know goes through `queue.wake`.

How a twin iterates, with nothing per record but one store and one test:

    while (records := reader.records()) is not None:
        for record in records:
            reader.last = record
            yield record
            if reader.iterator is not records:
                break
        else:
            reader.exhausted(records)

What happens at the `yield` may be anything: a pause, a seek, a poll, another loop. The loop that comes back from it
looks whether its iterator is still the one.

A member of a group (client/group) takes partitions away, on the loop, while another thread may be reading: `revoke`
gives them a newer generation and then lets go of the iterator. The reader looks at the generation of a part once more
after it has made the part's iterator the current one, so one of the two notices the other. A part that is not revoked
but whose iterator was let go is opened again where it was.

What the program is done with is a record when it has asked for the next one, and what a poll or a batch has brought
when it has called again (`settle`). `done_with` says how far that is, to the loop that commits, while the reader goes
on in its thread: both touch things in an order by which the offset is never behind what the program works on.

Invariants: a position is behind the last record that was handed out, and moves only forward but for a seek or an
error that says so. What was fetched for an older generation of a partition, that is before a seek, is never seen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, count, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.client.consume.deserialized import Deserialized, Intercepted
from ottla.client.consume.fetch_queue import Failure, FetchQueue, Item, PositionReset
from ottla.client.consume.partition_records import PartitionRecords, ReaderPosition
from ottla.client.topic_partition import TopicPartition
from ottla.errors import DeserializationError
from ottla.hooks import ConsumerInterceptor, Hooks
from ottla.serde import Deserialize
from ottla.wire import ZERO_UUID, Uuid
from ottla.wire.records import Records, to_arrow

if TYPE_CHECKING:
    import pyarrow


class _Revoked(NamedTuple):
    """Where the program was when a partition was taken away."""

    done_with: ReaderPosition
    reached: ReaderPosition


class Reader:
    """What the user of one consumer sees of it."""

    def __init__(
        self,
        queue: FetchQueue,
        hooks: Hooks,
        now: Callable[[], float],
        refetch: Callable[[TopicPartition, int], None],
        *,
        check_crcs: bool = True,
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
        self._check_crcs = check_crcs
        self._key = key_deserializer
        self._value = value_deserializer
        self._interceptors = interceptors
        self._skips = skips
        self._positions: dict[TopicPartition, ReaderPosition] = {}
        self._topics_before: dict[TopicPartition, Uuid] = {}
        """Of partitions that were revoked: the topic that the program has read there, which may be another by now."""
        self._generations: dict[TopicPartition, int] = {}
        self._paused: dict[TopicPartition, None] = {}
        self._paused_items: dict[TopicPartition, list[Item]] = {}
        """The parts that are paused, and the errors behind them."""
        self.resumed: deque[Item] = deque()
        """What was paused, and comes before the queue: its waiters do not learn of that."""
        self._current: PartitionRecords | None = None
        self._decoded_end = 0
        """The offset behind the records that were decoded of the current part."""
        self.iterator: Iterator[Any] | None = None
        """Over the current part; another one, or none, as soon as what is being iterated must not go on."""
        self.last: Any = None
        """The record of the current part that was handed out last."""
        self.keeps_work = False
        """Whether `done_with` is asked for."""
        self._held: dict[TopicPartition, ReaderPosition] = {}
        """Where that begins which the program works on; iterating, it is `last` that it works on."""
        self._revoked: dict[TopicPartition, _Revoked] = {}
        """How far the program was with partitions that have been taken away, until that is committed."""
        self._revocations = 0
        self._next_generation = count(1).__next__
        self._deserialized: Deserialized | None = None
        self._deferred: Exception | None = None
        self._skipped = 0

    # Records

    def records(self) -> Iterator[Any] | None:
        """The rest of the current part, else those of the next that has any; None: nothing is there now."""
        if self._current is None and not (self._queue.items or self.resumed or self._deferred):
            return None
        while (part := self._current or self._next_part()) is not None:
            iterator = self.iterator
            if iterator is None:
                iterator = self._reopen(part)
            if iterator is not None:
                return iterator
        return None

    def _reopen(self, part: PartitionRecords) -> Iterator[Any] | None:
        if self._is_stale(part):
            self._let_go()
            return None
        if self.last is not None:
            self._save_position()
        return self._open(part)

    def exhausted(self, records: Iterator[Any]) -> None:
        """Everything that was decoded has been handed out; another loop that has gone on since has seen that."""
        if self.iterator is records:
            self._end_part()

    def _end_part(self) -> None:
        part = self._current
        if part is None:
            return  # the client was closed just now, in another thread
        self._drop_iterator()
        if self._is_stale(part):
            self._current = None
            return
        if self._decoded_end < part.end:
            # A batch follows that cannot be read together with those before it, or not at all. As the first of a
            # fetch it says which.
            self._refetch(part.tp, self._decoded_end)
            return
        self._positions[part.tp] = part.at(part.end)
        self._current = None

    def take(self, records: Iterator[Any], most: int) -> list[Any]:
        """Up to `most` of them; an error waits for the next call if there were records before it."""
        taken: list[Any] = []
        part, revocations = self._current, self._revocations
        if self.keeps_work:
            self._hold()
        try:
            # Not list(): what came before an error must not be lost.
            taken.extend(islice(records, most))
            is_whole = len(taken) < most
        except DeserializationError:
            if not taken:
                raise
            is_whole = False
        except BaseException:
            # Ctrl-C, for one: what was taken is lost with this call, and comes again with the next.
            self._save_position()
            raise
        if revocations != self._revocations and (part is None or self._is_stale(part)):
            return []
        if is_whole and self.iterator is records:
            self._end_part()
        elif taken:
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
        while (opened := self._decode_rest()) is not None:
            records, rows = opened
            part = self._current
            batch = to_arrow(records) if rows else None
            self._end_part()
            if batch is not None and part is not None and not self._is_stale(part):
                return batch if rows == len(records) else batch.slice(0, rows)
        return None

    def part(self) -> tuple[Records, int] | None:
        """As `batch`, but as records, and how many of them lie before the stop; perhaps none."""
        opened = self._decode_rest()
        if opened is not None:
            self._end_part()
        return opened

    def skip(self, error: DeserializationError) -> None:
        """Goes on behind the record that raised."""
        tp = TopicPartition(error.topic, error.partition)
        if self._deserialized is None or not self.is_at(error):
            raise ValueError(f"{tp}: the consumer is not at offset {error.offset} any more: seek instead")
        self._deserialized.skip()
        assert self._current is not None
        self._positions[tp] = self._current.at(error.offset + 1)
        self.last = None

    def is_at(self, error: DeserializationError) -> bool:
        """Whether the record that raised is the next one: the program has not sought, paused or skipped it since."""
        part, deserialized = self._current, self._deserialized
        is_current = part is not None and part.tp == (error.topic, error.partition)
        return is_current and deserialized is not None and deserialized.failed_offset == error.offset

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
            and not self.resumed
            and not any(map(self._is_seen, chain.from_iterable(list(self._paused_items.values()))))
            and not self._queue.items
        )

    def close(self) -> None:
        """Lets go of everything that was fetched; positions stay."""
        self._save_position()
        self._current = None
        self._paused_items.clear()
        self.resumed.clear()

    # Positions

    def position(self, tp: TopicPartition) -> int | None:
        """The offset of the next record, gaps aside; None while nothing of the partition was read or sought."""
        reached = self.reached(tp)
        return None if reached is None else reached.offset

    def reached(self, tp: TopicPartition) -> ReaderPosition | None:
        """`position`, with the leader epoch of the last record before it."""
        revoked = self._revoked.get(tp)
        return self._reached(tp, self._generations.get(tp, 0)) if revoked is None else revoked.reached

    def _reached(self, tp: TopicPartition, generation: int) -> ReaderPosition | None:
        # Each looked at once: metrics read them from other threads.
        part, last = self._current, self.last
        if part is not None and part.tp == tp and last is not None and part.generation >= generation:
            return part.at(int(last.offset) + 1)
        return self._positions.get(tp)

    def at(self, tp: TopicPartition, offset: int) -> ReaderPosition:
        """An offset that the program names, of the topic that was read last; with the epoch if it was just read."""
        part, reached = self._current, self.reached(tp)
        if reached is not None and reached.offset == offset:
            return reached
        if (
            part is not None
            and part.tp == tp
            and part.offset < offset <= part.end
            and not self._is_stale(part)
        ):
            return part.at(offset)
        # A program that names an offset of a partition that has come back, and has read nothing there since, has it
        # from before.
        before = self._topics_before.get(tp, ZERO_UUID)
        return ReaderPosition(offset, topic_id=before if reached is None else reached.topic_id)

    # What the program is done with

    def settle(self) -> None:
        """The program asks for more: it is done with everything that it has got."""
        part, last = self._current, self.last
        if part is not None and last is not None and not self._is_stale(part):
            self._positions[part.tp] = part.at(int(last.offset) + 1)
            self.last = None
        # Last: until then `done_with` gives what was held.
        self._held.clear()

    def done_with(self, tp: TopicPartition) -> ReaderPosition | None:
        """The offset behind what the program is done with, or in front of what it works on; from any thread."""
        revoked = self._revoked.get(tp)
        return self._done_with(tp, self._generations.get(tp, 0)) if revoked is None else revoked.done_with

    def _done_with(self, tp: TopicPartition, generation: int) -> ReaderPosition | None:
        """A part that is older than the generation says nothing: the partition has come back since."""
        while True:
            part, last = self._current, self.last
            position = self._positions.get(tp)
            if self._current is part:
                break
        if part is not None and part.tp == tp and last is not None and part.generation >= generation:
            position = part.at(int(last.offset))
        # Behind the position: the reader holds what it takes before it moves the position.
        return self._held.get(tp, position)

    def _hold(self) -> None:
        part = self._current
        if part is not None and (reached := self.reached(part.tp)) is not None:
            self._held.setdefault(part.tp, reached)

    # Partitions that come and go, on the loop

    def revoke(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Nothing more of them is handed out; how far the program was stays known until `forget`.

        Their new generations come back.
        """
        taken = {tp: self._next_generation() for tp in partitions}
        before = {tp: self._generations.get(tp, 0) for tp in taken}
        self._generations.update(taken)
        self._revocations += 1
        part = self._current
        if part is not None and part.tp in taken:
            self.iterator = None
        for tp in taken:
            done_with, reached = self._done_with(tp, before[tp]), self._reached(tp, before[tp])
            # One that is being purged is revoked twice: how far the program was is known from the first time.
            if done_with is not None and reached is not None and tp not in self._revoked:
                self._revoked[tp] = _Revoked(done_with, reached)
            self._paused.pop(tp, None)
        return taken

    def interrupt(self) -> None:
        """Has a loop that iterates ask for more when it comes to the next record, and not only behind this part."""
        self.iterator = None

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions that were revoked, once all is done for them."""
        for tp in partitions:
            self._revoked.pop(tp, None)
            reached = self._positions.pop(tp, None)
            if reached is not None and reached.topic_id != ZERO_UUID:
                self._topics_before[tp] = reached.topic_id
            self._paused_items.pop(tp, None)
            self._held.pop(tp, None)

    def _is_stale(self, part: PartitionRecords) -> bool:
        return part.generation < self._generations.get(part.tp, 0)

    def _let_go(self) -> None:
        """Of a part that was revoked."""
        self._current = None
        self._drop_iterator()

    def seek(self, tp: TopicPartition, offset: int | None, topic_id: Uuid = ZERO_UUID) -> int:
        """From now on, nothing that was fetched before counts; the new generation. None: to be looked up."""
        self._drop(tp)
        if offset is None:
            self._positions.pop(tp, None)
        else:
            self._positions[tp] = ReaderPosition(offset, topic_id=topic_id)
        self._held.pop(tp, None)
        self._generations[tp] = generation = self._next_generation()
        return generation

    def pause(self, tp: TopicPartition) -> None:
        self._paused[tp] = None
        if self._current is not None and self._current.tp == tp:
            self._save_position()
            self._paused_items.setdefault(tp, []).append(self._current)
            self._current = None

    def resume(self, tp: TopicPartition) -> None:
        self._paused.pop(tp, None)
        # In front: what was resumed earlier and has not been read since is what follows it.
        self.resumed.extendleft(reversed(self._paused_items.pop(tp, ())))

    @property
    def paused(self) -> list[TopicPartition]:
        return list(self._paused)

    # Parts

    def _next_part(self) -> PartitionRecords | None:
        """Makes the next part the current one; raises an error whose turn it is."""
        if self._deferred is not None:
            deferred, self._deferred = self._deferred, None
            try:
                raise deferred
            finally:
                del deferred
        while (item := self._next_item()) is not None:
            if self._keep_if_paused(item):
                continue
            if isinstance(item, PartitionRecords):
                self._positions[item.tp] = item.at(item.position)
                self._current = item
                return item
            self._apply(item)
        return None

    def _next_item(self) -> Item | None:
        """What was resumed, else what was fetched and not overtaken by a seek."""
        while self.resumed:
            resumed = self.resumed.popleft()
            if self._is_seen(resumed):
                return resumed
        queue = self._queue
        while queue.items and (item := queue.take_nowait()) is not None:
            if not self._is_seen(item):
                continue
            if isinstance(item, PartitionRecords) and (notify := self._hooks.on_fetch_taken) is not None:
                try:
                    notify(item.for_hooks(self._now()))
                except BaseException:
                    # A hook ends the program; one that prevents that gets the item all the same.
                    self.resumed.appendleft(item)
                    raise
            return item
        return None

    def _is_seen(self, item: Item) -> bool:
        """Whether no seek, and no revocation, has come since it was fetched."""
        return item.tp is None or item.generation >= self._generations.get(item.tp, 0)

    def _keep_if_paused(self, item: Item) -> bool:
        """Keeps parts that are paused, and what follows them: an error is raised where it happened."""
        tp = item.tp
        if tp not in self._paused or not (isinstance(item, PartitionRecords) or tp in self._paused_items):
            return False
        self._paused_items.setdefault(tp, []).append(item)
        return True

    def _apply(self, item: Failure | PositionReset) -> None:
        if isinstance(item, PositionReset):
            self._positions[item.tp] = ReaderPosition(item.position, topic_id=item.topic_id)
            return
        if item.tp is not None and item.position is not None:
            self._positions[item.tp] = self.at(item.tp, item.position)._replace(leader_epoch=-1)
        error = item.take_error()
        try:
            raise error
        finally:
            del error  # a frame that an error leads to must not lead to the error

    def _open(self, part: PartitionRecords) -> Iterator[Any] | None:
        records = self._decode(part)
        found: Iterator[Any] = iter(records)
        if part.end < part.next_offset:
            found = islice(found, records.position_of(part.end))
        if self._key is not None or self._value is not None:
            found = self._deserialized = Deserialized(found, self._key, self._value, self._skips)
        if self._interceptors:
            found = Intercepted(found, self._interceptors)
        if len(records) == 0:
            self._end_part()
            return None
        self.iterator = found
        if self._is_stale(part):
            # Just now, on the loop.
            self._let_go()
            return None
        return found

    def _decode_rest(self) -> tuple[Records, int] | None:
        while (part := self._current or self._next_part()) is not None and self._is_stale(part):
            self._let_go()
        if part is None:
            return None
        self._save_position()
        if self.keeps_work:
            self._hold()
        records = self._decode(part)
        return records, records.position_of(part.end) if part.end < part.next_offset else len(records)

    def _decode(self, part: PartitionRecords) -> Records:
        records = part.decode(self._positions[part.tp].offset, check_crc=self._check_crcs)
        # Read whole, it leads to its end: nothing may lie between its last batch and the stop.
        is_whole = records.bytes_read == len(part.data)
        self._decoded_end = part.end if is_whole else records.next_offset
        return records

    def _save_position(self) -> None:
        """Keeps the position of the current part, whose iterator is given up."""
        part = self._current
        if part is not None and (reached := self.reached(part.tp)) is not None:
            if self.keeps_work and self.last is not None:
                self._held.setdefault(part.tp, part.at(int(self.last.offset)))
            self._positions[part.tp] = reached
            part.position = reached.offset
        self._drop_iterator()

    def _drop(self, tp: TopicPartition) -> None:
        self._paused_items.pop(tp, None)
        self.resumed = deque(item for item in self.resumed if item.tp != tp)
        if self._current is not None and self._current.tp == tp:
            self._save_position()
            self._current = None

    def _drop_iterator(self) -> None:
        """Gives up the iterator, not the part."""
        self._skipped = self.skipped
        self.iterator, self._deserialized, self.last = None, None, None
