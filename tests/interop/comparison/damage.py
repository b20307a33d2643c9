"""Batches that no producer sends: damaged, outdated or lying. The checksum is right unless it is the point."""

from __future__ import annotations

import struct
import zlib

from ottla._native import crc32c

_MAGIC_AT, _CRC_AT, _ATTRIBUTES_AT, _COUNT_AT = 16, 17, 21, 57


def with_a_flipped_bit(batch: bytes) -> bytes:
    return batch[:-1] + bytes([batch[-1] ^ 1])


def cut_short(batch: bytes) -> bytes:
    return batch[:-1]


def with_magic(batch: bytes, magic: int) -> bytes:
    return batch[:_MAGIC_AT] + bytes([magic]) + batch[_MAGIC_AT + 1 :]


def with_attributes(batch: bytes, attributes: int) -> bytes:
    return _sealed(batch[:_ATTRIBUTES_AT] + struct.pack(">h", attributes) + batch[_ATTRIBUTES_AT + 2 :])


def counted_wrongly(batch: bytes, count: int) -> bytes:
    return _sealed(batch[:_COUNT_AT] + struct.pack(">i", count) + batch[_COUNT_AT + 4 :])


def of_magic_0(value: bytes) -> bytes:
    """One message as producers before Kafka 0.10 wrote it."""
    return _message(b"\0\0" + _sized(None) + _sized(value))


def of_magic_1(value: bytes, time: int = 1_600_000_000_000) -> bytes:
    """One message as producers before Kafka 0.11 wrote it."""
    return _message(b"\1\0" + struct.pack(">q", time) + _sized(None) + _sized(value))


def _sealed(batch: bytes) -> bytes:
    return batch[:_CRC_AT] + struct.pack(">I", crc32c(batch[_ATTRIBUTES_AT:])) + batch[_ATTRIBUTES_AT:]


def _message(body: bytes) -> bytes:
    return struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body


def _sized(content: bytes | None) -> bytes:
    return struct.pack(">i", -1) if content is None else struct.pack(">i", len(content)) + content
