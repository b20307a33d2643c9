"""A batch of magic 2 as a log handles it: the header as numbers, and a walk over the batches of a file.

ottla.wire.batches reads batches of every age and checks them. A log reads its own, millions of times, and every
append goes through here; hence a plain tuple, made in one step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from ottla.broker.log.fs import File
from ottla.wire.batch_header import (
    APPEND_TIME,
    BATCH_OVERHEAD,
    CODEC,
    CONTROL,
    LARGEST_SEQUENCE,
    LOG_OVERHEAD,
    TRANSACTIONAL,
    unpack_header,
    unpack_offsets,
)
from ottla.wire.primitives import Buffer

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1

_WINDOW: Final = 16 * 1024


class Batch(NamedTuple):
    """The header, field by field."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        return self.length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Behind the largest sequence comes 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & LARGEST_SEQUENCE

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def codec(self) -> int:
        return self.attributes & CODEC

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def has_append_time(self) -> bool:
        return bool(self.attributes & APPEND_TIME)


def read_header(data: Buffer, position: int = 0) -> Batch:
    """The header at `position`, unchecked; all of it must be there."""
    return Batch._make(unpack_header(data, position))


class BatchPosition(NamedTuple):
    """Where a batch lies in a file, and which offsets it has."""

    position: int
    size: int
    base_offset: int
    last_offset: int

    @property
    def end(self) -> int:
        return self.position + self.size


def walk(file: File, position: int, end: int) -> Iterator[BatchPosition]:
    """The whole batches between two positions, of which the first is where a batch begins."""
    for view, at, where in _headers(file, position, end):
        base_offset, length, delta = unpack_offsets(view, at)
        yield BatchPosition(where, length + LOG_OVERHEAD, base_offset, base_offset + delta)


def walk_headers(file: File, position: int, end: int) -> Iterator[tuple[int, Batch]]:
    """As `walk`, with positions and full headers."""
    for view, at, where in _headers(file, position, end):
        yield where, Batch._make(unpack_header(view, at))


def _headers(file: File, position: int, end: int) -> Iterator[tuple[memoryview, int, int]]:
    """(memory with a header, where in it, where in the file), batch by batch; stops where one is not whole."""
    view = memoryview(b"")
    start = position
    while end - position >= BATCH_OVERHEAD:
        at = position - start
        if len(view) - at < BATCH_OVERHEAD:
            view, start, at = _look(file, position, end), position, 0
        length: int = unpack_offsets(view, at)[1]
        following = position + length + LOG_OVERHEAD
        if length < BATCH_OVERHEAD - LOG_OVERHEAD or following > end:
            return
        yield view, at, position
        position = following


def _look(file: File, position: int, end: int) -> memoryview:
    """Some bytes from `position` on, a header at the least."""
    parts = file.read(position, min(_WINDOW, end - position))
    if len(parts[0]) >= BATCH_OVERHEAD:
        return parts[0]
    return memoryview(b"".join(file.read(position, BATCH_OVERHEAD)))


def contiguous(file: File, position: int, size: int) -> memoryview:
    """Bytes of the file as one piece of memory; no copy where they lie in one."""
    parts = file.read(position, size)
    return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))
