"""Records and columns: the compiled core with its codecs, as client and broker use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla import _extras
from ottla._native.decode import Columns, Record, Records
from ottla._native.decode import decode_fetch as _decode_fetch
from ottla.wire.compression import decompress
from ottla.wire.primitives import Buffer

if TYPE_CHECKING:
    import pyarrow

__all__ = ["DEFAULT_MAX_DECOMPRESSED", "Columns", "Record", "Records", "decode_fetch", "to_arrow"]

DEFAULT_MAX_DECOMPRESSED: Final = 512 * 1024 * 1024
"""What the compressed batches of one partition's fetch may grow to together: ten times Kafka's default fetch."""


def decode_fetch(
    data: Buffer,
    topic: str,
    partition: int,
    *,
    offset: int = 0,
    aborted: Sequence[tuple[int, int]] | None = None,
    check_crc: bool = True,
    control: bool = False,
    max_decompressed: int = DEFAULT_MAX_DECOMPRESSED,
) -> Records:
    """All records of a `records` field that a consumer at `offset` is to see.

    With `aborted`, the (producer id, first offset) pairs of the Fetch response, only committed records; with
    `control`, also the records that brokers write (see batches.control_type). Large fetches release the GIL, so
    this may run on an executor. DecodeError says what is wrong with the bytes, and where; what precedes a damaged
    batch is delivered first.

        for record in decode_fetch(data, "orders", 0, offset=42):
            print(record.offset, record.key, record.value)
    """
    return _decode_fetch(
        data,
        topic=topic,
        partition=partition,
        decompress=decompress,
        offset=offset,
        aborted=aborted,
        check_crc=check_crc,
        control=control,
        max_decompressed=max_decompressed,
    )


def to_arrow(records: Records, *, timestamp_unit: str = "ms") -> pyarrow.RecordBatch:
    """The records as a `pyarrow.RecordBatch`; polars and others take `records.columns()` as it is."""
    arrow = _extras.require("pyarrow", extra="columns", purpose="reading into Arrow columns")
    batch: pyarrow.RecordBatch = arrow.record_batch(records.columns(timestamp_unit=timestamp_unit))
    return batch
