"""The volume that logs live on: files to which one appends, by path.

A log knows only the protocols here. memory.py keeps the files in memory, directory.py in a directory of a disk,
faulty.py on a disk that fails, for tests and simulations.

Paths are strings with "/" between their parts, relative to the volume (paths.py). A directory is there as long as a
file is in it. A volume outlives its node: what that wrote is there when it starts again.

Invariant: memory that `read` handed out never changes. Bytes behind it may be cut off and written anew, but the new
ones lie elsewhere. So another file may keep it (`append` with `shared`): replicas of one partition in one process
have their batches in the same memory.

What survives which end of a node: all that was written, if only the process dies. If the machine does, the bytes of
a file up to its last `flush`, and the names in a directory up to its last `sync_directory`.

Whatever fails on the way to a disk is an OSError.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ottla.broker.log.fs.memory import MemoryFile, MemoryFileSystem
from ottla.wire.primitives import Buffer

__all__ = ["File", "FileSystem", "MemoryFile", "MemoryFileSystem", "Space"]


@dataclass(frozen=True, slots=True)
class Space:
    """The size of the disk below a volume, in bytes."""

    total: int
    usable: int


class File(Protocol):
    """Bytes that grow at the end."""

    @property
    def size(self) -> int: ...

    def append(self, data: Buffer, *, shared: bool = False) -> int:
        """Writes `data` behind everything else and says where it begins. The file may keep `data` itself.

        `shared` says that another file keeps it as well, so that a copy would cost memory and keeping it none.
        After an OSError the file is as it was.
        """
        ...

    def read(self, position: int, length: int) -> list[memoryview]:
        """At most `length` bytes from `position` on, in as many parts as it takes.

        What was written with one `append`, and is read alone, comes in one part.
        """
        ...

    def truncate(self, size: int) -> None: ...

    def flush(self) -> None:
        """What was written before the call survives a power loss; and so does the name of a file that is new.

        May be called from another thread, while this one goes on.
        """
        ...

    def close(self) -> None:
        """Gives back what the file holds of the system. It opens by itself when it is used again."""
        ...


class FileSystem(Protocol):
    """A volume."""

    def open(self, path: str) -> File:
        """The file, made if it is not there; the same object as long as there is one for this path."""
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
        """Moves a file; what was at `new` is replaced. It is durable after `sync_directory` only."""
        ...

    def rename_directory(self, old: str, new: str) -> None:
        """Moves a directory with all its files, which are closed and have to be opened anew; whole or not at all.

        It is durable after `sync_directory("")` only.
        """
        ...

    def remove_directory(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None:
        """Which files are in the directory, and their names, survives a power loss; "" is the volume itself.

        May be called from another thread.
        """
        ...

    def modified_ms(self, path: str) -> int | None:
        """When the file was last written to; None if the volume does not keep that."""
        ...

    def space(self) -> Space | None:
        """None if there is no disk."""
        ...
