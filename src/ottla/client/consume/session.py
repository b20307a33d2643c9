"""Session: everything of a consumer that runs on the loop: its cursors, sources and lookups, and their workers.

A session is started and stopped. Stopping has an order, and each step needs the one before it:

    1. cancel the workers, fetches and lookups alike
    2. refuse new ones
    3. wait until every worker has ended
    4. reset the fetch sessions: brokers may or may not have seen the last requests
    5. discard what is buffered: cursors go back to before it
    6. what was still being looked up stays pending, for the next session

Which partitions there are is assignment.py's; what the user sees is reader.py's.

Invariant: a cursor is in the source of its `fetch_node`, or in none while it has no leader.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from ottla.client.backoff import Backoff
from ottla.client.consume.alarm import Alarm
from ottla.client.consume.cursor import Cursor, State
from ottla.client.consume.fetch_queue import Failure, FetchQueue, Move
from ottla.client.consume.fetched import FetchedPartition
from ottla.client.consume.offset_lookup import Goal, Lookup, OffsetLookups
from ottla.client.consume.offset_spec import EARLIEST, LATEST, OffsetSpec, reset_spec
from ottla.client.consume.source import Source
from ottla.client.topic_partition import TopicPartition
from ottla.errors import KafkaError, OffsetOutOfRangeError

if TYPE_CHECKING:
    from ottla.client.connections.brokers import Brokers
    from ottla.client.metadata import Metadata
    from ottla.client.tasks import Tasks
    from ottla.config import ClientConfig
    from ottla.hooks import Hooks
    from ottla.runtime import Runtime

_logger = logging.getLogger("ottla.client.consume.consumer")

_READ_UNCOMMITTED: Final = 0
_READ_COMMITTED: Final = 1


class Session:
    """One consumer's; lives as long as the consumer, started and stopped as what it reads changes."""

    def __init__(
        self,
        config: ClientConfig,
        runtime: Runtime,
        hooks: Hooks,
        brokers: Brokers,
        metadata: Metadata,
        tasks: Tasks,
        queue: FetchQueue,
        lane: int,
    ) -> None:
        self.config = config
        self.clock = runtime.clock
        self.hooks = hooks
        self.brokers = brokers
        self.metadata = metadata
        self.queue = queue
        self.lane = lane
        self.backoff = Backoff(
            config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000, runtime.random
        )
        self.is_committed = config.isolation_level == "read_committed"
        self.isolation_level = _READ_COMMITTED if self.is_committed else _READ_UNCOMMITTED
        self.cursors: dict[TopicPartition, Cursor] = {}
        self.is_bounded = False
        """Whether the end of every partition is known once its lookup is done, so that reading can be complete."""
        self.is_active = False
        self._tasks = tasks
        self._workers: dict[asyncio.Task[None], None] = {}
        self._sources: dict[int, Source] = {}
        self._placed: dict[TopicPartition, Source] = {}
        self._troubled_since: dict[TopicPartition, float] = {}
        self._watchers: dict[asyncio.Future[None], None] = {}
        # What the reader holds against a partition outlives its cursor, and is there before it.
        self._generations: dict[TopicPartition, int] = {}
        self._paused: dict[TopicPartition, None] = {}
        self._lookups = OffsetLookups(self)

    def now(self) -> float:
        return self.clock.monotonic()

    def alarm(self) -> Alarm:
        return Alarm(self.clock)

    # Starting and stopping

    def start(self) -> None:
        if self.is_active:
            return
        self.is_active = True
        self.spawn(self._lookups.run(), "offset lookups")
        for source in self._sources.values():
            self.spawn(source.run(), f"source {source.node_id}")
        for cursor in list(self.cursors.values()):
            self.place(cursor)
        if (tell := self.hooks.on_session_started) is not None:
            tell()

    async def stop(self) -> None:
        if not self.is_active:
            return
        self.is_active = False
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        for source in self._sources.values():
            source.reset()
        self._discard()
        if (tell := self.hooks.on_session_stopped) is not None:
            tell()

    async def close(self) -> None:
        self._tell_watchers()
        await self.stop()
        for source in self._sources.values():
            source.end()

    def _discard(self) -> None:
        # From the back: the earliest part of a partition says where its cursor was.
        for item in reversed(self.queue.discard()):
            if isinstance(item, Failure) and item.on_taken is not None:
                item.on_taken()
            elif isinstance(item, FetchedPartition):
                cursor = self.cursors.get(item.tp)
                if cursor is not None and cursor.generation == item.generation:
                    cursor.rewind(item.offset, item.epoch_before)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """A worker of this session."""
        if not self.is_active:
            work.close()
            return
        worker = self._tasks.spawn(work, name)
        self._workers[worker] = None
        worker.add_done_callback(lambda done: self._workers.pop(done, None))

    # Cursors

    def add(self, cursor: Cursor, *lookups: Lookup) -> None:
        """A partition that is read from now on, from where the lookups lead."""
        self.cursors[cursor.tp] = cursor
        cursor.generation = self._generations.get(cursor.tp, 0)
        cursor.paused = cursor.tp in self._paused
        self.queue.complete(False)
        self._lookups.add(cursor, *lookups)

    def remove(self, tp: TopicPartition) -> None:
        cursor = self.cursors.pop(tp, None)
        self._lookups.drop(tp)
        self._troubled_since.pop(tp, None)
        if cursor is not None:
            cursor.finish()
            self._displace(tp)
        self.check_complete()

    def seek(self, tp: TopicPartition, place: OffsetSpec, generation: int) -> None:
        """The user's will."""
        self._generations[tp] = generation
        cursor = self.cursors.get(tp)
        if cursor is None:
            return
        self.queue.complete(False)
        self._displace(tp)
        cursor.generation = generation
        cursor.clear_backoff()
        self._lookups.seek(cursor, place)
        self.check_complete()

    def pause(self, tp: TopicPartition, paused: bool) -> None:
        if paused:
            self._paused[tp] = None
        else:
            self._paused.pop(tp, None)
        cursor = self.cursors.get(tp)
        if cursor is not None:
            cursor.paused = paused
            self.place(cursor)

    def place(self, cursor: Cursor) -> None:
        """Puts a cursor where it belongs now, and has that source look at it."""
        node = cursor.fetch_node(self.now())
        source = self._placed.get(cursor.tp)
        if source is None or source.node_id != node:
            self._displace(cursor.tp)
            if node < 0:
                return
            source = self._source(node)
            source.cursors[cursor.tp] = cursor
            self._placed[cursor.tp] = source
        source.wake()

    def _displace(self, tp: TopicPartition) -> None:
        source = self._placed.pop(tp, None)
        if source is not None:
            source.cursors.pop(tp, None)

    def _source(self, node_id: int) -> Source:
        source = self._sources.get(node_id)
        if source is None:
            source = self._sources[node_id] = Source(node_id, self)
            self.spawn(source.run(), f"source {node_id}")
        return source

    async def change(self) -> None:
        """Until a cursor has got an offset, or all is over."""
        watcher: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watchers[watcher] = None
        try:
            await watcher
        finally:
            self._watchers.pop(watcher, None)

    def loaded(self, cursor: Cursor) -> None:
        """A lookup has led to an offset."""
        self.place(cursor)
        self.check_complete()
        self._tell_watchers()

    def _tell_watchers(self) -> None:
        watchers, self._watchers = self._watchers, {}
        for watcher in watchers:
            if not watcher.done():
                watcher.set_result(None)

    def leaders_changed(self) -> None:
        """There may be leaders now for what is being looked up."""
        self._lookups.wake()

    def check_complete(self) -> None:
        """Tells the reader when every partition has reached its stop."""
        if self.is_bounded:
            self.queue.complete(all(cursor.state is State.DONE for cursor in self.cursors.values()))

    # Positions that are lost

    def reset_position(self, cursor: Cursor, reason: str) -> None:
        """auto_offset_reset decides; "none" is an error, again and again until somebody seeks."""
        place = reset_spec(self.config, int(self.clock.time() * 1000))
        if place is not None:
            self.load(cursor, place, reason)
            return
        # The answer did not tell what there is, and the error should.
        bounds = (Lookup(EARLIEST, Goal.FIRST), Lookup(LATEST, Goal.LAST, reason, cursor.offset))
        self._lookups.add(cursor, *bounds)

    def out_of_range(self, cursor: Cursor, reason: str) -> None:
        self.fail(
            cursor,
            OffsetOutOfRangeError(
                topic=cursor.topic,
                partition=cursor.partition,
                detail=f"{reason[:1].upper()}{reason[1:]}: there are {cursor.log_start_offset} to "
                f"{cursor.high_watermark}. Seek to one of these, or set auto_offset_reset to something else than "
                "'none'.",
            ),
        )

    def load(self, cursor: Cursor, place: OffsetSpec, reason: str) -> None:
        """Goes on somewhere else, and tells the hooks when it is known where."""
        self._displace(cursor.tp)
        self._lookups.add(cursor, Lookup(place, Goal.RESET, reason, cursor.offset))

    def moved(self, cursor: Cursor) -> None:
        """For the reader, behind what he has not read yet: there may never be a record that tells him."""
        self.queue.put(Move(cursor.tp, cursor.offset, generation=cursor.generation))

    def tell_reset(self, cursor: Cursor, old: int, new: int, reason: str) -> None:
        if (tell := self.hooks.on_position_reset) is not None:
            tell(cursor.topic, cursor.partition, old, new, reason)

    # Errors

    def back_off(self, cursor: Cursor) -> None:
        cursor.back_off(self.now() + self.backoff.delay(cursor.attempts))

    def trouble(self, cursor: Cursor, error: KafkaError) -> None:
        """An error that may pass: the reader hears of it if it has not after default_api_timeout_ms."""
        now = self.now()
        since = self._troubled_since.setdefault(cursor.tp, now) if cursor.attempts else now
        self._troubled_since[cursor.tp] = since
        self.back_off(cursor)
        if now - since >= self.config.default_api_timeout_ms / 1000:
            self._troubled_since[cursor.tp] = now
            self.fail(cursor, error)

    def fail(
        self, cursor: Cursor, error: KafkaError, *, again: Callable[[], KafkaError] | None = None
    ) -> None:
        """An error for the reader. Once it was raised the cursor is tried again, or with `again` fails again."""
        cursor.fail()
        generation = cursor.generation

        def told() -> None:
            if again is None:
                self._told(cursor, generation)
            elif cursor.state is State.FAILED and cursor.generation == generation:
                self.fail(cursor, again(), again=again)

        self.queue.put(Failure(error, cursor.tp, generation=generation, on_taken=told))

    def raise_to_reader(
        self,
        error: KafkaError,
        cursor: Cursor | None = None,
        *,
        position: int | None = None,
        on_taken: Callable[[], None] | None = None,
    ) -> None:
        """An error that holds nothing up."""
        if cursor is None:
            self.queue.put(Failure(error, on_taken=on_taken))
        else:
            self.queue.put(Failure(error, cursor.tp, generation=cursor.generation, position=position))

    def _told(self, cursor: Cursor, generation: int) -> None:
        if cursor.state is not State.FAILED or cursor.generation != generation:
            return
        self.back_off(cursor)
        if cursor.retry():
            self._lookups.wake()
        else:
            self.place(cursor)
