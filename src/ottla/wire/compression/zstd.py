"""ZSTD: one or more Zstandard frames (RFC 8878), by the standard library, or by its backport before Python 3.14."""

from __future__ import annotations

import sys
from collections import deque
from typing import Final

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdCompressor, ZstdDecompressor, ZstdError, get_frame_size
else:
    from backports.zstd import ZstdCompressor, ZstdDecompressor, ZstdError, get_frame_size

from ottla.wire.compression.failures import damaged, too_large
from ottla.wire.primitives import Buffer

_HIGHEST_KEPT_LEVEL: Final = 6
_MOST_KEPT: Final = 4
_MOST_FRAMES: Final = 1000

# Compressors that wait for their next batch, by level. A new one costs more than a small batch does, but each
# holds memory: a megabyte or two, and ten times that above level 6, where its cost no longer matters. One that
# was taken from here belongs to the caller alone; taking and returning are atomic, and a full deque drops one.
_idle: Final[dict[int, deque[ZstdCompressor]]] = {}


def compress(data: Buffer, level: int) -> bytes:
    """One frame, which states the size of its content."""
    compressor = _take(level)
    frame = compressor.compress(data, ZstdCompressor.FLUSH_FRAME)
    _give_back(compressor, level)
    return frame


def compress_as_stream(data: Buffer, level: int) -> bytes:
    """One frame as Java's streams write it: of unknown size, and with an empty block at its end."""
    compressor = _take(level)
    frame = compressor.compress(data, ZstdCompressor.FLUSH_BLOCK)
    frame += compressor.flush(ZstdCompressor.FLUSH_FRAME)
    _give_back(compressor, level)
    return frame


def _take(level: int) -> ZstdCompressor:
    try:
        return _idle[level].pop()
    except (KeyError, IndexError):
        return ZstdCompressor(level)


def _give_back(compressor: ZstdCompressor, level: int) -> None:
    if level <= _HIGHEST_KEPT_LEVEL:
        idle = _idle.get(level)
        if idle is None:
            idle = _idle.setdefault(level, deque(maxlen=_MOST_KEPT))
        idle.append(compressor)


def decompress(data: Buffer, limit: int) -> bytes:
    # The library refuses windows above 128 MiB, which is what the highest level needs. A frame that merely
    # claims such a window costs address space: the memory is touched only as far as content fills it.
    view = memoryview(data)
    position = 0
    room = limit + 1  # one more than allowed, so that a full result differs from one that is too large
    pieces: list[bytes] = []
    while position < len(view) or not pieces:
        if len(pieces) == _MOST_FRAMES:
            # Each takes a new decompressor: a megabyte of empty frames would take seconds.
            raise damaged("zstd", f"they have more than {_MOST_FRAMES} frames")
        try:
            # One frame exactly, because the library would copy whatever follows it.
            end = position + get_frame_size(view[position:])
        except ZstdError as error:
            raise damaged("zstd", "they do not begin like a frame, or end in the middle of one") from error
        frame = ZstdDecompressor()
        try:
            piece = frame.decompress(view[position:end], room)
        except ZstdError as error:
            raise damaged("zstd", error) from error
        room -= len(piece)
        if not room:
            raise too_large("zstd", limit)
        if not frame.eof:
            raise damaged("zstd", "they end in the middle of a frame")
        pieces.append(piece)
        position = end
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
