"""KafkaBatchReader: what `spark.read` calls.

Offsets are planned once, on the driver; tasks read ranges (`range_reader`). Each of the two imports what it needs.

Invariant: the ranges of a query do not depend on when its tasks run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ottla.spark.options.connector import SourceOptions
from ottla.spark.options.parsing import OptionError
from ottla.spark.process.shipping import Shipped
from ottla.spark.source.checkpoint import PartitionOffsets
from ottla.spark.source.packing import RangePartition, Split
from ottla.spark.source.ranges import OffsetRange
from ottla.spark.source.schema import SourceColumns

if TYPE_CHECKING:
    import pyarrow


class KafkaBatchReader(Shipped, DataSourceReader):
    """Reads what lies between a start and an end, of every partition."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self.options = options
        self.columns = SourceColumns.of(schema, options)

    def partitions(self) -> list[InputPartition]:
        """One for each task, in the order of topics and partitions."""
        from ottla.spark.source.offset_reader import OffsetReader

        start, end = OffsetReader(self.options).start_and_end()
        return [RangePartition(ranges) for ranges in Split.of(self.options).tasks(ranges_between(start, end))]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """In a task. Where there is nothing to read at all, Spark still has one partition, of its own."""
        if isinstance(partition, RangePartition):
            from ottla.spark.source.range_reader import read_ranges

            return read_ranges(partition.ranges, self.options, self.columns)
        return iter(())


def ranges_between(start: PartitionOffsets, end: PartitionOffsets) -> list[OffsetRange]:
    """A range for each partition; an error where one would end before it begins."""
    for tp in sorted(start):
        if start[tp] > end[tp]:
            raise OptionError(
                f"The resolved start offset {start[tp]} is greater than the resolved end offset {end[tp]} for topic"
                f" {tp.topic} partition {tp.partition}. Check startingOffsets and endingOffsets, or their"
                " timestamps: the start may lie behind the last record. Or the topic may have been deleted and"
                " created again"
            )
    return [OffsetRange(tp.topic, tp.partition, start[tp], end[tp]) for tp in sorted(start)]
