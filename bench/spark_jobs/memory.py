"""The limit of Spark's path from Python: a source whose Arrow batches are in memory already.

Its columns are those of Kafka, its tasks as many as a topic has partitions, its batches as
large as the connector's. What a connector takes beyond this
is its own; what it takes here is Spark's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from bench.clients.job import Job, values
from ottla.spark.source.range_reader import MOST_BYTES, MOST_ROWS

_SCHEMA = """
    key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int
"""


class MemorySource(DataSource):
    """Options: rows, partitions, size (of a value)."""

    @classmethod
    def name(cls) -> str:
        return "memory"

    def schema(self) -> str:
        return _SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(*(int(self.options[name]) for name in ("rows", "partitions", "size")))


@dataclass
class _Share(InputPartition):
    number: int
    rows: int


class _Reader(DataSourceReader):
    def __init__(self, rows: int, partitions: int, size: int) -> None:
        self._shares = [_Share(number, rows // partitions) for number in range(partitions)]
        self._size = size

    def partitions(self) -> list[InputPartition]:
        return list(self._shares)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        assert isinstance(partition, _Share)
        most = min(MOST_ROWS, MOST_BYTES // self._size)
        whole = _batch(min(most, partition.rows), self._size, partition.number)
        left = partition.rows
        while left:
            batch = whole.slice(0, min(left, whole.num_rows))
            left -= batch.num_rows
            yield batch


def _batch(rows: int, size: int, partition: int) -> pyarrow.RecordBatch:
    some = values(Job("", "", rows, size))
    columns = {
        "key": pyarrow.nulls(rows, pyarrow.binary()),
        "value": pyarrow.array((some * (rows // len(some) + 1))[:rows], pyarrow.binary()),
        "topic": pyarrow.repeat("bench", rows),
        "partition": pyarrow.repeat(pyarrow.scalar(partition, pyarrow.int32()), rows),
        "offset": pyarrow.array(range(rows), pyarrow.int64()),
        "timestamp": pyarrow.repeat(pyarrow.scalar(0, pyarrow.timestamp("us", tz="UTC")), rows),
        "timestampType": pyarrow.repeat(pyarrow.scalar(0, pyarrow.int32()), rows),
    }
    return pyarrow.record_batch(columns)
