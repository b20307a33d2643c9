"""A file of record batches: its headers in order, their checksums, and, if asked for, their records.

Segments (.log) and snapshots of the metadata log (.checkpoint) are such files. Nothing here knows what records mean
(decoders.py) or how a batch is written down (dumped by segments.py).

Invariant: no more than one batch is in memory, and none that is larger than the caller allows. What the length in a
header says is believed only as far as the file goes; the checksum is taken in pieces.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from ottla._native import crc32c
from ottla._native.record_batch import Batch, read_header
from ottla.broker.dump.lines import DumpError
from ottla.errors import DecodeError
from ottla.wire.batch_header import (
    BATCH_OVERHEAD,
    CHECKED_FROM,
    DELETE_HORIZON,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    SMALLEST_LENGTH,
    unpack_prefix,
    unpack_signed_magic,
)
from ottla.wire.records import Records, decode_fetch

_PIECE: Final = 1 << 20
_MAX_DECOMPRESSED: Final = 256 << 20


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch that the file has whole."""

    position: int
    header: Batch

    @property
    def end(self) -> int:
        return self.position + self.header.size

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones and markers may go (KIP-534); the base timestamp has it."""
        return self.header.base_timestamp if self.header.attributes & DELETE_HORIZON else None

    @property
    def timestamp_type(self) -> str:
        return "LogAppendTime" if self.header.has_append_time else "CreateTime"


@dataclass(frozen=True, slots=True)
class TornTail:
    """Bytes at the end of a file that are no whole batch."""

    position: int
    size: int
    reason: str


class BatchFile:
    """A file of batches that is open for reading. It may grow meanwhile."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = os.fstat(file.fileno()).st_size
        """Up to where it is read."""
        self.torn: TornTail | None = None
        """What `batches` has come upon at the end."""

    def batches(self, start: int = 0, max_bytes: int | None = None) -> Iterator[StoredBatch]:
        """The batches from a position on where one begins; with `max_bytes` only those that end within so many.

        DumpError at a batch of a format that is not known.
        """
        position = start
        while True:
            batch = self._batch_at(position)
            if isinstance(batch, TornTail):
                is_asked_for = max_bytes is None or position - start < max_bytes
                self.torn = batch if batch.size and is_asked_for else None
                return
            if max_bytes is not None and batch.end - start > max_bytes:
                return
            yield batch
            position = batch.end

    def _batch_at(self, position: int) -> StoredBatch | TornTail:
        if position < self.size:
            self._grow(position + LOG_OVERHEAD)
        prefix = self._read(position, LOG_OVERHEAD)
        if len(prefix) < LOG_OVERHEAD:
            return self._torn(position, "less than the beginning of a batch")
        length: int = unpack_prefix(prefix, 0)[1]
        if length < SMALLEST_LENGTH:
            return self._torn(position, f"a batch claims a length of {length}")
        self._grow(position + LOG_OVERHEAD + length)
        header = self._read(position, BATCH_OVERHEAD)
        if len(header) > MAGIC_AT:
            _check_magic(header, position)
        if length < BATCH_OVERHEAD - LOG_OVERHEAD:
            return self._torn(position, f"a batch claims a length of {length}")
        if length + LOG_OVERHEAD > self.size - position:
            return self._torn(position, f"a batch of {length + LOG_OVERHEAD} bytes is not whole")
        return StoredBatch(position, read_header(header))

    def _torn(self, position: int, reason: str) -> TornTail:
        return TornTail(position, max(self.size - position, 0), reason)

    def _grow(self, end: int) -> None:
        """Takes in the rest of a batch that a broker has written since the file was opened, and no more than that."""
        if end > self.size:
            self.size = max(self.size, min(end, os.fstat(self._file.fileno()).st_size))

    def is_valid(self, batch: StoredBatch) -> bool:
        """Whether the checksum is that of the bytes."""
        crc = 0
        position = batch.position + CHECKED_FROM
        while position < batch.end:
            piece = self._read(position, min(_PIECE, batch.end - position))
            if not piece:
                return False
            crc = crc32c(piece, crc)
            position += len(piece)
        return crc == batch.header.crc

    def records(self, batch: StoredBatch, max_size: int) -> Records:
        """The records of a batch; DecodeError if they cannot be read, or if the batch is larger than `max_size`."""
        size = batch.header.size
        if size > max_size:
            raise DecodeError(
                f"the batch has {size} bytes, only {max_size} are read into memory (--max-message-size)"
            )
        data = self._read(batch.position, size)
        return decode_fetch(
            data,
            "",
            0,
            offset=batch.header.base_offset,
            check_crc=False,
            control=True,
            max_decompressed=_MAX_DECOMPRESSED,
        )

    def _read(self, position: int, size: int) -> bytes:
        self._file.seek(position)
        return self._file.read(max(0, min(size, self.size - position)))


def _check_magic(header: bytes, position: int) -> None:
    (magic,) = unpack_signed_magic(header, MAGIC_AT)
    if magic == MAGIC:
        return
    if magic in (0, 1):
        raise DumpError(
            f"position {position}: messages of magic {magic}, as Kafka wrote them before 0.11, are not read"
        )
    raise DumpError(f"position {position}: a batch of the unknown magic {magic}")
