"""What a system has written and what its disk has: files and names that a power loss may take back.

Knows nothing of handles, errors and faults, which are in faulty.py. Every choice comes from the random generator that
the caller gives, so a power loss repeats from its seed.

Invariant: bytes that were synced, and not cut off since, are on the disk; so are the names of a directory that was
synced. Everything else may be there, in part or not at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ottla.broker.log.fs.memory import MemoryFile
from ottla.broker.log.fs.paths import split_path
from ottla.runtime import Random
from ottla.wire.primitives import Buffer

SECTOR: Final = 512

Names = dict[str, dict[str, "CachedFile"]]
"""By directory and name."""


class Fate(Enum):
    """What became of a change that was not synced."""

    KEPT = "kept"
    LOST = "lost"
    TORN = "torn"
    """Of an append: only the first bytes are there."""
    ZEROED = "zeroed"
    """Of an append: the file is as long as it was, but some of its sectors were never written."""
    UNCUT = "uncut"
    """Of a truncation: it did not happen."""
    NAME_KEPT = "name kept"
    NAME_LOST = "name lost"
    """Of a creation, removal or renaming: it did not happen."""


_DAMAGES: Final = (Fate.LOST, Fate.TORN, Fate.ZEROED)


@dataclass(frozen=True, slots=True)
class _Append:
    position: int
    parts: list[memoryview]


@dataclass(frozen=True, slots=True)
class _Cut:
    size: int


class CachedFile:
    """A file as its readers see it, `content`, and as the disk has it."""

    __slots__ = ("_changes", "_common", "_stored", "content", "is_new", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.content = MemoryFile()
        self.is_new = True
        self._stored = MemoryFile()
        # As far as this, the disk has what readers see.
        self._common = 0
        self._changes: list[_Append | _Cut] = []

    def append(self, data: Buffer, *, shared: bool = False) -> int:
        position = self.content.append(data, shared=shared)
        if len(data):
            self._changes.append(_Append(position, self.content.read(position, len(data))))
        return position

    def truncate(self, size: int) -> None:
        if size == self.content.size:
            return
        self.content.truncate(size)
        self._common = min(self._common, size)
        self._changes.append(_Cut(size))

    def sync(self) -> None:
        self._stored.truncate(self._common)
        for part in self.content.read(self._common, self.content.size - self._common):
            # A reader's memory never changes, so the disk may have the same.
            self._stored.append(part, shared=True)
        self._common = self.content.size
        self._changes.clear()

    @property
    def synced_size(self) -> int:
        """The bytes before it are on the disk as readers see them."""
        return self._common

    def flip_bit(self, position: int, bit: int) -> None:
        """For readers to come; and on the disk, if that has the byte."""
        self.content = _flipped(self.content, position, bit)
        if position < self._common:
            self._stored = _flipped(self._stored, position, bit)

    def lose_power(self, random: Random, fates: Counter[Fate]) -> None:
        """From here on the disk's content is what readers see."""
        if not self._changes:
            return
        survivors = bytearray().join(self._stored.read(0, self._stored.size))
        # Some files fare well and others badly: with one likelihood for all, long tails would always be in shreds.
        likelihood = random.random()
        for change in self._changes:
            fate = _decide(change, random, likelihood)
            fates[fate] += 1
            _survive(survivors, change, fate, random)
        self.content = MemoryFile()
        self.content.append(survivors)
        self._common = 0
        self.sync()


def _flipped(file: MemoryFile, position: int, bit: int) -> MemoryFile:
    content = bytearray().join(file.read(0, file.size))
    content[position] ^= 1 << bit
    changed = MemoryFile()
    changed.append(content)
    return changed


def _decide(change: _Append | _Cut, random: Random, likelihood: float) -> Fate:
    if random.random() < likelihood:
        return Fate.KEPT
    return Fate.UNCUT if isinstance(change, _Cut) else random.choice(_DAMAGES)


def _survive(content: bytearray, change: _Append | _Cut, fate: Fate, random: Random) -> None:
    """Makes the change, as far as its fate has it."""
    if fate in (Fate.LOST, Fate.UNCUT):
        return
    if isinstance(change, _Cut):
        del content[change.size :]
        return
    data = bytearray().join(change.parts)
    if fate is Fate.TORN:
        del data[random.randrange(len(data)) :]
    elif fate is Fate.ZEROED:
        _zero_sectors(data, change.position, random)
    # What was lost before it is a hole now, which reads as zeros.
    content.extend(bytes(max(0, change.position - len(content))))
    content[change.position : change.position + len(data)] = data


def _zero_sectors(data: bytearray, position: int, random: Random) -> None:
    """One of the sectors for certain, each of the others perhaps."""
    ends = [*range(SECTOR - position % SECTOR, len(data), SECTOR), len(data)]
    starts = [0, *ends[:-1]]
    certain = random.randrange(len(starts))
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        if number == certain or random.random() < 0.5:
            data[start:end] = bytes(end - start)


@dataclass(frozen=True, slots=True)
class _NameChange:
    """`file` goes from one path to another; None is nowhere."""

    file: CachedFile
    old: str | None
    new: str | None

    def directories(self) -> list[str]:
        return [split_path(path)[0] for path in (self.old, self.new) if path is not None]

    def apply(self, names: Names) -> None:
        if self.old is not None:
            _take(names, self.old)
        if self.new is not None:
            directory, name = split_path(self.new)
            names.setdefault(directory, {})[name] = self.file


@dataclass(frozen=True, slots=True)
class _DirectoryChange:
    """A directory goes from one path to another, with what is in it."""

    old: str
    new: str

    def directories(self) -> list[str]:
        return [self.old, self.new, *(path.rpartition("/")[0] for path in (self.old, self.new))]

    def apply(self, names: Names) -> None:
        files = names.pop(self.old, None)
        if files:
            names[self.new] = files


class CachedNames:
    """The names of a volume as its readers see them, `current`, and as the disk has them."""

    def __init__(self) -> None:
        self.current: Names = {}
        self._stored: Names = {}
        self._changes: list[_NameChange | _DirectoryChange] = []

    def find(self, path: str) -> CachedFile | None:
        directory, name = split_path(path)
        return self.current.get(directory, {}).get(name)

    def files(self) -> Iterator[CachedFile]:
        for names in self.current.values():
            yield from names.values()

    def change(self, file: CachedFile, old: str | None, new: str | None) -> None:
        change = _NameChange(file, old, new)
        change.apply(self.current)
        self._changes.append(change)

    def move_directory(self, old: str, new: str) -> None:
        change = _DirectoryChange(old, new)
        change.apply(self.current)
        self._changes.append(change)
        for name, file in self.current[new].items():
            file.path = f"{new}/{name}"

    def sync(self, directory: str) -> None:
        """A file that was moved is in one directory at all times, so the changes of the other one are synced too."""
        synced = {directory}
        kept, due = [], []
        for change in reversed(self._changes):
            touched = change.directories()
            if synced.isdisjoint(touched):
                kept.append(change)
            else:
                synced.update(touched)
                due.append(change)
        for change in reversed(due):
            change.apply(self._stored)
        self._changes = kept[::-1]

    def lose_power(self, random: Random, fates: Counter[Fate]) -> None:
        """Of the changes in a directory the first ones have happened; from here on readers see what these made."""
        likelihood = random.random()
        stopped: set[str] = set()
        for change in self._changes:
            touched = change.directories()
            if stopped.isdisjoint(touched) and random.random() < likelihood:
                change.apply(self._stored)
                fates[Fate.NAME_KEPT] += 1
            else:
                stopped.update(touched)
                fates[Fate.NAME_LOST] += 1
        self._changes.clear()
        self.current = {directory: dict(names) for directory, names in self._stored.items()}
        for directory, names in self.current.items():
            for name, file in names.items():
                file.path = f"{directory}/{name}" if directory else name
                file.is_new = False


def _take(names: Names, path: str) -> None:
    directory, name = split_path(path)
    files = names.get(directory, {})
    files.pop(name, None)
    if not files:
        names.pop(directory, None)
