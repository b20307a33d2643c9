"""KafkaTableReader: a topic as it is when tasks run, and not as it was when the query was planned.

Spark plans a source in Python once and keeps the plan with the DataFrame. A stream that is joined with such a
DataFrame would have the rows of its first micro-batch for ever. So the plan says nothing but how many tasks there
are; each finds out by itself which of the partitions are its own, and where these begin and end. Pipelines read their
tables in this way; it is no option for users, as an ordinary batch has to have the same rows whenever its tasks run.

Invariant: each partition of the topics is read by one task, however many there are by then.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from ottla.client.topic_partition import TopicPartition
from ottla.spark.source.batch_reader import KafkaBatchReader, ranges_between
from ottla.spark.source.packing import Split

if TYPE_CHECKING:
    import pyarrow


class TableShare(InputPartition):
    """A task: one of so many."""

    def __init__(self, number: int, of: int) -> None:
        super().__init__((number, of))
        self.number = number
        self.of = of

    def has(self, partition: TopicPartition) -> bool:
        """Neighbours go to different tasks; the same task has a partition in every micro-batch."""
        return (zlib.crc32(partition.topic.encode()) + partition.partition) % self.of == self.number


class KafkaTableReader(KafkaBatchReader):
    """Reads what lies between a start and an end, both as they are when a task asks."""

    def partitions(self) -> list[InputPartition]:
        from ottla.spark.source.offset_reader import OffsetReader

        ranges = ranges_between(*OffsetReader(self.options).start_and_end())
        count = len(Split.of(self.options).tasks(ranges)) or 1
        return [TableShare(number, count) for number in range(count)]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        from ottla.spark.source.offset_reader import OffsetReader
        from ottla.spark.source.range_reader import read_ranges

        assert isinstance(partition, TableShare)
        start, end = OffsetReader(self.options).start_and_end()
        ranges = [each for each in ranges_between(start, end) if partition.has(each.topic_partition)]
        return read_ranges(ranges, self.options, self.columns)
