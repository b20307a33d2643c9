"""GZIP: one or more gzip members (RFC 1952), by the standard library's zlib."""

from __future__ import annotations

import zlib
from typing import Final

from ottla.wire.compression.failures import damaged, too_large
from ottla.wire.primitives import Buffer

_GZIP: Final = 16
"""Added to the window's bits: zlib then reads and writes gzip's header and trailer and checks the CRC."""

_LARGEST_WINDOW: Final = 15
_DEFAULT_MEMORY: Final = 8

_INPUT_STEP: Final = 1 << 15
"""How much is fed at once. zlib copies what follows a member, which for many tiny members would be quadratic."""


def compress(data: Buffer, level: int) -> bytes:
    window, memory = _sizes(len(data))
    member = zlib.compressobj(level, zlib.DEFLATED, _GZIP + window, memory)
    return member.compress(data) + member.flush()


def _sizes(length: int) -> tuple[int, int]:
    """Window bits and memory level: no larger than the data, since clearing 256 KiB takes longer than 1 KiB does.

    zlib keeps 262 bytes of its window for itself.
    """
    window = min(_LARGEST_WINDOW, max(9, (length + 262).bit_length()))
    return window, min(_DEFAULT_MEMORY, window - 6)


def decompress(data: Buffer, limit: int) -> bytes:
    view = memoryview(data)
    position = 0
    room = limit + 1  # one more than allowed, so that a full result differs from one that is too large
    pieces = []
    while True:
        member = zlib.decompressobj(_GZIP + _LARGEST_WINDOW)
        while not member.eof:
            step = view[position : position + _INPUT_STEP]
            if not step:
                raise damaged("gzip", "they end in the middle of a member")
            position += len(step)
            try:
                piece = member.decompress(step, room)
            except zlib.error as error:
                raise damaged("gzip", error) from error
            room -= len(piece)
            if not room:
                raise too_large("gzip", limit)
            pieces.append(piece)
        position -= len(member.unused_data)
        if position == len(view):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
