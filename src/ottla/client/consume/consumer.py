"""Consumer: what `consume` gives: an iterator over records, with positions that can be looked at and moved.

`AsyncConsumer` puts queue, session, assignment and reader together, and iterates on the loop:

    async with kafka.consume("orders", start="earliest") as consumer:
        async for record in consumer:
            print(record.offset, record.value)

The blocking consumer has one inside (client/blocking/consumer.py): it reads in its own thread, and runs the loop
while `wait_for_data` waits. What is not awaited belongs to the thread that reads; what concerns the loop goes there
through `wake`.

Invariant: a consumer that is closed has no worker left, and its brokers know that its fetch sessions are over.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from ottla.client.backoff import Backoff
from ottla.client.consume.assignment import Assignment, TopicSearch
from ottla.client.consume.context import ConsumerContext, PollWatch
from ottla.client.consume.dead_letters import DeadLetterProducer, DeadLetters
from ottla.client.consume.errors import not_found
from ottla.client.consume.fetch_queue import Failure, FetchQueue, Wake
from ottla.client.consume.iterators import AsyncBatchReader, RestartingIterator
from ottla.client.consume.offset_spec import OffsetSpec, Start, Stops, start_spec
from ottla.client.consume.processing import (
    FailingRecord,
    OnFailure,
    call_with,
    check_processing,
    retry_record,
)
from ottla.client.consume.purging import leave_partitions, purge_consumers, restart_without
from ottla.client.consume.reader import Reader
from ottla.client.consume.session import Session
from ottla.client.consume.subscription import Subscription, first_start, stop_specs
from ottla.client.deadline import check_timeout, within
from ottla.client.home_loop import HomeLoop
from ottla.client.topic_partition import TopicPartition, check_partition
from ottla.errors import (
    ApiTimeoutError,
    ClientClosedError,
    ConfigurationError,
    CorruptBatchError,
    DeserializationError,
    KafkaError,
    UnknownTopicOrPartitionError,
)
from ottla.wire import ZERO_UUID, Uuid

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    import pyarrow

    from ottla.client.consume.cursor import Cursor
    from ottla.client.consume.partition_records import ReaderPosition
    from ottla.config import ClientConfig
    from ottla.hooks import ConsumerInterceptor
    from ottla.serde import Deserialize

OnError: TypeAlias = Literal["raise", "skip"] | DeadLetters
"""What becomes of a record that cannot be deserialized: raised, logged and skipped, or sent elsewhere."""


class AsyncConsumer:
    """Reads partitions directly, without a group.

    A consumer for asyncio. Begins with its first use, and ends with `close` or its `async with`.
    """

    polling: PollWatch | None = None
    """What wants to know when the program asks for more: a group's membership."""

    def __init__(
        self,
        context: ConsumerContext,
        subscription: Subscription,
        *,
        start: Start | None = None,
        stop: Stops | None = None,
        key_deserializer: Deserialize | None = None,
        value_deserializer: Deserialize | None = None,
        interceptors: Sequence[ConsumerInterceptor] = (),
        on_error: OnError = "raise",
        raw_producer: DeadLetterProducer | None = None,
        wake: Wake | None = None,
        on_ended: Callable[[Any], None] | None = None,
    ) -> None:
        """Sends nothing before `begin`. `wake(function)` has the loop call a function; None: it runs here.

        `raw_producer` sends records to dead-letter topics that name no producer.
        """
        if not isinstance(on_error, DeadLetters) and on_error not in ("raise", "skip"):
            raise ConfigurationError(
                f"on_error={on_error!r}: write 'raise', 'skip' or DeadLetters(topic)", option="on_error"
            )
        config, clock = context.config, context.runtime.clock
        if subscription.server_pattern is not None and not self._has_coordinator(config):
            raise ConfigurationError(
                f"{subscription.server_pattern!r} is for the coordinator of a group: pass group=, and set "
                "group_protocol='consumer'; or use re.compile(), which the client resolves",
                option="topics",
            )
        now_ms = int(clock.time() * 1000)
        begin = first_start(config, subscription, start, stop)
        self._home = HomeLoop()
        # Of a blocking client, other threads call what is not awaited.
        self._check_reader = self._home.check if wake is None else lambda: None
        self.queue = FetchQueue(wake)
        self._raw_producer = raw_producer
        self.dead_letters = self.with_producer(on_error) if isinstance(on_error, DeadLetters) else None
        self.reader = Reader(
            self.queue,
            context.hooks,
            clock.monotonic,
            self._refetch,
            check_crcs=config.check_crcs,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
            interceptors=interceptors,
            skips=on_error == "skip",
        )
        self._config = config
        self.clock = self._clock = clock
        self.backoff = Backoff(
            config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000, context.runtime.random
        )
        self._metadata = context.metadata
        self._tasks = context.tasks
        self._is_committed = context.is_committed
        self._session = Session(context, self.queue)
        self._assignment = self._make_assignment(context, subscription, begin, stop, now_ms)
        self._beginning: asyncio.Task[None] | None = None
        self._stopping = asyncio.Lock()
        self.is_closed = False
        self._on_ended = on_ended

    def _has_coordinator(self, config: ClientConfig) -> bool:
        """Whether one assigns the partitions, and knows which topics match."""
        return False

    def _make_assignment(
        self,
        context: ConsumerContext,
        subscription: Subscription,
        start: Start,
        stop: Stops | None,
        now_ms: int,
    ) -> Assignment:
        stops = stop_specs(subscription, stop)
        return Assignment(context, self._session, subscription, start_spec(start, now_ms), stops, now_ms)

    # Reading

    def __aiter__(self) -> AsyncIterator[Any]:
        """Every record; ends when all partitions have reached their `stop`, and goes on after an error."""
        self._home.check()
        return RestartingIterator(self._each)

    async def _each(self, ended: Callable[[], None]) -> AsyncGenerator[Any, None]:
        reader = self.reader
        try:
            while (records := await self._records(None)) is not None:
                try:
                    for record in records:
                        reader.last = record
                        yield record
                        if reader.iterator is not records:
                            break
                    else:
                        reader.exhausted(records)
                except DeserializationError as error:
                    await self._send_to_dead_letters(error)
        finally:
            ended()

    async def poll(self, max_records: int | None = None, timeout: float | None = None) -> list[Any]:
        """What is there, up to `max_records`, of one partition or several; waits up to `timeout` for the first.

        Empty after `timeout` seconds, and at the end.
        """
        self._home.check()
        check_timeout(timeout)
        most = self.poll_limit(max_records)
        taken: list[Any] = []
        deadline = None if timeout is None else self._clock.monotonic() + timeout
        while len(taken) < most:
            try:
                records = self.reader.records() if taken else await self._records(deadline)
                if records is None:
                    break
                taken += self.reader.take(records, most - len(taken))
            except DeserializationError as error:
                if taken:
                    break
                await self._send_to_dead_letters(error)
            except KafkaError as error:
                if not taken:
                    raise
                self.reader.defer(error)
                break
        return taken

    def batches(self) -> AsyncBatchReader:
        """Arrow columns, one batch for each part that was fetched; keys and values are raw."""
        self._home.check()
        return AsyncBatchReader(self._each_batch)

    async def _each_batch(self, ended: Callable[[], None]) -> AsyncGenerator[pyarrow.RecordBatch, None]:
        try:
            self._home.check()
            while True:
                if self.polling is not None:
                    await self.polling.asked()
                while (batch := self.reader.batch()) is None:
                    if not await self.wait_for_data(None):
                        return
                if self.polling is not None:
                    self.polling.hands_out()
                yield batch
        finally:
            ended()

    async def _records(self, deadline: float | None) -> Iterator[Any] | None:
        self._home.check()
        if self.polling is not None:
            await self.polling.asked()
        while (records := self.reader.records()) is None:
            if not await self.wait_for_data(deadline):
                return None
        if self.polling is not None:
            self.polling.hands_out()
        return records

    async def _send_to_dead_letters(self, error: DeserializationError) -> None:
        if self.dead_letters is None:
            raise error
        await self.dead_letters.send(error)
        # A program that has paused it meanwhile, or sought, gets it again: better twice than not at all.
        if self.reader.is_at(error):
            self.reader.skip(error)

    # Processing

    async def process(
        self,
        function: Callable[[Any], object],
        *,
        retries: int = 0,
        on_failure: OnFailure = "raise",
    ) -> None:
        """Calls a function, plain or asynchronous, with every record; ends as an iteration does.

        One that it fails on is tried `retries` times again. Then the error is raised, and the consumer stays in front
        of the record; or the record is skipped, or kept by `DeadLetters`, and committed in its group. One that cannot
        be kept raises why.
        """
        check_processing(function, retries, on_failure)
        async for record in self:
            try:
                await call_with(function, record)
            except Exception as error:  # noqa: BLE001  whatever the program's function raises is its failure
                failing = FailingRecord(record, retries, self.backoff)
                await retry_record(self, function, failing, error, on_failure)

    def with_producer(self, letters: DeadLetters) -> DeadLetters:
        """Those that name no producer are sent by the client that reads."""
        return letters if letters.producer is not None else DeadLetters(letters.topic, self._raw_producer)

    def is_read(self, partition: TopicPartition) -> bool:
        return partition in self._session.cursors

    def stay_at(self, failing: FailingRecord) -> None:
        """The next record is this one again."""
        if self.is_read(failing.partition):
            self.seek(failing.partition, failing.record.offset)

    async def settle_failure(self, record: Any) -> None:
        """The program is done with a record that it failed on; a group commits it."""

    async def wait_for_data(self, deadline: float | None) -> bool:
        """Waits until there may be something to read; False at the end, or when the time is up."""
        loop = asyncio.get_running_loop()
        if not self.is_begun or loop is not self._home.loop:
            self._check_open()
            self.begin()
        if self.queue.items or self.reader.resumed:
            return True
        if self.queue.is_complete and self.reader.is_finished:
            return False
        waiter: asyncio.Future[bool] = loop.create_future()
        waiters, notify = self.queue.waiters, partial(_set, waiter, True)
        waiters.append(notify)
        timer = None
        if deadline is not None:
            seconds = max(0.0, deadline - self._clock.monotonic())
            timer = self._clock.call_later(seconds, _set, waiter, False)
        if self.polling is not None:
            self.polling.is_waiting = True
        try:
            is_ready = await waiter
        finally:
            if self.polling is not None:
                self.polling.is_waiting = False
            waiters.remove(notify)
            if timer is not None:
                timer.cancel()
        if self.is_closed:
            self._check_open()
        return is_ready

    @property
    def is_begun(self) -> bool:
        """Whether something may come by itself; if not, `wait_for_data` begins, or says why not."""
        return self._beginning is not None and not self.is_closed

    # Beginning, on the loop

    def begin(self) -> None:
        """Begins to find out what is to be read, and to fetch it; once, on the loop."""
        self._home.check()
        if self._beginning is not None:
            return
        subscription = self._assignment.subscription
        self._metadata.add_listener(self._assignment)
        for topic in subscription.named:
            self._metadata.track(topic)
        if subscription.needs_all_topics:
            self._metadata.track_all()
        self._session.start()
        self._beginning = self._tasks.spawn(self._find_subscribed(), "consumer")

    async def _find_subscribed(self) -> None:
        """Until everything that was named has been seen; the reader raises what is not there."""
        assignment, metadata = self._assignment, self._metadata
        while (error := await self._missing_error()) is not None:
            # No second one before the first is taken: a reader that comes late raises it once.
            taken = asyncio.Event()
            self.queue.put(Failure(error, on_taken=taken.set))
            await taken.wait()
        assignment.on_metadata(metadata.view)
        assignment.settle()

    async def _missing_error(self) -> KafkaError | None:
        assignment = self._assignment
        search = TopicSearch(assignment, self._clock.monotonic)
        try:
            await self._metadata.wait(search.look, None, what="the topics to read")
            if assignment.subscription.patterns:
                view = await self._metadata.fresh(None)
                assignment.on_metadata(view)
                assignment.warn_of_patterns(view)
        except ApiTimeoutError as error:
            missing = assignment.missing(self._metadata.view)
            # A topic that no broker has been able to say anything about may exist all the same.
            is_known = isinstance(missing, TopicPartition) or missing in self._metadata.view.topics
            if missing is None or not is_known or self._metadata.is_failing:
                return error
            return not_found(missing, self._metadata.view, self._config.default_api_timeout_ms / 1000)
        except UnknownTopicOrPartitionError as error:
            return error
        return None

    async def position(
        self,
        partition: TopicPartition,
        timeout: float | None = None,
    ) -> int:
        """The offset of the next record of a partition; waits until it is known, with default_api_timeout_ms."""
        seconds = self._seconds(timeout)
        self._check_open()
        check_partition(partition)
        self.begin()
        try:
            return await within(self._clock, seconds, self._position(partition))
        except TimeoutError:
            why = self._metadata.failure()
            reason = "is it read by this consumer, and has it a leader?" if why is None else str(why)
            raise ApiTimeoutError(
                f"waited {seconds:g} s for the position of {partition} in vain: {reason}"
            ) from why

    def _seconds(self, timeout: float | None) -> float:
        check_timeout(timeout)
        return self._config.default_api_timeout_ms / 1000 if timeout is None else timeout

    async def _position(self, partition: TopicPartition) -> int:
        while partition not in self._session.cursors or (position := self.known_position(partition)) is None:
            await self._session.wait_for_offset()
            self._check_open()
        return position

    def _check_open(self) -> None:
        if self.is_closed:
            raise ClientClosedError("the consumer is closed")

    async def end(self) -> None:
        """Stops everything; on the loop. A second call does nothing."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._on_ended is not None:
            self._on_ended(self)
        if self._beginning is None:
            return
        # First what needs no waiting, so that it is done even if the waiting is cancelled.
        self._metadata.remove_listener(self._assignment)
        for topic in self._assignment.subscription.named:
            self._metadata.untrack(topic)
        if self._assignment.subscription.needs_all_topics:
            self._metadata.untrack_all()
        self._beginning.cancel()
        try:
            async with self._stopping:
                await self._session.close()
        finally:
            self.queue.discard()
            self.queue.notify()
        await asyncio.gather(self._beginning, return_exceptions=True)

    # Purging

    async def purge_topics(self, *topics: str, timeout: float | None = None) -> None:
        """Reads these topics no more, and forgets everything of them; nothing fetched before is seen after.

        Named topics, and their single partitions, are not subscribed to any more. A pattern leaves the topic out as
        it is: if it is deleted and created again, it matches. A consumer with nothing left to read is at its end.
        """
        self._home.check()
        await self.purge_waiting(topics, timeout, waits=self.may_wait_for_purge())

    async def purge_waiting(self, topics: Sequence[str], timeout: float | None, *, waits: bool) -> None:
        """On the loop; whether to wait for it, the calling thread knows."""
        self._check_open()
        await purge_consumers([self], topics, [self] if waits else [], self._clock, self._seconds(timeout))

    def purge(self, topics: Iterable[str]) -> asyncio.Task[None] | None:
        """See Purgeable; on the loop."""
        named = self._assignment.subscription.named
        purged = self._assignment.purge(topics, self._metadata.view)
        if not purged or self._beginning is None or self.is_closed:
            return None
        self._metadata.look_again()  # a consumer that waits for a topic to exist need not any more
        tracked = [name for name in named if name in purged]
        return self._tasks.spawn(self._start_purge(purged, tracked), "purge topics")

    def may_wait_for_purge(self) -> bool:
        """See Purgeable; in the thread that calls."""
        return True

    def _start_purge(self, purged: Iterable[str], tracked: Iterable[str]) -> Coroutine[Any, Any, None]:
        for name in tracked:
            self._metadata.untrack(name)
        return self._leave(leave_partitions(self._session, self.reader, purged))

    async def _leave(self, left: list[TopicPartition]) -> None:
        async with self._stopping:
            await restart_without(self._session, self.reader, left, lambda: self.is_closed)
            self._assignment.settle_again()

    # In the thread that reads

    def poll_limit(self, max_records: int | None) -> int:
        """How many records one poll may give."""
        if max_records is not None and max_records < 1:
            raise ValueError(f"max_records must be at least 1, not {max_records}")
        return self._config.max_poll_records if max_records is None else max_records

    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read."""
        return list(self._session.cursors)

    def pause(self, *partitions: TopicPartition) -> None:
        """Gives nothing of them any more until `resume`; what is buffered is kept."""
        self._check_reader()
        for tp in map(check_partition, partitions) if partitions else self.assignment():
            self.reader.pause(tp)
            self.queue.wake(partial(self._session.pause, tp, True))

    def resume(self, *partitions: TopicPartition) -> None:
        """Gives what was paused again; all without arguments."""
        self._check_reader()
        for tp in map(check_partition, partitions) if partitions else self.paused():
            self.reader.resume(tp)
            self.queue.wake(partial(self._session.pause, tp, False))
        if self.reader.resumed:
            self.queue.wake(self.queue.notify)

    def paused(self) -> list[TopicPartition]:
        return self.reader.paused

    def seek(self, partition: TopicPartition, to: Start) -> None:
        """Goes on elsewhere: an offset, "earliest", "latest", a datetime or a Timestamp."""
        self._check_reader()
        self._check_assigned(partition)
        spec = start_spec(to, int(self._clock.time() * 1000))
        generation = self.reader.seek(partition, spec.offset, self._topic_id(partition))
        self.queue.wake(partial(self._session.seek, partition, spec, generation))

    def skip(self, error: DeserializationError | CorruptBatchError) -> None:
        """Goes on behind the record, or the batch, that raised this."""
        self._check_reader()
        if isinstance(error, CorruptBatchError):
            self.seek(TopicPartition(error.topic, error.partition), error.next_offset)
        else:
            self.reader.skip(error)

    def _refetch(self, partition: TopicPartition, offset: int) -> None:
        generation = self.reader.seek(partition, offset, self._topic_id(partition))
        self.queue.wake(partial(self._session.seek, partition, OffsetSpec(offset=offset), generation))

    def _topic_id(self, partition: TopicPartition) -> Uuid:
        cursor = self._session.cursors.get(partition)
        return ZERO_UUID if cursor is None else cursor.topic_id

    def known_position(self, partition: TopicPartition) -> int | None:
        """The offset of the next record; None while it is being looked up."""
        self._check_assigned(partition)
        return self._known_position(partition, self._session.cursors.get(partition))

    def _known_position(self, partition: TopicPartition, cursor: Cursor | None) -> int | None:
        reached = self._reached(partition, cursor)
        return None if reached is None else reached.offset

    def _reached(self, partition: TopicPartition, cursor: Cursor | None) -> ReaderPosition | None:
        reached = self.reader.reached(partition)
        if reached is not None or cursor is None or not cursor.has_offset:
            return reached
        # Not its offset: that is behind what has been fetched, and nothing of it has been read.
        return cursor.began

    def lag(self) -> dict[TopicPartition, int]:
        """How many offsets are between each position and the end of what can be read; where both are known."""
        lags: dict[TopicPartition, int] = {}
        for tp, cursor in list(self._session.cursors.items()):
            position = self._known_position(tp, cursor)
            end = cursor.end(self._is_committed)
            if position is not None and end >= 0:
                lags[tp] = max(0, end - position)
        return lags

    def _check_assigned(self, partition: TopicPartition) -> None:
        check_partition(partition)
        if partition not in self._session.cursors:
            raise ValueError(f"{partition} is not read by this consumer, or not known yet: see assignment()")

    # The end

    def is_called_back(self) -> bool:
        """Whether it is one of the program's callbacks that asks, which the consumer waits for."""
        return False

    async def close(self) -> None:
        """Stops reading; a call that waits for a record gets a ClientClosedError."""
        self._home.check()
        await self.end()
        self.reader.close()

    def close_soon(self) -> None:
        """Closes in a task of its own, for a consumer that was let go; on the loop."""
        if not self.is_closed:
            self._tasks.spawn(self.close(), "close a consumer that was left")

    async def __aenter__(self) -> Self:
        self._check_open()
        self.begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


def _set(waiter: asyncio.Future[bool], is_ready: bool) -> None:
    if not waiter.done():
        waiter.set_result(is_ready)
