"""KafkaStreamReader: what `spark.readStream` calls, in one process on the driver for as long as the query runs.

Spark stores the end of each batch before it runs, and nothing else: neither where the first one began nor how any
was split into tasks. So `initialOffset` is a constant, and `latestOffset` writes both into the end (`checkpoint`): a
query that dies in a batch runs that one again as it was, whatever has been written or changed since. New options and
a changed cluster count from the next batch on.

Tasks get a copy of it, of which only `read` is used. Before that, another process makes a reader only to have it
copied: what requests and reads is imported by those that do.

Invariant: an offset that has not changed is returned as it came, since Spark runs a batch for any other text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from ottla.client.topic_partition import TopicPartition
from ottla.errors import KafkaError
from ottla.spark.options.connector import SourceOptions
from ottla.spark.options.offsets import LATEST_OFFSET, Latest, OffsetOption, SpecificOffsets
from ottla.spark.process.shipping import Shipped
from ottla.spark.source.checkpoint import (
    INITIAL,
    PartitionOffsets,
    end_offset,
    from_json,
    is_initial,
    plan_in,
    start_in,
    to_json,
)
from ottla.spark.source.micro_batches import BatchDelay, Rest, at_most, planned
from ottla.spark.source.packing import RangePartition, Split
from ottla.spark.source.schema import SourceColumns

if TYPE_CHECKING:
    import pyarrow

    from ottla.spark.source.group_progress import Farewell, GroupProgress
    from ottla.spark.source.offset_reader import OffsetReader

_REST: Final = 0.05
"""Seconds between two requests to brokers while there is nothing new; Spark calls every 11 ms."""


class StreamStartError(KafkaError):
    """Where a stream began is not known: its checkpoint was begun by the JVM connector, and is not far enough."""


class KafkaStreamReader(Shipped, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what is appended to every partition, batch by batch."""

    def __init__(
        self,
        options: SourceOptions,
        schema: StructType,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.options = options
        self.columns = SourceColumns.of(schema, options)
        self._clock = clock
        self._sleep = sleep
        self._rest = Rest(_REST)
        self._delay = (
            None
            if options.min_offsets_per_trigger is None
            else BatchDelay(options.min_offsets_per_trigger, options.max_trigger_delay)
        )
        self._start: PartitionOffsets | None = None
        self._latest: PartitionOffsets = {}
        self._stops_at_target = False
        self._target: PartitionOffsets | None = None
        self._progress: GroupProgress | None = None
        self._farewell: Farewell | None = None

    @cached_property
    def _offsets(self) -> OffsetReader:
        from ottla.spark.source.offset_reader import OffsetReader

        return OffsetReader(self.options, clock=self._clock, sleep=self._sleep)

    def __getstate__(self) -> dict[str, object]:
        """What a task needs."""
        return {"options": self.options, "columns": self.columns}

    # Where the next batch ends

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  Spark's name
        return dict(INITIAL)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  Spark's name
        """Spark hands it back, or ReadAllAvailable. It holds one limit: the lower one comes from the options."""
        if self.options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self.options.max_offsets_per_trigger)
        if self.options.min_offsets_per_trigger is not None:
            return ReadMinRows(self.options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name
        """The query ends at what is there at its first latestOffset; as in the JVM connector, after the start."""
        self._stops_at_target = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802  Spark's name
        if (pause := self._rest.left(start, self._clock())) > 0:
            self._sleep(pause)
        is_first = is_initial(start)
        begin = self._first_start() if is_first else from_json(start)
        self._finished(begin)
        self._latest = self._end_of_data(begin)
        new: PartitionOffsets = {}
        end = begin
        if not self._holds(begin, limit):
            end, new = self._limited(begin, limit)
        if end == begin and not is_first:
            self._rest.begin(start, self._clock())
            if self._stops_at_target and self._progress is not None:
                # Spark ends the query, and this process, on this response.
                self._progress.flush()
            return start
        if self.options.target_partitions is None:
            return end_offset(end, start=begin if is_first else None)
        # Of the first batch also where there is nothing yet: it tells the stream's own from the JVM connector's.
        begins = {**begin, **new} if is_first else new or None
        return end_offset(end, start=begins, plan=Split.of(self.options))

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802  Spark's name
        """For the query's progress: what there was at the last latestOffset."""
        return to_json(self._latest) or None

    def _finished(self, begin: PartitionOffsets) -> None:
        """Spark asks for the next batch when the one before it is done: what lies before its start is finished."""
        if self.options.commit_group is None:
            return
        if self._progress is None:
            from ottla.spark.source.group_progress import Farewell, GroupProgress

            self._progress = GroupProgress(self.options.commit_group, self._offsets.client)
            self._farewell = Farewell()
        self._progress.finished(begin)

    def _first_start(self) -> PartitionOffsets:
        if self._start is None:
            self._start = self._offsets.start()
        return self._start

    def _end_of_data(self, begin: PartitionOffsets) -> PartitionOffsets:
        if not self._stops_at_target:
            return self._offsets.latest(begin)
        if self._target is None:
            self._target = self._offsets.latest(begin)
        return self._target

    def _holds(self, begin: PartitionOffsets, limit: ReadLimit) -> bool:
        if self._delay is None or isinstance(limit, ReadAllAvailable):
            return False
        return self._delay.holds(begin, self._latest, self._clock())

    def _limited(
        self, begin: PartitionOffsets, limit: ReadLimit
    ) -> tuple[PartitionOffsets, PartitionOffsets]:
        """Where the batch ends; and where new partitions begin, if that is needed here or in its plan."""
        new: PartitionOffsets = {}
        if isinstance(limit, ReadMaxRows) or self.options.target_partitions is not None:
            new = self._offsets.earliest(self._latest.keys() - begin.keys())
        if isinstance(limit, ReadMaxRows):
            return at_most(limit.max_rows, {**begin, **new}, self._latest), new
        return self._latest, new

    # What the tasks read

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        plan = plan_in(end)
        ranges = planned(
            self._start_of_batch(start, end),
            from_json(end),
            self._offsets.earliest if plan is None else partial(_stored_starts, end),
            topics=self.options.topics,
            fail_on_data_loss=self.options.fail_on_data_loss,
        )
        # A batch without a plan is not packed, also if it is run again after targetPartitions was set.
        split = replace(Split.of(self.options), target_partitions=None) if plan is None else plan
        return [RangePartition(task) for task in split.tasks(ranges)]

    def _start_of_batch(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> PartitionOffsets:
        if not is_initial(start):
            return from_json(start)
        began = start_in(end)
        return self._start_of_foreign_batch(from_json(end)) if began is None else began

    def _start_of_foreign_batch(self, end: PartitionOffsets) -> PartitionOffsets:
        """The JVM connector planned the first batch and did not finish it. It keeps the start where only it looks."""
        if _has_latest(self.options.start):
            raise StreamStartError(
                "the checkpoint was begun by the JVM Kafka connector, and its first batch is not finished: where it"
                " began is not known here, and startingOffsets=latest would skip records. Take the offsets from the"
                " file sources/0/0 in the checkpoint (its last line) and give them as startingOffsets, or let the JVM"
                " connector finish that batch first"
            )
        start = self._offsets.start()
        # Partitions that were created since belong to the next batch.
        return {tp: start[tp] for tp in end if tp in start}

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """In a task."""
        from ottla.spark.source.range_reader import read_ranges

        assert isinstance(partition, RangePartition)
        return read_ranges(partition.ranges, self.options, self.columns)

    def stop(self) -> None:
        if self._progress is not None:
            self._progress.close()
        self._offsets.close()
        if self._farewell is not None:
            self._farewell.over()


def _stored_starts(end: Mapping[str, Any], partitions: Collection[TopicPartition]) -> PartitionOffsets:
    stored = start_in(end) or {}
    return {tp: stored[tp] for tp in partitions if tp in stored}


def _has_latest(option: OffsetOption) -> bool:
    return isinstance(option, Latest) or (
        isinstance(option, SpecificOffsets) and LATEST_OFFSET in option.by_partition.values()
    )
