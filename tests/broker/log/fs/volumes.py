"""A volume of each kind, for tests of what all of them promise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

from ottla.broker.log.fs import File, FileSystem
from ottla.broker.log.fs.directory import DirectoryFileSystem
from ottla.broker.log.fs.faulty import FaultyFileSystem
from ottla.broker.log.fs.memory import MemoryFileSystem

VOLUMES: dict[str, Callable[[Path], FileSystem]] = {
    "memory": lambda root: MemoryFileSystem(),
    "directory": DirectoryFileSystem,
    "faulty": lambda root: FaultyFileSystem(Random(1)),
}


def content(file: File) -> bytes:
    return b"".join(file.read(0, file.size))
