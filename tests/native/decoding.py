"""What the tests of the decoder share: its output in the oracle's words, and the oracle's codecs as its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla._native.decode import Records, decode_fetch
from ottla.errors import DecodeError
from tests.oracle import message_sets
from tests.oracle.message_sets import CODECS, OracleError, OracleRecord


def decompress(codec: int, data: memoryview, limit: int) -> bytes:
    """The oracle's codecs: what is tested here is the scan, not the compression of `ottla.wire`."""
    try:
        magic = 0 if codec == 3 else 2  # the oracle mends old lz4 headers where the magic says so
        plain = message_sets.decompress(CODECS[codec], bytes(data), magic=magic)
    except (OracleError, IndexError) as error:
        raise DecodeError(str(error)) from error
    if len(plain) > limit:
        raise DecodeError(f"more than {limit} bytes")
    return plain


def decode(
    data: Any, *, offset: int = 0, aborted: Sequence[tuple[int, int]] | None = None, check_crc: bool = True
) -> Records:
    return decode_fetch(
        data,
        topic="orders",
        partition=3,
        decompress=decompress,
        offset=offset,
        aborted=aborted,
        check_crc=check_crc,
    )


def as_oracle(records: Records) -> list[OracleRecord]:
    return [
        OracleRecord(
            offset=record.offset,
            timestamp=record.timestamp,
            key=record.key,
            value=record.value,
            headers=tuple(record.headers),
            timestamp_type=record.timestamp_type,
            leader_epoch=record.leader_epoch,
        )
        for record in records
    ]
