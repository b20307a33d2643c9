"""The limit of Spark's path to and from Python: a source whose rows are in memory, a sink that only counts them.

What a connector takes beyond this is its own; what it takes here is Spark's. So nothing of a connector may be in
here, and a worker that runs this imports pyarrow and no more. The caller says how many tasks there are and how large
the Arrow batches of the source are, and tries which is fastest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import pyarrow
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from bench.clients.job import Job, values

_SCHEMA = """
    key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int
"""


class InMemory(DataSource):
    """Options: rows (in all), size (of a value); of the source also tasks, and batch (the rows of one).

    The sink fails if other than `rows` rows arrive in a batch write.
    """

    @classmethod
    def name(cls) -> str:
        return "in_memory"  # Spark has a sink of its own that is called memory

    def schema(self) -> str:
        return _SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(*self._numbers("rows", "tasks", "batch", "size"))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's name
        return _StreamReader(*self._numbers("rows", "batch", "size"))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return _Writer(*self._numbers("rows"))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802  Spark's name
        return _StreamWriter()

    def _numbers(self, *names: str) -> tuple[int, ...]:
        return tuple(int(self.options[name]) for name in names)


@dataclass
class _Share(InputPartition):
    rows: int


@dataclass
class _Counted(WriterCommitMessage):
    rows: int


class _Reader(DataSourceReader):
    def __init__(self, rows: int, tasks: int, batch: int, size: int) -> None:
        self._shares = [_Share(rows // tasks + (number < rows % tasks)) for number in range(tasks)]
        self._batch = batch
        self._size = size

    def partitions(self) -> list[InputPartition]:
        return list(self._shares)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        assert isinstance(partition, _Share)
        whole = _rows(min(self._batch, partition.rows), self._size)
        for start in range(0, partition.rows, self._batch):
            yield whole.slice(0, partition.rows - start)


class _StreamReader(DataSourceStreamReader):
    """A micro-batch after the other, each with `batch` rows, until there have been `rows`."""

    def __init__(self, rows: int, batch: int, size: int) -> None:
        self._most = rows
        self._batch = batch
        self._size = size

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  Spark's name
        return {"rows": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802  Spark's name
        return {"rows": min(start["rows"] + self._batch, self._most)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [_Share(end["rows"] - start["rows"])]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        assert isinstance(partition, _Share)
        yield _rows(partition.rows, self._size)


class _Writer(DataSourceArrowWriter):
    def __init__(self, rows: int) -> None:
        self._expected = rows

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> _Counted:
        return _Counted(sum(batch.num_rows for batch in iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        arrived = sum(message.rows for message in messages if isinstance(message, _Counted))
        if arrived != self._expected:
            raise RuntimeError(f"{arrived} of {self._expected} rows arrived")


class _StreamWriter(DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> _Counted:
        return _Counted(sum(batch.num_rows for batch in iterator))


# A worker lives longer than a task: it makes its rows once.
@lru_cache(maxsize=4)
def _rows(count: int, size: int) -> pyarrow.RecordBatch:
    some = values(Job("", "", count, size))
    columns = {
        "key": pyarrow.nulls(count, pyarrow.binary()),
        "value": pyarrow.array((some * (count // len(some) + 1))[:count], pyarrow.binary()),
        "topic": pyarrow.repeat("bench", count),
        "partition": pyarrow.repeat(pyarrow.scalar(0, pyarrow.int32()), count),
        "offset": pyarrow.array(range(count), pyarrow.int64()),
        "timestamp": pyarrow.repeat(pyarrow.scalar(0, pyarrow.timestamp("us", tz="UTC")), count),
        "timestampType": pyarrow.repeat(pyarrow.scalar(0, pyarrow.int32()), count),
    }
    return pyarrow.record_batch(columns)
