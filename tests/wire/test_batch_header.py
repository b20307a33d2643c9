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
    assert batch_header.PREFIX.unpack_from(_BATCH) == (3, size)
    assert batch_header.OFFSETS.unpack_from(_BATCH) == (3, size, delta)
    assert batch_header.EPOCH_AND_DELTA.unpack_from(_BATCH, batch_header.LEADER_EPOCH_AT) == (9, delta)
    for layout, position, value in (
        (batch_header.BASE_OFFSET, batch_header.BASE_OFFSET_AT, 3),
        (batch_header.LENGTH, batch_header.LENGTH_AT, size),
        (batch_header.LEADER_EPOCH, batch_header.LEADER_EPOCH_AT, 9),
        (batch_header.SIGNED_MAGIC, batch_header.MAGIC_AT, batch_header.MAGIC),
        (batch_header.CRC, batch_header.CRC_AT, header.crc),
        (batch_header.ATTRIBUTES, batch_header.ATTRIBUTES_AT, batch_header.TRANSACTIONAL),
        (batch_header.MAX_TIMESTAMP, batch_header.MAX_TIMESTAMP_AT, 5_000),
        (batch_header.COUNT, batch_header.COUNT_AT, 2),
    ):
        assert layout.unpack_from(_BATCH, position) == (value,)
    assert _BATCH[batch_header.ATTRIBUTES_LOW_AT] == batch_header.TRANSACTIONAL
