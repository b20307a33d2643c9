"""Producer states on the volume: `<offset>.snapshot` holds what was known before that offset, in Kafka's format.

One is taken with each new segment and when a log is closed. Recovery begins with the latest one that fits the log
and reads on from its offset, so a snapshot says also that what lies before it is whole.

As in Kafka, only the last batch of a producer is in it: after a restart older repetitions are out of order.
"""

from __future__ import annotations

import struct
from typing import Final

from ottla._native import crc32c
from ottla.broker.log.batch import NO_SEQUENCE
from ottla.broker.log.checkpoints import read_file, replace_file
from ottla.broker.log.fs import FileSystem
from ottla.broker.log.producers import ProducerStateEntry, RememberedBatch
from ottla.wire.batch_header import LARGEST_SEQUENCE

SUFFIX: Final = ".snapshot"

_VERSION: Final = 1
_HEADER: Final = struct.Struct(">hIi")  # version, CRC32C of what follows it, number of entries
_COUNT_AT: Final = 6
_ENTRY: Final = struct.Struct(">qhiqiqiq")


class Snapshots:
    """The snapshots in the directory of a log."""

    def __init__(self, fs: FileSystem, directory: str) -> None:
        self._fs = fs
        self._directory = directory

    def offsets(self) -> list[int]:
        """Of all snapshots there are, ascending."""
        names = self._fs.list(self._directory)
        return sorted(int(name.removesuffix(SUFFIX)) for name in names if name.endswith(SUFFIX))

    def write(self, offset: int, states: list[ProducerStateEntry]) -> None:
        replace_file(self._fs, self._path(offset), encode_snapshot(states))

    def read(self, offset: int) -> list[ProducerStateEntry] | None:
        """None if it is damaged."""
        content = read_file(self._fs, self._path(offset))
        return None if content is None else decode_snapshot(content)

    def remove(self, offset: int) -> None:
        if self._fs.exists(self._path(offset)):
            self._fs.remove(self._path(offset))

    def remove_behind(self, offset: int) -> None:
        """All that were taken at a later one."""
        for each in self.offsets():
            if each > offset:
                self.remove(each)

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{offset:020d}{SUFFIX}"


def encode_snapshot(states: list[ProducerStateEntry]) -> bytes:
    content = bytearray(_HEADER.pack(_VERSION, 0, len(states)))
    for state in states:
        content += _encode_entry(state)
    struct.pack_into(">I", content, 2, crc32c(memoryview(content)[_COUNT_AT:]))
    return bytes(content)


def _encode_entry(state: ProducerStateEntry) -> bytes:
    last = state.batches[-1] if state.batches else None
    open_since = state.transaction_first_offset
    return _ENTRY.pack(
        state.producer_id,
        state.epoch,
        last.last_sequence if last else NO_SEQUENCE,
        last.last_offset if last else -1,
        last.last_offset - last.first_offset if last else 0,
        state.last_timestamp,
        state.coordinator_epoch,
        -1 if open_since is None else open_since,
    )


def decode_snapshot(content: bytes) -> list[ProducerStateEntry] | None:
    if len(content) < _HEADER.size:
        return None
    version, crc, count = _HEADER.unpack_from(content)
    whole = len(content) == _HEADER.size + count * _ENTRY.size
    if version != _VERSION or not whole or crc32c(content[_COUNT_AT:]) != crc:
        return None
    return [_decode_entry(entry) for entry in _ENTRY.iter_unpack(content[_HEADER.size :])]


def _decode_entry(entry: tuple[int, ...]) -> ProducerStateEntry:
    producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, open_since = entry
    state = ProducerStateEntry(
        producer_id, epoch, coordinator_epoch, timestamp, open_since if open_since >= 0 else None
    )
    if last_offset >= 0:
        first_sequence = (last_sequence - delta) & LARGEST_SEQUENCE
        if last_sequence == NO_SEQUENCE:
            first_sequence = NO_SEQUENCE
        state.batches.append(
            RememberedBatch(first_sequence, last_sequence, last_offset - delta, last_offset, timestamp)
        )
    return state
