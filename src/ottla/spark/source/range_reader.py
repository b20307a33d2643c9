"""In a task: one range of offsets to Arrow batches.

The client fetches ahead while Spark takes what is there; of what was fetched, pieces of some megabytes are gathered
at a time, so that a task holds two responses of a broker and one piece, however long its range is.

A range ends by position, not by its last record: offsets that hold none, because of transactions or compaction, are
passed over. Only what has been deleted is loss, and `failOnDataLoss` says what becomes of that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import InputPartition

from ottla.errors import (
    ApiTimeoutError,
    CorruptBatchError,
    DataLossError,
    KafkaError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from ottla.spark.options.client import source_config
from ottla.spark.process import clients
from ottla.spark.source import data_loss
from ottla.spark.source.arrow_batches import batch_maker
from ottla.spark.source.ranges import OffsetRange

if TYPE_CHECKING:
    import pyarrow

    from ottla.client.blocking.client import Client
    from ottla.spark.options.connector import SourceOptions
    from ottla.spark.source.schema import SourceColumns
    from ottla.wire.records import Records

MOST_ROWS: Final = 65_536
MOST_BYTES: Final = 8 * 1024 * 1024
"""Of keys and values in one Arrow batch. Both are where larger ones no longer make anything faster."""

_LOOK_AFTER: Final = 5.0
"""Seconds without a record after which the task requests the end of the log: there may be none at all."""


class RangePartition(InputPartition):
    """What one task reads."""

    def __init__(self, range: OffsetRange) -> None:
        super().__init__(range)
        self.range = range


def read_range(
    offsets: OffsetRange, options: SourceOptions, columns: SourceColumns
) -> Iterator[pyarrow.RecordBatch]:
    """All records of the range that can be read, in their order."""
    if offsets.size <= 0:
        return
    make = batch_maker(columns)
    for records, rows in _fetched(offsets, options):
        first = 0
        # Of equal size: a small last piece costs a round of its own.
        most = -(-rows // max(1, -(-rows // MOST_ROWS)))
        while first < rows:
            count = records.fitting(first, most=min(most, rows - first), bytes=MOST_BYTES)
            batch = make(records, first, count)
            first += count
            if batch.num_rows:
                yield batch


def _fetched(offsets: OffsetRange, options: SourceOptions) -> Iterator[tuple[Records, int]]:
    """What was fetched, decoded; and after a loss that is no error, what is left."""
    config = source_config(options.kafka)
    client = clients.client(config)
    range_ = _Range(offsets, client, options.fail_on_data_loss)
    try:
        while range_.position < range_.end:
            try:
                yield from range_.fetched(options.poll_timeout)
            except (OffsetOutOfRangeError, DataLossError, UnknownTopicOrPartitionError) as error:
                range_.lose(error)
    except CorruptBatchError as error:
        raise _unreadable(error) from error
    except ApiTimeoutError as error:
        clients.discard(config)
        raise range_.timed_out(options.poll_timeout, error) from error
    except DataLossError:
        raise
    except KafkaError:
        # What is wrong with it is not known, and the next attempt should not meet the same.
        clients.discard(config)
        raise


class _Range:
    """How far a range has been read, and what is lost of it."""

    def __init__(self, offsets: OffsetRange, client: Client, fails: bool) -> None:
        self._offsets = offsets
        self._client = client
        self._fails = fails
        self._last_lost = -1
        self._has_begun_anew = False
        self.position = offsets.start
        self.end = offsets.end
        """Where there is nothing to read any more; moves towards the position when something is lost."""

    def fetched(self, timeout: float) -> Iterator[tuple[Records, int]]:
        """From the position to the end, by one consumer: a response that takes its time is not requested again."""
        start = {self._offsets.topic_partition: self.position}
        silent, look_after = 0.0, min(timeout, _LOOK_AFTER)
        with closing(self._client.consume(start, stop=self.end)) as consumer:
            while self.position < self.end:
                try:
                    for records, rows in consumer.parts(look_after):
                        silent = 0.0
                        self.position = max(self.position, records.next_offset)
                        yield records, rows
                    self.position = self.end
                except ApiTimeoutError:
                    silent += look_after
                    self._check_there_is_more()
                    if silent >= timeout:
                        raise

    def _check_there_is_more(self) -> None:
        """A range given by hand, or a log that has lost its end: nothing will come, however long the task waits."""
        if self.position >= self._bounds()[1]:
            raise OffsetOutOfRangeError(
                topic=self._offsets.topic, partition=self._offsets.partition, detail="The log ends before."
            )

    def lose(self, error: KafkaError) -> None:
        """Raises, or goes on with what is left of the range in the log as it is now."""
        if isinstance(error, DataLossError) and self._begins_anew():
            return
        left, there = self._left(error)
        data_loss.report(self._fails, f"{self}: cannot read from offset {self.position} on: {there}")
        if left == (self.position, self.end):
            # It was out of range and is not any more: a topic that was created anew grows. Once is enough.
            left = left if self._last_lost != self.position else (self.end, self.end)
        self._last_lost = self.position
        self.position, self.end = min(left), left[1]

    def _left(self, error: KafkaError) -> tuple[tuple[int, int], str]:
        """From where to where there is something to read after the error, and why there is no more."""
        nothing = (self.end, self.end)
        is_another = isinstance(error, DataLossError) and error.new_offset < 0
        if is_another or isinstance(error, UnknownTopicOrPartitionError):
            return nothing, str(error).rstrip(".")
        try:
            first, last = self._bounds()
        except UnknownTopicOrPartitionError as gone:
            return nothing, str(gone).rstrip(".")
        there = f"the log has offsets {first} to {last} now"
        return (max(self.position, first), min(self.end, last)), there

    def _begins_anew(self) -> bool:
        """A client that was kept may remember a topic from before it was created again, and the range be of the new.

        While nothing of the range has been read, there is nothing that the new one could be mixed up with.
        """
        is_first = self.position == self._offsets.start and not self._has_begun_anew
        self._has_begun_anew = True
        return is_first

    def _bounds(self) -> tuple[int, int]:
        """What the log holds, with what an open transaction keeps back: that is there, and may yet be read."""
        tp = self._offsets.topic_partition
        first = self._client.admin.list_offsets([tp], at="earliest")[tp].offset
        last = self._client.admin.list_offsets([tp], at="latest", isolation="read_uncommitted")[tp].offset
        # Both ends of a log always have an offset; only a time may have none.
        return first or 0, last or 0

    def timed_out(self, seconds: float, error: ApiTimeoutError) -> ApiTimeoutError:
        is_committed = self._client.config.isolation_level == "read_committed"
        held_back = " (with read_committed, an open transaction holds back all that follows it)"
        return ApiTimeoutError(
            f"{self}: waited from offset {self.position} on, in vain: {error}{held_back if is_committed else ''}. If"
            " the brokers are there but slow, raise the source option kafkaConsumer.pollTimeoutMs, which is"
            f" {seconds * 1000:.0f}"
        )

    def __str__(self) -> str:
        offsets = self._offsets
        return f"offsets {offsets.start} to {offsets.end} of {offsets.topic}-{offsets.partition}"


def _unreadable(error: CorruptBatchError) -> CorruptBatchError:
    return CorruptBatchError(
        f"topic {error.topic}, partition {error.partition}: the batch at offset {error.offset} cannot be read: "
        f"{error.__cause__ or error}. It is damaged in the log; to go on without it, let the query start "
        f"at {error.next_offset} or behind (startingOffsets, in a new checkpoint)",
        topic=error.topic,
        partition=error.partition,
        offset=error.offset,
        next_offset=error.next_offset,
    )
