"""What the tests of encoding share: rows, the batches that they should become, and the pool before and after.

What should come out is made with the oracle's encoder, one candidate batch after the other, so that sizes and bounds
are found by encoding and not by computing them as the code under test does.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ottla._native import memory
from ottla._native.outgoing import EncodedBatch
from tests.oracle.murmur2 import partition_for
from tests.oracle.records import OracleBatch, OracleRecord, build_batch, decode_batch, encode_batch

NOW = 1_700_000_000_000
PARTITIONS = 5
HEADER_FIELDS = [("key", pa.string()), ("value", pa.binary())]
HEADERS = pa.list_(pa.struct(HEADER_FIELDS))

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class Row:
    value: bytes | None
    key: bytes | None = None
    headers: Headers | None = None
    timestamp: int | None = None
    partition: int | None = None


SOME_ROWS = [
    Row(
        b"v%d" % i * (i % 7),
        b"key%d" % (i % 11),
        (("h", b"x" * i), ("null", None)) if i % 3 else None,
        NOW + i,
    )
    for i in range(100)
] + [
    Row(None),
    Row(b"", b""),
    Row(b"unkeyed"),
    Row(b"to 4", b"k", (), NOW, 4),
    Row(b"by key", b"k", None, None, None),
]


def array(rows: Sequence[Row], name: str, kind: pa.DataType) -> pa.Array:
    cells: list[Any] = [getattr(row, name) for row in rows]
    if name == "headers":
        cells = [
            None if cell is None else [{"key": key, "value": value} for key, value in cell] for cell in cells
        ]
    return pa.array(cells, kind)


def table(rows: Sequence[Row], key: pa.DataType = None, value: pa.DataType = None) -> pa.Table:
    return pa.table(
        {
            "key": array(rows, "key", key or pa.binary()),
            "value": array(rows, "value", value or pa.binary()),
            "headers": array(rows, "headers", HEADERS),
            "timestamp": array(rows, "timestamp", pa.int64()),
            "partition": array(rows, "partition", pa.int32()),
        }
    )


@dataclass
class Expected:
    """One batch: where it goes, what it is made of, what it looks like."""

    partition: int
    rows: list[int]
    data: bytes


def expected_batches(
    rows: Sequence[Row], *, partitions: int, batch_size: int, unkeyed: int = 0, now: int = NOW
) -> list[Expected]:
    batches: list[Expected] = []
    open_batches: dict[int, Expected] = {}
    for number, row in enumerate(rows):
        partition = _partition(row, partitions, unkeyed)
        batch = open_batches.get(partition)
        if batch is not None:
            longer = oracle_bytes([rows[i] for i in batch.rows] + [row], now)
            if len(longer) <= batch_size:
                batch.rows.append(number)
                batch.data = longer
                continue
        batch = Expected(partition, [number], oracle_bytes([row], now))
        open_batches[partition] = batch
        batches.append(batch)
    return batches


def _partition(row: Row, partitions: int, unkeyed: int) -> int:
    if row.partition is not None:
        return row.partition
    return unkeyed if row.key is None else partition_for(row.key, partitions)


def oracle_bytes(rows: Sequence[Row], now: int = NOW) -> bytes:
    return encode_batch(build_batch(oracle_records(rows, now)))


def oracle_records(rows: Sequence[Row], now: int = NOW) -> list[OracleRecord]:
    return [
        OracleRecord(
            offset=offset,
            timestamp=now if row.timestamp is None else row.timestamp,
            key=row.key,
            value=row.value,
            headers=row.headers or (),
        )
        for offset, row in enumerate(rows)
    ]


def decoded(batch: EncodedBatch) -> OracleBatch:
    return decode_batch(bytes(batch))


def values(batches: Sequence[EncodedBatch]) -> list[bytes | None]:
    """The values of sealed batches, in order."""
    return [record.value for batch in batches for record in decoded(batch).records]


@contextmanager
def everything_given_back() -> Iterator[None]:
    """What is taken from the pool inside is back at the end, and whoever reads it after that reads nonsense.

    Not where a cluster of other tests lives on in the process: it takes and gives back whatever it likes meanwhile.
    """
    gc.collect()  # what earlier tests have left must not come back in between
    before = memory.statistics()["in_use"]
    memory._poison(True)
    try:
        yield
    finally:
        memory._poison(False)
    if not any(thread.name.startswith("ottla") for thread in threading.enumerate()):
        assert memory.statistics()["in_use"] == before
