"""The few wire types that Python lacks, and the slow halves of the compiled codecs.

decoder.py and encoder.py write functions that handle the common case in line; what is rare, or too long to
repeat in each of them, is here. `MalformedError` never leaves the wire layer: the codecs turn it into a DecodeError
that names the message, its version and the byte.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

Buffer = bytes | bytearray | memoryview

MAX_STRING: Final = 0x7FFF
"""Kafka refuses longer strings, also in compact form, where the length would have room for more."""

_MAX_UVARINT_BYTES: Final = 5


class Uuid(bytes):
    """A topic, directory or client id: 16 bytes that print as Kafka prints them, in URL-safe base64.

    >>> Uuid.parse("AAAAAAAAAAAAAAAAAAAAAQ")
    Uuid('AAAAAAAAAAAAAAAAAAAAAQ')
    """

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Uuid:
        try:
            raw = base64.urlsafe_b64decode(text + "==")
        except ValueError:
            raw = b""
        if len(raw) != 16:
            raise ValueError(f"{text!r} is not a Kafka id: 22 characters of URL-safe base64 are expected")
        return cls(raw)

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(self)[:22].decode("ascii")

    def __repr__(self) -> str:
        return f"Uuid({str(self)!r})"


ZERO_UUID: Final = Uuid(16)


class MalformedError(ValueError):
    """What is wrong with the bytes, before it is known in which message."""


def bad_length(field: str, length: int, left: int) -> MalformedError:
    if length == -1:
        return MalformedError(f"{field} is null, which this version does not allow")
    if length < 0:
        return MalformedError(f"{field} has length {length}")
    return MalformedError(f"{field} claims a length of {length}, with {left} bytes left")


def bad_tag_size(tag: int, size: int, used: int) -> MalformedError:
    return MalformedError(f"tagged field {tag} claims {size} bytes and has {used}")


def bad_presence(field: str, marker: int, null: int = -1) -> MalformedError:
    if marker == -1:
        return bad_length(field, -1, 0)
    return MalformedError(f"{field} is marked {marker}, neither present (1) nor null ({null})")


def read_uvarint(buf: Buffer, pos: int) -> tuple[int, int]:
    """An unsigned varint at `pos`, and the position behind it."""
    first = buf[pos]
    return (first, pos + 1) if first < 0x80 else finish_uvarint(buf, pos + 1, first)


def finish_uvarint(buf: Buffer, pos: int, first: int) -> tuple[int, int]:
    """The rest of an unsigned varint whose first byte, with the high bit set, was read already."""
    value = first & 0x7F
    for index in range(1, _MAX_UVARINT_BYTES):
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            # The fifth byte has room for 35 bits, of which Kafka keeps 32.
            return value & 0xFFFFFFFF, pos
    raise MalformedError(f"a varint runs on for more than {_MAX_UVARINT_BYTES} bytes")


def uvarint(value: int) -> bytes:
    """An unsigned varint's bytes."""
    if not 0 <= value <= 0xFFFFFFFF:
        raise ValueError(f"{value} does not fit an unsigned varint of 32 bits")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(value: int) -> bytes:
    """A signed varint's bytes, as records have them: zigzag, so that small numbers of either sign are short."""
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"{value} does not fit a varint of 64 bits")
    bits = value << 1 ^ value >> 63
    out = bytearray()
    while bits > 0x7F:
        out.append(bits & 0x7F | 0x80)
        bits >>= 7
    out.append(bits)
    return bytes(out)


def read_unknown_tags(buf: Buffer, pos: int, end: int) -> tuple[dict[int, bytes] | None, int]:
    """The tagged section of a struct that knows no tags: everything is kept for the way back."""
    count, pos = read_uvarint(buf, pos)
    unknown: dict[int, bytes] = {}
    for _ in range(count):
        tag, size, pos = read_tag(buf, pos, end)
        unknown[tag] = bytes(buf[pos : pos + size])
        pos += size
    return unknown or None, pos


def read_tag(buf: Buffer, pos: int, end: int) -> tuple[int, int, int]:
    """Tag, size, and where the content begins; the content is known to be there."""
    tag, pos = read_uvarint(buf, pos)
    size, pos = read_uvarint(buf, pos)
    if size > end - pos:
        raise bad_length(f"tagged field {tag}", size, end - pos)
    return tag, size, pos


def write_tags(
    write: Callable[[Buffer], object],
    present: list[tuple[int, bytes]],
    unknown: dict[int, bytes] | None,
    known: tuple[int, ...],
) -> None:
    """A tagged section with something in it, tags ascending. `known` are the tags that the version itself has."""
    fields = present
    if unknown:
        for tag in known:
            if tag in unknown:
                raise ValueError(f"unknown_tagged_fields holds tag {tag}, which this version knows")
        fields = sorted([*present, *unknown.items()])
    write(uvarint(len(fields)))
    for tag, content in fields:
        write(uvarint(tag))
        write(uvarint(len(content)))
        write(content)


NUMBER_CODES: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
}
"""How the struct module spells the numbers of the schema."""

READY_LENGTHS: Final = 33
"""Number arrays below this length are packed and unpacked by functions that were made beforehand."""


@cache
def array_unpackers(code: str) -> list[Callable[[Buffer, int], tuple[Any, ...]]]:
    """unpack_from for arrays of one number type, by length."""
    return [array_unpacker(code, n) for n in range(READY_LENGTHS)]


@cache
def array_and_byte_unpackers(code: str) -> list[Callable[[Buffer, int], tuple[Any, ...]]]:
    """The same with one more byte behind the array; by length + 1, as compact arrays spell it."""
    return [struct.Struct(f">{max(0, n - 1)}{code}B").unpack_from for n in range(READY_LENGTHS + 1)]


def array_unpacker(code: str, length: int) -> Callable[[Buffer, int], tuple[Any, ...]]:
    return struct.Struct(f">{length}{code}").unpack_from


@cache
def array_packers(code: str, compact: bool) -> list[Callable[..., bytes]]:
    """pack for arrays of one number type behind their length field, by length."""
    prefix = "B" if compact else "i"
    return [struct.Struct(f">{prefix}{n}{code}").pack for n in range(READY_LENGTHS)]


def pack_array(code: str, compact: bool, items: Sequence[Any]) -> bytes:
    """An array of numbers behind its length, of any length."""
    length = len(items)
    prefix = uvarint(length + 1) if compact else struct.pack(">i", length)
    return prefix + struct.pack(f">{length}{code}", *items)
