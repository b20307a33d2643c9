"""A walk over the batches of a file. What a batch is to a log, its header as numbers, is ottla._native.record_batch.

ottla.wire.batches reads batches of every age and checks them; a log reads its own, which are of magic 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from ottla._native.record_batch import Batch, find_batch, last_batch, read_header
from ottla.broker.log.fs import File
from ottla.wire.batch_header import BATCH_OVERHEAD, LOG_OVERHEAD, unpack_offsets

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1

_WINDOW: Final = 16 * 1024


class BatchPosition(NamedTuple):
    """Where a batch lies in a file, and which offsets it has."""

    position: int
    size: int
    base_offset: int
    last_offset: int

    @property
    def end(self) -> int:
        return self.position + self.size


def find(file: File, position: int, end: int, offset: int) -> BatchPosition | None:
    """The first whole batch that ends at `offset` or behind it; `position` is where a batch begins."""
    while end - position >= BATCH_OVERHEAD:
        at, size, base_offset, last_offset = find_batch(_look(file, position, end), end - position, offset)
        position += at
        if size:
            return None if size < 0 else BatchPosition(position, size, base_offset, last_offset)
    return None


def find_last(file: File, position: int, end: int) -> BatchPosition | None:
    """The last whole batch between two positions, of which the first is where a batch begins."""
    found = None
    while end - position >= BATCH_OVERHEAD:
        at, size, base_offset, last_offset = last_batch(_look(file, position, end), end - position)
        if not size:
            break
        found = BatchPosition(position + at, size, base_offset, last_offset)
        position = found.end
    return found


def walk(file: File, position: int, end: int) -> Iterator[BatchPosition]:
    """The whole batches between two positions, of which the first is where a batch begins."""
    for view, at, where in _headers(file, position, end):
        base_offset, length, delta = unpack_offsets(view, at)
        yield BatchPosition(where, length + LOG_OVERHEAD, base_offset, base_offset + delta)


def walk_headers(file: File, position: int, end: int) -> Iterator[tuple[int, Batch]]:
    """As `walk`, with positions and full headers."""
    for view, at, where in _headers(file, position, end):
        yield where, read_header(view, at)


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
