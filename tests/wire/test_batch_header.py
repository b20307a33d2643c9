"""The layout of a record batch: the same in Python, in C and as the fields add up."""

from __future__ import annotations

from itertools import accumulate
from struct import calcsize

from ottla._native.inspect import BATCH_LAYOUT
from ottla.wire import batch_header
from ottla.wire.batches import batch_headers, encode_batch

_POSITIONS = (
    batch_header.BASE_OFFSET_AT,
    batch_header.LENGTH_AT,
    batch_header.LEADER_EPOCH_AT,
    batch_header.MAGIC_AT,
    batch_header.CRC_AT,
    batch_header.ATTRIBUTES_AT,
    batch_header.LAST_OFFSET_DELTA_AT,
    batch_header.BASE_TIMESTAMP_AT,
    batch_header.MAX_TIMESTAMP_AT,
    batch_header.PRODUCER_ID_AT,
    batch_header.PRODUCER_EPOCH_AT,
    batch_header.BASE_SEQUENCE_AT,
    batch_header.COUNT_AT,
)
_BATCH = encode_batch(
    [(3, 1_000, b"k", b"v", []), (7, 5_000, b"k", b"v", [])],
    leader_epoch=9,
    producer_id=77,
    producer_epoch=3,
    base_sequence=5,
    transactional=True,
)


def test_positions_are_where_the_fields_before_them_end() -> None:
    codes = batch_header.HEADER.format.removeprefix(">")
    ends = list(accumulate(calcsize(f">{code}") for code in codes))
    assert (*_POSITIONS, batch_header.BATCH_OVERHEAD) == (0, *ends)


def test_the_compiled_core_has_the_same_layout() -> None:
    assert {name: getattr(batch_header, name) for name in BATCH_LAYOUT} == BATCH_LAYOUT
    names = {
        name
        for name, value in vars(batch_header).items()
        if name.isupper() and isinstance(value, int) and name not in BATCH_LAYOUT
    }
    # What is made of others, and what the compiled core has no need of.
    assert names == {"ATTRIBUTES_LOW_AT", "CHECKED_FROM", "LARGEST_SEQUENCE", "MAGIC", "SMALLEST_LENGTH"}


def test_parts_of_the_header_are_what_the_whole_says() -> None:
    (header,) = batch_headers(_BATCH)
    size = header.size - batch_header.LOG_OVERHEAD
    delta = header.last_offset - header.base_offset
    assert batch_header.unpack_prefix(_BATCH) == (3, size)
    assert batch_header.unpack_offsets(_BATCH) == (3, size, delta)
    assert batch_header.unpack_epoch_and_delta(_BATCH, batch_header.LEADER_EPOCH_AT) == (9, delta)
    for unpack, position, value in (
        (batch_header.unpack_length, batch_header.LENGTH_AT, size),
        (batch_header.unpack_signed_magic, batch_header.MAGIC_AT, batch_header.MAGIC),
        (batch_header.unpack_crc, batch_header.CRC_AT, header.crc),
        (batch_header.unpack_count, batch_header.COUNT_AT, 2),
    ):
        assert unpack(_BATCH, position) == (value,)
    assert _BATCH[batch_header.ATTRIBUTES_LOW_AT] == batch_header.TRANSACTIONAL


def test_fields_are_written_where_they_are_read() -> None:
    data = bytearray(batch_header.BATCH_OVERHEAD)
    batch_header.pack_base_offset(data, batch_header.BASE_OFFSET_AT, 1 << 40)
    batch_header.pack_length(data, batch_header.LENGTH_AT, 2)
    batch_header.pack_leader_epoch(data, batch_header.LEADER_EPOCH_AT, 3)
    batch_header.pack_crc(data, batch_header.CRC_AT, 0xFFFFFFFE)
    batch_header.pack_attributes(data, batch_header.ATTRIBUTES_AT, batch_header.CONTROL)
    batch_header.pack_max_timestamp(data, batch_header.MAX_TIMESTAMP_AT, 5 << 40)
    assert batch_header.unpack_header(data) == (
        *(1 << 40, 2, 3, 0, 0xFFFFFFFE, batch_header.CONTROL, 0, 0, 5 << 40, 0, 0, 0, 0),
    )
