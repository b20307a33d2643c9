"""Files of batches as lines: `.log`, and the snapshots of the metadata log (`.checkpoint`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from ottla.broker.dump.batches import BatchFile, StoredBatch
from ottla.broker.dump.decoders import RecordDecoder, control_record, text_decoder
from ottla.broker.dump.lines import DumpError, DumpLine, optional, plain, problem, shown, word, words
from ottla.errors import DecodeError
from ottla.wire.batch_header import LARGEST_SEQUENCE
from ottla.wire.compression import Compression
from ottla.wire.records import Record

DEFAULT_MAX_MESSAGE_SIZE: Final = 64 << 20
BOOTSTRAP_SNAPSHOT: Final = "bootstrap.checkpoint"
_CODECS: Final = {codec.value: codec.name.lower() for codec in Compression}
_SNAPSHOT_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """What is shown of a file of batches beside the headers."""

    records: bool = False
    contents: bool = False
    metadata: bool = True
    """Of records: offsets, times and sizes beside the contents."""
    decoder: RecordDecoder = text_decoder
    max_bytes: int | None = None
    max_message_size: int = DEFAULT_MAX_MESSAGE_SIZE


def dump_segment(file: BinaryIO, name: str, options: RecordOptions) -> Iterator[DumpLine]:
    """A segment, whose name is its base offset."""
    base_offset = int(name.partition(".")[0])
    yield DumpLine("segment", f"Log starting offset: {base_offset}", {"logStartingOffset": base_offset})
    yield from dump_batches(file, name, options, base_offset)


def dump_metadata_snapshot(file: BinaryIO, name: str, options: RecordOptions) -> Iterator[DumpLine]:
    """A snapshot of the metadata log (KIP-630), or the one that a node was formatted with."""
    if name == BOOTSTRAP_SNAPSHOT:
        yield DumpLine("snapshot", "KRaft bootstrap snapshot", {"bootstrap": True})
    else:
        named = _SNAPSHOT_NAME.match(name)
        if named is None:
            raise DumpError("the name of a snapshot is <end offset>-<epoch>.checkpoint")
        end_offset, epoch = int(named[1]), int(named[2])
        yield DumpLine(
            "snapshot",
            f"Snapshot end offset: {end_offset}, epoch: {epoch}",
            {"endOffset": end_offset, "epoch": epoch},
        )
    yield from dump_batches(file, name, options)


def dump_batches(
    file: BinaryIO, name: str, options: RecordOptions, next_offset: int = 0
) -> Iterator[DumpLine]:
    """Every batch, then what is at the end and is none; offsets grow from `next_offset` on, maybe with gaps."""
    stored = BatchFile(file)
    for batch in stored.batches(max_bytes=options.max_bytes):
        is_valid = stored.is_valid(batch)
        yield _batch_line(batch, is_valid)
        if not is_valid:
            # What a damaged batch has for records is not to be trusted, nor read: its count may be anything.
            yield problem(
                f"The checksum of the batch at position {batch.position} of {name} is wrong",
                position=batch.position,
            )
        elif options.records:
            yield from _record_lines(stored, batch, options)
        if not is_valid:
            continue
        # No checksum covers the base offset.
        if batch.header.base_offset < next_offset:
            yield problem(
                f"The batch at position {batch.position} of {name} has offset {batch.header.base_offset}, "
                f"{next_offset} or more is due",
                position=batch.position,
            )
        next_offset = batch.header.next_offset
    torn = stored.torn
    if torn is not None:
        yield problem(
            f"Found {torn.size} invalid bytes at the end of {name}, from position {torn.position}: {torn.reason}",
            position=torn.position,
            invalidBytes=torn.size,
        )


def _batch_line(batch: StoredBatch, is_valid: bool) -> DumpLine:
    header = batch.header
    first = {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.record_count,
        "baseSequence": header.base_sequence,
        "lastSequence": header.last_sequence,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.leader_epoch,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
    }
    last = {
        "size": header.size,
        "magic": header.magic,
        "compresscodec": _codec(header.codec),
        "crc": header.crc,
        "isvalid": is_valid,
    }
    text = (
        f"{words(first)} deleteHorizonMs: {optional(batch.delete_horizon_ms)} position: {batch.position} "
        f"{batch.timestamp_type}: {header.max_timestamp} {words(last)}"
    )
    between = {
        "deleteHorizonMs": batch.delete_horizon_ms,
        "position": batch.position,
        "timestampType": batch.timestamp_type,
        "maxTimestamp": header.max_timestamp,
    }
    return DumpLine("batch", text, {**first, **between, **last})


def _codec(number: int) -> str:
    return _CODECS.get(number) or f"unknown({number})"


def _record_lines(file: BatchFile, batch: StoredBatch, options: RecordOptions) -> Iterator[DumpLine]:
    try:
        count = 0
        for record in file.records(batch, options.max_message_size):
            count += 1
            yield _record_line(batch, record, options)
        if count != batch.header.record_count:
            yield problem(
                f"The batch at position {batch.position} has {count} records and claims {batch.header.record_count}",
                position=batch.position,
            )
    except DecodeError as error:
        yield problem(
            f"The records of the batch at position {batch.position} cannot be read: {error}",
            position=batch.position,
        )


def _record_line(batch: StoredBatch, record: Record, options: RecordOptions) -> DumpLine:
    parts, fields = _metadata(batch, record) if options.metadata else ([], {})
    error = None
    if batch.header.is_control:
        # What a control record says is metadata, as in Kafka's tool.
        if options.metadata:
            error = _add_control(record, parts, fields)
    elif options.contents:
        error = _add_contents(record, options, parts, fields)
    if error is not None:
        parts.append(f"undecoded: {error}")
        fields["undecoded"] = error
    return DumpLine("record", " ".join(["|", *parts]), fields, is_problem=error is not None)


def _add_control(record: Record, parts: list[str], fields: dict[str, object]) -> str | None:
    try:
        text, said = control_record(record)
    except DecodeError as error:
        return str(error)
    parts.append(text)
    fields.update(said)
    return None


def _add_contents(
    record: Record, options: RecordOptions, parts: list[str], fields: dict[str, object]
) -> str | None:
    headers = record.headers
    if headers and options.metadata:
        values = (word(None) if value is None else shown(value) for _, value in headers)
        parts.append(f"headerValues: [{','.join(values)}]")
    decoded = options.decoder(record)
    if decoded.key is not None:
        parts.append(f"key: {decoded.key}")
    if decoded.value is not None:
        parts.append(f"payload: {decoded.value}")
    fields["headers"] = [{"key": key, **plain("value", value)} for key, value in headers]
    fields.update(decoded.fields)
    return decoded.error


def _metadata(batch: StoredBatch, record: Record) -> tuple[list[str], dict[str, object]]:
    header = batch.header
    sequence = header.base_sequence
    if sequence >= 0:
        sequence = (sequence + record.offset - header.base_offset) & LARGEST_SEQUENCE
    keys = [key for key, _ in record.headers]
    sizes = {
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "sequence": sequence,
    }
    fields = {
        "offset": record.offset,
        "timestampType": batch.timestamp_type,
        "timestamp": record.timestamp,
        **sizes,
        "headerKeys": keys,
    }
    shown_keys = ",".join(shown(key.encode()) for key in keys)
    return [
        f"offset: {record.offset}",
        f"{batch.timestamp_type}: {record.timestamp}",
        words(sizes),
        f"headerKeys: [{shown_keys}]",
    ], fields
