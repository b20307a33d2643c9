"""Session: everything of a consumer that runs on the loop: its cursors, sources and lookups, and their workers.

A session is started and stopped. Stopping has an order, and each step needs the one before it:

    1. stop the sources, and cancel the workers: lookups, and connections on their way
    2. refuse new ones
    3. wait until every worker has ended
    4. reset the fetch sessions: brokers may or may not have seen the last requests
    5. discard what is buffered: cursors go back to before it; what could not be fetched again stays
    6. what was still being looked up stays pending, for the next session

Which partitions there are is assignment.py's; what the user sees is reader.py's.

Invariant: a cursor is in the source of its `fetch_node`, or in none while it has no leader.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Coroutine
from typing import Any

from ottla.client.backoff import Backoff
from ottla.client.consume.context import ConsumerContext
from ottla.client.consume.cursor import (
    UNKNOWN,
    Cursor,
    FetchProblem,
    FetchRefused,
    LogDiverged,
    NoWholeBatch,
    State,
)
from ottla.client.consume.errors import (
    Remedy,
    epoch_never_reached,
    no_whole_batch,
    out_of_range,
    remedy_for,
    truncated,
)
from ottla.client.consume.fetch_queue import Failure, FetchQueue, Item, PositionReset
from ottla.client.consume.offset_lookup import Goal, Lookup, OffsetLookups
from ottla.client.consume.offset_spec import EARLIEST, LATEST, OffsetSpec, reset_spec
from ottla.client.consume.partition_records import PartitionRecords
from ottla.client.consume.source import Source
from ottla.client.topic_partition import TopicPartition
from ottla.errors import KafkaError, UnknownLeaderEpochError

_logger = logging.getLogger("ottla.client.consume.consumer")


class Session:
    """One consumer's: it starts with the consumer's first use, and stops when that is closed.

    A session that has stopped can be started again, and goes on where the reader is.
    """

    def __init__(self, context: ConsumerContext, queue: FetchQueue) -> None:
        self.cursors: dict[TopicPartition, Cursor] = {}
        self.is_bounded = False
        """Whether the end of every partition is known once its lookup is done, so that reading can be complete."""
        self.is_active = False
        self._context = context
        self._config = context.config
        self._clock = context.runtime.clock
        self._hooks = context.hooks
        self._queue = queue
        self._backoff = Backoff(
            context.config.retry_backoff_ms / 1000,
            context.config.retry_backoff_max_ms / 1000,
            context.runtime.random,
        )
        self._workers: dict[asyncio.Task[None], None] = {}
        self._sources: dict[int, Source] = {}
        self._routes: dict[TopicPartition, Source] = {}
        self._failing_since: dict[TopicPartition, float] = {}
        self._offset_waiters: dict[asyncio.Future[None], None] = {}
        # What the reader has done to a partition, a seek or a pause, outlives its cursor, and may be there before it.
        self._generations: dict[TopicPartition, int] = {}
        self._paused: dict[TopicPartition, None] = {}
        self._held: dict[TopicPartition, None] = {}
        """Partitions that are not fetched yet, or not any more, though they have cursors."""
        self._lookups = OffsetLookups(context, self)

    # Starting and stopping

    def start(self) -> None:
        if self.is_active:
            return
        self.is_active = True
        self.spawn(self._lookups.run(), "offset lookups")
        for source in self._sources.values():
            source.start()
        for cursor in list(self.cursors.values()):
            self.route(cursor)
        if (notify := self._hooks.on_session_started) is not None:
            notify()

    async def stop(self) -> None:
        if not self.is_active:
            return
        self.is_active = False
        for source in self._sources.values():
            source.stop()
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        for source in self._sources.values():
            source.reset()
        self._discard()
        if (notify := self._hooks.on_session_stopped) is not None:
            notify()

    async def close(self) -> None:
        self._notify_offset_waiters()
        await self.stop()
        for source in self._sources.values():
            source.end()

    def _discard(self) -> None:
        """Cursors go back to before what is discarded.

        What could not be fetched again stays for the reader: errors that are raised once, and what was fetched of a
        partition before its position was lost.
        """
        discarded = self._queue.discard()
        stays: dict[TopicPartition | None, None] = {}
        kept: list[Item] = []
        # From the back: the earliest part of a partition says where its cursor was.
        for item in reversed(discarded):
            if self._cannot_come_again(item, stays):
                stays[item.tp] = None
                kept.append(item)
            elif isinstance(item, PartitionRecords):
                cursor = self.cursors.get(item.tp)
                if cursor is not None and cursor.generation == item.generation:
                    cursor.rewind(item.offset, item.epoch_before)
        self._queue.put(*reversed(kept))
        for item in discarded:
            if isinstance(item, Failure) and item not in kept and item.on_taken is not None:
                item.on_taken()

    def _cannot_come_again(self, item: Item, stays: Container[TopicPartition | None]) -> bool:
        if isinstance(item, Failure):
            return item.outlives_session or item.on_taken is None
        if isinstance(item, PositionReset):
            return True
        cursor = self.cursors.get(item.tp)
        return cursor is not None and (item.tp in stays or cursor.state in (State.UNSET, State.LOADING))

    def discard_errors(self, topics: Container[str]) -> None:
        """The reader is not to raise what is about these topics."""
        items = self._queue.discard()
        dropped = [item for item in items if isinstance(item, Failure) and item.is_about(topics)]
        self._queue.put(*(item for item in items if item not in dropped))
        for item in dropped:
            if item.on_taken is not None:
                item.on_taken()

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """A worker of this session."""
        if not self.is_active:
            work.close()
            return
        worker = self._context.tasks.spawn(work, name)
        self._workers[worker] = None
        worker.add_done_callback(lambda done: self._workers.pop(done, None))

    # Cursors

    def add(self, cursor: Cursor, *lookups: Lookup) -> None:
        """A partition that is read from now on, from where the lookups lead."""
        self.cursors[cursor.tp] = cursor
        cursor.generation = self._generations.get(cursor.tp, 0)
        cursor.paused = cursor.tp in self._paused
        self._queue.complete(False)
        self._lookups.add(cursor, *lookups)

    def remove(self, tp: TopicPartition) -> None:
        cursor = self.cursors.pop(tp, None)
        self._lookups.drop(tp)
        self._failing_since.pop(tp, None)
        self._held.pop(tp, None)
        if cursor is not None:
            cursor.finish()
            self._unroute(tp)
        self.check_complete()

    def hold(self, tp: TopicPartition, generation: int | None = None) -> None:
        """Has it not fetched until `release`; what was fetched for an older generation is not seen."""
        self._held[tp] = None
        self._unroute(tp)
        if generation is not None:
            self._generations[tp] = generation
            self._paused.pop(tp, None)

    def release(self, tp: TopicPartition) -> None:
        self._held.pop(tp, None)
        cursor = self.cursors.get(tp)
        if cursor is not None:
            self.route(cursor)

    def seek(self, tp: TopicPartition, spec: OffsetSpec, generation: int) -> None:
        """What the user wants: nothing that was fetched before counts from here on."""
        self._generations[tp] = generation
        cursor = self.cursors.get(tp)
        if cursor is None:
            return
        self._queue.complete(False)
        self._unroute(tp)
        cursor.generation = generation
        cursor.clear_backoff()
        self._lookups.seek(cursor, spec)
        self.check_complete()

    def pause(self, tp: TopicPartition, paused: bool) -> None:
        if paused:
            self._paused[tp] = None
        else:
            self._paused.pop(tp, None)
        cursor = self.cursors.get(tp)
        if cursor is not None:
            cursor.paused = paused
            self.route(cursor)

    def route(self, cursor: Cursor) -> None:
        """Puts a cursor into the source where it belongs now, and has that source look at it."""
        if cursor.tp in self._held:
            return
        node = cursor.fetch_node(self._clock.monotonic())
        source = self._routes.get(cursor.tp)
        if source is None or source.node_id != node:
            self._unroute(cursor.tp)
            if node < 0:
                return
            source = self._source(node)
            source.cursors[cursor.tp] = cursor
            self._routes[cursor.tp] = source
        source.wake()

    def _unroute(self, tp: TopicPartition) -> None:
        source = self._routes.pop(tp, None)
        if source is not None:
            source.cursors.pop(tp, None)

    def _source(self, node_id: int) -> Source:
        source = self._sources.get(node_id)
        if source is None:
            source = Source(node_id, self._context, self._queue, self._backoff, self)
            self._sources[node_id] = source
            if self.is_active:
                source.start()
        return source

    async def wait_for_offset(self) -> None:
        """Until a cursor has got an offset, or all is over."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._offset_waiters[waiter] = None
        try:
            await waiter
        finally:
            self._offset_waiters.pop(waiter, None)

    def _notify_offset_waiters(self) -> None:
        waiters, self._offset_waiters = self._offset_waiters, {}
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def leaders_changed(self) -> None:
        """There may be leaders now for what is being looked up."""
        self._lookups.wake()

    def check_complete(self) -> None:
        """The queue is complete when every partition has reached its stop."""
        if self.is_bounded:
            self._queue.complete(all(cursor.state is State.DONE for cursor in self.cursors.values()))

    # What lookups find

    def found(self, cursor: Cursor, lookup: Lookup, offset: int) -> None:
        """The next of a cursor's lookups has led to an offset."""
        goal = lookup.goal
        if goal is Goal.STOP:
            cursor.stop = offset
        elif goal is Goal.FIRST:
            cursor.update(UNKNOWN, UNKNOWN, offset)
        elif goal is Goal.LAST:
            cursor.update(offset, UNKNOWN, UNKNOWN)
            cursor.loaded(lookup.old)
            self.fail(
                cursor, out_of_range(cursor.tp, lookup.reason, cursor.log_start_offset, cursor.high_watermark)
            )
        else:
            cursor.loaded(offset, lookup.spec.leader_epoch)
            if cursor.leader_epoch < cursor.required_epoch:
                self._context.metadata.refresh_now(
                    f"{cursor.tp} was read in leader epoch {cursor.required_epoch}, and the known one is older"
                )
            if goal is Goal.RESET:
                _logger.warning("%s: goes on at %d: %s", cursor.tp, offset, lookup.reason)
                # Behind what the reader has not read yet: there may never be a record that moves its position.
                self._queue.put(
                    PositionReset(cursor.tp, offset, generation=cursor.generation, topic_id=cursor.topic_id)
                )
                self._notify_reset(cursor, lookup.old, offset, lookup.reason)
            self.route(cursor)
            self.check_complete()
            self._notify_offset_waiters()

    # Positions that are lost

    def reset_position(self, cursor: Cursor, reason: str) -> None:
        """auto_offset_reset decides; "none" is an error, again and again until the user seeks."""
        spec = reset_spec(self._config, int(self._clock.time() * 1000))
        if spec is not None:
            self.reset_to(cursor, spec, reason)
            return
        # The response does not say what there is, and the error should.
        bounds = (Lookup(EARLIEST, Goal.FIRST), Lookup(LATEST, Goal.LAST, reason, cursor.offset))
        self._lookups.add(cursor, *bounds)

    def reset_to(self, cursor: Cursor, spec: OffsetSpec, reason: str) -> None:
        """Goes on somewhere else, and notifies the hooks when it is known where."""
        self._unroute(cursor.tp)
        self._lookups.add(cursor, Lookup(spec, Goal.RESET, reason, cursor.offset))

    def _notify_reset(self, cursor: Cursor, old: int, new: int, reason: str) -> None:
        if (notify := self._hooks.on_position_reset) is not None:
            notify(cursor.topic, cursor.partition, old, new, reason)

    # Problems that a response brings

    def solve(self, cursor: Cursor, node_id: int, problem: FetchProblem) -> None:
        """What becomes of a cursor after a fetch from `node_id` that brought no records but this."""
        if isinstance(problem, FetchRefused):
            if cursor.back_to_leader() and node_id != cursor.leader:
                # A follower may lag, or be one no longer: what it says of an offset does not count.
                self._back_off(cursor, self._clock.monotonic())
                self.route(cursor)
            else:
                self.refused(cursor, problem.error)
        elif isinstance(problem, LogDiverged):
            self._diverged(cursor, problem.end_offset)
        elif isinstance(problem, NoWholeBatch):
            self.fail(cursor, no_whole_batch(cursor.tp, cursor.offset, problem.size))
        else:
            self._prefer_replica(cursor, problem.replica)

    def refused(self, cursor: Cursor, error: KafkaError) -> None:
        """The leader refuses it with an error."""
        remedy = remedy_for(error)
        if remedy is Remedy.RESET and cursor.state is not State.LOADING:
            self.reset_position(cursor, f"offset {cursor.offset} is out of range")
        elif remedy is Remedy.RAISE:
            self.fail(cursor, error)
        else:
            if remedy is Remedy.REFRESH:
                self._context.metadata.refresh_now(str(error))
            self.retry_later(cursor, error)

    def _diverged(self, cursor: Cursor, end_offset: int) -> None:
        """What was consumed behind the truncation is gone: reading goes on there, with auto_offset_reset at all."""
        old = cursor.offset
        new = min(end_offset, old)
        resets = self._config.auto_offset_reset != "none"
        error = truncated(cursor.tp, old, new, resets=resets)
        if not resets:
            self.fail(cursor, error)
            return
        _logger.warning("%s", error)
        cursor.rewind(new, UNKNOWN)
        self._notify_reset(cursor, old, new, "the log was truncated")
        self.raise_to_reader(error, cursor, position=new)
        self.route(cursor)

    def _prefer_replica(self, cursor: Cursor, replica: int) -> None:
        """KIP-392: the leader knows a replica that is nearer."""
        now = self._clock.monotonic()
        metadata = self._context.metadata
        if replica in metadata.view.brokers:
            cursor.prefer(replica, now + self._config.metadata_max_age_ms / 1000)
            self.route(cursor)
        else:
            # The leader would name it again and again, and nothing would ever be read.
            self._back_off(cursor, now)
            metadata.refresh_now(f"{cursor.tp} is to be read from broker {replica}, which is not known")

    # Errors

    def _back_off(self, cursor: Cursor, now: float) -> None:
        cursor.back_off(now + self._backoff.delay(cursor.attempts))

    def retry_later(self, cursor: Cursor, error: KafkaError) -> None:
        """An error that may pass: the reader raises it if it has not after default_api_timeout_ms."""
        now = self._clock.monotonic()
        since = self._failing_since.setdefault(cursor.tp, now) if cursor.attempts else now
        self._failing_since[cursor.tp] = since
        self._back_off(cursor, now)
        if now - since >= self._config.default_api_timeout_ms / 1000:
            self._failing_since[cursor.tp] = now
            # Java's consumer waits for such an epoch without a word; a program that is told can do something.
            if isinstance(error, UnknownLeaderEpochError) and cursor.leader_epoch < cursor.required_epoch:
                error = epoch_never_reached(cursor.tp, cursor.leader_epoch, cursor.required_epoch)
            self.fail(cursor, error)

    def fail(
        self, cursor: Cursor, error: KafkaError, *, again: Callable[[], KafkaError] | None = None
    ) -> None:
        """An error for the reader. Once it is raised the cursor is tried again, or with `again` fails again."""
        cursor.fail()
        generation = cursor.generation

        def raised() -> None:
            if cursor.state is not State.FAILED or cursor.generation != generation:
                return
            if again is None:
                self._retry(cursor)
            else:
                self.fail(cursor, again(), again=again)

        self._queue.put(Failure(error, cursor.tp, generation=generation, on_taken=raised))

    def _retry(self, cursor: Cursor) -> None:
        self._back_off(cursor, self._clock.monotonic())
        if cursor.retry():
            self._lookups.wake()
        else:
            self.route(cursor)

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
            self._queue.put(Failure(error, on_taken=on_taken))
        else:
            self._queue.put(Failure(error, cursor.tp, generation=cursor.generation, position=position))
