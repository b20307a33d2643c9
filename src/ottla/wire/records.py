"""Records and columns: the compiled core with its codecs, as client and broker use it.

Reading: `decode_fetch` gives lazy records or Arrow columns. Writing: an `Accumulator` takes records one by one, from
a `TopicAppender` that chooses their partitions or from an `UnknownTopicBuffer` while these are not known;
`encode_columns` takes Arrow columns. Both make batches, which `seal` finishes for the wire. All of it is synchronous
and may run in any thread; what is large releases the GIL.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from ottla import _extras
from ottla._native.accumulator import Accumulator
from ottla._native.appender import ThreadProducer, TopicAppender
from ottla._native.decode import Columns, Record, Records
from ottla._native.decode import decode_fetch as _decode_fetch
from ottla._native.deliveries import Delivery
from ottla._native.encode import Rows, encode_columns
from ottla._native.outgoing import EncodedBatch
from ottla._native.record_buffer import BufferFull, BufferRetired, RecordBuffer
from ottla._native.unknown_topic import UnknownTopicBuffer
from ottla.wire.compression import check_level, compress, decompress
from ottla.wire.primitives import Buffer

if TYPE_CHECKING:
    import pyarrow

__all__ = [
    "DEFAULT_MAX_DECOMPRESSED",
    "Accumulator",
    "BufferFull",
    "BufferRetired",
    "Columns",
    "Delivery",
    "EncodedBatch",
    "Record",
    "RecordBuffer",
    "Records",
    "Rows",
    "ThreadProducer",
    "TopicAppender",
    "UnknownTopicBuffer",
    "decode_fetch",
    "encode_columns",
    "seal",
    "to_arrow",
]

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
    `control`, also the records that brokers write (see batches.control_type). DecodeError says what is wrong with
    the bytes, and where; what precedes a damaged batch is delivered first.

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


def seal(batch: EncodedBatch, codec: int = 0, level: int | None = None) -> EncodedBatch:
    """Finishes a batch for the wire: compresses its records, writes its header and its checksum.

    May be called again, with another producer or another codec, as long as the batch is not completed. What has
    been compressed with a codec is not compressed with it again: a retry costs a header and a checksum.
    """
    if codec == 0:
        if level is not None:
            check_level(codec, level)
        batch.seal()
    else:
        batch.seal(codec, partial(compress, codec, level=level))
    return batch
