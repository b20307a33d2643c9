"""What is in a partition, put there and read without any client: for tests that are about something else."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.broker.replication.partition import Partition
from ottla.wire.batches import Headers, encode_batch
from ottla.wire.records import Record, decode_fetch

Seed = bytes | tuple[bytes | None, bytes | None] | tuple[bytes | None, bytes | None, Headers]
"""A value, (key, value), or (key, value, headers)."""
Parts = tuple[bytes | None, bytes | None, Headers]

_MOST_RECORDS = 1000
_READ_BYTES = 1 << 24


def seed(partition: Partition, records: Sequence[Parts], now_ms: int) -> int:
    """Appends records in batches; the offset of the first."""
    first = partition.log.log_end_offset
    for start in range(0, len(records), _MOST_RECORDS):
        plain = [
            (number, now_ms, *parts) for number, parts in enumerate(records[start : start + _MOST_RECORDS])
        ]
        partition.append(bytearray(encode_batch(plain)), acks=1, min_in_sync=1, now_ms=now_ms)
    return first


def dump(partition: Partition) -> list[Record]:
    """Every record below the high watermark that no aborted transaction wrote."""
    found: list[Record] = []
    offset, end = partition.log.log_start_offset, partition.last_stable_offset
    while offset < end:
        part = partition.read(offset, _READ_BYTES, committed=True, at_least_one=True)
        if not part.size:
            break
        aborted = partition.log.aborted(offset, part.next_offset)
        records = decode_fetch(
            b"".join(part.parts), partition.topic, partition.index, offset=offset, aborted=aborted
        )
        found += records
        offset = records.next_offset
    return found


def parts_of(record: Seed) -> Parts:
    """Key, value and headers."""
    match record:
        case bytes():
            return None, record, []
        case (bytes() | None as key, bytes() | None as value):
            return key, value, []
        case (bytes() | None as key, bytes() | None as value, list() | tuple() as headers):
            return key, value, headers
    raise TypeError(
        f"record {record!r:.100}: b'value', (b'key', b'value') or (b'key', b'value', [('header', b'value')]) is meant"
    )
