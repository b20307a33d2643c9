"""What a log demands of a batch before it appends it: Kafka's LogValidator, and what precedes it.

A leader looks at every record. An ordinary batch of a client, in order and with a codec that it keeps, is checked and
gets its offsets in one native call (`accept_batch`). Any other one takes the long way (`inspect_batch`), which checks
everything again: the order of its checks is that of Apache Kafka 4.3, as it decides which error a client sees; so are
the errors, where one would have chosen others. A follower takes its leader's batches as they are, if they are whole
and continue its log. What a leader changes in a batch is in rewrite.py; sequences and epochs are in producers.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla._native import crc32c
from ottla._native.inspect import inspect
from ottla._native.record_batch import AppendRules, Batch, read_header, whole_batch
from ottla.broker.log.batch import NO_TIMESTAMP
from ottla.broker.log.config import LogConfig
from ottla.broker.log.producers import Origin
from ottla.errors import (
    CorruptMessageError,
    DecodeError,
    InvalidRecordError,
    InvalidTimestampError,
    MessageTooLargeError,
    OffsetOutOfRangeError,
    RecordListTooLargeError,
    UnknownServerError,
    UnsupportedCompressionTypeError,
)
from ottla.wire.batch_header import (
    ATTRIBUTES_LOW_AT,
    BATCH_OVERHEAD,
    CHECKED_FROM,
    CODEC,
    LENGTH_AT,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    SMALLEST_LENGTH,
    unpack_length,
    unpack_signed_magic,
)
from ottla.wire.compression import Compression, decompress
from ottla.wire.primitives import Buffer
from ottla.wire.records import DEFAULT_MAX_DECOMPRESSED, decode_fetch

ZSTD_SINCE: Final = 7
"""The version of Produce from which on a batch may be compressed with zstd (KIP-110)."""
LATEST_PRODUCE: Final = 13

_ANY_TIME: Final = (-(2**63), 2**63 - 1)
_LARGEST_SIZE: Final = 2**31 - 1
_SHOWN_ERRORS: Final = 3
CODECS: Final = {"uncompressed": Compression.NONE} | {
    codec.name.lower(): codec for codec in Compression if codec is not Compression.NONE
}
"""The values of compression.type, but for `producer`."""
_PRODUCERS_CODEC: Final = -1

RecordFault = tuple[int, int, bool]
"""A record that breaks a rule: its index, its timestamp, whether it has a key."""


class RecordsRefused:
    """A refusal that names records: INVALID_RECORD or INVALID_TIMESTAMP. Its message is for the client, too."""

    record_errors: list[tuple[int, str]]


class RefusedRecordsError(RecordsRefused, InvalidRecordError):
    """Some records break a rule of the topic."""


class RefusedTimestampsError(RecordsRefused, InvalidTimestampError):
    """Some records have timestamps that the topic does not take."""


class UnreadableBatchError(UnknownServerError):
    """Of a size or with a codec over which Kafka fails inside: it has no better error for it."""


@dataclass(slots=True)
class Appended:
    """What became of an append."""

    base_offset: int
    last_offset: int
    append_time_ms: int
    """When the log took it, if its timestamps are those of the log, or a duplicate's timestamp; else -1."""
    log_start_offset: int
    duplicate: bool = False
    size: int = 0
    """In bytes, of what a follower has appended."""


class Inspected(NamedTuple):
    """A batch that may be appended, and what a look at its records has shown."""

    data: Buffer
    batch: Batch
    plain: Buffer
    """The records, decompressed."""
    max_timestamp: int
    offsets_are_dense: bool
    """The offset deltas are 0, 1, 2, ..."""


def append_rules(config: LogConfig) -> AppendRules:
    """What of a topic's configuration decides whether a batch is ordinary."""
    return AppendRules(
        max_size=min(config.max_message_bytes, config.segment_bytes),
        before_max_ms=config.message_timestamp_before_max_ms,
        after_max_ms=config.message_timestamp_after_max_ms,
        append_time=config.uses_append_time,
        keys_required=config.compact,
        codec=CODECS.get(config.compression_type, _PRODUCERS_CODEC),
    )


def accept_batch(batch: Batch, rules: AppendRules, base_offset: int, leader_epoch: int, now_ms: int) -> bool:
    """Whether this is an ordinary batch of a client; then it is as the log is to have it."""
    return batch.accept(rules, base_offset, leader_epoch, now_ms, _decompress)


def inspect_batch(batch: Batch, config: LogConfig, origin: Origin, now_ms: int, partition: str) -> Inspected:
    """Whether a leader may append a batch, the long way; raises the error of Kafka if not."""
    data = batch.data
    assert data is not None
    _check_batch(data, batch, config, origin, partition)
    if origin is Origin.CLIENT:
        _check_client_batch(batch, partition)
    plain = _decompressed(data, batch)
    earliest, latest = _time_range(batch, config, now_ms)
    try:
        dense, max_timestamp, faults = inspect(
            plain,
            batch.record_count,
            batch.base_timestamp,
            earliest=earliest,
            latest=latest,
            keys_required=config.compact,
        )
    except DecodeError as error:
        raise InvalidRecordError(f"{error} in topic partition {partition}") from None
    faults = [fault for fault in faults if not _is_time_in_range(fault, batch, config, now_ms)]
    if batch.has_append_time:
        max_timestamp = max(batch.max_timestamp, NO_TIMESTAMP)
        faults = _append_time_faults(batch, faults, config, now_ms)
    if faults:
        _refuse(data, batch, faults, config, now_ms, partition)
    return Inspected(data, batch, plain, max_timestamp, dense)


def only_batch(records: Buffer, version: int = LATEST_PRODUCE, batch: Batch | None = None) -> Batch:
    """What every Produce request has to keep to, whatever the topic: exactly one batch, of magic 2.

    `batch` is the whole batch that they are, where the caller has read it already.
    """
    batch = batch or whole_batch(records)
    if batch is not None and (version >= ZSTD_SINCE or batch.codec < Compression.ZSTD):
        return batch
    size = batch_size(records)
    if size is None:
        raise InvalidRecordError(
            f"Produce requests with version {version} must have at least one record batch per partition"
        )
    if records[MAGIC_AT] != MAGIC:
        raise InvalidRecordError(
            f"Produce requests with version {version} are only allowed to contain record batches with magic "
            f"version {MAGIC}"
        )
    codec = records[ATTRIBUTES_LOW_AT] & CODEC
    if version < ZSTD_SINCE and codec > Compression.ZSTD:
        raise UnreadableBatchError(f"Unknown compression type id: {codec}")
    if version < ZSTD_SINCE and codec == Compression.ZSTD:
        raise UnsupportedCompressionTypeError(
            f"Produce requests with version {version} are not allowed to use ZStandard compression"
        )
    if batch_size(records, size) is not None:
        raise InvalidRecordError(
            f"Produce requests with version {version} are only allowed to contain exactly one record batch per "
            "partition"
        )
    if size < BATCH_OVERHEAD:
        raise CorruptMessageError(
            f"Record batch is corrupt (the size {size} is smaller than the minimum allowed overhead "
            f"{BATCH_OVERHEAD})"
        )
    # The beginning of another batch, too short to be one, may follow.
    batch = whole_batch(memoryview(records)[:size])
    assert batch is not None
    return batch


def batch_size(records: Buffer, position: int = 0) -> int | None:
    """The size of the batch at `position`, None if the rest is less than a batch."""
    left = len(records) - position
    if left < LOG_OVERHEAD:
        return None
    (length,) = unpack_length(records, position + LENGTH_AT)
    if length < SMALLEST_LENGTH:
        raise CorruptMessageError(
            f"Record size {length} is less than the minimum record overhead ({SMALLEST_LENGTH})"
        )
    if left <= MAGIC_AT:
        return None
    if records[position + MAGIC_AT] > MAGIC:
        (magic,) = unpack_signed_magic(records, position + MAGIC_AT)
        raise CorruptMessageError(f"Invalid magic found in record: {magic}")
    size = int(length) + LOG_OVERHEAD
    if size > _LARGEST_SIZE:
        raise UnreadableBatchError(f"the size {size} does not fit into 32 bits")
    return size if size <= left else None


def _check_batch(data: Buffer, batch: Batch, config: LogConfig, origin: Origin, partition: str) -> None:
    if origin is Origin.CLIENT and batch.base_offset != 0:
        raise InvalidRecordError(
            f"The baseOffset of the record batch in the append to {partition} should be 0, "
            f"but it is {batch.base_offset}"
        )
    check_size(batch.size, config, partition)
    if crc32c(memoryview(data)[CHECKED_FROM:]) != batch.crc:
        raise CorruptMessageError(
            f"Record is corrupt (stored crc = {batch.crc}) in topic partition {partition}."
        )
    if batch.codec > Compression.ZSTD:
        raise UnreadableBatchError(f"Unknown compression type id: {batch.codec}")


def check_size(size: int, config: LogConfig, partition: str) -> None:
    if size > config.max_message_bytes:
        raise MessageTooLargeError(
            f"The record batch size in the append to {partition} is {size} bytes which exceeds the maximum "
            f"configured value of {config.max_message_bytes}."
        )


def check_sizes(batch: Batch, config: LogConfig, partition: str) -> None:
    """Once more, of what is appended: another codec may have made it larger."""
    check_size(batch.size, config, partition)
    if batch.size > config.segment_bytes:
        raise RecordListTooLargeError(
            f"Message batch size is {batch.size} bytes in append to partition {partition}, which exceeds "
            f"the maximum configured segment size of {config.segment_bytes}."
        )


def _check_client_batch(batch: Batch, partition: str) -> None:
    """What is left to brokers themselves, and what no producer may get wrong."""
    count, where = batch.record_count, f"in topic partition {partition}"
    offsets = f"[{batch.base_offset}, {batch.last_offset}]"
    if batch.last_offset_delta < 0:
        raise InvalidRecordError(f"Batch has an invalid offset range: {offsets} {where}")
    if count <= 0:
        raise InvalidRecordError(f"Invalid reported count for record batch: {count} {where}")
    if batch.last_offset_delta + 1 != count:
        raise InvalidRecordError(
            f"Inconsistent batch offset range {offsets} and count of records {count} {where}"
        )
    if batch.is_control:
        raise InvalidRecordError(f"Clients are not allowed to write control records {where}")
    if batch.has_producer_id and batch.base_sequence < 0:
        raise InvalidRecordError(
            f"Invalid sequence number {batch.base_sequence} in record batch with producerId "
            f"{batch.producer_id} {where}"
        )


def _decompressed(data: Buffer, batch: Batch) -> Buffer:
    payload = memoryview(data)[BATCH_OVERHEAD:]
    if batch.codec == Compression.NONE or not batch.record_count:
        return payload
    try:
        return _decompress(batch.codec, payload)
    except DecodeError as error:
        # Kafka has no better error for bytes that its codec cannot read.
        raise UnknownServerError(f"Failed to decompress record stream: {error}") from None


def _decompress(codec: int, payload: memoryview) -> Buffer:
    return decompress(codec, payload, DEFAULT_MAX_DECOMPRESSED)


def _time_range(batch: Batch, config: LogConfig, now_ms: int) -> tuple[int, int]:
    """What the timestamps of the records have to be in; those of a batch with append time are its own."""
    if config.uses_append_time or batch.has_append_time:
        return _ANY_TIME
    return _accepted_range(config, now_ms)


def _accepted_range(config: LogConfig, now_ms: int) -> tuple[int, int]:
    before, after = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    return max(now_ms - before, _ANY_TIME[0]), min(now_ms + after, _ANY_TIME[1])


def _is_time_in_range(fault: RecordFault, batch: Batch, config: LogConfig, now_ms: int) -> bool:
    """Whether a record is in order all the same: Kafka's difference of two times has 64 bits, and wraps."""
    _, timestamp, has_key = fault
    if batch.has_append_time or (config.compact and not has_key):
        return False
    age = _wrapped(now_ms - timestamp)
    return (
        age <= config.message_timestamp_before_max_ms
        and _wrapped(-age) <= config.message_timestamp_after_max_ms
    )


def _wrapped(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def _append_time_faults(
    batch: Batch, faults: Sequence[RecordFault], config: LogConfig, now_ms: int
) -> Sequence[RecordFault]:
    """A producer that claims to be the log gives all records one timestamp: all are in order, or none."""
    earliest, latest = _accepted_range(config, now_ms)
    timestamp = batch.max_timestamp
    if not config.uses_append_time and timestamp != NO_TIMESTAMP and earliest <= timestamp <= latest:
        return faults
    keyless = {index for index, _, has_key in faults if not has_key}
    return [(index, timestamp, index not in keyless) for index in range(batch.record_count)]


def _refuse(
    data: Buffer, batch: Batch, faults: Sequence[RecordFault], config: LogConfig, now_ms: int, partition: str
) -> None:
    errors = [(fault[0], _describe(data, batch, fault, config, now_ms, partition)) for fault in faults]
    error: RefusedTimestampsError | RefusedRecordsError
    if any(has_key or not config.compact for _, _, has_key in faults):
        error = RefusedTimestampsError("One or more records have been rejected due to invalid timestamp")
    else:
        shown = ", ".join(
            f"RecordError(batchIndex={index}, message='{message}')"
            for index, message in errors[:_SHOWN_ERRORS]
        )
        error = RefusedRecordsError(
            f"One or more records have been rejected due to {len(errors)} record errors in total, and only "
            f"showing the first three errors at most: [{shown}]"
        )
    error.record_errors = errors
    raise error


def _describe(
    data: Buffer, batch: Batch, fault: RecordFault, config: LogConfig, now_ms: int, partition: str
) -> str:
    index, timestamp, has_key = fault
    if config.compact and not has_key:
        return f"Compacted topic cannot accept message without key in topic partition {partition}"
    if batch.has_append_time and (config.uses_append_time or timestamp == NO_TIMESTAMP):
        return (
            f"Invalid timestamp type in message {_record(data, index, timestamp)}. Producer should not set "
            "timestamp type to LogAppendTime."
        )
    return (
        f"Timestamp {timestamp} of message with offset {index} is out of range. The timestamp should be within "
        f"[{now_ms - config.message_timestamp_before_max_ms}, {now_ms + config.message_timestamp_after_max_ms}]"
    )


def _record(data: Buffer, index: int, timestamp: int) -> str:
    """A record as Kafka names it to the producer."""
    record = list(decode_fetch(data, "", 0, control=True, check_crc=False))[index]
    key, value = len(record.key or b""), len(record.value or b"")
    return f"DefaultRecord(offset={index}, timestamp={timestamp}, key={key} bytes, value={value} bytes)"


def followed_batches(
    records: Buffer, expected_offset: int, leader_epoch: int | None, partition: str, *, empty: bool = False
) -> tuple[Buffer, list[Batch]]:
    """The bytes to append and the headers in them; a batch that is cut off at the end is left out.

    A batch of a later epoch than `leader_epoch` may come from a leader whose log is not the one that the follower
    has compared its own with: it ends the append. A log that is `empty` may begin within a batch, as that of the
    leader does after DeleteRecords.
    """
    view = memoryview(records)
    batches: list[Batch] = []
    position = 0
    while len(view) - position >= BATCH_OVERHEAD:
        batch = read_header(view, position)
        end = position + batch.length + LOG_OVERHEAD
        if end > len(view) or (leader_epoch is not None and batch.leader_epoch > leader_epoch):
            break
        _check_whole(view[position:end], batch, partition)
        begins_within = empty and not batches and batch.last_offset >= expected_offset
        if batch.base_offset < expected_offset and not begins_within:
            raise OffsetOutOfRangeError(
                f"Unexpected offset in append to {partition}. {batch.base_offset} is less than the next offset "
                f"{expected_offset}."
            )
        batches.append(batch)
        expected_offset = batch.next_offset
        position = end
    return (records if position == len(view) else view[:position]), batches


def _check_whole(data: memoryview, batch: Batch, partition: str) -> None:
    whole = len(data) >= BATCH_OVERHEAD and batch.magic == MAGIC and batch.last_offset_delta >= 0
    if not whole or crc32c(data[CHECKED_FROM:]) != batch.crc:
        raise CorruptMessageError(
            f"Record is corrupt (stored crc = {batch.crc}) in topic partition {partition}."
        )
