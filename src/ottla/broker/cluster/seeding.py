"""What is in a partition, put there and read without any client: for tests that are about something else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ottla.broker.replication.partition import Partition
from ottla.wire.batches import Headers, encode_batch
from ottla.wire.records import Record, decode_fetch

Seed = bytes | tuple[bytes | None, bytes | None] | tuple[bytes | None, bytes | None, Headers]
"""A value, (key, value), or (key, value, headers)."""
SeedFields = tuple[bytes | None, bytes | None, Headers]
"""Key, value and headers."""

_MOST_RECORDS = 1000
_READ_BYTES = 1 << 24


def batches(records: Sequence[SeedFields], now_ms: int) -> Iterator[bytearray]:
    """Records as a producer would send them."""
    for start in range(0, len(records), _MOST_RECORDS):
        plain = [
            (number, now_ms, *fields) for number, fields in enumerate(records[start : start + _MOST_RECORDS])
        ]
        yield bytearray(encode_batch(plain))


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


def fields_of(record: Seed) -> SeedFields:
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
