"""Records to Arrow batches with exactly the schema that Spark expects, in a task.

Kafka's columns are gathered natively, only those that the query reads, straight into the layout that Spark takes:
nothing is cast or copied afterwards, unless batches are so small that putting them together costs less than to hand
each to Spark. Columns of the value go through their decoder (`values`); rows that it drops are dropped from all
columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from ottla.spark.source.schema import SourceColumns

if TYPE_CHECKING:
    from ottla.spark.values import ValueOptions
    from ottla.wire.records import Records

MakeBatch: TypeAlias = Callable[["Records", int, int], pa.RecordBatch]
"""(records, first, count): these rows as a batch; fewer, where values are dropped."""


def batch_maker(columns: SourceColumns) -> MakeBatch:
    """What a task calls for each piece that it has fetched."""
    if columns.value is not None:
        return _Decoding(columns, columns.value)
    gather = _Columns(tuple(name for name in columns.kafka if name is not None))
    return gather if columns.names == columns.kafka else _Renaming(gather, columns.names)


class _Columns:
    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def __call__(self, records: Records, first: int, count: int) -> pa.RecordBatch:
        return pa.record_batch(
            records.columns(timestamp_unit="us", names=self._names, nullable=True, first=first, count=count)
        )


class _Renaming:
    """For a schema that spells Kafka's names in its own way."""

    def __init__(self, gather: _Columns, names: tuple[str, ...]) -> None:
        self._gather = gather
        self._names = list(names)

    def __call__(self, records: Records, first: int, count: int) -> pa.RecordBatch:
        return self._gather(records, first, count).rename_columns(self._names)


class _Decoding:
    """Some columns come out of the value."""

    def __init__(self, columns: SourceColumns, value: ValueOptions) -> None:
        from ottla.spark.values import Where, decoder

        self._where = Where
        self._names = list(columns.names)
        self._kafka = columns.kafka
        self._decode = decoder(value, columns.decoded)
        # The offset is for errors: they name the value that cannot be decoded by it.
        requested = [name for name in columns.kafka if name is not None]
        self._gather = _Columns(tuple(dict.fromkeys([*requested, "value", "offset"])))

    def __call__(self, records: Records, first: int, count: int) -> pa.RecordBatch:
        raw = self._gather(records, first, count)
        where = self._where(records.topic, records.partition, raw.column("offset"))
        decoded, keep = self._decode(raw.column("value"), where)
        rest = iter(decoded)
        arrays = [next(rest) if name is None else raw.column(name) for name in self._kafka]
        batch = pa.RecordBatch.from_arrays(arrays, names=self._names)
        return batch if keep is None else batch.filter(keep)


class Gathering:
    """Puts small batches together, up to so many rows and bytes; each of them alone may have as many."""

    def __init__(self, most_rows: int, most_bytes: int) -> None:
        self._most_rows = most_rows
        self._most_bytes = most_bytes
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """What is complete with it, or before it."""
        rows, size = batch.num_rows, batch.nbytes
        if self._rows + rows > self._most_rows or self._bytes + size > self._most_bytes:
            yield from self.rest()
        if rows:
            self._batches.append(batch)
            self._rows += rows
            self._bytes += size

    def rest(self) -> Iterator[pa.RecordBatch]:
        """What there is, for a caller that does not want to wait for more."""
        batches, self._batches = self._batches, []
        self._rows = self._bytes = 0
        if batches:
            yield from batches if len(batches) == 1 else _combined(batches)


def _combined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """One batch, since what they hold together is far from what one may hold."""
    combined: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return combined
