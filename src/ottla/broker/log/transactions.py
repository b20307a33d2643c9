"""Transactions as a partition sees them: which are open, which were aborted, and what is therefore stable.

The coordinator decides; here is only what its markers say (KIP-98). A consumer that reads committed data may read
up to the first offset of the oldest open transaction, and learns which transactions in its range were aborted.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from ottla.broker.log.fs import File, FileSystem
from ottla.wire.batches import ControlType, control_type
from ottla.wire.primitives import Buffer
from ottla.wire.records import decode_fetch

_END: Final = struct.Struct(">hi")  # a version, and the epoch of the coordinator


class Completed(NamedTuple):
    """A transaction that has ended: its data began at `first_offset`, its marker is at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int


class Marker(NamedTuple):
    """What the control record at the end of a transaction says."""

    is_abort: bool
    coordinator_epoch: int
    timestamp: int


def read_marker(data: Buffer) -> Marker | None:
    """The marker in a control batch; None if compaction has emptied it, or it is a control record of another kind."""
    for record in decode_fetch(data, "", 0, control=True, check_crc=False):
        outcome = control_type(record.key)
        if outcome in (ControlType.ABORT, ControlType.COMMIT):
            _, coordinator_epoch = _END.unpack_from(record.value or b"")
            return Marker(outcome == ControlType.ABORT, coordinator_epoch, record.timestamp)
    return None


class OpenTransactions:
    """The transactions that are undecided: without a marker, or with one that may not be on all replicas yet."""

    def __init__(self) -> None:
        # First offsets only ever grow, and a dict keeps the order of insertion: the oldest comes first.
        self._open: dict[int, int] = {}
        # Those with a marker: where they begin, and where the marker is.
        self._unreplicated: dict[int, int] = {}

    def begin(self, producer_id: int, first_offset: int) -> None:
        self._open[first_offset] = producer_id

    def stable_after(self, completed: Completed) -> int:
        """What will be the last stable offset when `completed` is."""
        for first_offset, producer_id in self._open.items():
            if producer_id != completed.producer_id:
                return first_offset
        return completed.last_offset + 1

    def complete(self, completed: Completed) -> None:
        del self._open[completed.first_offset]
        self._unreplicated[completed.first_offset] = completed.last_offset

    def replicated_to(self, offset: int) -> None:
        """Everything below `offset` is on all replicas in sync: a marker there decides its transaction."""
        if self._unreplicated:
            for first, last in list(self._unreplicated.items()):
                if last < offset:
                    del self._unreplicated[first]

    @property
    def first_undecided_offset(self) -> int | None:
        if not self._unreplicated:
            return next(iter(self._open)) if self._open else None
        first = min(self._unreplicated)
        return min(first, next(iter(self._open))) if self._open else first

    def clear(self) -> None:
        self._open.clear()
        self._unreplicated.clear()


class AbortedTransaction(NamedTuple):
    """An entry of the index; it says also how far a search that came upon it has to go."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class AbortedIndex:
    """The aborted transactions whose markers are in one segment, in the order of their markers."""

    ENTRY: Final = struct.Struct(">hqqqq")
    VERSION: Final = 0

    def __init__(self, fs: FileSystem, path: str) -> None:
        self._fs = fs
        self._path = path
        self._file: File | None = None
        self._entries: list[AbortedTransaction] = []

    def rename(self, path: str) -> None:
        """The file lies elsewhere now, or would."""
        self._path = path

    def load(self) -> None:
        if not self._fs.exists(self._path):
            return
        self._file = self._fs.open(self._path)
        whole = self._file.size - self._file.size % self.ENTRY.size
        self._file.truncate(whole)
        for _, *entry in self.ENTRY.iter_unpack(b"".join(self._file.read(0, whole))):
            self._entries.append(AbortedTransaction(*entry))

    def append(self, entry: AbortedTransaction) -> None:
        if self._file is None:
            self._file = self._fs.open(self._path)
        self._entries.append(entry)
        self._file.append(self.ENTRY.pack(self.VERSION, *entry))

    def __iter__(self) -> Iterator[AbortedTransaction]:
        return iter(self._entries)

    def truncate_to(self, offset: int) -> None:
        """Forgets the markers at `offset` and behind."""
        kept = len(self._entries)
        while kept and self._entries[kept - 1].last_offset >= offset:
            kept -= 1
        del self._entries[kept:]
        if self._file is not None:
            self._file.truncate(kept * self.ENTRY.size)

    def clear(self) -> None:
        """Forgets all, also what is no entry of this log."""
        self._entries.clear()
        if self._file is not None:
            self._file.truncate(0)

    def flush(self) -> None:
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def aborted_between(indexes: Iterator[AbortedIndex], start: int, end: int) -> list[tuple[int, int]]:
    """(producer id, first offset) of every aborted transaction with data or marker in [start, end).

    `indexes` are those of the segment with `start` and of all behind it: a marker comes after its data.
    """
    found = []
    for index in indexes:
        for entry in index:
            if entry.last_offset >= start and entry.first_offset < end:
                found.append((entry.producer_id, entry.first_offset))
            # Whatever is aborted by a later marker began at or behind the stable offset of this one.
            if entry.last_stable_offset >= end:
                return found
    return found
