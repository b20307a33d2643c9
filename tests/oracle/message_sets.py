"""Message sets, as Kafka wrote them before 0.11 (magic 0 and 1), and what record batches took over from them.

That is: the codecs, the errors, and the record that a consumer is given. Nothing is shared with `ottla`; the
compressed formats come from zlib and cramjam. What is accepted and what is refused follows Kafka's consumer,
with two exceptions that other clients have written: a wrapper without messages, and zstd around messages of magic 1.
Every checksum is verified; Kafka leaves out that of a wrapper, and those of messages that it does not deliver.
"""

from __future__ import annotations

import dataclasses
import gzip
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import cramjam

# What is wrong with the bytes: a length field below the least or outside its batch (size), a format that nobody
# knows (magic), a checksum (crc), bytes that end too early (truncated), a negative length or count where none is
# allowed (negative), an endless varint (varint), more or fewer records than announced (count), an unknown codec or
# bytes that are not of that codec (codec), a compressed message that breaks its rules (wrapper), a control record
# without a type (control).
Reason: TypeAlias = Literal[
    "size", "magic", "crc", "truncated", "negative", "varint", "count", "codec", "wrapper", "control"
]
Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")  # the position is the number on the wire
NO_TIMESTAMP_TYPE, CREATE_TIME, LOG_APPEND_TIME = -1, 0, 1
NO_TIMESTAMP = -1

CODEC_MASK = 0b0111
LOG_APPEND_TIME_BIT = 0b1000

PREFIX = struct.Struct(">qi")  # offset, size of what follows
LEAST_SIZE = 14  # of a message of magic 0 without key and value
MAGIC_AT = 16


class OracleError(ValueError):
    """These bytes are no records, and why."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason


@dataclass(frozen=True)
class OracleRecord:
    """A record as a consumer gets it."""

    offset: int
    timestamp: int
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    timestamp_type: int = CREATE_TIME
    leader_epoch: int = -1

    @property
    def plain(self) -> tuple[int, int, bytes | None, bytes | None, Headers]:
        """What every client tells about a record."""
        return self.offset, self.timestamp, self.key, self.value, self.headers


@dataclass(frozen=True)
class OracleMessage:
    """An entry of a message set, as it is written; if `codec` is not none, its value is another, compressed set."""

    magic: int
    offset: int
    timestamp: int = NO_TIMESTAMP
    key: bytes | None = None
    value: bytes | None = None
    codec: str = "none"
    timestamp_type: int = CREATE_TIME
    crc: int = dataclasses.field(default=0, compare=False)


def encode_message(message: OracleMessage) -> bytes:
    attributes = CODECS.index(message.codec) | message.timestamp_type * LOG_APPEND_TIME_BIT
    body = struct.pack(">bb", message.magic, attributes)
    if message.magic == 1:
        body += struct.pack(">q", message.timestamp)
    for field in (message.key, message.value):
        body += struct.pack(">i", -1) if field is None else struct.pack(">i", len(field)) + field
    return PREFIX.pack(message.offset, 4 + len(body)) + struct.pack(">I", zlib.crc32(body)) + body


def decode_message(data: bytes, *, check_crc: bool = True) -> OracleMessage:
    """The one entry that `data` consists of."""
    offset, size = PREFIX.unpack_from(data)
    if size != len(data) - PREFIX.size:
        raise OracleError("size", f"{size} bytes announced, {len(data) - PREFIX.size} are there")
    if size < LEAST_SIZE:
        raise OracleError("size", f"a message of {size} bytes")
    crc, magic, attributes = struct.unpack_from(">Ibb", data, PREFIX.size)
    if magic not in (0, 1):
        raise OracleError("magic", f"a message of magic {magic}")
    if check_crc and crc != zlib.crc32(data[MAGIC_AT:]):
        raise OracleError("crc", f"{crc:#x} is stored, {zlib.crc32(data[MAGIC_AT:]):#x} computed")
    rest = data[MAGIC_AT + 2 :]
    timestamp = NO_TIMESTAMP
    if magic == 1:
        if len(rest) < 8:
            raise OracleError("truncated", "inside the timestamp")
        timestamp = struct.unpack_from(">q", rest)[0]
        rest = rest[8:]
    key, rest = _field(rest)
    value, rest = _field(rest)
    # Bytes after the value are ignored: Kafka does not look.
    return OracleMessage(
        magic, offset, timestamp, key, value, codec_name(attributes), _timestamp_type(magic, attributes), crc
    )


def message_records(message: OracleMessage, *, check_crc: bool = True) -> list[OracleRecord]:
    """What a consumer gets from one entry: itself, or the messages inside with offsets and times set right."""
    if message.codec == "none":
        return [_record(message)]
    inner = inner_messages(message, check_crc=check_crc)
    if message.magic == 1 and message.timestamp_type == LOG_APPEND_TIME:
        # The broker stamps the wrapper only. Messages of magic 0 have no place for a time.
        inner = [
            dataclasses.replace(m, timestamp=message.timestamp, timestamp_type=LOG_APPEND_TIME)
            if m.magic == 1
            else m
            for m in inner
        ]
    base = _base_offset(message, inner)
    return [_record(dataclasses.replace(m, offset=base + m.offset)) for m in inner]


def inner_messages(wrapper: OracleMessage, *, check_crc: bool = True) -> list[OracleMessage]:
    """The messages inside a compressed one, as they are written there."""
    if wrapper.value is None:
        raise OracleError("wrapper", "a compressed message without a value")
    inner = [
        decode_message(entry, check_crc=check_crc)
        for entry in split_inner(decompress(wrapper.codec, wrapper.value, magic=wrapper.magic))
    ]
    if any(message.codec != "none" for message in inner):
        raise OracleError("wrapper", "a compressed message inside a compressed message")
    return inner


def wrap(
    messages: Sequence[OracleMessage], codec: str, *, magic: int, base_offset: int | None = None
) -> OracleMessage:
    """The messages, with absolute offsets, as one compressed message: what Kafka's producer and broker write.

    The wrapper has the offset of its last message. Inside, magic 1 counts from the base (KIP-31), that of the first
    message unless compaction took it; magic 0 does not.
    """
    base = 0
    if magic == 1:
        base = messages[0].offset if base_offset is None else base_offset
    inner = b"".join(encode_message(dataclasses.replace(m, offset=m.offset - base)) for m in messages)
    return OracleMessage(
        magic,
        messages[-1].offset,
        max(m.timestamp for m in messages),
        None,
        compress(codec, inner, magic=magic),
        codec,
        messages[0].timestamp_type,
    )


def split_inner(data: bytes) -> Iterator[bytes]:
    """The entries of a decompressed set; what is cut off at its end is left out."""
    while len(data) >= PREFIX.size:
        _, size = PREFIX.unpack_from(data)
        if size < LEAST_SIZE:
            raise OracleError("size", f"a message of {size} bytes inside a compressed one")
        end = PREFIX.size + size
        if len(data) < end:
            return
        yield data[:end]
        data = data[end:]


def _base_offset(wrapper: OracleMessage, inner: Sequence[OracleMessage]) -> int:
    """What to add to the offsets inside. Relative offsets start anywhere: the last of them is the wrapper's own."""
    if wrapper.magic == 0 or not inner or wrapper.offset == 0:
        # Offset 0: some versions of librdkafka left the wrapper's offset at that when they produced.
        return 0
    if wrapper.offset < inner[-1].offset:
        raise OracleError("wrapper", f"offset {wrapper.offset} around a message at {inner[-1].offset}")
    return wrapper.offset - inner[-1].offset


def _record(message: OracleMessage) -> OracleRecord:
    kind = NO_TIMESTAMP_TYPE if message.magic == 0 else message.timestamp_type
    return OracleRecord(message.offset, message.timestamp, message.key, message.value, (), kind)


def _field(data: bytes) -> tuple[bytes | None, bytes]:
    """A key or a value, and what follows it. Kafka takes any negative length for null."""
    if len(data) < 4:
        raise OracleError("truncated", "inside the length of a key or value")
    (length,) = struct.unpack_from(">i", data)
    if length < 0:
        return None, data[4:]
    if len(data) < 4 + length:
        raise OracleError("truncated", f"a key or value of {length} bytes, {len(data) - 4} are there")
    return data[4 : 4 + length], data[4 + length :]


def _timestamp_type(magic: int, attributes: int) -> int:
    return LOG_APPEND_TIME if magic == 1 and attributes & LOG_APPEND_TIME_BIT else CREATE_TIME


# The codecs. Kafka uses each as an existing stream format; two of them have their quirks.

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
XERIAL_BLOCK = 32 * 1024

# An LZ4 frame with independent blocks of at most 64 KB, no checksums and no content size, all that Kafka writes.
# Its last byte is a checksum of the two before it. For magic 0, Kafka took the four magic bytes as well, by mistake.
LZ4_HEADER = bytes.fromhex("04224d18 6040 82")
LZ4_HEADER_MAGIC_0 = bytes.fromhex("04224d18 6040 1a")
LZ4_BLOCK = 64 * 1024
LZ4_STORED = 1 << 31  # in the length of a block that would not shrink


def codec_name(attributes: int) -> str:
    number = attributes & CODEC_MASK
    if number >= len(CODECS):
        raise OracleError("codec", f"number {number}")
    return CODECS[number]


def compress(codec: str, data: bytes, *, magic: int = 2) -> bytes:
    match codec:
        case "none":
            return data
        case "gzip":
            return gzip.compress(data, mtime=0)
        case "snappy":
            return XERIAL_HEADER + b"".join(
                struct.pack(">i", len(block)) + block
                for block in (bytes(cramjam.snappy.compress_raw(chunk)) for chunk in _cut(data, XERIAL_BLOCK))
            )
        case "lz4":
            header = LZ4_HEADER_MAGIC_0 if magic == 0 else LZ4_HEADER
            return header + b"".join(map(_lz4_block, _cut(data, LZ4_BLOCK))) + bytes(4)
        case "zstd":
            return bytes(cramjam.zstd.compress(data))
        case _:
            raise OracleError("codec", codec)


def decompress(codec: str, data: bytes, *, magic: int = 2) -> bytes:
    if codec == "none":
        return data
    if not data:
        raise OracleError("codec", f"no bytes at all are no {codec}")
    try:
        match codec:
            case "gzip":
                return gzip.decompress(data)
            case "snappy":
                return _unsnappy(data)
            case "lz4":
                return bytes(cramjam.lz4.decompress(_mend_lz4(data) if magic == 0 else data))
            case "zstd":
                return bytes(cramjam.zstd.decompress(data))
    except (cramjam.DecompressionError, OSError, EOFError, zlib.error, struct.error) as error:
        raise OracleError("codec", f"{codec}: {error}") from error
    raise OracleError("codec", codec)


def _unsnappy(data: bytes) -> bytes:
    """Blocks under a header, as the xerial library of the Java client has them; else one raw block."""
    if not data.startswith(XERIAL_MAGIC):
        return bytes(cramjam.snappy.decompress_raw(data))
    blocks, at = [], len(XERIAL_HEADER)
    while at < len(data):
        (length,) = struct.unpack_from(">i", data, at)
        if not 0 <= length <= len(data) - at - 4:
            raise OracleError("codec", f"a snappy block of {length} bytes")
        blocks.append(bytes(cramjam.snappy.decompress_raw(data[at + 4 : at + 4 + length])))
        at += 4 + length
    return b"".join(blocks)


def _lz4_block(data: bytes) -> bytes:
    block = bytes(cramjam.lz4.compress_block(data, store_size=False))
    if len(block) < len(data):
        return struct.pack("<I", len(block)) + block
    return struct.pack("<I", len(data) | LZ4_STORED) + data


def _mend_lz4(data: bytes) -> bytes:
    """The frame with the right checksum in its header, found by trying: one byte, so one of 256 fits."""
    at = 14 if len(data) > 4 and data[4] & 0b1000 else 6  # behind the content size, if it has one
    for checksum in range(256):
        mended = data[:at] + bytes([checksum]) + data[at + 1 :]
        try:
            cramjam.lz4.decompress(mended)
        except cramjam.DecompressionError:
            continue
        return mended
    raise OracleError("codec", "lz4: no checksum of the header helps")


def _cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]
