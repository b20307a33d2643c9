"""A batch as a broker handles it: its header is read once, and an ordinary batch is accepted in one step, or not.

That `accept` says yes only where the long way does, and leaves the same bytes: tests/broker/log/test_validation.py.
"""

from __future__ import annotations

import struct
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla._native import crc32c
from ottla._native.record_batch import (
    AppendRules,
    Batch,
    find_batch,
    last_batch,
    read_header,
    whole_batch,
)
from ottla.errors import DecodeError
from ottla.wire.batch_header import HEADER
from ottla.wire.batches import PlainRecord, batch_headers, encode_batch

NOW = 1_700_000_000_000
HOUR = 3_600_000
NEVER = 2**63 - 1
NUMBERS = (
    *("base_offset", "length", "leader_epoch", "magic", "crc", "attributes", "last_offset_delta"),
    *("base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "record_count"),
)


def batch_of(*timestamps: int, key: bytes | None = b"key", **options: Any) -> bytearray:
    records: list[PlainRecord] = [(n, timestamp, key, b"value", []) for n, timestamp in enumerate(timestamps)]
    return bytearray(encode_batch(records, **options))


def rules(**options: Any) -> AppendRules:
    defaults = {
        "max_size": 1 << 20,
        "before_max_ms": NEVER,
        "after_max_ms": HOUR,
        "append_time": False,
        "keys_required": False,
    }
    return AppendRules(**{**defaults, **options})


def patched(data: bytes | bytearray, layout: str, at: int, value: int) -> bytearray:
    changed = bytearray(data)
    struct.pack_into(layout, changed, at, value)
    struct.pack_into(">I", changed, 17, crc32c(memoryview(changed)[21:]))
    return changed


def no_codec(codec: int, payload: memoryview) -> bytes:
    raise AssertionError(f"codec {codec} is not to be used")


def whole(data: bytes | bytearray | memoryview) -> Batch:
    batch = whole_batch(data)
    assert batch is not None
    return batch


def accepts(data: bytes | bytearray, rules: AppendRules) -> bool:
    """Whether a batch is accepted; one that is not has not changed."""
    before, batch = bytes(data), whole(data)
    fields = [getattr(batch, name) for name in NUMBERS]
    if batch.accept(rules, 42, 7, NOW, no_codec):
        return True
    assert bytes(data) == before
    assert [getattr(batch, name) for name in NUMBERS] == fields
    return False


@given(st.binary(min_size=HEADER.size, max_size=HEADER.size), st.integers(0, 70))
def test_a_header_is_what_its_bytes_say(header: bytes, position: int) -> None:
    batch = read_header(bytes(position) + header, position)
    assert tuple(getattr(batch, name) for name in NUMBERS) == HEADER.unpack(header)
    assert batch.size == batch.length + 12
    assert batch.last_offset == batch.base_offset + batch.last_offset_delta
    assert batch.next_offset == batch.last_offset + 1
    assert batch.data is None
    assert batch.codec == batch.attributes & 7
    assert batch.has_append_time == bool(batch.attributes & 8)
    assert batch.is_transactional == bool(batch.attributes & 16)
    assert batch.is_control == bool(batch.attributes & 32)
    assert batch.has_producer_id == (batch.producer_id > -1)
    assert str(batch.base_offset) in repr(batch)


@pytest.mark.parametrize("base_offset", [2**63 - 1, -(2**63), 2**62])
def test_offsets_beyond_64_bits_are_numbers_all_the_same(base_offset: int) -> None:
    data = patched(patched(batch_of(NOW), ">q", 0, base_offset), ">i", 23, 2**31 - 1)
    batch = read_header(data)
    assert batch.last_offset == base_offset + 2**31 - 1
    assert batch.next_offset == base_offset + 2**31


@pytest.mark.parametrize("sequence", [-1, 0, 2**31 - 2, 2**31 - 1])
def test_behind_the_largest_sequence_comes_0(sequence: int) -> None:
    data = batch_of(NOW, NOW, NOW, producer_id=1, producer_epoch=0, base_sequence=sequence)
    (expected,) = batch_headers(data)
    assert read_header(data).last_sequence == expected.last_sequence


@pytest.mark.parametrize(("size", "position"), [(0, 0), (60, 0), (100, 40), (100, -1), (100, sys.maxsize)])
def test_a_header_has_to_be_there(size: int, position: int) -> None:
    with pytest.raises(DecodeError, match="no room for the header"):
        read_header(bytes(size), position)


@pytest.mark.parametrize("argument", [None, "text", 5])
def test_only_bytes_are_read(argument: Any) -> None:
    for function in (
        read_header,
        whole_batch,
        lambda data: find_batch(data, 1, 1),
        lambda data: last_batch(data, 1),
    ):
        with pytest.raises(TypeError, match="data must be a bytes-like object"):
            function(argument)


def test_batches_come_from_bytes_alone() -> None:
    with pytest.raises(TypeError, match="whole_batch"):
        Batch()
    with pytest.raises(TypeError):
        whole(batch_of(NOW)).accept(None, 0, 0, NOW, no_codec)  # type: ignore[arg-type]


def test_a_whole_batch_ends_with_its_memory() -> None:
    data = batch_of(NOW)
    assert whole(data).data is data
    for other in (b"", bytes(data[:60]), bytes(data[:-1]), bytes(data) + b"\0", bytes(data) * 2):
        assert whole_batch(other) is None
    for magic in (-1, 0, 1, 3):
        assert whole_batch(patched(data, ">b", 16, magic)) is None
    for length in (-(2**31), -1, 0, 48, len(data) - 13, 2**31 - 1):
        assert whole_batch(patched(data, ">i", 8, length)) is None


def test_an_ordinary_batch_gets_offset_and_epoch_and_keeps_its_checksum() -> None:
    data = batch_of(NOW, NOW + 5)
    batch, crc = whole(data), read_header(data).crc
    assert batch.accept(rules(), 2**40, 7, NOW, no_codec)
    assert (batch.base_offset, batch.leader_epoch, batch.last_offset) == (2**40, 7, 2**40 + 1)
    (written,) = batch_headers(data)
    assert (written.base_offset, written.leader_epoch, written.crc) == (2**40, 7, crc)
    assert crc32c(memoryview(data)[21:]) == crc == batch.crc


@pytest.mark.parametrize(
    ("data", "options", "attributes", "max_timestamp"),
    [
        (batch_of(NOW, NOW + 5), {"append_time": True}, 8, NOW),
        (patched(batch_of(NOW, NOW + 5), ">q", 35, 12345), {}, 0, NOW + 5),
        (patched(batch_of(NOW), ">h", 21, -32768), {"append_time": True}, 8, NOW),
    ],
    ids=["the log's time", "a wrong largest timestamp", "an attribute without a meaning"],
)
def test_times_that_change_get_a_new_checksum(
    data: bytearray, options: dict[str, Any], attributes: int, max_timestamp: int
) -> None:
    data = bytearray(data)
    batch = whole(data)
    assert batch.accept(rules(**options), 3, 7, NOW, no_codec)
    (written,) = batch_headers(data)
    assert (written.attributes, written.max_timestamp) == (attributes, max_timestamp)
    assert (batch.attributes, batch.max_timestamp) == (attributes, max_timestamp)
    assert crc32c(memoryview(data)[21:]) == written.crc == batch.crc


@pytest.mark.parametrize("kind", [bytes, memoryview])
def test_memory_that_is_not_to_be_written_is_copied(kind: Any) -> None:
    data = bytes(batch_of(NOW))
    batch = whole(kind(data))
    assert batch.accept(rules(), 5, 7, NOW, no_codec)
    assert isinstance(batch.data, bytearray)
    assert read_header(batch.data).base_offset == 5
    assert read_header(data).base_offset == 0


def test_a_writable_view_is_written_in_its_place() -> None:
    data = bytearray(5) + batch_of(NOW)
    assert whole(memoryview(data)[5:]).accept(rules(), 5, 7, NOW, no_codec)
    assert read_header(data, 5).base_offset == 5


GOOD = bytes(batch_of(NOW, NOW))


@pytest.mark.parametrize(
    ("data", "options"),
    [
        (patched(GOOD, ">q", 0, 1), {}),
        (patched(GOOD, ">i", 23, 2), {}),
        (patched(GOOD, ">i", 23, -1), {}),
        (patched(GOOD, ">i", 57, 0), {}),
        (patched(GOOD, ">i", 57, -(2**31)), {}),
        (patched(patched(GOOD, ">i", 57, 2**31 - 1), ">i", 23, 2**31 - 2), {}),
        (patched(patched(GOOD, ">i", 57, -(2**31)), ">i", 23, 2**31 - 1), {}),
        (patched(GOOD, ">h", 21, 0x08), {}),
        (patched(GOOD, ">h", 21, 0x20), {}),
        (patched(GOOD, ">h", 21, 5), {}),
        (patched(GOOD, ">h", 21, 7), {}),
        (batch_of(NOW, producer_id=7, producer_epoch=0, base_sequence=-1), {}),
        (GOOD[:-1] + bytes([GOOD[-1] ^ 1]), {}),
        (patched(GOOD, ">B", 61, 200), {}),
        (patched(GOOD, ">B", 61, 0), {}),
        (GOOD, {"max_size": len(GOOD) - 1}),
        (GOOD, {"codec": 1}),
        (batch_of(NOW, key=None), {"keys_required": True}),
        (batch_of(NOW + HOUR + 1), {}),
        (batch_of(NOW - 6), {"before_max_ms": 5}),
        (batch_of(-5), {"before_max_ms": 2**40}),
    ],
)
def test_what_is_not_in_order_is_left_as_it_is(data: bytes, options: dict[str, Any]) -> None:
    assert not accepts(bytearray(data), rules(**options))


@pytest.mark.parametrize(
    ("data", "options"),
    [
        (GOOD, {"max_size": len(GOOD)}),
        (GOOD, {"codec": 0}),
        (batch_of(NOW + HOUR), {}),
        (batch_of(NOW - 5), {"before_max_ms": 5}),
        (batch_of(0), {"after_max_ms": 0}),
        (batch_of(-1), {"before_max_ms": 5}),
        (batch_of(NOW + 2**40), {"append_time": True}),
        (batch_of(2**62), {"after_max_ms": NEVER}),
        (batch_of(NOW, producer_id=7, producer_epoch=0, base_sequence=0), {}),
    ],
)
def test_limits_are_within(data: bytearray, options: dict[str, Any]) -> None:
    assert accepts(bytearray(data), rules(**options))


def test_limits_of_time_are_never_negative() -> None:
    for name in ("before_max_ms", "after_max_ms"):
        with pytest.raises(ValueError, match="timestamps cannot be within"):
            rules(**{name: -1})


def test_a_compressed_batch_is_decompressed_once_its_checksum_is_right() -> None:
    plain = batch_of(NOW, NOW)
    asked: list[tuple[int, bytes]] = []

    def decompress(codec: int, payload: memoryview) -> bytes:
        asked.append((codec, bytes(payload)))
        return bytes(plain[61:])

    data = patched(plain, ">h", 21, 3)
    assert whole(data).accept(rules(), 4, 7, NOW, decompress)
    assert asked == [(3, bytes(plain[61:]))]
    data = patched(plain, ">h", 21, 3)
    data[-1] ^= 1
    assert not whole(data).accept(rules(), 4, 7, NOW, decompress)
    assert len(asked) == 1


def test_what_cannot_be_decompressed_is_not_accepted() -> None:
    def damaged(codec: int, payload: memoryview) -> bytes:
        raise DecodeError("damaged")

    def broken(codec: int, payload: memoryview) -> bytes:
        raise ZeroDivisionError

    def nothing(codec: int, payload: memoryview) -> Any:
        return None

    data = patched(batch_of(NOW), ">h", 21, 1)
    assert not whole(data).accept(rules(), 4, 7, NOW, damaged)
    assert not whole(data).accept(rules(), 4, 7, NOW, lambda codec, payload: b"")
    with pytest.raises(ZeroDivisionError):
        whole(data).accept(rules(), 4, 7, NOW, broken)
    with pytest.raises(TypeError, match="data must be a bytes-like object"):
        whole(data).accept(rules(), 4, 7, NOW, nothing)
    data.append(0)  # no buffer was kept


def test_offsets_with_gaps_are_accepted_only_where_kafka_does_not_write_them_anew() -> None:
    records: list[PlainRecord] = [(0, NOW, b"key", b"value", []), (2, NOW, b"key", b"value", [])]
    data = encode_batch(records, last_offset=1)
    assert accepts(bytearray(data), rules())
    packed = patched(data, ">h", 21, 1)
    assert not whole(packed).accept(rules(), 4, 7, NOW, lambda codec, payload: bytes(payload))


@pytest.mark.parametrize("change", [-1, 1, -100])
def test_memory_that_was_resized_in_the_meantime_is_not_accepted(change: int) -> None:
    data = batch_of(NOW)
    batch = whole(data)
    if change < 0:
        del data[change:]
    else:
        data.append(0)
    assert not batch.accept(rules(), 4, 7, NOW, no_codec)


def test_a_header_alone_is_not_accepted() -> None:
    assert not read_header(batch_of(NOW)).accept(rules(), 4, 7, NOW, no_codec)


def test_memory_is_let_go_of() -> None:
    data = batch_of(NOW)
    read_header(data)
    batch = whole(data)
    batch.accept(rules(), 4, 7, NOW, no_codec)
    data.append(0)


def test_a_large_batch_is_checked_like_a_small_one() -> None:
    data = batch_of(*[NOW] * 20_000)
    assert accepts(bytearray(data), rules())
    data[-1] ^= 1
    assert not accepts(data, rules())


def log_of(*counts: int) -> bytes:
    """Batches with so many records, one behind the other."""
    base, data = 0, b""
    for count in counts:
        data += patched(batch_of(*[NOW] * count), ">q", 0, base)
        base += count
    return data


def sizes_of(data: bytes) -> list[int]:
    return [header.size for header in batch_headers(data)]


def test_the_first_batch_that_ends_at_an_offset_or_behind_it_is_found() -> None:
    data = log_of(1, 3, 2)
    first, second, third = sizes_of(data)
    assert find_batch(data, len(data), -5) == (0, first, 0, 0)
    assert find_batch(data, len(data), 0) == (0, first, 0, 0)
    for offset in (1, 2, 3):
        assert find_batch(data, len(data), offset) == (first, second, 1, 3)
    assert find_batch(data, len(data), 5) == (first + second, third, 4, 5)
    assert find_batch(data, len(data), 6) == (len(data), 0, 0, 0)


def test_a_search_goes_on_in_other_memory_where_a_header_is_not_there() -> None:
    data = log_of(1, 3, 2)
    first, second, _ = sizes_of(data)
    # The batch that is looked for begins in this memory, and its header is all that is needed.
    assert find_batch(data[: first + 61], len(data), 2) == (first, second, 1, 3)
    assert find_batch(data[: first + 60], len(data), 2) == (first, 0, 0, 0)
    # This memory ends within a batch that is left out.
    assert find_batch(data[:61], len(data), 5) == (first, 0, 0, 0)
    assert last_batch(data[: first + 61], len(data)) == (first, second, 1, 3)
    assert last_batch(data[: first + 60], len(data)) == (0, first, 0, 0)


def test_a_walk_ends_before_what_is_not_whole() -> None:
    data = log_of(1, 3)
    first, second = sizes_of(data)
    assert find_batch(data, len(data) - 1, 2) == (first, -1, 0, 0)
    assert last_batch(data, len(data) - 1) == (0, first, 0, 0)
    assert last_batch(data, len(data)) == (first, second, 1, 3)
    for left in (-1, 0, 60, first - 1):
        assert find_batch(data, left, 0)[1] <= 0
        assert last_batch(data, left) == (0, 0, 0, 0)
    for length in (-(2**31), -13, 0, 48, 2**31 - 1):
        damaged = data[:first] + patched(data[first:], ">i", 8, length)
        assert find_batch(damaged, len(damaged), 2) == (first, -1, 0, 0)
        assert last_batch(damaged, len(damaged)) == (0, first, 0, 0)


@given(st.binary(max_size=300), st.integers(-10, 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_any_bytes_are_walked_over(data: bytes, left: int, offset: int) -> None:
    position, size, _, _ = find_batch(data, left, offset)
    assert size in (-1, 0) or size >= 61
    assert position >= 0
    position, size, _, _ = last_batch(data, left)
    assert position <= max(len(data) - 61, 0)
    assert size == 0 or 61 <= size <= left - position


def test_offsets_of_a_damaged_batch_may_wrap() -> None:
    data = patched(patched(batch_of(NOW), ">q", 0, 2**63 - 1), ">i", 23, 2**31 - 1)
    assert find_batch(data, len(data), 0) == (len(data), 0, 0, 0)
    assert last_batch(data, len(data))[3] < 0
