"""A volume that fails: at a call by its number, or at whatever a test points out."""

from __future__ import annotations

import errno
from collections.abc import Callable
from enum import Enum

from ottla.broker.log.fs import File, MemoryFileSystem
from ottla.wire.primitives import Buffer


class Failure(Enum):
    """What a failing call leaves behind, and how the calls after it fare."""

    ONCE = "once"
    TORN = "torn"
    """Half of the bytes are written."""
    LASTING = "lasting"
    """From then on nothing can be changed any more."""


def no_space(path: str) -> OSError:
    return OSError(errno.ENOSPC, "No space left on device", path)


class FailingFileSystem(MemoryFileSystem):
    """Counts the calls that change something, `calls`; `fail_at` and `fail_if` say which of them fail."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self._at: int | None = None
        self._failure = Failure.ONCE
        self._check_is_off = False
        self._fails_if: Callable[[str, str], bool] = lambda call, path: False

    def fail_at(self, call: int, failure: Failure = Failure.ONCE) -> None:
        """The first call from now on is number 1."""
        self.calls = 0
        self._at = call
        self._failure = failure

    def fail_if(self, fails: Callable[[str, str], bool]) -> None:
        """Fails each call of this name, "open", "append" and so on, on this path."""
        self._fails_if = fails

    def mend(self) -> None:
        """From now on all is well; `calls` begins anew."""
        self.calls = 0
        self._at = None
        self._fails_if = lambda call, path: False

    def fails(self, call: str, path: str) -> bool:
        self.calls += 1
        lasting = self._failure is Failure.LASTING
        struck = self._at is not None and (self.calls >= self._at if lasting else self.calls == self._at)
        return struck or self._fails_if(call, path)

    @property
    def tears(self) -> bool:
        return self._failure is Failure.TORN

    def _check(self, call: str, path: str) -> None:
        if not self._check_is_off and self.fails(call, path):
            raise no_space(path)

    def open(self, path: str) -> File:  # type: ignore[override]
        if not self.exists(path):
            self._check("open", path)
        return FailingFile(self, path, super().open(path))

    def remove(self, path: str) -> None:
        self._check("remove", path)
        super().remove(path)

    def rename(self, old: str, new: str) -> None:
        self._check("rename", new)
        # The parent's rename takes the file away by `remove`, which would count twice.
        removed, self._check_is_off = self._check_is_off, True
        try:
            super().rename(old, new)
        finally:
            self._check_is_off = removed

    def remove_directory(self, path: str) -> None:
        self._check("remove_directory", path)
        super().remove_directory(path)


class FailingFile:
    """A file on such a volume."""

    def __init__(self, fs: FailingFileSystem, path: str, file: File) -> None:
        self._fs = fs
        self._path = path
        self._file = file

    @property
    def size(self) -> int:
        return self._file.size

    def append(self, data: Buffer, *, shared: bool = False) -> int:
        if self._fs.fails("append", self._path):
            if self._fs.tears:
                self._file.append(bytes(memoryview(data)[: len(data) // 2]))
            raise no_space(self._path)
        return self._file.append(data, shared=shared)

    def read(self, position: int, length: int) -> list[memoryview]:
        return self._file.read(position, length)

    def truncate(self, size: int) -> None:
        if self._fs.fails("truncate", self._path):
            raise no_space(self._path)
        self._file.truncate(size)

    def flush(self) -> None:
        if self._fs.fails("flush", self._path):
            raise no_space(self._path)

    def close(self) -> None:
        self._file.close()
