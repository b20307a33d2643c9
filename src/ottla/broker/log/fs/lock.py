"""The lock of a log directory: one node at a time.

It lies on the file `.lock`, as that of Apache Kafka, and the two exclude each other. The lock belongs to an open
file, not to a process: so it also keeps two clusters of one process apart, and the system takes it back when the
process dies, however it does.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from typing import Final
from weakref import WeakSet

from ottla.errors import KafkaError

LOCK_FILE: Final = ".lock"


class DirectoryInUseError(KafkaError):
    """Another node has the directory. It is no OSError, for nothing is wrong with the disk."""


class DirectoryLock:
    """The lock of `directory`, held from the beginning until `release`."""

    _descriptor: int | None = None

    def __init__(self, directory: str) -> None:
        path = f"{directory}/{LOCK_FILE}"
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _lock(self._descriptor)
        except (BlockingIOError, PermissionError):
            self._close()
            raise DirectoryInUseError(
                f"{directory} is in use: another process, or another cluster of this one, holds {path}. "
                "Stop it, or choose another directory."
            ) from None
        except OSError:
            self._close()
            raise
        _held.add(self)

    def release(self) -> None:
        if self._descriptor is not None:
            # Explicitly: a child that was forked in this moment still has the same open file.
            _unlock(self._descriptor)
            self._close()

    def leave_to_parent(self) -> None:
        """For a forked child: its copy of the open file would hold the lock beyond the end of the parent."""
        self._close()

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        self._close()


if sys.platform == "linux":
    # Locks of fcntl, which Java takes, but owned by the open file: flock would not see Apache Kafka's, and lockf
    # would not see another cluster of this process.
    _FLOCK: Final = struct.Struct(
        "hhqqi4x"
    )  # type, whence, start, length (0: all), process (0: the open file)

    def _lock(descriptor: int) -> None:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))

    def _unlock(descriptor: int) -> None:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0))

else:

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


_held: WeakSet[DirectoryLock] = WeakSet()


def _leave_all_to_parent() -> None:
    for lock in _held:  # order does not matter: each closes its own descriptor
        lock.leave_to_parent()


os.register_at_fork(after_in_child=_leave_all_to_parent)
