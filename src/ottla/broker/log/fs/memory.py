"""The volume that is kept in memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

from ottla._native.memory import Memory, joined
from ottla.broker.log.fs.paths import check_directory, split_path
from ottla.wire.primitives import Buffer

if TYPE_CHECKING:
    from ottla.broker.log.fs import Space

SMALLEST_CHUNK: Final = 512
LARGEST_CHUNK: Final = 1024 * 1024
KEPT_AS_IT_IS: Final = 128 * 1024
"""Data of this size and above becomes a chunk of its own, without a copy."""


class Chunks:
    """The last bytes of a file, from `start` to `size`, in chunks.

    Each is at least twice its predecessor, up to a limit: little memory for an idle file, few chunks for a busy one.
    """

    __slots__ = ("_chunks", "_largest", "_room", "_starts", "_tail", "_used", "size", "start")

    def __init__(self, start: int = 0, largest: int = LARGEST_CHUNK) -> None:
        self.start = start
        self.size = start
        self._largest = largest
        self._starts: list[int] = []
        self._chunks: list[memoryview] = []
        # The last chunk as long as it may grow: its memory is there, `_used` bytes of `_room` are taken.
        self._tail: memoryview | None = None
        self._used = 0
        self._room = 0

    def append(self, data: Buffer, *, shared: bool = False) -> int:
        position = self.size
        length = len(data)
        if shared and length:
            self._share(memoryview(data).cast("B").toreadonly())
        elif length >= KEPT_AS_IT_IS:
            self._seal()
            self._add(memoryview(data).cast("B").toreadonly())
        elif length:
            if length > self._room - self._used:
                self._start_chunk(length)
            assert self._tail is not None
            used = self._used
            self._tail[used : used + length] = data
            self._used = used + length
        self.size = position + length
        return position

    def _share(self, data: memoryview) -> None:
        """What a leader has appended to one chunk bit by bit is one chunk here too."""
        self._seal()
        longer = joined(self._chunks[-1], data) if self._chunks else None
        if longer is None:
            self._add(data)
        else:
            self._chunks[-1] = longer

    def _start_chunk(self, needed: int) -> None:
        self._seal()
        doubled = min(max(2 * self._room, SMALLEST_CHUNK), self._largest)
        self._room = max(doubled, needed)
        # A pooled block: pages that were used before cost a tenth of new ones.
        self._tail = memoryview(Memory(self._room))
        self._used = 0
        self._add(self._tail.toreadonly())

    def _seal(self) -> None:
        """Ends the growth of the last chunk. The next one is still sized by its room."""
        if self._tail is not None:
            self._chunks[-1] = self._chunks[-1][: self._used]
            self._tail = None
        self._used = self._room

    def _add(self, chunk: memoryview) -> None:
        self._starts.append(self.size)
        self._chunks.append(chunk)

    def read(self, position: int, length: int) -> list[memoryview]:
        if position < self.start or length < 0:
            raise ValueError(f"{length} bytes at {position} are in no file")
        end = min(position + length, self.size)
        if position >= end:
            return []
        first = bisect_right(self._starts, position) - 1
        last = bisect_left(self._starts, end) - 1
        if first == last:
            start = self._starts[first]
            return [self._chunks[first][position - start : end - start]]
        # Only the last chunk of a file may be longer than what is in it.
        parts = self._chunks[first : last + 1]
        parts[0] = parts[0][position - self._starts[first] :]
        parts[-1] = parts[-1][: end - self._starts[last]]
        return parts

    def truncate(self, size: int) -> None:
        if not self.start <= size <= self.size:
            raise ValueError(f"a file of {self.size} bytes cannot be cut to {size}")
        if size == self.size:
            return
        # A reader of what is cut off now may still hold it: the chunk is not written to again.
        self._seal()
        kept = bisect_right(self._starts, size - 1)
        del self._starts[kept:], self._chunks[kept:]
        if kept:
            self._chunks[-1] = self._chunks[-1][: size - self._starts[-1]]
        else:
            self._room = self._used = 0
        self.size = size

    def keep_last(self, length: int) -> None:
        """Forgets whole chunks at the beginning, so many that not more than `length` bytes are left."""
        dropped = bisect_left(self._starts, self.size - length)
        if not dropped:
            return
        if dropped == len(self._starts):
            self._seal()
        del self._starts[:dropped], self._chunks[:dropped]
        self.start = self._starts[0] if self._starts else self.size


class MemoryFile(Chunks):
    """A file of which every byte is in memory."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()

    def flush(self) -> None:
        """Memory is as durable as it gets."""

    def close(self) -> None:
        """The volume keeps the file."""


class MemoryFileSystem:
    """A volume in memory."""

    def __init__(self) -> None:
        self._directories: dict[str, dict[str, MemoryFile]] = {}

    def open(self, path: str) -> MemoryFile:
        directory, name = split_path(path)
        files = self._directories.setdefault(directory, {})
        file = files.get(name)
        if file is None:
            file = files[name] = MemoryFile()
        return file

    def exists(self, path: str) -> bool:
        directory, name = split_path(path)
        return name in self._directories.get(directory, {})

    def directories(self) -> list[str]:
        return sorted(directory for directory in self._directories if directory)

    def list(self, directory: str) -> list[str]:
        check_directory(directory)
        return sorted(self._directories.get(directory, {}))

    def remove(self, path: str) -> None:
        directory, name = split_path(path)
        files = self._directories.get(directory, {})
        if name not in files:
            raise FileNotFoundError(path)
        del files[name]
        if not files:
            del self._directories[directory]

    def rename(self, old: str, new: str) -> None:
        directory, name = split_path(old)
        file = self._directories.get(directory, {}).get(name)
        if file is None:
            raise FileNotFoundError(old)
        if old != new:
            self.remove(old)
            directory, name = split_path(new)
            self._directories.setdefault(directory, {})[name] = file

    def rename_directory(self, old: str, new: str) -> None:
        split_path(old)
        split_path(new)
        if old not in self._directories:
            raise FileNotFoundError(old)
        if new in self._directories:
            raise FileExistsError(new)
        self._directories[new] = self._directories.pop(old)

    def remove_directory(self, path: str) -> None:
        split_path(path)
        self._directories.pop(path, None)
        inside = f"{path}/"
        for directory in [name for name in self._directories if name.startswith(inside)]:
            del self._directories[directory]

    def sync_directory(self, path: str) -> None:
        """Memory is as durable as it gets."""
        check_directory(path)

    def modified_ms(self, path: str) -> int | None:
        """There is no clock here."""
        split_path(path)
        return None

    def space(self) -> Space | None:
        return None
