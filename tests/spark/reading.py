"""For the tests of reading: options, ranges, and logs with gaps in them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from ottla.broker import Cluster
from ottla.spark.options.connector import SourceOptions
from ottla.spark.source.range_reader import read_ranges
from ottla.spark.source.ranges import OffsetRange
from ottla.spark.source.schema import SourceColumns, default_schema
from ottla.wire.batches import ControlType, PlainRecord, encode_batch
from tests.broker.log.support import append_marker, append_to

TOPIC = "orders"


def options(kafka: Cluster, **more: str) -> SourceOptions:
    """Names with underscores for dots."""
    given = {name.replace("_", "."): text for name, text in more.items()}
    return SourceOptions.parse(
        {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": TOPIC, **given}, streaming=False
    )


def source_schema(parsed: SourceOptions) -> StructType:
    """What is read when the user does not say."""
    return default_schema(parsed.value, include_headers=parsed.include_headers)


def read(
    parsed: SourceOptions, start: int, end: int, schema: StructType | None = None, partition: int = 0
) -> pa.Table:
    """A range as one table."""
    schema = source_schema(parsed) if schema is None else schema
    batches = list(
        read_ranges([OffsetRange(TOPIC, partition, start, end)], parsed, SourceColumns.of(schema, parsed))
    )
    return pa.Table.from_batches(batches) if batches else pa.table({name: [] for name in schema.names})


def offsets(table: pa.Table) -> list[int]:
    found: list[int] = table.column("offset").to_pylist()
    return found


def transaction(kafka: Cluster, outcome: ControlType, *values: bytes, producer: int = 7) -> None:
    """Records of one transaction, and its marker, which takes an offset too."""

    def append() -> None:
        partition = _partition(kafka)
        records: list[PlainRecord] = [
            (number, 1_700_000_000_000, None, value, []) for number, value in enumerate(values)
        ]
        batch = encode_batch(
            records, transactional=True, producer_id=producer, producer_epoch=0, base_sequence=0
        )
        append_to(partition, batch)
        append_marker(partition.log, outcome, producer)
        partition.commit(0)

    kafka.call(append)


def append(kafka: Cluster, batch: bytes) -> None:
    """A batch as it is, with the offsets that follow."""

    def append_one() -> None:
        partition = _partition(kafka)
        append_to(partition, batch)
        partition.commit(0)

    kafka.call(append_one)


def append_compacted(kafka: Cluster, batch: bytes) -> None:
    """A batch with the offsets that it has itself; seen from the next record on that comes in the usual way."""
    kafka.call(lambda: _partition(kafka).log.append_as_follower(bytearray(batch), 1_700_000_000_000))


def damage(kafka: Cluster, offset: int) -> None:
    """Flips a bit in the stored batch at this offset."""

    def flip() -> None:
        for segment in _partition(kafka).log.segments:
            for position, stored in segment.headers(0):
                if stored.base_offset == offset:
                    (view,) = segment.read(position, position + stored.size)
                    whole = memoryview(view.obj).cast("B")
                    whole[bytes(whole).find(bytes(view)) + stored.size - 1] ^= 1

    kafka.call(flip)


def _partition(kafka: Cluster) -> Any:
    return kafka._cluster.partition(TOPIC)
