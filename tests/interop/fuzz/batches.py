"""Random batches: good ones, and such as no producer sends."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from ottla._native import crc32c
from ottla.wire.batches import PlainRecord, encode_batch
from tests.interop.comparison import damage
from tests.interop.fuzz.drawing import FUTURE, TIME, Draw

_CRC_AT, _ATTRIBUTES_AT = 17, 21
# Where a header field lies, how it is packed, and values worth trying.
_FIELDS: Final[dict[str, tuple[int, str, tuple[int, ...]]]] = {
    "base offset": (0, ">q", (1, -1, 7, 2**62)),
    "length": (8, ">i", (0, -1, 13, 14, 49, 60, 2**31 - 1)),
    "leader epoch": (12, ">i", (0, 5, -2, 2**31 - 1)),
    "magic": (16, ">b", (0, 1, 3, -1, 127)),
    "attributes": (21, ">h", (5, 6, 7, 0x08, 0x10, 0x20, 0x30, 0x40, 0x80, -1, 0x4000)),
    "last offset delta": (23, ">i", (-1, 0, 1, 2, 5, 2**31 - 1, -(2**31))),
    "base timestamp": (27, ">q", (-1, 0, -5, FUTURE, 2**63 - 1, -(2**63))),
    "max timestamp": (35, ">q", (-1, 0, -5, FUTURE, 2**63 - 1)),
    "producer id": (43, ">q", (-2, 0, 5_000_001, 2**63 - 1)),
    "producer epoch": (51, ">h", (-2, 0, 1, 32767)),
    "base sequence": (53, ">i", (-2, 0, 1, 2**31 - 1)),
    "record count": (57, ">i", (-1, 0, 1, 2, 3, 2**31 - 1)),
}


def any_batch(draw: Draw, topic: str, partition: int) -> tuple[str, bytes | None]:
    """A batch with its words."""
    kinds: list[tuple[float, Callable[[Draw, str, int], tuple[str, bytes | None]]]] = [
        (10, _good),
        (6, _idempotent),
        (1, _of_half_a_producer),
        (4, _with_a_field_changed),
        (2, _damaged),
        (0.6, _flagged),
    ]
    (kind,) = draw.choices([each for _, each in kinds], [weight for weight, _ in kinds])
    return kind(draw, topic, partition)


def _records(draw: Draw, time: int) -> list[PlainRecord]:
    base = draw.mostly(time, time + draw.randint(0, 9) * 100, time - 5000, -1, -5, 0, FUTURE, chance=0.55)
    count = draw.mostly(1, 2, 3, 5, chance=0.4)
    return [
        (
            offset,
            base + draw.mostly(offset, 0, -offset, 100 * offset, chance=0.8),
            draw.one(None, b"k", b"", b"key"),
            draw.mostly(bytes([97 + offset]) * draw.one(1, 3, 10), None, b"", b"x" * 700),
            draw.one([], [], [("h", b"1")], [("h", None), ("h", b"")]),
        )
        for offset in range(count)
    ]


def _good(draw: Draw, topic: str, partition: int) -> tuple[str, bytes | None]:
    codec = draw.mostly(0, 1, 2, 3, 4, chance=0.7)
    records = _records(draw, TIME)
    return f"{len(records)} records, codec {codec}", encode_batch(records, codec=codec)


def _idempotent(draw: Draw, topic: str, partition: int) -> tuple[str, bytes | None]:
    producer = draw.one(5_000_000, 5_000_001, 5_000_002)
    epoch, sequence = draw.sequences.get((topic, partition, producer), (0, 0))
    epoch = draw.mostly(epoch, -1, epoch + 1, epoch - 1, 0, -2, 32767, chance=0.75)
    sequence = draw.mostly(sequence, 0, sequence - 1, sequence + 1, 2**31 - 1, -1, chance=0.7)
    count = draw.one(1, 2, 3)
    records: list[PlainRecord] = [
        (offset, FUTURE + offset, b"k", b"%d" % (sequence + offset), []) for offset in range(count)
    ]
    epoch, sequence = min(epoch, 32767), min(sequence, 2**31 - 1)
    if sequence >= 0 and epoch >= 0:
        draw.sequences[topic, partition, producer] = (epoch, (sequence + count) & (2**31 - 1))
    made = encode_batch(records, producer_id=producer, producer_epoch=epoch, base_sequence=max(sequence, -1))
    return f"producer {producer} epoch {epoch} sequence {sequence} of {count}", made


def _of_half_a_producer(draw: Draw, topic: str, partition: int) -> tuple[str, bytes | None]:
    """An id without an epoch: fine, unless the leader has to write the batch anew."""
    # Not of any time: a producer whose last record is old is forgotten at a moment of each broker's own.
    records: list[PlainRecord] = [
        (offset, FUTURE + offset, b"k", b"v", []) for offset in range(draw.one(1, 2, 3))
    ]
    producer, sequence = draw.one(5_000_003, 5_000_004, -2), draw.one(0, 5)
    made = encode_batch(records, producer_id=producer, producer_epoch=-1, base_sequence=sequence)
    return f"producer {producer} without an epoch, sequence {sequence}", made


def _with_a_field_changed(draw: Draw, topic: str, partition: int) -> tuple[str, bytes | None]:
    name = draw.choice(list(_FIELDS))
    at, form, values = _FIELDS[name]
    value = draw.choice(values)
    batch = bytearray(encode_batch(_records(draw, FUTURE), codec=draw.mostly(0, 1, 4)))
    struct.pack_into(form, batch, at, value)
    if at > _CRC_AT:
        struct.pack_into(">I", batch, _CRC_AT, crc32c(memoryview(batch)[_ATTRIBUTES_AT:]))
    return f"{name} of {value}", bytes(batch)


def _damaged(draw: Draw, topic: str, partition: int) -> tuple[str, bytes | None]:
    whole = encode_batch(_records(draw, TIME))
    return draw.one(
        ("bad checksum", damage.with_a_flipped_bit(whole)),
        ("bad checksum", damage.with_a_flipped_bit(whole)),
        ("cut short", damage.cut_short(whole)),
        ("30 bytes", whole[:30]),
        ("10 bytes", whole[:10]),
        ("a batch and 5 bytes", whole + b"\0" * 5),
        ("a batch and half of another", whole + whole[:30]),
        ("two batches", whole + whole),
        ("magic 0", damage.of_magic_0(b"old")),
        ("magic 1", damage.of_magic_1(b"old")),
        ("no bytes", b""),
        ("3000 bytes in a record", encode_batch([(0, TIME, b"k", b"y" * 3000, [])])),
    )


def _flagged(draw: Draw, topic: str, partition: int) -> tuple[str, bytes | None]:
    records = _records(draw, FUTURE)
    return draw.one(
        ("a control batch", encode_batch(records, control=True)),
        ("a transactional batch without a producer", encode_batch(records, transactional=True)),
        ("append time", encode_batch(records, append_time=draw.one(TIME, -1, -5))),
        ("no timestamps", encode_batch(records, append_time=-1)),
        ("a delete horizon", encode_batch(records, delete_horizon=TIME)),
        ("a gap at the end", encode_batch(records, last_offset=9)),
    )
