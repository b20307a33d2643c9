"""Which records compaction keeps, and how it writes them: as a plain reading of the rules says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla._native.compaction import SLOT_SIZE, KeptRecords, OffsetMap, choose, keyed_hash
from ottla.errors import DecodeError
from ottla.wire.batches import PlainRecord, encode_batch
from ottla.wire.records import decode_fetch

BASE = 1_700_000_000_000
SECRET = bytes(range(16))
ROOM = 1 << 20


def records_of(records: list[PlainRecord]) -> bytes:
    return encode_batch(records)[61:] if records else b""


def keyed(*keys: bytes | None, value: bytes | None = b"value") -> list[PlainRecord]:
    return [(index, BASE + index, key, value, []) for index, key in enumerate(keys)]


def mapped(records: list[PlainRecord], base_offset: int = 0, from_offset: int = 0) -> OffsetMap:
    offsets = OffsetMap(ROOM, 0.9, SECRET)
    offsets.add(records_of(records), len(records), base_offset, from_offset)
    return offsets


def chosen(
    offsets: OffsetMap,
    records: list[PlainRecord],
    *,
    base_offset: int = 0,
    latest: int = 1 << 40,
    drop: bool = False,
) -> KeptRecords:
    base_timestamp = records[0][1] if records else -1
    return choose(
        offsets,
        records_of(records),
        len(records),
        base_offset,
        base_timestamp,
        latest_offset=latest,
        drops_tombstones=drop,
    )


# The first answers of the list that the authors of SipHash publish for 128 bits.
@pytest.mark.parametrize(
    ("size", "answer"),
    [(0, "a3817f04ba25a8e66df67214c7550293"), (1, "da87c1d86b99af44347659119b22fc45")],
)
def test_the_hash_gives_the_known_answers(size: int, answer: str) -> None:
    first, second = keyed_hash(SECRET, bytes(range(size)))
    assert (first.to_bytes(8, "little") + second.to_bytes(8, "little")).hex() == answer


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_another_secret_gives_another_hash(data: bytes, more: bytes) -> None:
    assert keyed_hash(SECRET, data) != keyed_hash(bytes(16), data)
    if data != more:
        assert keyed_hash(SECRET, data) != keyed_hash(SECRET, more)


def test_a_secret_has_sixteen_bytes() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        OffsetMap(ROOM, 0.9, b"short")


def test_the_last_offset_of_a_key_counts() -> None:
    offsets = mapped(keyed(b"a", b"b", b"a", None), base_offset=100)
    assert [offsets.get(key) for key in (b"a", b"b", b"c")] == [102, 101, -1]
    assert len(offsets) == 2


def test_records_before_the_dirty_part_are_not_entered() -> None:
    offsets = mapped(keyed(b"a", b"b", b"c"), base_offset=10, from_offset=11)
    assert [offsets.get(key) for key in (b"a", b"b", b"c")] == [-1, 11, 12]


def test_a_map_takes_what_its_room_holds_and_any_first_batch() -> None:
    offsets = OffsetMap(10 * SLOT_SIZE, 0.9, SECRET)
    assert offsets.limit == 9
    assert offsets.has_room_for(100)
    batch = keyed(*(b"%d" % number for number in range(8)))
    offsets.add(records_of(batch), len(batch), 0, 0)
    assert offsets.has_room_for(1)
    assert not offsets.has_room_for(2)


def test_a_batch_that_is_larger_than_the_room_is_entered_whole() -> None:
    offsets = OffsetMap(SLOT_SIZE, 0.9, SECRET)
    batch = keyed(*(b"%d" % number for number in range(500)))
    offsets.add(records_of(batch), len(batch), 0, 0)
    assert [offsets.get(b"%d" % number) for number in range(500)] == list(range(500))
    assert not offsets.has_room_for(1)


@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 5)), max_size=300))
def test_a_map_is_a_dict_however_it_grows(steps: list[tuple[int, int]]) -> None:
    offsets, expected = OffsetMap(ROOM, 0.9, SECRET), dict[bytes, int]()
    offset = 0
    for first, count in steps:
        batch = keyed(*(b"%d" % (first + index) for index in range(count)))
        offsets.add(records_of(batch), len(batch), offset, 0)
        for index, record in enumerate(batch):
            assert record[2] is not None
            expected[record[2]] = offset + index
        offset += max(count, 1)
    assert len(offsets) == len(expected)
    assert {key: offsets.get(key) for key in expected} == expected


def test_a_map_that_is_growing_knows_every_key() -> None:
    offsets, expected = OffsetMap(ROOM, 0.9, SECRET), dict[bytes, int]()
    for offset in range(0, 4000, 4):
        # One new key and three that were there, of which some are moved to the larger table and some are not.
        numbers = (offset, offset // 2, offset // 3, offset // 5)
        offsets.add(records_of(keyed(*(b"%d" % number for number in numbers))), 4, offset, 0)
        expected |= {b"%d" % number: offset + index for index, number in enumerate(numbers)}
        if offset % 64 == 0:
            assert {key: offsets.get(key) for key in expected} == expected
            assert len(offsets) == len(expected)
            assert offsets.get(b"another") == -1


def test_tombstones_stay_until_they_are_dropped() -> None:
    batch = [*keyed(b"a", b"b"), (2, BASE, b"b", None, [])]
    offsets = mapped(batch)
    kept = chosen(offsets, batch)
    assert (kept.count, kept.has_tombstones) == (2, True)
    dropped = chosen(offsets, batch, drop=True)
    assert (dropped.count, dropped.has_tombstones) == (1, False)


def test_what_lies_behind_the_map_stays_whatever_it_is() -> None:
    batch = [*keyed(b"a", None), (2, BASE, b"a", None, [])]
    assert chosen(mapped(batch), batch, latest=-1, drop=True).count == 3
    assert chosen(mapped(batch), batch, latest=0).count == 2


_KEYS = st.none() | st.sampled_from([b"", b"a", b"b", b"a longer key than eight bytes"])
_HEADERS = st.lists(st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=4)), max_size=2)
_RECORDS = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.integers(BASE - 10**6, BASE + 10**6),
        _KEYS,
        st.none() | st.binary(max_size=80),
        _HEADERS,
    ),
    min_size=1,
    max_size=40,
)


def _numbered(
    drawn: list[tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
) -> list[PlainRecord]:
    numbered: list[PlainRecord] = []
    offset = 0
    for step, timestamp, key, value, headers in drawn:
        numbered.append((offset, timestamp, key, value, headers))
        offset += step
    return numbered


@given(_RECORDS, st.integers(-1, 60), st.booleans(), st.none() | st.integers(0, BASE * 2), st.booleans())
def test_records_that_stay_are_written_as_they_were(
    drawn: list[tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
    latest: int,
    drop: bool,
    new_base: int | None,
    append_time: bool,
) -> None:
    batch = _numbered(drawn)
    offsets = mapped(batch)
    kept = chosen(offsets, batch, latest=latest, drop=drop)
    last = {key: offset for offset, _, key, _, _ in batch}
    expected = [
        record
        for record in batch
        if record[0] > latest
        or (record[2] is not None and record[0] == last[record[2]] and not (drop and record[3] is None))
    ]
    assert kept.count == len(expected)
    assert kept.has_tombstones == any(record[3] is None for record in expected)
    assert kept.first_timestamp == (expected[0][1] if expected else -1)
    assert kept.max_timestamp == max([-1, *(record[1] for record in expected)])
    base = kept.first_timestamp if new_base is None else new_base
    written = kept.encoded(base, BASE if append_time else None)
    whole = encode_batch(expected, base_offset=0) if expected else b"\0" * 61
    header = bytearray(whole[:61])
    header[8:12] = (len(written) + 49).to_bytes(4, "big")
    header[27:35] = base.to_bytes(8, "big", signed=True)
    found = [*decode_fetch(bytes(header + written), "", 0, check_crc=False)] if expected else []
    assert [
        (record.offset, record.timestamp, record.key, record.value, list(record.headers)) for record in found
    ] == [
        (offset, BASE if append_time else timestamp, key, value, headers)
        for offset, timestamp, key, value, headers in expected
    ]


def test_a_batch_that_keeps_all_is_written_byte_for_byte() -> None:
    batch = keyed(b"a", b"b")
    assert chosen(mapped(batch), batch).encoded(BASE) == records_of(batch)


@pytest.mark.parametrize("cut", range(1, 20))
def test_records_that_are_cut_off_are_damage(cut: int) -> None:
    data = records_of(keyed(b"some key", b"another key"))[:-cut]
    with pytest.raises(DecodeError, match="record 1 of 2"):
        OffsetMap(ROOM, 0.9, SECRET).add(data, 2, 0, 0)
    with pytest.raises(DecodeError, match="record 1 of 2"):
        choose(OffsetMap(ROOM, 0.9, SECRET), data, 2, 0, BASE, latest_offset=9, drops_tombstones=False)


def test_a_count_that_is_not_that_of_the_records_is_damage() -> None:
    data = records_of(keyed(b"a", b"b"))
    for count in (-1, 0, 1, 3, 2**31 - 1):
        with pytest.raises(DecodeError):
            choose(
                OffsetMap(ROOM, 0.9, SECRET), data, count, 0, BASE, latest_offset=9, drops_tombstones=False
            )
    with pytest.raises(DecodeError, match="behind its last record"):
        OffsetMap(ROOM, 0.9, SECRET).add(data, 1, 0, 0)


@given(st.binary(max_size=60), st.integers(-1, 5))
def test_any_bytes_are_records_or_damage(data: bytes, count: int) -> None:
    try:
        kept = choose(
            OffsetMap(ROOM, 0.9, SECRET), data, count, 0, 0, latest_offset=2, drops_tombstones=False
        )
    except DecodeError:
        return
    assert len(kept.encoded(0)) <= len(data)
