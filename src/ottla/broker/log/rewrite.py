"""What a leader changes in a producer's batch: its offsets, its epoch, and if need be its times and its codec.

Offsets and leader epoch lie before the checksum's range, and are written over what the producer sent. Whatever else
changes costs a new checksum; another codec costs a new batch. Here is the long way (validation.py): in an ordinary
batch `Batch.accept` writes offsets, epoch and times.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla._native import crc32c
from ottla._native.inspect import inspect
from ottla._native.record_batch import Batch, read_header, whole_batch
from ottla.broker.log.batch import NO_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP
from ottla.broker.log.config import LogConfig
from ottla.broker.log.validation import CODECS, Inspected
from ottla.errors import UnknownServerError
from ottla.wire.batch_header import (
    APPEND_TIME,
    ATTRIBUTES_AT,
    BASE_OFFSET_AT,
    BATCH_OVERHEAD,
    CHECKED_FROM,
    CODEC,
    CONTROL,
    CRC_AT,
    DELETE_HORIZON,
    LEADER_EPOCH_AT,
    LENGTH_AT,
    LOG_OVERHEAD,
    MAX_TIMESTAMP_AT,
    TRANSACTIONAL,
    pack_attributes,
    pack_base_offset,
    pack_crc,
    pack_leader_epoch,
    pack_length,
    pack_max_timestamp,
)
from ottla.wire.batches import encode_batch
from ottla.wire.compression import Compression, check_level, compress
from ottla.wire.primitives import Buffer
from ottla.wire.records import decode_fetch

_ANY_TIME: Final = 2**63 - 1
_KNOWN_ATTRIBUTES: Final = CODEC | TRANSACTIONAL | CONTROL | DELETE_HORIZON


def for_topic(inspected: Inspected, config: LogConfig, now_ms: int) -> bytearray | memoryview:
    """The batch as the topic's log has it, but for its offsets: with its codec, and its kind of timestamps."""
    batch = inspected.batch
    codec = _target_codec(batch, config)
    if codec != batch.codec:
        _check_producer(batch)
        _check_times(inspected)
        data: bytearray | memoryview = _recompressed(inspected, codec, _level(codec, config))
        batch = read_header(data)
    elif batch.codec != Compression.NONE and not inspected.offsets_are_dense:
        # Kafka would build such a batch anew, and fails, as it has not kept its keys and values.
        raise UnknownServerError("The offsets of the compressed records are not consecutive")
    else:
        data = _writable(inspected.data)
    if config.uses_append_time:
        _set_timestamps(data, batch, APPEND_TIME, now_ms)
    else:
        _set_timestamps(data, batch, 0, inspected.max_timestamp)
    return data


def _check_producer(batch: Batch) -> None:
    """Kafka builds no batch for half a producer, or of a transaction of none, and has no better error for it."""
    if batch.is_transactional and batch.producer_id == NO_PRODUCER_ID:
        raise UnknownServerError("a transactional batch without a producer")
    if batch.producer_id != NO_PRODUCER_ID and (
        batch.producer_epoch == NO_EPOCH or batch.base_sequence <= NO_SEQUENCE
    ):
        raise UnknownServerError(
            f"producer {batch.producer_id} with epoch {batch.producer_epoch} and sequence {batch.base_sequence}"
        )


def _check_times(inspected: Inspected) -> None:
    """Kafka builds no batch with times below -1 either."""
    batch = inspected.batch
    faults: Sequence[object] = [batch.max_timestamp] if batch.max_timestamp < NO_TIMESTAMP else []
    if not batch.has_append_time:
        _, _, faults = inspect(
            inspected.plain,
            batch.record_count,
            batch.base_timestamp,
            earliest=NO_TIMESTAMP,
            latest=_ANY_TIME,
            keys_required=False,
        )
    if faults:
        raise UnknownServerError("a timestamp is below -1, which stands for none")


def assign_offsets(data: bytearray | memoryview, base_offset: int, leader_epoch: int) -> Batch:
    """Gives the batch its offsets and its epoch; the batch as it is now."""
    pack_base_offset(data, BASE_OFFSET_AT, base_offset)
    pack_leader_epoch(data, LEADER_EPOCH_AT, leader_epoch)
    batch = whole_batch(data)
    assert batch is not None
    return batch


def _writable(data: Buffer) -> bytearray | memoryview:
    if isinstance(data, bytearray):
        return data
    if isinstance(data, memoryview) and not data.readonly:
        return data
    return bytearray(data)


def _set_timestamps(data: bytearray | memoryview, batch: Batch, kind: int, max_timestamp: int) -> None:
    """Writes the kind of timestamps and the largest one, if they are not what the producer wrote."""
    if batch.attributes & APPEND_TIME == kind and batch.max_timestamp == max_timestamp:
        return
    pack_attributes(data, ATTRIBUTES_AT, batch.attributes & _KNOWN_ATTRIBUTES | kind)
    pack_max_timestamp(data, MAX_TIMESTAMP_AT, max_timestamp)
    _seal(data)


def _seal(data: bytearray | memoryview) -> None:
    pack_crc(data, CRC_AT, crc32c(memoryview(data)[CHECKED_FROM:]))


def _target_codec(batch: Batch, config: LogConfig) -> int:
    """compression.type of the topic; control records stay as they are written."""
    if config.compression_type == "producer" or batch.is_control:
        return batch.codec
    return CODECS[config.compression_type]


def _level(codec: int, config: LogConfig) -> int | None:
    levels = {
        Compression.GZIP: config.compression_gzip_level,
        Compression.LZ4: config.compression_lz4_level,
        Compression.ZSTD: config.compression_zstd_level,
    }
    return levels.get(Compression(codec))


def _recompressed(inspected: Inspected, codec: int, level: int | None) -> bytearray:
    # A horizon for deletes stands where the base timestamp does, which a new batch has from its first record. And
    # where the producer claims a time of the log, every record has that one.
    if not inspected.offsets_are_dense or inspected.batch.attributes & (DELETE_HORIZON | APPEND_TIME):
        data = _renumbered(inspected)
        plain: Buffer = data[BATCH_OVERHEAD:]
    else:
        data = bytearray(memoryview(inspected.data)[:BATCH_OVERHEAD])
        plain = inspected.plain
    attributes = read_header(data).attributes & _KNOWN_ATTRIBUTES & ~CODEC | codec
    data[BATCH_OVERHEAD:] = compressed(plain, codec, level)
    pack_length(data, LENGTH_AT, len(data) - LOG_OVERHEAD)
    pack_attributes(data, ATTRIBUTES_AT, attributes)
    pack_max_timestamp(data, MAX_TIMESTAMP_AT, inspected.max_timestamp)
    _seal(data)
    return data


def compressed(plain: Buffer, codec: int, level: int | None) -> Buffer:
    """Of the size that Kafka's leaders get, on which it depends what fits into the limits of a Fetch."""
    if codec == Compression.ZSTD:
        # Imported here, like every codec's library: few clusters need it.
        from ottla.wire.compression.zstd import compress_as_stream

        return compress_as_stream(plain, check_level(codec, level))
    return compress(codec, plain, level)


def _renumbered(inspected: Inspected) -> bytearray:
    """The records with consecutive offsets: what Kafka makes of them when it writes a batch anew."""
    batch = inspected.batch
    records = decode_fetch(inspected.data, "", 0, control=True, check_crc=False)
    return bytearray(
        encode_batch(
            [
                (index, record.timestamp, record.key, record.value, record.headers)
                for index, record in enumerate(records)
            ],
            transactional=batch.is_transactional,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
        )
    )
