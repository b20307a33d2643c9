"""The sparse indexes of a segment, `.index` and `.timeindex`: their entries, and whether they fit their log.

A broker preallocates an index and cuts it when the segment is closed, so the zeros at the end of one are no entries.
The formats are those of ottla/broker/log/index.py.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from ottla.broker.dump.batches import BatchFile, StoredBatch
from ottla.broker.dump.lines import DumpError, DumpLine, entry, problem
from ottla.broker.log.batch import NO_TIMESTAMP
from ottla.broker.log.index import LARGEST_RELATIVE_OFFSET, OffsetIndex, TimeIndex
from ottla.broker.log.segment import LOG_SUFFIX

_ENTRIES_AT_ONCE: Final = 4096


class IndexOptions(NamedTuple):
    """What is done with an index; by default its entries are shown and compared with the log."""

    only_sanity_check: bool = False
    only_verify: bool = False


class _IndexEntry(NamedTuple):
    """The two numbers of an entry, and where it lies in the file; the offset is absolute."""

    at: int
    offset: int
    other: int
    """A position in an offset index, a timestamp in a time index."""


def dump_offset_index(
    file: BinaryIO, path: Path, base_offset: int, options: IndexOptions
) -> Iterator[DumpLine]:
    entries = _Entries(file, OffsetIndex.ENTRY, base_offset, offset_first=True)
    yield from _dump(entries, path, options, _verify_position)


def dump_time_index(
    file: BinaryIO, path: Path, base_offset: int, options: IndexOptions
) -> Iterator[DumpLine]:
    entries = _Entries(file, TimeIndex.ENTRY, base_offset, offset_first=False)
    yield from _dump(entries, path, options, _verify_timestamp)


class _Entries:
    """The entries of an index file, read some at a time."""

    def __init__(
        self, file: BinaryIO, layout: struct.Struct, base_offset: int, *, offset_first: bool
    ) -> None:
        self._file = file
        self._layout = layout
        self.base_offset = base_offset
        self.offset_first = offset_first
        self.bytes = os.fstat(file.fileno()).st_size

    @property
    def torn_bytes(self) -> int:
        return self.bytes % self._layout.size

    def __iter__(self) -> Iterator[_IndexEntry]:
        """All but the zeros at the end. Zeros in the middle are kept back until an entry follows them."""
        empty = 0
        at = 0
        self._file.seek(0)
        while piece := self._file.read(_ENTRIES_AT_ONCE * self._layout.size):
            whole = len(piece) - len(piece) % self._layout.size
            if not any(piece):
                empty += whole // self._layout.size
                at += whole
                continue
            for first, second in self._layout.iter_unpack(piece[:whole]):
                if first == second == 0:
                    empty += 1
                else:
                    for before in range(empty, 0, -1):
                        yield _IndexEntry(at - before * self._layout.size, self.base_offset, 0)
                    empty = 0
                    offset, other = (first, second) if self.offset_first else (second, first)
                    yield _IndexEntry(at, self.base_offset + offset, other)
                at += self._layout.size


_Verify = Callable[["_Log", _IndexEntry], str | None]


def _dump(entries: _Entries, path: Path, options: IndexOptions, verify: _Verify) -> Iterator[DumpLine]:
    is_sane = True
    for found in _out_of_order(entries):
        is_sane = False
        yield problem(f"{path}: {found}")
    if options.only_sanity_check:
        if is_sane:
            yield DumpLine("check", f"{path} passed sanity check.", {"passedSanityCheck": True})
        return
    with _Log.beside(path) as log:
        if options.only_verify and log.is_missing:
            raise DumpError(f"cannot be verified: {log.path} cannot be read")
        count = 0
        for each in entries:
            count += 1
            if not options.only_verify:
                yield _entry_line(entries, each)
            wrong = None if log.is_missing else verify(log, each)
            if wrong is not None:
                yield problem(f"{path}: entry at byte {each.at}: {wrong}", byte=each.at)
        if options.only_verify:
            return
        if not count and entries.offset_first:
            # Kafka's tool says so of offset indexes, and nothing of empty time indexes.
            yield DumpLine("empty", f"{path} is empty.", {"entries": 0})
        if count and log.is_missing:
            yield DumpLine("note", f"{path} is not verified: {log.path} cannot be read.", {"verified": False})


def _entry_line(entries: _Entries, each: _IndexEntry) -> DumpLine:
    if entries.offset_first:
        return entry(offset=each.offset, position=each.other)
    return entry(timestamp=each.other, offset=each.offset)


def _out_of_order(entries: _Entries) -> Iterator[str]:
    """What is wrong with an index by itself."""
    if entries.torn_bytes:
        yield f"{entries.bytes} bytes are no whole number of entries"
    last: _IndexEntry | None = None
    for each in entries:
        if each.offset - entries.base_offset > LARGEST_RELATIVE_OFFSET:
            yield f"entry at byte {each.at}: offset {each.offset} is out of the range of the segment"
        if last is not None:
            yield from _disorder(entries, last, each)
        last = each


def _disorder(entries: _Entries, last: _IndexEntry, each: _IndexEntry) -> Iterator[str]:
    other = "position" if entries.offset_first else "timestamp"
    if each.offset < last.offset or (each.offset == last.offset and entries.offset_first):
        yield f"entry at byte {each.at}: offset {each.offset} comes after {last.offset}"
    if each.other <= last.other:
        yield f"entry at byte {each.at}: {other} {each.other} comes after {last.other}"


class _Log:
    """The segment that an index belongs to; it may be missing."""

    def __init__(self, path: Path, file: BinaryIO | None) -> None:
        self.path = path
        self._source = file
        self._file = None if file is None else BatchFile(file)
        # Time indexes are compared in the order of their entries, so the log is read once.
        self._batches: Iterator[StoredBatch] = iter(()) if self._file is None else self._file.batches()
        self._current: StoredBatch | None = None
        self._newest = NO_TIMESTAMP

    @classmethod
    def beside(cls, index: Path) -> _Log:
        path = index.with_name(index.name.partition(".")[0] + LOG_SUFFIX)
        try:
            # To open a pipe would wait for its other end.
            return cls(path, path.open("rb") if path.is_file() else None)
        except OSError:
            return cls(path, None)

    @property
    def is_missing(self) -> bool:
        return self._file is None

    def __enter__(self) -> _Log:
        return self

    def __exit__(self, *_: object) -> None:
        if self._source is not None:
            self._source.close()

    def batch_at(self, position: int) -> StoredBatch | None:
        """The batch that begins there."""
        if self._file is None or position >= self._file.size:
            return None
        try:
            return next(self._file.batches(position), None)
        except DumpError:
            # An entry that is wrong leads to any bytes whatever.
            return None

    def newest_until(self, offset: int) -> tuple[StoredBatch | None, int]:
        """The batch that ends at `offset` or behind it, and the largest timestamp up to its end."""
        while self._current is None or self._current.header.last_offset < offset:
            following = self._following()
            if following is None:
                return None, self._newest
            self._current = following
            self._newest = max(self._newest, following.header.max_timestamp)
        return self._current, self._newest

    def _following(self) -> StoredBatch | None:
        try:
            return next(self._batches, None)
        except DumpError:
            # The dump of the log itself says so.
            return None


def _verify_position(log: _Log, each: _IndexEntry) -> str | None:
    batch = log.batch_at(each.other)
    if batch is None:
        return f"no batch begins at position {each.other} of the log"
    if batch.header.last_offset != each.offset:
        return f"Index offset: {each.offset}, log offset: {batch.header.last_offset}"
    return None


def _verify_timestamp(log: _Log, each: _IndexEntry) -> str | None:
    batch, newest = log.newest_until(each.offset)
    if batch is None or each.offset < batch.header.base_offset:
        found = -1 if batch is None else batch.header.last_offset
        return f"Indexed offset: {each.offset}, found log offset: {found}"
    if newest != each.other:
        return f"Index timestamp: {each.other}, log timestamp: {newest}"
    return None
