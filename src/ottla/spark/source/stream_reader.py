"""KafkaStreamReader: what `spark.readStream` calls, in one process on the driver for as long as the query runs.

Spark stores the end of each batch before it runs, but not where the first one began. So `initialOffset` is a
constant, and the first end carries the start (`offsets`): a query that dies in its first batch reads that one again,
whatever has been written since.

Tasks get a copy of it, of which only `read` is used.

Invariant: an offset that has not changed is returned as it came, since Spark runs a batch for any other text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
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

from ottla.errors import KafkaError
from ottla.spark.options.connector import SourceOptions
from ottla.spark.options.offsets import LATEST_OFFSET, Latest, OffsetOption, SpecificOffsets
from ottla.spark.process.shipping import Shipped
from ottla.spark.source.checkpoint import (
    INITIAL,
    PartitionOffsets,
    from_json,
    is_initial,
    start_in,
    stored,
    to_json,
    with_start,
)
from ottla.spark.source.micro_batches import BatchDelay, Rest, at_most, planned
from ottla.spark.source.offset_reader import OffsetReader
from ottla.spark.source.range_reader import RangePartition, read_range
from ottla.spark.source.ranges import split
from ottla.spark.source.schema import SourceColumns

if TYPE_CHECKING:
    import pyarrow

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
        self._offsets = OffsetReader(options, clock=clock, sleep=sleep)
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
        begin = self._first_start() if is_initial(start) else from_json(start)
        self._latest = self._end_of_data(begin)
        end = self._limited(begin, limit)
        if is_initial(start):
            return with_start(end, begin)
        if end == begin:
            self._rest.begin(start, self._clock())
            return start
        return stored(end)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802  Spark's name
        """For the query's progress: what there was at the last latestOffset."""
        return to_json(self._latest) or None

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

    def _limited(self, begin: PartitionOffsets, limit: ReadLimit) -> PartitionOffsets:
        if isinstance(limit, ReadAllAvailable):
            return self._latest
        if self._delay is not None and self._delay.holds(begin, self._latest, self._clock()):
            return begin
        if isinstance(limit, ReadMaxRows):
            new = self._offsets.earliest(self._latest.keys() - begin.keys())
            return at_most(limit.max_rows, {**begin, **new}, self._latest)
        return self._latest

    # What the tasks read

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        ranges = planned(
            self._start_of_batch(start, end),
            from_json(end),
            self._offsets.earliest,
            topics=self.options.topics,
            fail_on_data_loss=self.options.fail_on_data_loss,
        )
        pieces = split(
            ranges,
            min_partitions=self.options.min_partitions,
            max_records_per_partition=self.options.max_records_per_partition,
        )
        return [RangePartition(piece) for piece in pieces]

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
        assert isinstance(partition, RangePartition)
        return read_range(partition.range, self.options, self.columns)

    def stop(self) -> None:
        self._offsets.close()


def _has_latest(option: OffsetOption) -> bool:
    return isinstance(option, Latest) or (
        isinstance(option, SpecificOffsets) and LATEST_OFFSET in option.by_partition.values()
    )
