"""The volume that logs live on: files to which one appends, by path, and the one that is kept in memory.

A log knows only the two protocols here. Paths are strings with "/" between their parts; a directory is there as
long as a file is in it. A volume outlives its node: what that wrote is there when it starts again.

Invariant: memory that `read` handed out never changes. Bytes behind it may be cut off and written anew, but the new
ones lie elsewhere. So another file may keep it (`append` with `shared`): replicas of one partition in one process
have their batches in the same memory.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final, Protocol

from ottla._native.memory import Memory, joined
from ottla.wire.primitives import Buffer

SMALLEST_CHUNK: Final = 512
LARGEST_CHUNK: Final = 1024 * 1024
KEPT_AS_IT_IS: Final = 128 * 1024
"""Data of this size and above becomes a chunk of its own, without a copy."""


class File(Protocol):
    """Bytes that grow at the end."""

    @property
    def size(self) -> int: ...

    def append(self, data: Buffer, *, shared: bool = False) -> int:
        """Writes `data` behind everything else and says where it begins. The file may keep `data` itself.

        `shared` says that another file keeps it as well, so that a copy would cost memory and keeping it none.
        """
        ...

    def read(self, position: int, length: int) -> list[memoryview]:
        """At most `length` bytes from `position` on, in as many parts as it takes.

        What was written with one `append`, and is read alone, comes in one part.
        """
        ...

    def truncate(self, size: int) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


class FileSystem(Protocol):
    """A volume."""

    def open(self, path: str) -> File:
        """The file, made if it is not there."""
        ...

    def exists(self, path: str) -> bool: ...

    def directories(self) -> list[str]:
        """The sorted paths of all directories that have files right inside."""
        ...

    def list(self, directory: str) -> list[str]:
        """The sorted names of the files right inside `directory`."""
        ...

    def remove(self, path: str) -> None: ...

    def rename(self, old: str, new: str) -> None:
        """Moves a file; what was at `new` is replaced."""
        ...

    def remove_directory(self, path: str) -> None: ...


class MemoryFile:
    """A list of chunks, each at least twice its predecessor up to a limit: little for the idle, few for the busy."""

    __slots__ = ("_chunks", "_room", "_starts", "_tail", "_used", "size")

    def __init__(self) -> None:
        self.size = 0
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
        doubled = min(max(2 * self._room, SMALLEST_CHUNK), LARGEST_CHUNK)
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
        if position < 0 or length < 0:
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
        if not 0 <= size <= self.size:
            raise ValueError(f"a file of {self.size} bytes cannot be cut to {size}")
        if size == self.size:
            return
        # A reader of what is cut off now may still hold it: the chunk is not written to again.
        self._seal()
        kept = bisect_right(self._starts, size - 1) if size else 0
        del self._starts[kept:], self._chunks[kept:]
        if kept:
            self._chunks[-1] = self._chunks[-1][: size - self._starts[-1]]
        else:
            self._room = self._used = 0
        self.size = size

    def flush(self) -> None:
        """Memory is as durable as it gets."""

    def close(self) -> None:
        """The volume keeps the file."""


class MemoryFileSystem:
    """A volume in memory."""

    def __init__(self) -> None:
        self._directories: dict[str, dict[str, MemoryFile]] = {}

    def open(self, path: str) -> MemoryFile:
        directory, name = _split(path)
        files = self._directories.setdefault(directory, {})
        file = files.get(name)
        if file is None:
            file = files[name] = MemoryFile()
        return file

    def exists(self, path: str) -> bool:
        directory, name = _split(path)
        return name in self._directories.get(directory, {})

    def directories(self) -> list[str]:
        return sorted(directory for directory in self._directories if directory)

    def list(self, directory: str) -> list[str]:
        return sorted(self._directories.get(directory, {}))

    def remove(self, path: str) -> None:
        directory, name = _split(path)
        files = self._directories.get(directory, {})
        if name not in files:
            raise FileNotFoundError(path)
        del files[name]
        if not files:
            del self._directories[directory]

    def rename(self, old: str, new: str) -> None:
        directory, name = _split(old)
        file = self._directories.get(directory, {}).get(name)
        if file is None:
            raise FileNotFoundError(old)
        if old != new:
            self.remove(old)
            directory, name = _split(new)
            self._directories.setdefault(directory, {})[name] = file

    def remove_directory(self, path: str) -> None:
        self._directories.pop(path, None)
        inside = f"{path}/"
        for directory in [name for name in self._directories if name.startswith(inside)]:
            del self._directories[directory]


def _split(path: str) -> tuple[str, str]:
    directory, _, name = path.rpartition("/")
    if not name:
        raise ValueError(f"{path!r} is no path of a file")
    return directory, name
