"""The leader epochs of a log: which leader wrote from which offset on (KIP-101, KIP-279, KIP-320).

Kept in the file `leader-epoch-checkpoint` in Kafka's text format, which is written anew with each change: an epoch
lasts long. The change waits for the disk, on the loop: a leader appends with its epoch in the next moment, and of
batches that are flushed recovery would not find it again, since it does not read them. Invariants: epochs and start
offsets both grow from entry to entry; a change that is not written is none.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

from ottla.broker.log.checkpoints import read_file, replace_file
from ottla.broker.log.fs import FileSystem

UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1

_VERSION: Final = "0"


class EpochEntry(NamedTuple):
    """An epoch and the offset of the first batch that its leader wrote, or would have written."""

    epoch: int
    start_offset: int


class LeaderEpochs:
    """The epochs of one log, oldest first."""

    def __init__(self, fs: FileSystem, directory: str) -> None:
        self._fs = fs
        self._path = f"{directory}/leader-epoch-checkpoint"
        self.entries: tuple[EpochEntry, ...] = ()
        for entry in self._read():
            self.entries = _with(self.entries, entry)
        self.latest: int | None = _latest(self.entries)
        """The epoch of the last entry; every append compares it with that of its leader."""

    @property
    def earliest(self) -> EpochEntry | None:
        return self.entries[0] if self.entries else None

    def assign(self, epoch: int, start_offset: int) -> None:
        """The leader of `epoch` writes from `start_offset` on. Entries that contradict it are forgotten."""
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"epoch {epoch} at offset {start_offset} is none")
        if self.entries:
            latest = self.entries[-1]
            if epoch == latest.epoch and start_offset >= latest.start_offset:
                return
        self._set(_with(self.entries, EpochEntry(epoch, start_offset)))

    def restore(self, entries: tuple[EpochEntry, ...]) -> None:
        """What was assigned since these were `entries` has not come about."""
        if entries != self.entries:
            self._set(entries)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(the largest epoch up to `epoch` that is known, where it ended), as OffsetForLeaderEpoch has it.

        Both are -1 if nothing can be said: no epoch given, or one that lies in the future.
        """
        if epoch == UNDEFINED_EPOCH or not self.entries or epoch > self.entries[-1].epoch:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.entries[-1].epoch:
            return epoch, log_end_offset
        higher = bisect_right(self.entries, epoch, key=_epoch)
        ended = self.entries[higher].start_offset
        # Below the oldest known epoch the data is gone, and its successor's start is the best that is known.
        return (self.entries[higher - 1].epoch if higher else epoch), ended

    def truncate_from_end(self, end_offset: int) -> None:
        """The log now ends at `end_offset`."""
        kept = bisect_left(self.entries, end_offset, key=_start_offset)
        if kept < len(self.entries):
            self._set(self.entries[:kept])

    def truncate_from_start(self, start_offset: int) -> None:
        """The log now begins at `start_offset`, and with it the epoch that has it."""
        first = bisect_right(self.entries, start_offset, key=_start_offset) - 1
        if first < 0 or self.entries[0].start_offset == start_offset:
            return
        self._set((EpochEntry(self.entries[first].epoch, start_offset), *self.entries[first + 1 :]))

    def clear(self) -> None:
        if self.entries:
            self._set(())

    def _read(self) -> list[EpochEntry]:
        lines = (read_file(self._fs, self._path) or b"").decode().splitlines()
        return [EpochEntry(*map(int, line.split())) for line in lines[2:]]

    def _set(self, entries: tuple[EpochEntry, ...]) -> None:
        lines = [_VERSION, str(len(entries)), *(f"{e.epoch} {e.start_offset}" for e in entries)]
        replace_file(self._fs, self._path, "".join(f"{line}\n" for line in lines).encode())
        self.entries = entries
        self.latest = _latest(entries)


def _latest(entries: tuple[EpochEntry, ...]) -> int | None:
    return entries[-1].epoch if entries else None


def _with(entries: tuple[EpochEntry, ...], entry: EpochEntry) -> tuple[EpochEntry, ...]:
    """These without what contradicts `entry`, and then `entry`."""
    kept = len(entries)
    while kept and (
        entries[kept - 1].epoch >= entry.epoch or entries[kept - 1].start_offset >= entry.start_offset
    ):
        kept -= 1
    return (*entries[:kept], entry)


def _epoch(entry: EpochEntry) -> int:
    return entry.epoch


def _start_offset(entry: EpochEntry) -> int:
    return entry.start_offset
