"""The volume of tests and simulations, on a disk that fails: by order, or by the loss of its power.

Lies in memory and behaves as a directory does (directory.py), down to the file that takes no more writes when what
the disk has of it is unknown. What is not synced is in page_cache.py.

A volume outlives its node. After `crash` and `power_loss` the files that were open are those of a dead process, and
refuse everything; a new node opens them again.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase

from ottla.broker.log.fs import Space
from ottla.broker.log.fs.page_cache import CachedFile, CachedNames, Fate
from ottla.broker.log.fs.paths import check_directory, split_path
from ottla.runtime import Random
from ottla.wire.primitives import Buffer


class Operation(Enum):
    """What can be made to fail."""

    CREATE = "create"
    OPEN = "open"
    """Of a file that is there."""
    READ = "read"
    APPEND = "append"
    TRUNCATE = "truncate"
    FLUSH = "flush"
    REMOVE = "remove"
    RENAME = "rename"
    SYNC_DIRECTORY = "sync_directory"
    LIST = "list"
    """Looking at names: exists, list, directories."""


@dataclass(slots=True)
class _Failure:
    operation: Operation
    pattern: str
    error: OSError
    remaining: int


class FaultyFileSystem:
    """A volume whose disk has `capacity` bytes, or no end.

    `delayed` is told how many seconds a flush takes, once `slow` was called: nothing here waits.
    """

    def __init__(
        self,
        random: Random,
        capacity: int | None = None,
        delayed: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        self.random = random
        self.capacity = capacity
        self._delayed = delayed
        self._flush_s = 0.0
        self._names = CachedNames()
        self._handles: dict[CachedFile, FaultyFile] = {}
        self._failures: list[_Failure] = []
        self._broken: OSError | None = None
        self._breaks_after: int | None = None
        self._on_broken: Callable[[], None] = lambda: None

    # Faults

    def fail_next(self, operation: Operation, pattern: str, error: OSError, count: int = 1) -> None:
        """The next `count` calls on paths that match fail; "*" in `pattern` stands for anything, "/" as well."""
        self._failures.append(_Failure(operation, pattern, error, count))

    def break_disk(self, number: int = errno.EIO) -> None:
        """From now on every call fails."""
        self._broken = OSError(number, os.strerror(number))
        self._breaks_after = None

    def break_after(self, calls: int, on_broken: Callable[[], None]) -> None:
        """So many more calls succeed; then the disk breaks, and `on_broken` is told of it before the call fails.

        As to what is on the disk this is a power loss between two calls, wherever in the node they come from.
        """
        self._breaks_after = calls
        self._on_broken = on_broken

    def heal(self) -> None:
        """From now on none fails, by order or because the disk is broken. What is on it is there."""
        self._broken = self._breaks_after = None
        self._failures.clear()

    def fill(self, room: int) -> None:
        """From now on the disk has room for so many more bytes, until `capacity` says something else."""
        self.capacity = self._used() + room

    def slow(self, seconds: float) -> None:
        """How long each flush takes from now on."""
        self._flush_s = seconds

    def flip_bit(self, path: str, start: int = 0, end: int | None = None) -> int:
        """Changes one bit between two positions, and says at which."""
        file = self._names.find(path)
        if file is None:
            raise _not_found(path)
        position = self.random.randrange(start, file.content.size if end is None else end)
        file.flip_bit(position, self.random.randrange(8))
        return position

    def synced_size(self, path: str) -> int:
        """How many of the first bytes of a file outlive a power loss for certain."""
        file = self._names.find(path)
        if file is None:
            raise _not_found(path)
        return file.synced_size

    def crash(self) -> None:
        """The process is killed. The system lives on, and has all that was written."""
        for handle in self._handles.values():
            handle.die()
        self._handles.clear()

    def power_loss(self) -> Counter[Fate]:
        """The machine goes down, and comes up with what the disk has; says what became of what was not synced."""
        self.crash()
        fates: Counter[Fate] = Counter()
        self._names.lose_power(self.random, fates)
        for file in self._names.files():
            file.lose_power(self.random, fates)
        return fates

    # Files

    def open(self, path: str) -> FaultyFile:
        file = self._names.find(path)
        self.check(Operation.OPEN if file else Operation.CREATE, path)
        if file is None:
            file = CachedFile(path)
            self._names.change(file, None, path)
        handle = self._handles.get(file)
        if handle is None or handle.has_failed:
            handle = self._handles[file] = FaultyFile(self, file)
        return handle

    def exists(self, path: str) -> bool:
        self.check(Operation.LIST, path)
        return self._names.find(path) is not None

    def remove(self, path: str) -> None:
        self.check(Operation.REMOVE, path)
        self._remove(path)

    def _remove(self, path: str) -> None:
        file = self._names.find(path)
        if file is None:
            raise _not_found(path)
        self._names.change(file, path, None)
        self._handles.pop(file, None)

    def rename(self, old: str, new: str) -> None:
        split_path(new)
        self.check(Operation.RENAME, new)
        file = self._names.find(old)
        if file is None:
            raise _not_found(old)
        if old == new:
            return
        replaced = self._names.find(new)
        self._names.change(file, old, new)
        file.path = new
        if replaced is not None:
            self._handles.pop(replaced, None)

    def modified_ms(self, path: str) -> int | None:
        """There is no clock here."""
        split_path(path)
        return None

    # Directories

    def directories(self) -> list[str]:
        self.check(Operation.LIST, "")
        return sorted(directory for directory in self._names.current if directory)

    def list(self, directory: str) -> list[str]:
        check_directory(directory)
        self.check(Operation.LIST, directory)
        return sorted(self._names.current.get(directory, {}))

    def rename_directory(self, old: str, new: str) -> None:
        split_path(old)
        split_path(new)
        self.check(Operation.RENAME, new)
        if old not in self._names.current:
            raise _not_found(old)
        if new in self._names.current:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new)
        self._names.move_directory(old, new)

    def remove_directory(self, path: str) -> None:
        split_path(path)
        inside = f"{path}/"
        for file in [file for file in self._names.files() if file.path.startswith(inside)]:
            self.check(Operation.REMOVE, file.path)
            self._remove(file.path)

    def sync_directory(self, path: str) -> None:
        check_directory(path)
        self.check(Operation.SYNC_DIRECTORY, path)
        self._names.sync(path)

    def space(self) -> Space | None:
        return None if self.capacity is None else Space(self.capacity, self.capacity - self._used())

    def _used(self) -> int:
        return sum(file.content.size for file in self._names.files())

    # For its files

    def check(self, operation: Operation, path: str) -> None:
        """Raises what was ordered for this call."""
        if self._breaks_after is not None:
            self._breaks_after -= 1
            if self._breaks_after < 0:
                self.break_disk()
                self._on_broken()
        if self._broken is not None:
            raise _at(path, self._broken)
        for failure in self._failures:
            if failure.operation is operation and fnmatchcase(path, failure.pattern):
                failure.remaining -= 1
                if not failure.remaining:
                    self._failures.remove(failure)
                raise _at(path, failure.error)

    def room(self, wanted: int) -> int:
        """How many of the wanted bytes the disk has room for."""
        return wanted if self.capacity is None else max(0, min(wanted, self.capacity - self._used()))

    def flushed(self, file: CachedFile) -> None:
        if self._flush_s:
            self._delayed(self._flush_s)
        file.sync()
        if file.is_new:
            self._names.sync(split_path(file.path)[0])
            file.is_new = False


class FaultyFile:
    """A file of such a volume, as long as the process lives that has opened it."""

    __slots__ = ("_failure", "_file", "_fs", "_is_dead")

    def __init__(self, fs: FaultyFileSystem, file: CachedFile) -> None:
        self._fs = fs
        self._file = file
        self._failure: OSError | None = None
        self._is_dead = False

    @property
    def size(self) -> int:
        return self._file.content.size

    @property
    def has_failed(self) -> bool:
        return self._failure is not None

    def die(self) -> None:
        self._is_dead = True

    def append(self, data: Buffer, *, shared: bool = False) -> int:
        self._check_writable(Operation.APPEND)
        file = self._file
        room = self._fs.room(len(data))
        if room < len(data):
            # As a directory has it: what was written until then is cut off again, and both may outlive the power.
            position = file.append(bytes(memoryview(data)[:room]))
            file.truncate(position)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), file.path)
        return file.append(data, shared=shared)

    def read(self, position: int, length: int) -> list[memoryview]:
        self._check(Operation.READ)
        return self._file.content.read(position, length)

    def truncate(self, size: int) -> None:
        self._check_writable(Operation.TRUNCATE)
        self._file.truncate(size)

    def flush(self) -> None:
        try:
            self._check_writable(Operation.FLUSH)
        except OSError as error:
            # A system drops what it could not write, so that a second flush would find nothing to do.
            self._failure = error
            raise
        self._fs.flushed(self._file)

    def close(self) -> None:
        """The volume keeps the file."""

    def _check(self, operation: Operation) -> None:
        if self._is_dead:
            raise OSError(errno.EBADF, "the process that has opened it is dead", self._file.path)
        self._fs.check(operation, self._file.path)

    def _check_writable(self, operation: Operation) -> None:
        if self._failure is not None:
            raise OSError(
                self._failure.errno, "takes no more writes, because a flush has failed", self._file.path
            )
        self._check(operation)


def _at(path: str, error: OSError) -> OSError:
    return OSError(error.errno, error.strerror or str(error), path)


def _not_found(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
