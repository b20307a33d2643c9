"""The compression of record batches: the four codecs of Kafka, framed as Apache Kafka's own client frames them.

    smaller = compress(Compression.LZ4, records)
    records = decompress(Compression.LZ4, smaller, limit=64 << 20)

One module per codec (gzip.py, snappy.py, lz4.py, zstd.py), each with the same two functions; which levels there
are and what an unknown codec means is decided here. Not here: what is inside a batch, and in which thread this
runs. All of it is synchronous and can be called from any thread; the libraries release the GIL while they work.

Invariant: whatever the bytes are, `decompress` returns at most `limit` bytes or raises a DecodeError, and never
holds more memory than a small multiple of the lesser of `limit` and what the input can really contain.
"""

from __future__ import annotations

import sys
from enum import IntEnum
from functools import cache
from typing import Final, NamedTuple, Protocol

from ottla.errors import DecodeError
from ottla.wire.primitives import Buffer

__all__ = ["Compression", "check_level", "compress", "decompress"]


class Compression(IntEnum):
    """A codec, by its number in the attributes of a record batch."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class _Levels(NamedTuple):
    lowest: int
    highest: int
    default: int


_NO_LEVELS: Final = _Levels(1, 0, 0)

# Kafka's ranges and defaults (KIP-390), which are not always those of the libraries.
_LEVELS: Final[dict[int, _Levels]] = {
    Compression.NONE: _NO_LEVELS,
    Compression.GZIP: _Levels(1, 9, -1),
    Compression.SNAPPY: _NO_LEVELS,
    Compression.LZ4: _Levels(1, 17, 9),
    Compression.ZSTD: _Levels(-131072, 22, 3),
}


class _Codec(Protocol):
    """What each of the codec modules offers."""

    def compress(self, data: Buffer, level: int) -> Buffer: ...

    def decompress(self, data: Buffer, limit: int) -> Buffer: ...


def compress(codec: int, data: Buffer, level: int | None = None) -> Buffer:
    """`data` in the form that goes behind the header of a record batch; without a codec, `data` itself.

    `level` is that of Kafka's compression.<codec>.level; None stands for Kafka's default.
    """
    chosen = check_level(codec, level)
    return data if codec == Compression.NONE else _codec(codec).compress(data, chosen)


def decompress(codec: int, data: Buffer, limit: int) -> Buffer:
    """What was compressed, if it is no more than `limit` bytes; without a codec, `data` itself.

    The codec is the number in the batch's attributes, known or not. A batch without records may have no
    compressed data at all, not even an empty frame: look at its record count before coming here.
    """
    if not 0 <= limit < sys.maxsize:  # the libraries take a negative one for no limit at all
        raise ValueError(f"{limit} is no limit for decompressed data: 0 to {sys.maxsize - 1} bytes")
    if codec == Compression.NONE:
        if len(data) > limit:
            raise DecodeError(f"{len(data)} bytes of records are above the limit of {limit}: raise the limit")
        return data
    return _codec(codec).decompress(data, limit)


def check_level(codec: int, level: int | None) -> int:
    """`level`, or the codec's default for None; raises a ValueError that names the range. Imports no library."""
    levels = _LEVELS.get(codec)
    if levels is None:
        raise ValueError(f"there is no compression codec {codec}")
    lowest, highest, default = levels
    if level is None:
        return default
    name = Compression(codec).name.lower()
    if levels is _NO_LEVELS:
        raise ValueError(f"{name} has no compression levels: leave the level out instead of {level}")
    if lowest <= level <= highest or level == default:
        return level
    otherwise = "" if lowest <= default <= highest else f" (and {default}, the default)"
    raise ValueError(f"{name} has compression levels {lowest} to {highest}{otherwise}, not {level}")


@cache
def _codec(codec: int) -> _Codec:
    """The module of a codec, which imports its library: on first use, since few programs need all four."""
    match codec:
        case Compression.GZIP:
            from ottla.wire.compression import gzip

            return gzip
        case Compression.SNAPPY:
            from ottla.wire.compression import snappy

            return snappy
        case Compression.LZ4:
            from ottla.wire.compression import lz4

            return lz4
        case Compression.ZSTD:
            from ottla.wire.compression import zstd

            return zstd
    raise DecodeError(
        f"compression codec {codec} is none of Kafka's: it is a newer one, or the batch is damaged"
    )
