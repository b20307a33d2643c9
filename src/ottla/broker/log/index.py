"""The sparse indexes of a segment: from an offset to a position, from a time to an offset.

The formats are Kafka's: entries of 4 + 4 bytes (relative offset, position) and of 8 + 4 bytes (timestamp, relative
offset). The files are only ever read when a segment is opened; searches run on arrays that mirror them. A file is
made with its first entry, so that a segment which has just begun has none.

Invariant: both columns of an index grow from entry to entry (positions and timestamps strictly), and the file
has exactly the entries of the arrays.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import Final

from ottla.broker.log.batch import NO_TIMESTAMP
from ottla.broker.log.fs import File, FileSystem

LARGEST_RELATIVE_OFFSET: Final = 2**31 - 1


class CorruptIndexError(Exception):
    """The file is no index of this segment: it has to be built anew."""


class _IndexFile:
    """The bytes of an index on the volume."""

    def __init__(self, fs: FileSystem, path: str, entry: struct.Struct) -> None:
        self._fs = fs
        self._path = path
        self._entry = entry
        self._file: File | None = fs.open(path) if fs.exists(path) else None

    def rename(self, path: str) -> None:
        """The file lies elsewhere now, or would."""
        self._path = path

    def read(self) -> list[tuple[int, int]]:
        """All whole entries; the rest of a torn one is cut off."""
        if self._file is None:
            return []
        whole = self._file.size - self._file.size % self._entry.size
        self._file.truncate(whole)
        return list(self._entry.iter_unpack(b"".join(self._file.read(0, whole))))

    def append(self, first: int, second: int) -> None:
        self.make().append(self._entry.pack(first, second))

    def extend(self, entries: bytes) -> None:
        self.make().append(entries)

    def make(self) -> File:
        if self._file is None:
            self._file = self._fs.open(self._path)
        return self._file

    def truncate(self, entries: int) -> None:
        if self._file is not None:
            self._file.truncate(entries * self._entry.size)

    def flush(self) -> None:
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class OffsetIndex:
    """Last offsets of batches, and where these batches begin."""

    ENTRY: Final = struct.Struct(">II")

    def __init__(self, fs: FileSystem, path: str, base_offset: int) -> None:
        self._base = base_offset
        self._file = _IndexFile(fs, path, self.ENTRY)
        self._offsets = array("I")
        self._positions = array("I")

    def load(self, log_size: int) -> None:
        """Reads the file; CorruptIndexError if it cannot belong to a log of `log_size` bytes."""
        for offset, position in self._file.read():
            if position >= log_size or offset > LARGEST_RELATIVE_OFFSET:
                raise CorruptIndexError
            if self._positions and (position <= self._positions[-1] or offset <= self._offsets[-1]):
                raise CorruptIndexError
            self._offsets.append(offset)
            self._positions.append(position)

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def last_position(self) -> int:
        return self._positions[-1] if self._positions else 0

    def append(self, last_offset: int, position: int) -> None:
        relative = last_offset - self._base
        self._offsets.append(relative)
        self._positions.append(position)
        self._file.append(relative, position)

    def extend(self, entries: bytes) -> None:
        """Takes several entries at once, in the form of the file."""
        if entries:
            numbers = array("I", entries)
            if sys.byteorder == "little":
                numbers.byteswap()
            self._offsets.extend(numbers[::2])
            self._positions.extend(numbers[1::2])
            self._file.extend(entries)

    def make_file(self) -> None:
        """Kafka's tools read no time index that has no offset index beside it."""
        self._file.make()

    def lookup(self, offset: int) -> int:
        """Where to begin to look for `offset`: the batch that has it is there or behind."""
        if not self._offsets or offset < self._base:
            return 0
        entry = bisect_right(self._offsets, min(offset - self._base, LARGEST_RELATIVE_OFFSET)) - 1
        return self._positions[entry] if entry >= 0 else 0

    def first_offset_at(self, position: int) -> int | None:
        """The offset of the first entry at `position` or behind it."""
        entry = bisect_left(self._positions, min(position, 2**32 - 1))
        return self._base + self._offsets[entry] if entry < len(self._offsets) else None

    def last_start_before(self, position: int) -> int:
        """A position where a batch begins, at or before `position`."""
        if not self._positions:
            return 0
        entry = bisect_right(self._positions, min(position, 2**32 - 1)) - 1
        return self._positions[entry] if entry >= 0 else 0

    def truncate_to(self, log_size: int) -> None:
        """Forgets the batches at `log_size` and behind."""
        kept = bisect_left(self._positions, log_size)
        del self._offsets[kept:], self._positions[kept:]
        self._file.truncate(kept)

    def is_full(self, max_bytes: int) -> bool:
        return len(self._offsets) >= max_bytes // self.ENTRY.size

    def rename(self, path: str) -> None:
        self._file.rename(path)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class TimeIndex:
    """The largest timestamp so far, and the last offset of the batch that brought it."""

    ENTRY: Final = struct.Struct(">qI")

    def __init__(self, fs: FileSystem, path: str, base_offset: int) -> None:
        self._base = base_offset
        self._file = _IndexFile(fs, path, self.ENTRY)
        self._timestamps = array("q")
        self._offsets = array("I")

    def load(self) -> None:
        for timestamp, offset in self._file.read():
            if offset > LARGEST_RELATIVE_OFFSET:
                raise CorruptIndexError
            if self._offsets and (timestamp <= self._timestamps[-1] or offset < self._offsets[-1]):
                raise CorruptIndexError
            self._timestamps.append(timestamp)
            self._offsets.append(offset)

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def last(self) -> tuple[int, int] | None:
        """Timestamp and offset of the last entry."""
        if not self._offsets:
            return None
        return self._timestamps[-1], self._base + self._offsets[-1]

    def append(self, timestamp: int, offset: int) -> None:
        """Does nothing if no larger timestamp has come since the last entry."""
        if timestamp <= (self._timestamps[-1] if self._timestamps else NO_TIMESTAMP):
            return
        self._timestamps.append(timestamp)
        self._offsets.append(offset - self._base)
        self._file.append(timestamp, offset - self._base)

    def extend(self, entries: bytes) -> None:
        """Takes several entries at once, in the form of the file; timestamps grow from each to the next."""
        if entries:
            for timestamp, offset in self.ENTRY.iter_unpack(entries):
                self._timestamps.append(timestamp)
                self._offsets.append(offset)
            self._file.extend(entries)

    def lookup(self, timestamp: int) -> int:
        """An offset up to which every record is older than `timestamp`; the base offset if none is known."""
        entry = bisect_left(self._timestamps, timestamp) - 1
        return self._base + (self._offsets[entry] if entry >= 0 else 0)

    def truncate_to(self, offset: int) -> None:
        """Forgets `offset` and what is behind."""
        kept = bisect_left(self._offsets, max(offset - self._base, 0))
        del self._timestamps[kept:], self._offsets[kept:]
        self._file.truncate(kept)

    def is_full(self, max_bytes: int) -> bool:
        # One entry is kept for the end of the segment, when the largest timestamp of all is written.
        return len(self._offsets) >= max_bytes // self.ENTRY.size - 1

    def rename(self, path: str) -> None:
        self._file.rename(path)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()
