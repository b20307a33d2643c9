"""Logs that are compacted, for the tests beside this file: how to run a pass, and what a log holds afterwards."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

from ottla._native.compaction import OffsetMap
from ottla.broker.log.compaction import Compacted, Compaction
from ottla.broker.log.log import Log
from ottla.wire.batch_header import DELETE_HORIZON
from ottla.wire.records import decode_fetch

from .support import NOW

SECRET = bytes(range(16))
ROOM = 1 << 20


class StoredRecord(NamedTuple):
    """A record as the log has it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


@dataclass
class StoredBatch:
    """A batch as the log has it; control records are in it as well."""

    base_offset: int
    last_offset: int
    producer: tuple[int, int, int]
    is_transactional: bool
    is_control: bool
    codec: int
    horizon: int | None
    records: list[StoredRecord]


def stored(log: Log) -> list[StoredBatch]:
    """Everything that lies in the segments of a log."""
    found = []
    for segment in log.segments:
        for position, batch in segment.headers(0):
            data = segment.batch_at(position, batch)
            records = decode_fetch(data, "", 0, control=True)
            found.append(
                StoredBatch(
                    batch.base_offset,
                    batch.last_offset,
                    (batch.producer_id, batch.producer_epoch, batch.base_sequence),
                    batch.is_transactional,
                    batch.is_control,
                    batch.codec,
                    batch.base_timestamp if batch.attributes & DELETE_HORIZON else None,
                    [StoredRecord(each.offset, each.timestamp, each.key, each.value) for each in records],
                )
            )
    return found


def kept(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    """(offset, key, value) of all records of data."""
    return [
        (record.offset, record.key, record.value)
        for batch in stored(log)
        if not batch.is_control
        for record in batch.records
    ]


def compaction_of(
    log: Log, *, now_ms: int = NOW, upper: int | None = None, room: int = ROOM, slice_work: int = 1
) -> Compaction:
    """A pass up to the active segment, which yields after every batch."""
    bound = log.segments[-1].base_offset if upper is None else upper
    offsets = OffsetMap(room, 0.9, SECRET)
    return Compaction(log, log.first_dirty_offset, bound, offsets, now_ms, slice_work=slice_work)


def compact(log: Log, *, now_ms: int = NOW, upper: int | None = None, room: int = ROOM) -> Compacted:
    """A whole pass; the log knows afterwards how far it is clean."""
    compaction = compaction_of(log, now_ms=now_ms, upper=upper, room=room)
    with closing(compaction.slices()) as slices:
        for part in slices:
            if part.flush is not None:
                part.flush()
    log.first_dirty_offset = compaction.result.end_offset
    return compaction.result
