"""In a task: its ranges of offsets to Arrow batches.

One consumer reads all ranges of the task: a few requests for many partitions. It fetches ahead while Spark takes what
is there; of what was fetched, pieces of some megabytes are gathered at a time, and small pieces of several partitions
are put together, so that a task holds two responses of each broker and one batch, however long its ranges are.

A range ends by position, not by its last record: offsets that hold none, because of transactions or compaction, are
passed over. Only what has been deleted is loss, and `failOnDataLoss` says what becomes of that. What is lost of one
range is reported for it alone; the others are read on, by a new consumer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Final, TypeAlias

from ottla.client.topic_partition import TopicPartition
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
from ottla.spark.source.arrow_batches import Gathering, batch_maker
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

_Fetched: TypeAlias = "tuple[Records, int] | None"
"""What came of one partition, and how many of its records lie before its end; None: nothing came for a while."""


_Bounds: TypeAlias = dict[TopicPartition, tuple[int, int]]
"""The first offset of each log, and the one behind its last."""


def read_ranges(
    ranges: Sequence[OffsetRange], options: SourceOptions, columns: SourceColumns
) -> Iterator[pyarrow.RecordBatch]:
    """All records of the ranges that can be read, those of a partition in their order."""
    make = batch_maker(columns)
    gathering = Gathering(MOST_ROWS, MOST_BYTES)
    for fetched in _fetched(ranges, options):
        if fetched is None:
            yield from gathering.rest()
            continue
        records, rows = fetched
        first = 0
        # Of equal size: a small last piece costs a round of its own.
        most = -(-rows // max(1, -(-rows // MOST_ROWS)))
        while first < rows:
            count = records.fitting(first, most=min(most, rows - first), bytes=MOST_BYTES)
            yield from gathering.add(make(records, first, count))
            first += count
    yield from gathering.rest()


def _fetched(ranges: Sequence[OffsetRange], options: SourceOptions) -> Iterator[_Fetched]:
    """What was fetched, decoded; and after a loss that is no error, what is left."""
    config = source_config(options.kafka)
    reading = _Reading(ranges, clients.client(config), options.fail_on_data_loss)
    try:
        while reading.pending:
            try:
                yield from reading.fetched(options.poll_timeout)
            except (OffsetOutOfRangeError, DataLossError, UnknownTopicOrPartitionError) as error:
                reading.lose(error)
    except CorruptBatchError as error:
        raise _unreadable(error) from error
    except ApiTimeoutError as error:
        clients.discard(config)
        raise reading.timed_out(options.poll_timeout, error) from error
    except DataLossError:
        raise
    except KafkaError:
        # What is wrong with it is not known, and the next attempt should not meet the same.
        clients.discard(config)
        raise


class _Reading:
    """How far the ranges of a task have been read, and what becomes of those that lose something."""

    def __init__(self, ranges: Sequence[OffsetRange], client: Client, fails: bool) -> None:
        self._client = client
        self._fails = fails
        self._settled: set[str] = set()
        """Topics that must stay what they are: something of them was read, or they were begun anew already."""
        self.pending = {one.topic_partition: _Range(one) for one in ranges if one.size > 0}
        """The ranges that have not been read to their end."""

    def fetched(self, timeout: float) -> Iterator[_Fetched]:
        """All that is pending, by one consumer: a response that takes its time is not requested again."""
        starts = {tp: range_.position for tp, range_ in self.pending.items()}
        stops = {tp: range_.end for tp, range_ in self.pending.items()}
        silent, look_after = 0.0, min(timeout, _LOOK_AFTER)
        with closing(self._client.consume(starts, stop=stops)) as consumer:
            while self.pending:
                try:
                    for records, rows in consumer.parts(look_after):
                        silent = 0.0
                        self._advance(TopicPartition(records.topic, records.partition), records.next_offset)
                        yield records, rows
                    self.pending.clear()
                except ApiTimeoutError:
                    silent += look_after
                    yield None
                    self._check_there_is_more()
                    if silent >= timeout:
                        raise

    def _advance(self, tp: TopicPartition, position: int) -> None:
        self._settled.add(tp.topic)
        range_ = self.pending[tp]
        range_.position = max(range_.position, position)
        if range_.position >= range_.end:
            del self.pending[tp]

    def _check_there_is_more(self) -> None:
        """A range given by hand, or a log that has lost its end: nothing will come, however long the task waits."""
        bounds, gone = self._bounds()
        for error in gone.values():
            raise error
        for tp, (_, last) in bounds.items():
            if self.pending[tp].position >= last:
                raise OffsetOutOfRangeError(
                    topic=tp.topic, partition=tp.partition, detail="The log ends before."
                )

    # Loss

    def lose(self, error: OffsetOutOfRangeError | DataLossError | UnknownTopicOrPartitionError) -> None:
        """Raises, or goes on with what is left of the ranges in the logs as they are now."""
        if error.topic is None:
            raise error  # it cannot be said what is lost
        if isinstance(error, UnknownTopicOrPartitionError):
            self._lose_whole(self._of(error), error)
        elif isinstance(error, DataLossError) and error.new_offset < 0:
            # The topic is another one now, with all of its partitions.
            if not self._begins_anew(error.topic):
                self._lose_whole([tp for tp in self.pending if tp.topic == error.topic], error)
        else:
            self._lose_some(self._of(error))

    def _of(self, error: KafkaError) -> list[TopicPartition]:
        """The ranges that an error is about: one, or all of a topic."""
        topic, partition = getattr(error, "topic", None), getattr(error, "partition", None)
        return [tp for tp in self.pending if tp.topic == topic and partition in (None, tp.partition)]

    def _begins_anew(self, topic: str) -> bool:
        """A client that was kept may remember a topic from before it was created again, and the ranges be of the new.

        While nothing of any of its ranges has been read, there is nothing that the new one could be mixed up with.
        """
        is_first = topic not in self._settled
        self._settled.add(topic)
        return is_first

    def _lose_whole(self, partitions: Collection[TopicPartition], error: KafkaError) -> None:
        for tp in partitions:
            self._report(tp, str(error).rstrip("."))
            del self.pending[tp]

    def _lose_some(self, named: Collection[TopicPartition]) -> None:
        """Looks at all ranges: what has deleted records of one partition has often deleted some of others too."""
        bounds, gone = self._bounds()
        for tp, error in gone.items():
            self._lose_whole([tp], error)
        for tp, (first, last) in bounds.items():
            range_ = self.pending[tp]
            if tp in named or range_.position < first:
                self._report(tp, f"the log has offsets {first} to {last} now")
                range_.keep(first, last)
        for tp in [tp for tp, range_ in self.pending.items() if range_.position >= range_.end]:
            del self.pending[tp]

    def _report(self, tp: TopicPartition, reason: str) -> None:
        range_ = self.pending[tp]
        data_loss.report(self._fails, f"{range_}: cannot read from offset {range_.position} on: {reason}")

    def _bounds(self) -> tuple[_Bounds, dict[TopicPartition, UnknownTopicOrPartitionError]]:
        """What the logs of the pending ranges hold, and which are gone. Any other error is raised.

        With what an open transaction keeps back: that is there, and may yet be read.
        """
        admin, partitions = self._client.admin, list(self.pending)
        first = admin.list_offsets(partitions, at="earliest", errors="collect")
        last = admin.list_offsets(partitions, at="latest", isolation="read_uncommitted", errors="collect")
        gone: dict[TopicPartition, UnknownTopicOrPartitionError] = {}
        for tp, error in {**last.errors, **first.errors}.items():
            if not isinstance(error, UnknownTopicOrPartitionError):
                raise error
            gone[tp] = error
        # Both ends of a log always have an offset; only a time may have none.
        return {
            tp: (first[tp].offset or 0, last[tp].offset or 0) for tp in partitions if tp not in gone
        }, gone

    def timed_out(self, seconds: float, error: ApiTimeoutError) -> ApiTimeoutError:
        is_committed = self._client.config.isolation_level == "read_committed"
        held_back = " (with read_committed, an open transaction holds back all that follows it)"
        first, *others = self.pending.values()
        more = f" (and {len(others)} other ranges of the task)" if others else ""
        return ApiTimeoutError(
            f"{first}: waited from offset {first.position} on, in vain{more}: {error}"
            f"{held_back if is_committed else ''}. If the brokers are there but slow, raise the source option"
            f" kafkaConsumer.pollTimeoutMs, which is {seconds * 1000:.0f}"
        )


class _Range:
    """How far one range has been read."""

    def __init__(self, offsets: OffsetRange) -> None:
        self._offsets = offsets
        self._last_lost = -1
        self.position = offsets.start
        self.end = offsets.end
        """Where there is nothing to read any more; moves towards the position when something is lost."""

    def keep(self, first: int, last: int) -> None:
        """Something is lost of it: what is left is what the log has now."""
        left = (max(self.position, first), min(self.end, last))
        if left == (self.position, self.end) and self._last_lost == self.position:
            # It was out of range and is not any more: a topic that was created anew grows. Once is enough.
            left = (self.end, self.end)
        self._last_lost = self.position
        self.position, self.end = min(left), left[1]

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
