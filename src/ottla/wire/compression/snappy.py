"""SNAPPY: blocks in the framing of the Java library (xerial); when reading, also a raw block without any.

    0x82 "SNAPPY" 0x00, version (int32), oldest version that can read this (int32), { length (int32), raw block }

A raw block begins with the length of what was compressed, as a varint; cramjam reads and writes it. The framing
has no end mark: data that were cut off between two blocks look complete, and only a count of the records shows it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from cramjam import DecompressionError
from cramjam import snappy as raw

from ottla.wire.compression.failures import damaged, too_large
from ottla.wire.primitives import Buffer

_MAGIC: Final = b"\x82SNAPPY\x00"
_HEADER: Final = _MAGIC + struct.pack(">ii", 1, 1)
_LENGTH: Final = struct.Struct(">i")
_MAGIC_AS_LENGTH: Final = _LENGTH.unpack_from(_MAGIC)[0]

_BLOCK_SIZE: Final = 32 * 1024
"""What SnappyOutputStream collects for one block."""

# The densest element of a raw block: a copy with a two-byte offset takes 3 bytes and stands for 64.
_DENSEST_OUTPUT: Final = 64
_DENSEST_INPUT: Final = 3


def compress(data: Buffer, level: int) -> bytes:
    """Framed as SnappyOutputStream does it. Snappy has no levels; `level` is there for the sake of the others."""
    view = memoryview(data)
    pieces: list[Buffer] = [_HEADER]
    for start in range(0, len(view), _BLOCK_SIZE):
        block = memoryview(raw.compress_raw(view[start : start + _BLOCK_SIZE]))
        pieces += (_LENGTH.pack(len(block)), block)
    return b"".join(pieces)


def decompress(data: Buffer, limit: int) -> Buffer:
    view = memoryview(data)
    try:
        # Every block says how long it will be. All claims are weighed before anything is allocated for them.
        size = sum(map(_size_of, _blocks(view)))
        if size > limit:
            raise too_large("snappy", limit)
        out = memoryview(bytearray(size))
        position = 0
        for block in _blocks(view):
            position += raw.decompress_raw_into(block, out[position:])
    except DecompressionError as error:
        raise damaged("snappy", error) from error
    return out


def _blocks(view: memoryview) -> Iterator[memoryview]:
    """The raw blocks of a framed stream, or else `view`, which is then one. There is only one version of frames."""
    if bytes(view[: len(_MAGIC)]) != _MAGIC:
        yield view
        return
    end = len(view)
    position = 0
    while position < end:
        if end - position < _LENGTH.size:
            raise damaged("snappy", "they end in the middle of a block's length")
        (length,) = _LENGTH.unpack_from(view, position)
        if length == _MAGIC_AS_LENGTH:  # at the beginning, and where two streams were joined: Java reads on
            position += len(_HEADER)
            if position > end:
                raise damaged("snappy", "they end in the middle of a header")
            continue
        position += _LENGTH.size
        if not 0 <= length <= end - position:
            raise damaged("snappy", f"a block claims {length} bytes, with {end - position} left")
        yield view[position : position + length]
        position += length


def _size_of(block: memoryview) -> int:
    """The length that a raw block claims to have had, if so few bytes can stand for it at all."""
    size = raw.decompress_raw_len(block)
    if size * _DENSEST_INPUT > len(block) * _DENSEST_OUTPUT:
        raise damaged("snappy", f"{len(block)} bytes claim to stand for {size}")
    return size
