"""Producer: from `produce()` to the receipt. It puts together topics, RecBufs, sinks and the native accumulator.

Who owns what. The appending side, any thread: `produce`, the dicts that it looks into, and everything behind the
native locks (buffers, held records, partitioners). The loop: everything else. The loop is called only when there is
something new for it, a buffer that was empty or a batch that became full, and once for all of those that come
before it gets there: the buffer is noted, and `_attend` looks at what was noted. Noting is one call of a built-in
method, so that Ctrl-C cannot fall into it: whoever is interrupted afterwards has a note that is read later.

Invariants: a record that `produce` took ends as delivered or failed, whatever happens; records of one partition are
sent in the order in which they were appended; and after `close` no timer and no callback of ours is left.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NoReturn

from ottla.client.connections.brokers import Brokers
from ottla.client.deadline import within
from ottla.client.home_loop import HomeLoop
from ottla.client.metadata import ClusterView, Metadata, check_name
from ottla.client.partitioners import LeaderLatency, Partitioner, TopicPartitioner
from ottla.client.produce import giving_up
from ottla.client.produce.answers import given_up_error
from ottla.client.produce.batch import ProducerBatch
from ottla.client.produce.batch_delivery import BatchDelivery
from ottla.client.produce.columns import ColumnsProducer, Handover
from ottla.client.produce.flushes import Flush
from ottla.client.produce.idle_topics import IdleTopics
from ottla.client.produce.noted import Noted
from ottla.client.produce.outcomes import Outcomes
from ottla.client.produce.producer_id import ProducerIds
from ottla.client.produce.recbuf import RecBuf
from ottla.client.produce.recbufs import RecBufs
from ottla.client.produce.record_path import Append, NoRoom, RecordPath, RefusingAppends
from ottla.client.produce.schedule import DrainSchedule
from ottla.client.produce.settings import ProduceSettings
from ottla.client.produce.sink import Sink, SinkParts
from ottla.client.produce.topic import UNKNOWN_TOPIC, TopicParts, TopicProducer
from ottla.client.tasks import Tasks
from ottla.config import ClientConfig
from ottla.errors import AbortedError, ApiTimeoutError, ClientClosedError, KafkaError, NoSuchPartitionError
from ottla.hooks import Hooks, ProducerInterceptor
from ottla.runtime import Runtime, SystemClock, Timer
from ottla.serde.calls import Serialize
from ottla.wire.batch_header import BATCH_OVERHEAD
from ottla.wire.records import Accumulator, BufferFull, BufferRetired, Delivery

_logger = logging.getLogger("ottla.client.produce.producer")

_SWEEPS: Final = 20
"""Within a delivery timeout; a record is given up at most a twentieth of it too late."""
_MOST_BETWEEN_SWEEPS: Final = 1.0


class Producer:
    """The produce path of a client."""

    def __init__(
        self,
        config: ClientConfig,
        runtime: Runtime,
        hooks: Hooks,
        brokers: Brokers,
        metadata: Metadata,
        tasks: Tasks,
        *,
        partitioner: Partitioner,
        key_serializer: Serialize | None = None,
        value_serializer: Serialize | None = None,
        interceptors: Sequence[ProducerInterceptor] = (),
        wake: Callable[[Callable[[], object]], object] | None = None,
        wait: Callable[[Any, float | None], object] | None = None,
    ) -> None:
        """`wake(function)` has a function called on the loop, from any thread; without it all is one thread.

        `wait(delivery, timeout)` blocks until a receipt is done, or raises.
        """
        self._runtime = runtime
        self._clock = runtime.clock
        self._metadata = metadata
        self._wake = wake or HomeLoop().call
        self._has_threads = wake is not None
        self._partitioner = partitioner
        self._settings = settings = ProduceSettings.of(config, runtime.random)
        self._noted = Noted(self._clock, settings.linger)
        self.new = self._noted.new
        self._accumulator = self._new_accumulator(config, wait)
        self._topics: dict[str, TopicProducer] = {}
        self._sinks: dict[int, Sink] = {}
        self._outcomes = Outcomes(hooks, self._clock)
        self._schedule = DrainSchedule(self._clock, settings.linger, self._gather)
        latency = LeaderLatency(config.partitioner_availability_timeout_ms / 1000)
        ids = ProducerIds(
            brokers, tasks, self._clock, settings.backoff, on_loaded=self._drain_all, on_fatal=self.fail_all
        )
        self._partitions = RecBufs(settings, self._accumulator, ids)
        self._recbufs = self._partitions.by_buffer
        self._sink_parts = SinkParts(
            settings, runtime, brokers, metadata, tasks, ids, self._schedule, self._outcomes, latency
        )
        self._topic_parts = TopicParts(
            self._accumulator,
            latency,
            self._new_partitioner,
            self._partitions.get,
            self._sink,
            self._schedule.consider,
            self._outcomes.count_failed,
        )
        # What the appending side looks into: how to append to a topic, as it is and through the record path.
        self._appends: dict[str, Append] = {}
        self._path = RecordPath(key_serializer, value_serializer, interceptors, hooks, self._find, self.tell)
        self._entries: dict[str, Append] = {} if self._path.is_needed else self._appends
        # For a caller to whom one call per record matters: it appends, tells of what is new, and comes to `produce`
        # with whatever goes wrong. There is nothing in it where records need the record path.
        self.quick_appends: Mapping[str, Append] = {} if self._path.is_needed else self._appends
        self._columns = ColumnsProducer(
            settings,
            runtime,
            self._accumulator,
            self._path,
            partitioner.columns_mode(),
            self._schedule,
            self.space,
            lambda topic: metadata.fresh([topic], max_age=0),
            wait,
        )
        self.handover = partial(Handover, self._columns, self._known, self._partitions.kept)
        self._idle = IdleTopics(self._clock, settings.max_idle, self._topics, self._forget)
        self._is_called = False
        self._sweeper: Timer | None = None
        self._sweep_every = min(settings.max_held / _SWEEPS, _MOST_BETWEEN_SWEEPS)
        self._is_closed = False
        self._is_ended = False
        metadata.add_listener(self)

    def _new_accumulator(
        self, config: ClientConfig, wait: Callable[[Any, float | None], object] | None
    ) -> Accumulator:
        # The system's clock is read natively. Any other is a function; not for appending threads, where there is
        # no running loop to ask.
        native = isinstance(self._clock, SystemClock) or self._has_threads
        most = max(config.buffer_memory, BATCH_OVERHEAD + 1)
        return Accumulator(
            batch_size=max(min(config.max_batch_bytes, most), BATCH_OVERHEAD + 1),
            max_bytes=most,
            max_records=max(config.max_buffered_records, 0),
            max_record_size=max(config.max_request_size, BATCH_OVERHEAD + 1),
            clock=None if native else lambda: int(self._clock.time() * 1000),
            monotonic=None if native else self._clock.monotonic,
            wake=self.new.setdefault,
            wait=wait,
            urge=self._on_urge,
        )

    # The appending side: any thread

    def produce(
        self,
        topic: str,
        value: Any,
        key: Any = None,
        headers: Any = None,
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> Delivery:
        """Appends one record and gives its receipt. Never waits: NoRoom says that there is none, and how to go on."""
        while True:
            try:
                append = self._entries[topic]
            except (KeyError, TypeError):
                append = self._entry(topic)
            try:
                delivery = append(key, value, headers, partition, timestamp)
                break
            except BufferRetired:
                # The loop has forgotten the topic since: again, until it is done with that.
                continue
            except BufferFull as full:
                if not self._outcomes.is_space_wanted:
                    self._call(self._hurry_all)
                elif self.new:
                    # A batch may have become full before there was no room.
                    self.tell()
                if isinstance(full, NoRoom):
                    raise
                again = partial(self.produce, topic, value, key, headers, partition, timestamp)
                raise NoRoom(full, again) from None
            except NoSuchPartitionError:
                # Partitions may have been added; for the next record, as this one was for what is known.
                self._call(partial(self._metadata.refresh, f"a partition of {topic} is not known"))
                raise
        if self.new:
            self.tell()
        return delivery

    def produce_raw(
        self, topic: str, value: bytes | None, key: bytes | None, headers: Sequence[tuple[str, bytes | None]]
    ) -> Delivery:
        """The same past interceptors and serializers."""
        return self._path.append(topic, key, value, headers, None, None)

    def _entry(self, topic: str) -> Append:
        """The first record of a topic."""
        check_name(topic)
        append = self._find(topic)
        if self._entries is not self._appends:
            append = self._entries.setdefault(topic, partial(self._path.produce, topic))
        return append

    def _find(self, topic: str) -> Append:
        append = self._appends.get(topic)
        return self._open(topic).held.append if append is None else append

    def _open(self, topic: str) -> TopicProducer:
        """A topic that nothing is known of yet: its records are held, and the loop asks for it."""
        if self._is_closed:
            raise ClientClosedError
        check_name(topic)
        opened = TopicProducer(topic, self._topic_parts)
        known = self._topics.setdefault(topic, opened)
        if topic not in self._appends:
            # In this order, or Ctrl-C between the two would leave a topic that nobody asks for.
            self._call(partial(self._ask_for, topic))
            self._appends.setdefault(topic, known.held.append)
            if known.failure is not None or known.is_forgotten:
                # The loop was faster: whoever comes next begins anew.
                self._appends.pop(topic, None)
        return known

    def _call(self, function: Callable[[], object]) -> None:
        self._wake(function)

    def tell(self) -> None:
        """Has the loop look at what is noted, unless it is about to."""
        # Noted before the flag is looked at; the loop clears the flag before it looks at what was noted.
        if self._is_called or not self.new:
            return
        if not self._outcomes.is_space_wanted and self._noted.puts_off(self._schedule.rings_by):
            return
        try:
            self._is_called = True
            self._call(self._attend)
        except BaseException:
            self._is_called = False
            raise

    def _on_urge(self, topic: str, partition: int) -> None:
        self._call(partial(self._hurry, topic, partition))

    def on_space(self, callback: Callable[[], object]) -> None:
        """Calls it once, on the loop, when memory has been freed. Call this first, then try to produce once more."""
        self._outcomes.on_space(callback)

    @property
    def buffered_records(self) -> int:
        """Records that are neither delivered nor failed."""
        return self._accumulator.used_records

    @property
    def buffered_bytes(self) -> int:
        """The memory that they take."""
        return self._accumulator.used_bytes

    def expect(self, topics: Iterable[str]) -> None:
        """Asks for those of which nothing is known, all at once."""
        for topic in topics:
            self._find(topic)

    # Back-pressure and tables: the loop

    def space(self) -> asyncio.Future[None]:
        """Done when memory has been freed after this call; who comes first is woken first.

        As with `on_space`, whoever has found the buffer full before tries once more before waiting for it.
        """
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not self._outcomes.is_space_wanted:
            self._hurry_all()
        elif self.new:
            # All else is hurried already.
            self.tell()

        def freed() -> None:
            if not waiter.done():
                waiter.set_result(None)

        self.on_space(freed)
        waiter.add_done_callback(lambda _: self._outcomes.forget(freed) if waiter.cancelled() else None)
        return waiter

    async def produce_batch(
        self, topic: str, table: Any, *, partition: int | None = None, timestamp: int | None = None
    ) -> BatchDelivery:
        """Appends a table, in slices if it is large; returns when the last one is in the buffer."""
        return (await self.handover(partition, timestamp).produce({topic: table}))[topic]

    async def _known(self, topic: str) -> TopicProducer:
        """The topic, with its partitions."""
        check_name(topic)
        opened = self._topics.get(topic) or self._open(topic)
        if opened.appender is None:
            await self._metadata.wait(
                lambda view: True if opened.appender is not None or opened.failure is not None else None,
                self._settings.max_block,
                what=f"the partitions of topic {topic}",
            )
        if opened.failure is not None:
            raise opened.failure
        if self._is_closed:
            raise ClientClosedError
        return opened

    # Events, on the loop

    def _attend(self) -> None:
        self._is_called = False
        for recbuf in self._gather():
            self._schedule.consider(recbuf)

    def _gather(self) -> Iterator[RecBuf]:
        """The RecBufs with something new since the loop last looked."""
        self._sweep_later()
        for buffer in self._noted.take():
            recbuf = self._recbufs.get(buffer)
            if recbuf is not None:
                # While somebody waits for room, nothing lingers.
                recbuf.is_hurried = recbuf.is_hurried or self._outcomes.is_space_wanted
                yield recbuf

    def _ask_for(self, topic: str) -> None:
        opened = self._topics.get(topic)
        if opened is not None and not opened.is_asked_for and not self._is_ended:
            opened.is_asked_for = True
            opened.asked_at = self._clock.monotonic()
            self._metadata.track(topic, create=True)
            self._idle.watch()
            self._sweep_later()
            view = self._metadata.view.topics.get(topic)
            if view is not None:
                # Somebody else tracks it: there may be no update for long. An error is not believed unasked.
                if view.error_code:
                    self._metadata.refresh_now(f"topic {topic} is produced to")
                else:
                    self._update(topic, self._metadata.view)

    def on_metadata(self, view: ClusterView) -> Iterable[str]:
        for name in list(self._topics):
            self._update(name, view)
        return ()

    def _update(self, name: str, view: ClusterView) -> None:
        topic = self._topics.get(name)
        if topic is None or not topic.is_asked_for:
            # Given up in the meantime, or so new that the thread which opens it is not done with that.
            return
        error = topic.on_metadata(view.topics.get(name))
        if topic.appender is not None:
            self._appends[name] = topic.appender.append
        if self.new:
            self._attend()
        if error is not None:
            self._fail_topic(topic, error)

    def _hurry(self, topic: str, number: int) -> None:
        known = self._topics.get(topic)
        if known is not None and 0 <= number < len(known.recbufs):
            recbuf = known.recbufs[number]
            if recbuf.buffer.records:
                recbuf.is_hurried = True
                self._schedule.consider(recbuf)

    def _hurry_all(self) -> None:
        """No room is left: nothing lingers."""
        for recbuf in self._recbufs.values():
            if recbuf.buffer.records:
                recbuf.is_hurried = True
                self._schedule.consider(recbuf)

    def _drain_all(self) -> None:
        for sink in self._sinks.values():
            sink.drain_soon()

    def _sink(self, node_id: int) -> Sink:
        sink = self._sinks.get(node_id)
        if sink is None:
            sink = self._sinks[node_id] = Sink(node_id, self._sink_parts)
        return sink

    def _new_partitioner(self, topic: str) -> TopicPartitioner:
        return self._partitioner.for_topic(
            topic, batch_size=self._settings.max_batch_bytes, random=self._runtime.random
        )

    def _forget(self, topic: TopicProducer) -> bool:
        """Nothing has been produced to it for long: whoever does next begins anew. False if somebody is about to."""
        if not self._partitions.let_go(topic):
            return False
        # In this order: a thread may be inside `_open`.
        topic.is_forgotten = True
        del self._topics[topic.name]
        self._appends.pop(topic.name, None)
        self._entries.pop(topic.name, None)
        self._metadata.untrack(topic.name)
        return True

    # Giving up

    def _sweep_later(self) -> None:
        if self._sweeper is None and not self._is_ended:
            self._sweeper = self._clock.call_later(self._sweep_every, self._sweep)

    def _sweep(self) -> None:
        """Gives up what is overdue; goes on while there is something."""
        self._sweeper = None
        now = self._clock.monotonic()
        for topic in list(self._topics.values()):
            held_since = topic.held.opened_at
            if held_since is not None and held_since < now - self._settings.max_held:
                why = topic.last_error or self._metadata.failure()
                self._fail_topic(topic, giving_up.never_known(topic.name, self._settings, why))
        opened_before = now - self._settings.delivery_timeout
        for recbuf in list(self._recbufs.values()):
            for batch in recbuf.overdue(opened_before):
                # A callback of the one before may have given it up.
                if not batch.is_done:
                    self._give_up(recbuf, [batch], self._expiry(recbuf, batch))
        # Records may come to be held for a topic that is asked for: nobody else would notice.
        holds = any(topic.is_asked_for and topic.appender is None for topic in self._topics.values())
        is_empty = all(recbuf.is_empty for recbuf in self._recbufs.values())
        if holds or self._accumulator.used_records or not is_empty:
            self._sweep_later()

    def _expiry(self, recbuf: RecBuf, batch: ProducerBatch) -> BaseException:
        if recbuf.is_gone:
            return giving_up.without_partition(recbuf)
        if recbuf.is_untold(batch) and batch.last_error is not None:
            return batch.last_error
        return self._too_late(f"{recbuf.topic}-{recbuf.partition}", batch.last_error, batch.may_be_stored)

    def _too_late(self, where: str, cause: BaseException | None, may_be_stored: bool) -> KafkaError:
        why = cause or self._metadata.failure() or self._sink_parts.ids.last_error
        return giving_up.too_late(where, self._settings.delivery_timeout, why, may_be_stored)

    def _give_up(self, recbuf: RecBuf, batches: Sequence[ProducerBatch], error: BaseException) -> None:
        # From the end: what is certainly not stored gives its sequence numbers back that way. All of them before
        # the first callback, which may come back here.
        for batch in reversed(batches):
            recbuf.give_up(batch)
        for batch in batches:
            self._outcomes.failed(batch, given_up_error(batch, error))
        self._schedule.consider(recbuf)

    def _fail_topic(self, topic: TopicProducer, error: BaseException) -> None:
        """It does not exist, or is not ours to write to. What a broker can still tell of waits for its answer."""
        _logger.warning("records for %s cannot be delivered: %s", topic.name, error)
        if topic.appender is None:
            if topic.failure is not None:
                return
            # Whatever is produced to it next begins anew, and asks again. In this order: see `_open`.
            topic.failure = error
            self._appends.pop(topic.name, None)
            self._entries.pop(topic.name, None)
            del self._topics[topic.name]
            if topic.is_asked_for:
                self._metadata.untrack(topic.name)
            self._fail_held(topic, error)
        is_gone = isinstance(error, UNKNOWN_TOPIC)
        for recbuf in topic.recbufs:
            recbuf.cut()
            # Of what may be stored in a topic that is gone, no broker will ever tell.
            batches = [
                batch
                for batch in recbuf.batches
                if recbuf.may_fail(batch) or (is_gone and not batch.is_in_flight)
            ]
            self._give_up(recbuf, batches, error)

    def _fail_held(self, topic: TopicProducer, error: BaseException) -> int:
        records = topic.held.records
        if records:
            self._outcomes.count_failed(records, error)
        topic.fail_held(error)
        self._outcomes.space_freed()
        return records

    def fail_all(self, error: BaseException) -> None:
        """Nothing will be sent any more: every record has this error, but those that wait for an answer."""
        for topic in list(self._topics.values()):
            if topic.appender is None:
                self._fail_topic(topic, error)
        for recbuf in list(self._recbufs.values()):
            recbuf.cut()
            self._give_up(recbuf, [batch for batch in recbuf.batches if not batch.is_in_flight], error)

    def crashed(self, error: BaseException) -> None:
        """A part of the client does not run any more: nothing is sent, and nothing new is taken."""
        self._accumulator.close(error)
        self.fail_all(error)

    def abort_buffered(self) -> int:
        """Fails every record that no request has been sent with; how many there were."""
        aborted = 0
        error = AbortedError("the record was aborted before it was sent, and is not stored")
        for topic in list(self._topics.values()):
            if topic.appender is None:
                aborted += topic.held.records
                self._fail_topic(topic, error)
            for recbuf in topic.recbufs:
                recbuf.cut()
                batches = [batch for batch in recbuf.batches if recbuf.may_fail(batch)]
                aborted += sum(batch.encoded.count for batch in batches)
                self._give_up(recbuf, batches, error)
        return aborted

    # The end

    async def flush(self, timeout: float | None = None) -> None:
        """Until everything produced before is delivered or failed; DeliveryError if records have failed since."""
        await self._flush(timeout)
        self._outcomes.raise_failures()

    async def _flush(self, timeout: float | None) -> None:
        flush = Flush()
        for topic in list(self._topics.values()):
            topic.flush(flush)
        flush.complete()
        if timeout is None:
            await flush.done
            return
        try:
            await within(self._clock, timeout, flush.wait())
        except TimeoutError:
            waited = giving_up.flush_waited(timeout, flush.left, self._settings)
            raise giving_up.still_under_way(waited, self._metadata.failure()) from None

    async def close(self, timeout: float) -> None:
        """Takes no more records, waits for those that are there, and fails what is left after `timeout` seconds.

        DeliveryError if records have failed since the last flush.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._accumulator.close(ClientClosedError())
        try:
            await self._flush(timeout)
        except ApiTimeoutError as error:
            _logger.warning("the producer is closed with records left: %s", error)
        finally:
            self._end()
        self._outcomes.raise_failures()

    def forked(self, error: KafkaError) -> None:
        """In a forked child: every use raises, and nothing native is touched, whose locks other threads may hold."""

        def refuse(*_: object) -> NoReturn:
            raise error

        self._is_closed = True
        self._wake = refuse
        self._appends = self._entries = RefusingAppends(refuse)

    def _end(self) -> None:
        self._is_ended = True
        for topic in list(self._topics.values()):
            if topic.appender is None and topic.failure is None:
                self._fail_held(topic, AbortedError("the client was closed before the topic was known"))
        for recbuf in list(self._recbufs.values()):
            recbuf.cut()
            for batch in list(recbuf.batches):
                if not batch.is_done:
                    error = giving_up.closed_before(recbuf, batch)
                    recbuf.give_up(batch)
                    self._outcomes.failed(batch, error)
        # Whoever comes now does not find what held records were appended to, and is told that all is closed.
        self._appends.clear()
        self._entries.clear()
        for sink in self._sinks.values():
            sink.close()
        self._schedule.close()
        self._idle.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._metadata.remove_listener(self)
        self._accumulator.disconnect()
