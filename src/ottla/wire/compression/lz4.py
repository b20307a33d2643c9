"""LZ4: one frame of the LZ4 frame format, by python-lz4.

Written as Java writes it: independent blocks of 64 KiB, because the Java client refuses blocks that refer to
earlier ones, and neither sizes nor checksums of the content. Read in every form that the format has, and with the
wrong header checksum that Kafka's clients wrote before 0.10 (KAFKA-3160). A second frame is an error: Java would
silently leave it out.
"""

from __future__ import annotations

from typing import Final

from lz4.frame import BLOCKSIZE_MAX64KB, create_decompression_context, decompress_chunk
from lz4.frame import compress as compress_frame

from ottla.wire.compression.failures import damaged, too_large
from ottla.wire.primitives import Buffer

_MAGIC: Final = b"\x04\x22\x4d\x18"
_HAS_CONTENT_SIZE: Final = 0x08
_HAS_DICTIONARY: Final = 0x01

_JAVA_FAST_LEVEL: Final = 9
_FAST: Final = 0
_LOWEST_HIGH_COMPRESSION: Final = 3

_SMALLEST_STEP: Final = 1 << 16


def compress(data: Buffer, level: int) -> bytes:
    frame: bytes = compress_frame(
        data,
        compression_level=_library_level(level),
        block_size=BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return frame


def _library_level(level: int) -> int:
    """The library's number for Kafka's level.

    Kafka's default, 9, is Java's fast compressor, and every other level the slow, thorough one (KIP-390). The
    library has the fast one below 3; above 12 there is nothing more to gain, in Java neither.
    """
    return _FAST if level == _JAVA_FAST_LEVEL else max(level, _LOWEST_HIGH_COMPRESSION)


def decompress(data: Buffer, limit: int) -> bytes:
    view = memoryview(data)
    if bytes(view[:4]) != _MAGIC:
        raise damaged("lz4", "they do not begin like a frame")
    try:
        return _decompress_frame(view, limit)
    except RuntimeError as error:  # what the library raises for whatever it does not like
        header = _mended_header(view)
        if header is None:
            raise damaged("lz4", error) from error
    try:
        return _decompress_frame(memoryview(header + view[len(header) :]), limit)
    except RuntimeError as error:
        raise damaged("lz4", error) from error


def _decompress_frame(view: memoryview, limit: int) -> bytes:
    # Frames need not say how long their content is, and Java's do not. The library allocates as much as it may
    # return: a usual ratio first, then twice as much each time.
    context = create_decompression_context()
    position = 0
    room = limit + 1  # one more than allowed, so that a full result differs from one that is too large
    step = max(_SMALLEST_STEP, 4 * len(view))
    pieces = []
    while True:
        piece, used, at_end = decompress_chunk(context, view[position:], max_length=min(step, room))
        position += used
        room -= len(piece)
        if not room:
            raise too_large("lz4", limit)
        pieces.append(piece)
        if at_end:
            break
        if not piece and not used:
            raise damaged("lz4", "they end in the middle of a frame")
        step *= 2
    if position != len(view):
        raise damaged("lz4", f"{len(view) - position} bytes follow the frame")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _mended_header(view: memoryview) -> bytes | None:
    """The header with the right checksum, if the one it has is the wrong one of Kafka's old clients; else None.

    They computed it from the magic on, which does not belong to it. A dictionary none of them could use.
    """
    if len(view) < 7 or view[4] & _HAS_DICTIONARY:
        return None
    size = 14 if view[4] & _HAS_CONTENT_SIZE else 6
    header = bytes(view[:size])
    if len(view) <= size or view[size] != _header_checksum(header):
        return None
    return header + bytes([_header_checksum(header[4:])])


def _header_checksum(header: bytes) -> int:
    return _xxh32(header) >> 8 & 0xFF


def _xxh32(data: bytes) -> int:
    """xxHash32 with seed 0, without the part that only 16 bytes and more need."""
    assert len(data) < 16
    hashed = (0x165667B1 + len(data)) & 0xFFFFFFFF
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        lane = int.from_bytes(data[start : start + 4], "little")
        hashed = _rotated(hashed + lane * 0xC2B2AE3D, 17) * 0x27D4EB2F & 0xFFFFFFFF
    for byte in data[whole:]:
        hashed = _rotated(hashed + byte * 0x165667B1, 11) * 0x9E3779B1 & 0xFFFFFFFF
    hashed = (hashed ^ hashed >> 15) * 0x85EBCA77 & 0xFFFFFFFF
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE3D & 0xFFFFFFFF
    return hashed ^ hashed >> 16


def _rotated(value: int, bits: int) -> int:
    value &= 0xFFFFFFFF
    return value << bits | value >> 32 - bits
