"""`Consumer`: what `Client.consume` gives. It reads in the thread that iterates, and waits by running the loop.

    for record in kafka.consume("orders", start="earliest"):
        print(record.offset, record.value)

Fetched data comes through a queue, decoding happens here, and the loop is needed only where there is nothing yet. A
consumer is for one thread at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ottla.client.blocking.driver import Driver
from ottla.client.blocking.forks import on_fork
from ottla.client.consume.consumer import AsyncConsumer
from ottla.client.consume.dead_letters import DeadLetters
from ottla.client.consume.iterators import BatchReader
from ottla.client.consume.offset_spec import Start
from ottla.client.consume.processing import FailingRecord, OnFailure, check_processing, is_unfinished
from ottla.client.deadline import check_timeout
from ottla.client.topic_partition import TopicPartition
from ottla.errors import (
    ApiTimeoutError,
    ClientClosedError,
    CorruptBatchError,
    DeserializationError,
    KafkaError,
)

if TYPE_CHECKING:
    import pyarrow

    from ottla.wire.records import Records


class _Arrival:
    """Something to read, as the driver waits for it."""

    __slots__ = ("_consumer", "_function", "has_come")

    def __init__(self, consumer: AsyncConsumer) -> None:
        self._consumer = consumer
        self._function: Callable[..., object] | None = None
        self.has_come = False
        # For good: one thread at a time reads, and waits here again and again.
        consumer.queue.waiters.append(self._notify)

    def done(self) -> bool:
        """Whether there is something, or never will be."""
        consumer = self._consumer
        queue, reader = consumer.queue, consumer.reader
        if queue.items or reader.resumed:
            self.has_come = True
            return True
        return consumer.is_closed or (queue.is_complete and reader.is_finished)

    def add_done_callback(self, function: Callable[..., object], /) -> None:
        self.has_come = False
        self._function = function

    def _notify(self) -> None:
        self.has_come = True
        if self._function is not None:
            function, self._function = self._function, None
            function()


class Consumer:
    """Reads partitions directly, without a group. Ends with `close`, its `with` or its client, or if it is let go."""

    def __init__(self, consumer: AsyncConsumer, driver: Driver) -> None:
        self._consumer = consumer
        self._reader = consumer.reader
        self._driver = driver
        self._arrival = _Arrival(consumer)
        on_fork(self)

    def __iter__(self) -> Iterator[Any]:
        """Every record; ends when all partitions have reached their `stop`, and goes on after an error."""
        reader = self._reader
        while (records := self._records(None)) is not None:
            try:
                for record in records:
                    reader.last = record
                    yield record
                    if reader.iterator is not records:
                        break
                else:
                    reader.exhausted(records)
            except DeserializationError as error:
                self._send_to_dead_letters(error)

    def batches(self) -> BatchReader:
        """Arrow columns, one batch for each part that was fetched; keys and values are raw.

        What comes back is an iterator and an Arrow stream: `polars.DataFrame(consumer.batches())`.
        """
        return BatchReader(self._batch, self.close)

    def _batch(self) -> pyarrow.RecordBatch | None:
        driver = self._driver
        polling = self._consumer.polling
        if polling is not None and polling.asks():
            driver.call(polling.passed())
        while True:
            if driver.is_over:
                driver.check()
            batch = self._reader.batch()
            if batch is not None and polling is not None:
                polling.hands_out()
            if batch is not None or not self._wait_for_data(None):
                return batch

    def parts(self, timeout: float | None = None) -> Iterator[tuple[Records, int]]:
        """Each part that was fetched, decoded, and how many of its records lie before the stop: perhaps none.

        For a caller that wants other columns than `batches` gives. An ApiTimeoutError says that nothing came for
        `timeout` seconds; the iteration is then over.
        """
        while True:
            if self._driver.is_over:
                self._driver.check()
            part = self._reader.part()
            if part is not None:
                yield part
                continue
            deadline = None if timeout is None else self._consumer.clock.monotonic() + timeout
            if not self._wait_for_data(deadline):
                if self._reader.is_finished:
                    return
                raise ApiTimeoutError(f"nothing could be read for {timeout:g} s")

    def poll(self, max_records: int | None = None, timeout: float | None = None) -> list[Any]:
        """What is there, up to `max_records` (default max_poll_records); waits up to `timeout` for the first.

        Empty after `timeout` seconds, and at the end.
        """
        check_timeout(timeout)
        most = self._consumer.poll_limit(max_records)
        deadline = None if timeout is None else self._consumer.clock.monotonic() + timeout
        taken: list[Any] = []
        while len(taken) < most:
            try:
                records = self._reader.records() if taken else self._records(deadline)
                if records is None:
                    break
                taken += self._reader.take(records, most - len(taken))
            except DeserializationError as error:
                if taken:
                    break
                self._send_to_dead_letters(error)
            except KafkaError as error:
                if not taken:
                    raise
                self._reader.defer(error)
                break
        return taken

    def _records(self, deadline: float | None) -> Iterator[Any] | None:
        # What is fetched but not read is not given out in a forked child, nor after the client's end.
        if self._driver.is_over:
            self._driver.check()
        polling = self._consumer.polling
        if polling is not None and polling.asks():
            self._driver.call(polling.passed())
        while (records := self._reader.records()) is None:
            if not self._wait_for_data(deadline):
                return None
        if polling is not None:
            polling.hands_out()
        return records

    def _wait_for_data(self, deadline: float | None) -> bool:
        consumer, arrival = self._consumer, self._arrival
        if not consumer.is_begun:
            return self._driver.call(consumer.wait_for_data(deadline))
        seconds = None if deadline is None else max(0.0, deadline - consumer.clock.monotonic())
        arrival.has_come = False
        if (polling := consumer.polling) is not None:
            polling.is_waiting = True
        try:
            self._driver.wait(arrival, seconds, consumer.clock)
        finally:
            if polling is not None:
                polling.is_waiting = False
        if consumer.is_closed:
            raise ClientClosedError("the consumer is closed")
        return arrival.has_come

    def _send_to_dead_letters(self, error: DeserializationError) -> None:
        if self._consumer.dead_letters is None:
            raise error
        self._consumer.dead_letters.send_blocking(error, self._driver.call)
        if self._reader.is_at(error):
            self._reader.skip(error)

    # Processing

    def process(
        self,
        function: Callable[[Any], object],
        *,
        retries: int = 0,
        on_failure: OnFailure = "raise",
    ) -> None:
        """Calls a function with every record; ends as an iteration does. See `AsyncConsumer.process`."""
        check_processing(function, retries, on_failure)
        for record in self:
            try:
                result = function(record)
            except Exception as error:  # noqa: BLE001  whatever the program's function raises is its failure
                failing = FailingRecord(record, retries, self._consumer.backoff)
                self._retry(function, failing, error, on_failure)
            else:
                if is_unfinished(result):
                    self._consumer.stay_at(FailingRecord(record, 0, self._consumer.backoff))
                    raise TypeError(
                        "process() of a blocking consumer has called an asynchronous function, which has done "
                        "nothing yet: write a plain one, or use AsyncClient"
                    )

    def _retry(
        self, function: Callable[[Any], object], failing: FailingRecord, error: Exception, then: OnFailure
    ) -> None:
        consumer, call = self._consumer, self._driver.call
        while (delay := failing.failed(error)) is not None:
            call(consumer.clock.sleep(delay))
            if not consumer.is_read(failing.partition):
                return  # another member of the group gets it
            try:
                function(failing.record)
            except Exception as again:  # noqa: BLE001  as above
                error = again
            else:
                return
        if then == "raise":
            consumer.stay_at(failing)
            raise error
        if isinstance(then, DeadLetters):
            try:
                consumer.with_producer(then).send_record_blocking(failing.record, error, call)
            except Exception:
                consumer.stay_at(failing)
                raise
        else:
            failing.skipped(error)
        call(consumer.settle_failure(failing.record))

    # Positions

    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read."""
        return self._consumer.assignment()

    def pause(self, *partitions: TopicPartition) -> None:
        """Gives nothing of them any more until `resume`; all without arguments."""
        self._consumer.pause(*partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """Gives what was paused again; all without arguments."""
        self._consumer.resume(*partitions)

    def paused(self) -> list[TopicPartition]:
        """The partitions that are paused."""
        return self._consumer.paused()

    def seek(self, partition: TopicPartition, to: Start) -> None:
        """Goes on elsewhere: an offset, "earliest", "latest", a datetime or a Timestamp."""
        self._consumer.seek(partition, to)

    def skip(self, error: DeserializationError | CorruptBatchError) -> None:
        """Goes on behind the record, or the batch, that raised this."""
        self._consumer.skip(error)

    def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        """The offset of the next record of a partition; waits until it is known."""
        return self._driver.call(self._consumer.position(partition, timeout))

    def lag(self) -> dict[TopicPartition, int]:
        """How many offsets are between each position and the end of what can be read; where both are known."""
        return self._consumer.lag()

    def purge_topics(self, *topics: str, timeout: float | None = None) -> None:
        """Reads these topics no more, and forgets everything of them; nothing fetched before is seen after."""
        consumer = self._consumer
        # In the calling thread: it knows whether it is called back.
        waits = consumer.may_wait_for_purge()
        self._driver.call(consumer.purge_waiting(topics, timeout, waits=waits))

    # The end

    def close(self) -> None:
        """Stops fetching. A second call does nothing, nor does one after the client has been closed."""
        if not self._consumer.is_closed and not self._driver.is_over:
            self._driver.call(self._consumer.close())

    def __del__(self) -> None:
        # A loop that was left, or read to its `stop`: no user can close it any more, and its connections would stay.
        if not self._consumer.is_closed:
            self._driver.soon(self._consumer.close_soon)

    def forked(self) -> None:
        """In a forked child: an iteration that is under way ends with its next step, with a ForkedError."""
        self._reader.close()

    def __enter__(self) -> Self:
        self._driver.call(_begin(self._consumer))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


async def _begin(consumer: AsyncConsumer) -> None:
    consumer.begin()
