"""The volume that is a directory of a disk.

What was appended last is also kept in memory, for consumers and followers nearly always want just that; the rest is
read with pread. Nothing is mapped: touching a page behind the end of a file that was cut kills the process.

Files open when they are used, and those that were used longest ago are closed: a node has four files for each
segment, and a process often no more than 1024 descriptors.

All calls come from one thread, except `flush` and `sync_directory`. A flush holds the descriptor that it syncs, so
that it stays open although the file is closed, or makes room for others, meanwhile.

Invariant: a file whose content on the disk is not known takes no more writes. That is so after a write that could
neither be finished nor taken back, and after an fsync that failed: the system may have dropped what it could not
write, and a second fsync would succeed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import OrderedDict
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from ottla.broker.log.fs import Space
from ottla.broker.log.fs.lock import LOCK_FILE, DirectoryLock
from ottla.broker.log.fs.memory import Chunks
from ottla.broker.log.fs.paths import check_directory, split_path
from ottla.wire.primitives import Buffer

OPEN_FILES: Final = 128
TAIL_BYTES: Final = 1024 * 1024
"""What an open file keeps in memory of its end, at most; a closed one keeps nothing."""
_LARGEST_TAIL_CHUNK: Final = TAIL_BYTES // 4


class DirectoryFileSystem:
    """A volume in the directory `root`, which is made if it is not there.

    It has at most `open_files` descriptors, not counting those of flushes that are under way in other threads.
    """

    def __init__(self, root: Path, open_files: int = OPEN_FILES) -> None:
        self.root = root
        self._root = os.path.abspath(root)
        self._open_files = _OpenFiles(open_files)
        # One object for each file, for it knows the size.
        self._files: WeakValueDictionary[str, DirectoryFile] = WeakValueDictionary()
        self._lock: DirectoryLock | None = None
        os.makedirs(self._root, exist_ok=True)

    def lock(self) -> None:
        """Keeps other nodes out until `close`; a DirectoryInUseError if one has it."""
        if self._lock is None:
            self._lock = DirectoryLock(self._root)

    def close(self) -> None:
        """Closes all files and gives the lock back. The volume can be used again, after another `lock`."""
        self._open_files.close_all()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # Files

    def open(self, path: str) -> DirectoryFile:
        file = self._files.get(path)
        if file is None or file.has_failed:
            directory, _ = split_path(path)
            try:
                file = DirectoryFile(self._root, path, self._open_files, is_new=False)
            except FileNotFoundError:
                self._make(directory)
                file = DirectoryFile(self._root, path, self._open_files, is_new=True)
            self._files[path] = file
        return file

    def exists(self, path: str) -> bool:
        split_path(path)
        # Not os.path.exists: to that, a file on a broken disk is not there.
        try:
            return stat.S_ISREG(os.stat(self._full(path)).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def remove(self, path: str) -> None:
        split_path(path)
        file = self._files.get(path)
        if file is None:
            os.unlink(self._full(path))
        else:
            # In this order, so that a flush in another thread knows why it does not find the file.
            file.is_gone = True
            try:
                os.unlink(self._full(path))
            except OSError:
                file.is_gone = False
                raise
            self._forget(path)

    def rename(self, old: str, new: str) -> None:
        split_path(old)
        directory, _ = split_path(new)
        if not self.exists(old):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._full(old))
        if old == new:
            return
        self._make(directory)
        file = self._files.get(old)
        if file is not None:
            # A flush in another thread, which finds neither path while this lasts, takes the descriptor.
            self._open_files.use(file)
        os.rename(self._full(old), self._full(new))
        self._forget(new)
        if file is not None:
            file.path = new
            del self._files[old]
            self._files[new] = file

    def modified_ms(self, path: str) -> int | None:
        split_path(path)
        return os.stat(self._full(path)).st_mtime_ns // 1_000_000

    def _make(self, directory: str) -> None:
        """Not the root: one that is gone has failed, and an empty one in its place would hide that."""
        os.stat(self._root)
        os.makedirs(self._full(directory), exist_ok=True)

    def _forget(self, path: str) -> None:
        file = self._files.pop(path, None)
        if file is not None:
            file.is_gone = True
            file.close()

    # Directories

    def directories(self) -> list[str]:
        found = []
        for directory, _, files in os.walk(self._root, onerror=_raise):
            if files and directory != self._root:
                found.append(os.path.relpath(directory, self._root))
        return sorted(found)

    def list(self, directory: str) -> list[str]:
        check_directory(directory)
        try:
            with os.scandir(self._full(directory)) as entries:
                names = sorted(entry.name for entry in entries if entry.is_file())
        except (FileNotFoundError, NotADirectoryError):
            return []
        if not directory and LOCK_FILE in names:
            names.remove(LOCK_FILE)
        return names

    def rename_directory(self, old: str, new: str) -> None:
        split_path(old)
        split_path(new)
        if os.path.isdir(self._full(new)):
            # An empty one would be replaced.
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self._full(new))
        inside = f"{old}/"
        files = [path for path in self._files if path.startswith(inside)]
        os.rename(self._full(old), self._full(new))
        for path in files:
            self._forget(path)

    def remove_directory(self, path: str) -> None:
        split_path(path)
        try:
            with os.scandir(self._full(path)) as found:
                entries = list(found)
        except FileNotFoundError:
            return
        for entry in entries:
            inside = f"{path}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                self.remove_directory(inside)
            else:
                self.remove(inside)
        os.rmdir(self._full(path))

    def sync_directory(self, path: str) -> None:
        check_directory(path)
        _sync_directory(self._root, path)

    def space(self) -> Space | None:
        disk = os.statvfs(self._root)
        return Space(disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize)

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root


class DirectoryFile:
    """A file of such a volume."""

    __slots__ = (
        "__weakref__",
        "_changes",
        "_failure",
        "_is_new",
        "_open_files",
        "_root",
        "_synced",
        "_tail",
        "descriptor",
        "is_gone",
        "path",
        "size",
    )

    def __init__(self, root: str, path: str, open_files: _OpenFiles, *, is_new: bool) -> None:
        self.path = path
        self.is_gone = False
        self.descriptor: Descriptor | None = None
        self._root = root
        self._open_files = open_files
        self._failure: OSError | None = None
        self._is_new = is_new
        # Flushes in two threads may overlap, so each says up to which change it has synced. The first one counts as
        # a change: a process that was killed may have left bytes that are not on the disk yet.
        self._changes = 1
        self._synced = 0
        descriptor = open_files.open(self, os.O_CREAT if is_new else 0)
        self.size = os.fstat(descriptor.number).st_size
        self._tail = Chunks(self.size, _LARGEST_TAIL_CHUNK)

    @property
    def has_failed(self) -> bool:
        """It takes no more writes; one that is opened now may."""
        return self._failure is not None

    @property
    def full_path(self) -> str:
        return f"{self._root}/{self.path}"

    def append(self, data: Buffer, *, shared: bool = False) -> int:
        if self._failure is not None:
            raise self._refusal(self._failure)
        position = self.size
        length = len(data)
        if not length:
            return position
        descriptor = self._open_files.use(self)
        try:
            written = os.pwrite(descriptor.number, data, position)
            while written < length:
                written += os.pwrite(descriptor.number, memoryview(data)[written:], position + written)
        except OSError:
            self._cut_back(descriptor)
            raise
        finally:
            # Not before: a flush that another thread begins in between would count for this write.
            self._changes += 1
        self.size = position + length
        tail = self._tail
        tail.append(data, shared=shared)
        if tail.size - tail.start > TAIL_BYTES:
            tail.keep_last(TAIL_BYTES)
        return position

    def _cut_back(self, descriptor: Descriptor) -> None:
        """Takes away the beginning of a write that could not be finished."""
        try:
            os.ftruncate(descriptor.number, self.size)
        except OSError as error:
            self._failure = error

    def read(self, position: int, length: int) -> list[memoryview]:
        tail = self._tail
        if position >= tail.start:
            return tail.read(position, length)
        if position < 0 or length < 0:
            raise ValueError(f"{length} bytes at {position} are in no file")
        if not length:
            return []
        end = min(position + length, self.size)
        if end <= tail.start:
            return [self._read_stored(position, end - position)]
        # An append is in the tail as a whole or not at all, so none is split here.
        return [
            self._read_stored(position, tail.start - position),
            *tail.read(tail.start, end - tail.start),
        ]

    def _read_stored(self, position: int, length: int) -> memoryview:
        descriptor = self._open_files.use(self)
        data = os.pread(descriptor.number, length, position)
        while len(data) < length:
            more = os.pread(descriptor.number, length - len(data), position + len(data))
            if not more:
                ends = position + len(data)
                raise OSError(errno.EIO, f"of {self.size} bytes only {ends} are there", self.full_path)
            data += more
        return memoryview(data)

    def truncate(self, size: int) -> None:
        if self._failure is not None:
            raise self._refusal(self._failure)
        if not 0 <= size <= self.size:
            raise ValueError(f"a file of {self.size} bytes cannot be cut to {size}")
        if size == self.size:
            return
        os.ftruncate(self._open_files.use(self).number, size)
        self._changes += 1
        self.size = size
        if size >= self._tail.start:
            self._tail.truncate(size)
        else:
            self._forget_tail()

    def flush(self) -> None:
        if self._failure is not None:
            raise self._refusal(self._failure)
        # Read before the sync: what is appended during it may not be part of it.
        changes = self._changes
        if self._synced >= changes:
            return
        descriptor = self.descriptor or self._open_again()
        if descriptor is None:
            return
        try:
            os.fsync(descriptor.number)
        except OSError as error:
            self._failure = error
            raise
        if self._is_new:
            self._sync_name()
            self._is_new = False
        self._synced = max(self._synced, changes)

    def _open_again(self) -> Descriptor | None:
        """None if the file was removed. Without the pool, which belongs to the thread that appends."""
        while True:
            path = self.full_path
            try:
                descriptor = Descriptor(os.open(path, os.O_RDWR | os.O_CLOEXEC))
            except FileNotFoundError:
                if self.is_gone or self.descriptor is not None:
                    return self.descriptor
                if path == self.full_path:
                    raise
            else:
                if self.is_gone:
                    return None
                # Unless the path has changed, the file that was opened is this one.
                if path == self.full_path:
                    return descriptor

    def _sync_name(self) -> None:
        try:
            _sync_directory(self._root, os.path.dirname(self.path))
        except FileNotFoundError:
            if not self.is_gone:
                raise

    def _refusal(self, failure: OSError) -> OSError:
        return OSError(
            failure.errno,
            f"takes no more writes, because what the disk has of it is unknown since: {failure.strerror}",
            self.full_path,
        )

    def close(self) -> None:
        self._open_files.close(self)

    def closed(self) -> None:
        """The descriptor is for other files now, and so is the memory."""
        self.descriptor = None
        self._forget_tail()

    def _forget_tail(self) -> None:
        self._tail = Chunks(self.size, _LARGEST_TAIL_CHUNK)


class Descriptor:
    """Is closed when the last that holds it lets go."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)


class _OpenFiles:
    """The files of a volume that are open, the one that was used longest ago first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._files: OrderedDict[DirectoryFile, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._files)

    def use(self, file: DirectoryFile) -> Descriptor:
        descriptor = file.descriptor
        if descriptor is None:
            return self.open(file)
        self._files.move_to_end(file)
        return descriptor

    def open(self, file: DirectoryFile, flags: int = 0) -> Descriptor:
        while len(self._files) >= self._limit:
            self._close_oldest()
        descriptor = Descriptor(self._system_open(file.full_path, os.O_RDWR | os.O_CLOEXEC | flags))
        file.descriptor = descriptor
        self._files[file] = None
        return descriptor

    def _system_open(self, path: str, flags: int) -> int:
        while True:
            try:
                return os.open(path, flags, 0o644)
            except OSError as error:
                # Connections have taken all descriptors of the process: one of a file that waits will do.
                if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._files:
                    raise
                self._close_oldest()

    def close(self, file: DirectoryFile) -> None:
        if self._files.pop(file, file) is None:
            file.closed()

    def close_all(self) -> None:
        while self._files:
            self._close_oldest()

    def _close_oldest(self) -> None:
        file, _ = self._files.popitem(last=False)
        file.closed()


def _sync_directory(root: str, path: str) -> None:
    """And those above it up to the root, for the directory itself is a name in the one it is in."""
    while path:
        _sync_path(f"{root}/{path}")
        path = os.path.dirname(path)
    _sync_path(root)


def _sync_path(directory: str) -> None:
    descriptor = Descriptor(os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    os.fsync(descriptor.number)


def _raise(error: OSError) -> None:
    raise error
