"""Record batches from outside: their headers, and those batches that brokers write themselves.

What is in a batch is the business of records.py. Here a log, a replica or a coordinator finds out which offsets
and which producer a batch has, without looking at a single record.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from ottla._native import crc32c
from ottla.errors import DecodeError
from ottla.wire.batch_header import (
    APPEND_TIME,
    BATCH_OVERHEAD,
    CHECKED_FROM,
    CODEC,
    CONTROL,
    CRC_AT,
    DELETE_HORIZON,
    LARGEST_SEQUENCE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    MESSAGE_ATTRIBUTES_AT,
    MESSAGE_CRC_AT,
    MESSAGE_TIMESTAMP_AT,
    SMALLEST_LENGTH,
    TRANSACTIONAL,
    pack_crc,
    pack_header,
    unpack_crc,
    unpack_header,
    unpack_message_timestamp,
    unpack_prefix,
)
from ottla.wire.compression import Compression, compress
from ottla.wire.primitives import Buffer, varint

_CONTROL_KEY: Final = struct.Struct(">hh")  # a version, which later ones may follow with more, and the type


class TimestampType(IntEnum):
    """What the timestamp of a record says."""

    NONE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class ControlType(IntEnum):
    """What a control record says."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """The header of a batch of magic 2; of an older message only what it has, and -1 for the rest."""

    position: int
    """Where the batch begins in the field that it was read from."""
    size: int
    """Of the whole batch, offset and length included."""
    magic: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

    @property
    def last_sequence(self) -> int:
        """Sequences go from the largest number of 31 bits to 0; -1 where the batch has none."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset - self.base_offset) & LARGEST_SEQUENCE

    @property
    def codec(self) -> int:
        """A `Compression`, or a number that this release does not know."""
        return self.attributes & CODEC

    @property
    def timestamp_type(self) -> TimestampType:
        if self.magic == 0:
            return TimestampType.NONE
        return TimestampType.LOG_APPEND_TIME if self.attributes & APPEND_TIME else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether the base timestamp says when the cleaner may drop its tombstones and markers (KIP-534)."""
        return bool(self.attributes & DELETE_HORIZON)


def batch_headers(data: Buffer, *, check_crc: bool = True) -> list[BatchHeader]:
    """The headers of all batches in a `records` field; a truncated last one is left out.

    Unlike a consumer, which takes what precedes a damaged batch, this is all or nothing: a broker must not
    append half of what it was sent.
    """
    view = memoryview(data).cast("B")
    headers: list[BatchHeader] = []
    position = 0
    while len(view) - position >= LOG_OVERHEAD:
        base_offset, length = unpack_prefix(view, position)
        if length < SMALLEST_LENGTH:
            raise DecodeError(f"a batch at byte {position} claims a length of {length}")
        size = LOG_OVERHEAD + length
        if size > len(view) - position:
            break
        headers.append(_header(view[position : position + size], position, base_offset, check_crc))
        position += size
    return headers


def _header(batch: memoryview, position: int, base_offset: int, check_crc: bool) -> BatchHeader:
    magic = batch[MAGIC_AT]
    if magic < MAGIC:
        return _old_header(batch, position, base_offset, check_crc)
    if magic > MAGIC:
        raise DecodeError(f"the batch at byte {position} has magic {magic}, which is not known")
    if len(batch) < BATCH_OVERHEAD:
        raise DecodeError(f"the batch at byte {position} is shorter than its header")
    (
        _,
        _,
        epoch,
        _,
        crc,
        attributes,
        last_delta,
        base_time,
        max_time,
        producer,
        producer_epoch,
        sequence,
        count,
    ) = unpack_header(batch)
    if check_crc and crc32c(batch[CHECKED_FROM:]) != crc:
        raise DecodeError(f"the checksum of the batch at byte {position} is wrong")
    if last_delta < 0 or count < 0:
        raise DecodeError(f"the batch at byte {position} has a negative count or offset")
    return BatchHeader(
        position=position,
        size=len(batch),
        magic=MAGIC,
        base_offset=base_offset,
        last_offset=base_offset + last_delta,
        leader_epoch=epoch,
        crc=crc,
        attributes=attributes,
        base_timestamp=base_time,
        max_timestamp=max_time,
        producer_id=producer,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        count=count,
    )


def _old_header(message: memoryview, position: int, offset: int, check_crc: bool) -> BatchHeader:
    (crc,) = unpack_crc(message, MESSAGE_CRC_AT)
    if check_crc and zlib.crc32(message[MAGIC_AT:]) != crc:
        raise DecodeError(f"the checksum of the message at byte {position} is wrong")
    timestamp = -1
    if message[MAGIC_AT] == 1:
        (timestamp,) = unpack_message_timestamp(message, MESSAGE_TIMESTAMP_AT)
    return BatchHeader(
        position=position,
        size=len(message),
        magic=message[MAGIC_AT],
        base_offset=offset,
        last_offset=offset,
        leader_epoch=-1,
        crc=crc,
        attributes=message[MESSAGE_ATTRIBUTES_AT],
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=-1,
    )


Headers = Sequence[tuple[str, bytes | None]]
PlainRecord = tuple[int, int, bytes | None, bytes | None, Headers]
"""Offset, timestamp, key, value, headers."""


def encode_batch(
    records: Sequence[PlainRecord],
    *,
    base_offset: int | None = None,
    last_offset: int | None = None,
    max_timestamp: int | None = None,
    leader_epoch: int = -1,
    codec: int = Compression.NONE,
    level: int | None = None,
    append_time: int | None = None,
    delete_horizon: int | None = None,
    transactional: bool = False,
    control: bool = False,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """A batch with every field at will: gaps between offsets, control records, times of the log.

    For what logs, cleaners and coordinators write, one batch at a time. Producers, which write millions of
    records, use the compiled encoder (records.py). Without records, both offsets must be given: a batch that
    compaction emptied.
    """
    first = records[0][0] if base_offset is None else base_offset
    last = records[-1][0] if last_offset is None else last_offset
    base_timestamp = records[0][1] if records else -1
    if max_timestamp is None:
        max_timestamp = max((record[1] for record in records), default=-1)
    attributes = codec | TRANSACTIONAL * transactional | CONTROL * control
    if append_time is not None:
        attributes |= APPEND_TIME
        max_timestamp = append_time
    if delete_horizon is not None:
        attributes |= DELETE_HORIZON
        base_timestamp = delete_horizon
    plain = b"".join(_encode_record(record, first, base_timestamp) for record in records)
    batch = bytearray(BATCH_OVERHEAD)
    batch += compress(codec, plain, level)
    pack_header(
        batch,
        0,
        *(first, len(batch) - LOG_OVERHEAD, leader_epoch, MAGIC, 0),
        *(attributes, last - first, base_timestamp, max_timestamp),
        *(producer_id, producer_epoch, base_sequence, len(records)),
    )
    pack_crc(batch, CRC_AT, crc32c(memoryview(batch)[CHECKED_FROM:]))
    return bytes(batch)


def _encode_record(record: PlainRecord, base_offset: int, base_timestamp: int) -> bytes:
    offset, timestamp, key, value, headers = record
    body = bytearray(1)  # the attributes of a record, of which there are none
    body += varint(timestamp - base_timestamp) + varint(offset - base_offset)
    body += _sized(key) + _sized(value) + varint(len(headers))
    for name, content in headers:
        body += _sized(name.encode()) + _sized(content)
    return varint(len(body)) + bytes(body)


def _sized(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content


def end_transaction_marker(
    outcome: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    coordinator_epoch: int,
    offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """The control batch that ends a transaction in a partition: COMMIT or ABORT."""
    if outcome not in (ControlType.ABORT, ControlType.COMMIT):
        raise ValueError(f"{outcome!r} does not end a transaction")
    key = _CONTROL_KEY.pack(0, outcome)
    value = struct.pack(">hi", 0, coordinator_epoch)
    return encode_batch(
        [(offset, timestamp, key, value, [])],
        leader_epoch=leader_epoch,
        transactional=True,
        control=True,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def control_type(key: bytes | None) -> int:
    """What the key of a control record says: a `ControlType`, or a number that this release does not know."""
    if key is None or len(key) < _CONTROL_KEY.size:
        raise DecodeError(f"a control record with the key {key!r} does not say its type")
    number: int = _CONTROL_KEY.unpack_from(key)[1]
    return number
