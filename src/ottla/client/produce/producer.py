"""Producer: from `produce()` to the receipt. It puts topics, RecBufs, sinks and the native accumulator together.

Who owns what. The appending side, any thread: `produce`, the appenders of topics, and everything behind the native
locks (buffers, records of unknown topics, partitioners). The loop: everything else. It is called only when there is
something new for it (wakeups.py).

Invariants: a record that `produce` took ends as delivered or failed, whatever happens; records of one partition are
sent in the order in which they were appended; and after `close` no timer and no callback of ours is left.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from ottla.client.context import ClientContext
from ottla.client.deadline import within
from ottla.client.home_loop import CallingThreads, HomeLoop
from ottla.client.metadata import ClusterView, check_name
from ottla.client.partitioners import LeaderLatency, Partitioner, TopicPartitioner
from ottla.client.produce.batch_delivery import BatchDelivery
from ottla.client.produce.columns import ColumnsProducer, Handover
from ottla.client.produce.completions import Completions, Flush
from ottla.client.produce.failures import Failures, flush_waited, still_under_way
from ottla.client.produce.producer_id import Identities, ProducerIds, ProducerTransactions
from ottla.client.produce.record_path import CheckedAppenders, NoRoom, RecordPath, RefusingAppenders
from ottla.client.produce.settings import ProduceSettings
from ottla.client.produce.sink import Sink, SinkContext
from ottla.client.produce.topics import Appender, ProducerTopics, TopicProducer
from ottla.client.produce.wakeups import DirtyBuffers, Wakeups
from ottla.config import ClientConfig
from ottla.errors import ApiTimeoutError, ClientClosedError, KafkaError, NoSuchPartitionError
from ottla.hooks import ProducerInterceptor
from ottla.runtime import SystemClock, Timer
from ottla.serde.calls import Serialize
from ottla.wire.batch_header import BATCH_OVERHEAD
from ottla.wire.records import Accumulator, BufferFull, BufferRetired, Delivery, RecordBuffer

_logger = logging.getLogger("ottla.client.produce.producer")


class Producer:
    """The produce path of a client."""

    def __init__(
        self,
        context: ClientContext,
        *,
        partitioner: Partitioner,
        key_serializer: Serialize | None = None,
        value_serializer: Serialize | None = None,
        interceptors: Sequence[ProducerInterceptor] = (),
        threads: CallingThreads | None = None,
        transactions: ProducerTransactions | None = None,
    ) -> None:
        """Without `threads` records are appended on the loop only; with `transactions`, inside of one only."""
        config, runtime, metadata = context.config, context.runtime, context.metadata
        self._runtime = runtime
        self._clock = runtime.clock
        self._metadata = metadata
        self._partitioner = partitioner
        self._call: Callable[[Callable[[], object]], object] = (
            HomeLoop().call if threads is None else threads.post
        )
        self._settings = settings = ProduceSettings.of(config, runtime.random)
        dirty = DirtyBuffers(self._clock, settings.linger)
        self.dirty: Mapping[RecordBuffer, bool] = dirty.new
        self._accumulator = self._new_accumulator(config, dirty, threads)
        self._completions = Completions(context.hooks, self._clock)
        latency = LeaderLatency(config.partitioner_availability_timeout_ms / 1000)
        ids: Identities
        self._check_open: Callable[[], None] | None = None
        if transactions is None:
            ids = ProducerIds(
                context.brokers,
                context.tasks,
                self._clock,
                settings.backoff,
                on_loaded=self.resume,
                on_fatal=self.fail_all,
            )
        else:
            ids = transactions.ids
            self._check_open = transactions.ids.check_open
            self._completions.on_failed = transactions.on_records_failed
            self._completions.on_delivered = transactions.ids.delivered
        self._topics = ProducerTopics(self._accumulator, settings, latency, ids, self._new_partitioner)
        self._sinks: dict[int, Sink] = {}
        self._wakeups = Wakeups(
            self._clock,
            settings.linger,
            dirty,
            self._topics.by_buffer,
            self._sinks,
            self._completions,
            self._call,
            hurry=None if threads is None else threads.hurry,
        )
        self.notify = self._wakeups.notify
        self._sink_context = SinkContext(
            settings,
            runtime,
            context.brokers,
            metadata,
            context.tasks,
            ids,
            self._wakeups,
            self._completions,
            latency,
        )
        self._failures = Failures(
            settings,
            self._clock,
            self._accumulator,
            self._topics,
            self._wakeups,
            self._completions,
            metadata,
            ids,
        )
        self._path = RecordPath(
            key_serializer, value_serializer, interceptors, context.hooks, self._find, self.notify
        )
        self._produce_through_path: Callable[..., Delivery] | None = (
            self._path.produce if self._path.is_needed else None
        )
        # For a caller to whom one call per record matters (`ThreadProducer`): it appends, calls `notify` if a buffer
        # is dirty, and comes to `produce` with whatever goes wrong. There is nothing in it where records need the
        # record path.
        self.quick_appenders: Mapping[str, Appender] = {} if self._path.is_needed else self._topics.appenders
        if transactions is not None:
            checked = CheckedAppenders(transactions.ids.check_open, self.quick_appenders)
            transactions.ids.on_closed(checked.clear)
            self.quick_appenders = checked
        self._columns = ColumnsProducer(
            self,
            settings,
            self._clock,
            self._accumulator,
            self._path,
            partitioner.columns_mode(),
            self._wakeups,
            None if threads is None else threads.wait,
        )
        self._idle_timer: Timer | None = None
        self._forked_error: KafkaError | None = None
        self._is_closed = False
        self._is_ended = False
        metadata.add_listener(self)

    def _new_accumulator(
        self, config: ClientConfig, dirty: DirtyBuffers, threads: CallingThreads | None
    ) -> Accumulator:
        # The system's clock is read natively. Any other is a function; not for appending threads, where there is no
        # running loop that it could read.
        native = isinstance(self._clock, SystemClock) or threads is not None
        most = max(config.buffer_memory, BATCH_OVERHEAD + 1)
        return Accumulator(
            batch_size=max(min(config.max_batch_bytes, most), BATCH_OVERHEAD + 1),
            max_bytes=most,
            max_records=max(config.max_buffered_records, 0),
            max_record_size=max(config.max_request_size, BATCH_OVERHEAD + 1),
            clock=None if native else lambda: int(self._clock.time() * 1000),
            monotonic=None if native else self._clock.monotonic,
            wake=dirty.new.setdefault,
            wait=None if threads is None else threads.wait,
            unlinger=self._unlinger,
        )

    def _new_partitioner(self, topic: str) -> TopicPartitioner:
        return self._partitioner.for_topic(
            topic, batch_size=self._settings.max_batch_bytes, random=self._runtime.random
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
        if self._check_open is not None:
            self._check_open()
        while True:
            try:
                try:
                    appender = self._topics.appenders[topic]
                except (KeyError, TypeError):
                    check_name(topic)
                    appender = self._find(topic)
                if self._produce_through_path is not None:
                    delivery = self._produce_through_path(topic, key, value, headers, partition, timestamp)
                else:
                    delivery = appender.append(key, value, headers, partition, timestamp)
                break
            except BufferRetired:
                # The loop has forgotten the topic since: again, until it is done with that.
                continue
            except BufferFull as full:
                self._wakeups.no_space()
                if isinstance(full, NoRoom):
                    raise
                again = partial(self.produce, topic, value, key, headers, partition, timestamp)
                raise NoRoom(full, again) from None
            except NoSuchPartitionError:
                # Partitions may have been added; for the next record, as this one was for what is known.
                self._call(partial(self._metadata.refresh, f"a partition of {topic} is not known"))
                raise
        if self.dirty:
            self.notify()
        return delivery

    def produce_raw(
        self, topic: str, value: bytes | None, key: bytes | None, headers: Sequence[tuple[str, bytes | None]]
    ) -> Delivery:
        """The same past interceptors and serializers."""
        return self._path.append(topic, key, value, headers, None, None)

    def _find(self, topic: str) -> Appender:
        if self._check_open is not None:
            self._check_open()
        appender = self._topics.appenders.get(topic)
        return self._open(topic).unknown if appender is None else appender

    def _open(self, topic: str) -> TopicProducer:
        """The first record of a topic: it waits, and the loop begins to track the topic."""
        if self._is_closed:
            raise ClientClosedError
        return self._topics.open(topic, lambda: self._call(partial(self._track, topic)))

    def _unlinger(self, topic: str, number: int) -> None:
        """A caller waits for a record of a partition: if it still gathers, it goes out at once."""
        if self._forked_error is not None:
            raise self._forked_error
        recbuf = self._topics.gathering(topic, number)
        if recbuf is not None:
            self._call(partial(self._wakeups.unlinger, recbuf))

    def on_space(self, callback: Callable[[], object]) -> None:
        """Calls it once, on the loop, when memory has been freed. Call this first, then try to produce once more."""
        self._completions.on_space(callback)

    @property
    def buffered_records(self) -> int:
        """Records that are neither delivered nor failed."""
        return self._accumulator.used_records

    @property
    def buffered_bytes(self) -> int:
        """The memory that they take."""
        return self._accumulator.used_bytes

    def expect(self, topics: Iterable[str]) -> None:
        """Has those tracked of which nothing is known, all at once."""
        for topic in topics:
            self._find(topic)

    # Back-pressure and tables: the loop

    def space(self) -> asyncio.Future[None]:
        """Done when memory has been freed after this call; the caller that comes first is woken first.

        As with `on_space`, a caller that has found the buffer full before tries once more before waiting for it.
        """
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._wakeups.no_space()

        def freed() -> None:
            if not waiter.done():
                waiter.set_result(None)

        self.on_space(freed)
        waiter.add_done_callback(lambda _: self._completions.forget(freed) if waiter.cancelled() else None)
        return waiter

    def handover(self, partition: int | None = None, timestamp: int | None = None) -> Handover:
        """For one call that produces tables."""
        if self._check_open is not None:
            self._check_open()
        return Handover(self._columns, partition, timestamp)

    async def produce_batch(
        self, topic: str, table: Any, *, partition: int | None = None, timestamp: int | None = None
    ) -> BatchDelivery:
        """Appends a table, in slices if it is large; returns when the last one is in the buffer."""
        return (await self.handover(partition, timestamp).produce({topic: table}))[topic]

    async def known_topic(self, name: str) -> TopicProducer:
        """The topic, with its partitions."""
        check_name(name)
        if self._check_open is not None:
            self._check_open()
        while True:
            topic = self._topics.by_name.get(name) or self._open(name)
            if topic.appender is None:
                await self._metadata.wait(
                    partial(_is_known, topic),
                    self._settings.max_block,
                    what=f"the partitions of topic {name}",
                )
            if topic.failure is not None:
                raise topic.failure
            if self._is_closed:
                raise ClientClosedError
            # Purged in the moment in which it became known.
            if not topic.is_forgotten:
                return topic

    def kept(self, topic: str) -> AbstractContextManager[None]:
        """The topic is not forgotten as long as this lasts."""
        return self._topics.kept(topic)

    async def refresh_partitions(self, topic: str) -> None:
        """Returns when metadata that was requested after this call has been applied."""
        await self._metadata.fresh([topic], max_age=0)

    # Metadata and sinks: the loop

    def _track(self, name: str) -> None:
        topic = self._topics.by_name.get(name)
        if topic is None or topic.tracked_at is not None or self._is_ended:
            return
        topic.tracked_at = self._clock.monotonic()
        self._metadata.track(name, create=True)
        if self._idle_timer is None:
            self._idle_timer = self._clock.call_later(self._settings.max_idle, self._forget_idle)
        self._wakeups.sweep_later()
        view = self._metadata.view.topics.get(name)
        if view is not None:
            # Something else tracks it: there may be no update for long. An error is not believed from before.
            if view.error_code:
                self._metadata.refresh_now(f"topic {name} is produced to")
            else:
                self._update(topic, self._metadata.view)

    def on_metadata(self, view: ClusterView) -> Iterable[str]:
        for topic in list(self._topics.by_name.values()):
            # One that is not tracked yet is so new that the thread which opens it is not done with that.
            if topic.tracked_at is not None:
                self._update(topic, view)
        return ()

    def _update(self, topic: TopicProducer, view: ClusterView) -> None:
        if topic.failure is not None:
            # A callback of another topic's records has given it up meanwhile.
            return
        update = self._topics.on_metadata(topic, view.topics.get(topic.name))
        if update is None:
            return
        for recbuf, leader in update.moved:
            if leader is not None:
                self._sinks[leader].remove(recbuf)
            if recbuf.leader is not None and recbuf.leader not in self._sinks:
                self._sinks[recbuf.leader] = Sink(recbuf.leader, self._sink_context)
        if update.becomes_known:
            failed, error = self._topics.release(topic)
            if error is not None:
                self._completions.count_failed(failed, error)
        for recbuf in topic.recbufs:
            self._wakeups.consider(recbuf)
        self._wakeups.look_at_dirty()
        if update.error is not None:
            self._failures.fail_topic(topic, update.error)

    def _forget_idle(self) -> None:
        """Topics that nothing is produced to need not be tracked."""
        self._idle_timer = None
        now = self._clock.monotonic()
        next_look: float | None = None
        for topic in list(self._topics.by_name.values()):
            if topic.tracked_at is None:
                continue
            idle_at = topic.idle_at(now)
            if idle_at <= now:
                if self._forget(topic):
                    continue
                # A record came in that moment: the topic counts as used now.
                idle_at = now + self._settings.max_idle
            next_look = idle_at if next_look is None else min(next_look, idle_at)
        if next_look is not None:
            self._idle_timer = self._clock.call_later(next_look - now, self._forget_idle)

    def _forget(self, topic: TopicProducer) -> bool:
        if not self._topics.forget(topic):
            return False
        self._metadata.untrack(topic.name)
        for recbuf in topic.recbufs:
            if recbuf.leader is not None:
                self._sinks[recbuf.leader].remove(recbuf)
        return True

    def drain(self) -> None:
        """`resume`, at once."""
        now = self._clock.monotonic()
        for sink in list(self._sinks.values()):
            sink.drain(now)

    def resume(self) -> None:
        """What waits for an identity has it now, or may have."""
        for sink in self._sinks.values():
            sink.drain_soon()

    # Giving up

    def fail_all(self, error: BaseException) -> None:
        """Nothing will be sent any more: every record has this error, but those whose response is pending."""
        self._failures.fail_all(error)

    def crashed(self, error: BaseException) -> None:
        """A part of the client does not run any more: nothing is sent, and nothing new is taken."""
        self._accumulator.close(error)
        self._failures.fail_all(error)

    def abort_buffered(self) -> int:
        """Fails every record that no request has been sent with; how many there were."""
        return self._failures.abort_buffered()

    def purge(self, topics: Iterable[str]) -> int:
        """Forgets topics with all that is known of them; how many records are given up with that.

        What is in flight ends with its response, and is not sent again. A record that comes later begins anew.
        """
        given_up = 0
        for name in topics:
            topic = self._topics.by_name.get(name)
            if topic is not None:
                for recbuf in topic.recbufs:
                    if recbuf.leader is not None:
                        self._sinks[recbuf.leader].remove(recbuf)
                given_up += self._failures.purge(topic)
        return given_up

    # Transactions: the loop

    def abort_transaction(self, error: BaseException) -> None:
        """Fails everything that no request is pending with; what then has to be sent again fails by itself."""
        self._failures.fail_all(error)

    def on_transactional_id(self) -> None:
        """Requests name another transactional id from now on; nothing is on its way."""
        for recbuf in self._topics.by_buffer.values():
            recbuf.template = None

    def flush_now(self) -> Flush:
        """Sends everything that was produced before, as far as that is possible now; done when all of it is."""
        flush = self._watch_all()
        topics = list(self._topics.by_name.values())
        self._wakeups.send_now(recbuf for topic in topics for recbuf in topic.recbufs)
        return flush

    async def drained(self) -> None:
        """Until everything that was produced before is delivered or failed."""
        await self.flush_now().done

    def forget_failures(self) -> None:
        """The program knows of those that have failed so far: `flush` and `close` do not raise them."""
        self._completions.forget_failures()

    # The end

    async def flush(self, timeout: float | None = None) -> None:
        """Until everything produced before is delivered or failed; DeliveryError if records have failed since."""
        await self._flush(timeout)
        self._completions.raise_failures()

    def _watch_all(self) -> Flush:
        flush = Flush()
        # A copy: threads that produce add topics meanwhile.
        for topic in list(self._topics.by_name.values()):
            topic.flush(flush)
        for recbuf in self._topics.purged():
            for batch in recbuf.batches:
                flush.watch(batch)
        flush.complete()
        return flush

    async def _flush(self, timeout: float | None) -> None:
        flush = self._watch_all()
        for topic in list(self._topics.by_name.values()):
            for recbuf in topic.recbufs:
                self._wakeups.consider(recbuf)
        if timeout is None:
            await flush.done
            return
        try:
            await within(self._clock, timeout, flush.wait())
        except TimeoutError:
            waited = flush_waited(timeout, flush.left, self._settings)
            raise still_under_way(waited, self._metadata.failure()) from None

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
        self._completions.raise_failures()

    def forked(self, error: KafkaError) -> None:
        """In a forked child: every use raises, and nothing native is touched, whose locks other threads may hold."""
        self._is_closed = True
        self._forked_error = error
        self._topics.appenders = refusing = RefusingAppenders(error)
        if self._produce_through_path is not None:
            self._produce_through_path = refusing.append

    def _end(self) -> None:
        self._is_ended = True
        self._failures.close()
        # Now a record that comes does not find where records of unknown topics wait, and all is closed.
        self._topics.appenders.clear()
        for sink in self._sinks.values():
            sink.close()
        self._wakeups.close()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._metadata.remove_listener(self)
        self._accumulator.disconnect()


def _is_known(topic: TopicProducer, _: ClusterView) -> bool | None:
    return True if topic.appender is not None or topic.failure is not None else None
