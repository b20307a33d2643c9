"""A broker's look at the records of a batch: what it finds is what a plain decoder finds."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla._native.inspect import inspect
from ottla.errors import DecodeError
from ottla.wire.batches import PlainRecord, encode_batch

BASE = 1_700_000_000_000
ANY = {"earliest": -(2**63), "latest": 2**63 - 1}


def records_of(records: list[PlainRecord]) -> bytes:
    return encode_batch(records)[61:]


def plain(*timestamps: int, key: bytes | None = b"key") -> list[PlainRecord]:
    return [(index, timestamp, key, b"value", []) for index, timestamp in enumerate(timestamps)]


def test_a_batch_without_faults() -> None:
    data = records_of(plain(BASE, BASE + 9, BASE + 3))
    assert inspect(data, 3, BASE, **ANY, keys_required=True) == (True, BASE + 9, ())


def test_no_records_are_no_bytes() -> None:
    assert inspect(b"", 0, BASE, **ANY, keys_required=True) == (True, -1, ())
    with pytest.raises(DecodeError, match="behind its last record"):
        inspect(b"x", 0, BASE, **ANY, keys_required=True)
    with pytest.raises(DecodeError, match="record 0 of 1"):
        inspect(b"", 1, BASE, **ANY, keys_required=True)


def test_a_negative_count_is_no_records() -> None:
    with pytest.raises(DecodeError):
        inspect(records_of(plain(BASE)), -1, BASE, **ANY, keys_required=False)


def test_times_outside_of_the_bounds_are_faults() -> None:
    data = records_of(plain(BASE, BASE - 11, -1, BASE + 5, BASE + 6, BASE - 10))
    found = inspect(data, 6, BASE, earliest=BASE - 10, latest=BASE + 5, keys_required=False)
    assert found == (True, BASE + 6, [(1, BASE - 11, True), (4, BASE + 6, True)])


def test_missing_keys_are_faults_where_they_are_required() -> None:
    data = records_of([(0, BASE, None, b"", []), (1, BASE, b"", b"", []), (2, BASE, None, None, [])])
    assert inspect(data, 3, BASE, **ANY, keys_required=False)[2] == ()
    assert inspect(data, 3, BASE, **ANY, keys_required=True)[2] == [(0, BASE, False), (2, BASE, False)]


@pytest.mark.parametrize("offsets", [(0, 2), (1, 2), (0, 0), (1, 0)])
def test_deltas_that_are_not_consecutive_are_seen(offsets: tuple[int, int]) -> None:
    data = encode_batch([(offset, BASE, None, None, []) for offset in offsets], base_offset=0, last_offset=1)
    assert not inspect(data[61:], 2, BASE, **ANY, keys_required=False)[0]


def test_the_largest_timestamp_is_at_least_none() -> None:
    assert inspect(records_of(plain(-2, -9)), 2, -2, **ANY, keys_required=False)[1] == -1


def test_the_largest_numbers_do_not_overflow() -> None:
    data = encode_batch(plain(2**62))[61:]
    assert inspect(data, 1, 2**62, **ANY, keys_required=False)[1] == 2**62
    assert inspect(data, 1, -(2**63), **ANY, keys_required=False)[1] == -1


def test_headers_are_read_over() -> None:
    data = records_of([(0, BASE, b"k", b"v", [("a", None), ("b" * 300, b"c" * 300)])])
    assert inspect(data, 1, BASE, **ANY, keys_required=True) == (True, BASE, ())


_BYTES = st.none() | st.binary(max_size=200)
_HEADERS = st.lists(st.tuples(st.text(max_size=8), _BYTES), max_size=3)


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(-5, 2**40), _BYTES, _BYTES, _HEADERS), min_size=1),
    st.booleans(),
)
def test_random_records_are_seen_as_they_are(
    records: list[tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]], dense: bool
) -> None:
    written: list[PlainRecord] = [
        (index if dense else record[0], *record[1:]) for index, record in enumerate(records)
    ]
    data = encode_batch(written, base_offset=0, last_offset=len(written))[61:]
    found, largest, faults = inspect(
        data, len(written), written[0][1], earliest=0, latest=2**39, keys_required=True
    )
    assert found == ([record[0] for record in written] == list(range(len(written))))
    assert largest == max(-1, *(record[1] for record in written))
    assert list(faults) == [
        (index, timestamp, key is not None)
        for index, (_, timestamp, key, _, _) in enumerate(written)
        if key is None or (timestamp != -1 and not 0 <= timestamp <= 2**39)
    ]


@given(st.data())
def test_damaged_records_are_refused_or_read(data: st.DataObject) -> None:
    damaged = bytearray(records_of([(0, BASE, b"key", b"value", [("a", b"b")]), (1, BASE, None, None, [])]))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    damaged = damaged[: data.draw(st.integers(0, len(damaged)))]
    with contextlib.suppress(DecodeError):
        _, largest, faults = inspect(damaged, 2, BASE, **ANY, keys_required=True)
        assert largest >= -1
        assert len(faults) <= 2


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\x01", "more bytes"),
        (b"\x00", "more bytes"),
        (b"\x20\x00", "more bytes"),
        (b"\x04\x00\x80", "timestamp or offset"),
        (b"\x06\x00\x00\x80", "timestamp or offset"),
        (b"\x08\x00\x00\x00\x08", "key is longer"),
        (b"\x0a\x00\x00\x00\x01\x08", "value is longer"),
        (b"\x0c\x00\x00\x00\x01\x01\x08", "more headers"),
        (b"\x0c\x00\x00\x00\x01\x01\x01", "more headers"),
        (b"\x0e\x00\x00\x00\x01\x01\x02\x01", "headers are damaged"),
        (b"\x0e\x00\x00\x00\x01\x01\x00\x00", "bytes behind its headers"),
        (b"\x0c\x00\x00\x00\x01\x01\x00\x00", "behind its last record"),
    ],
)
def test_what_is_wrong_is_said(content: bytes, problem: str) -> None:
    with pytest.raises(DecodeError, match=problem):
        inspect(content, 1, BASE, **ANY, keys_required=False)


@pytest.mark.parametrize("argument", [None, "text", 5])
def test_only_bytes_are_looked_at(argument: object) -> None:
    with pytest.raises(TypeError, match="data must be a bytes-like object"):
        inspect(argument, 1, BASE, **ANY, keys_required=False)  # type: ignore[arg-type]


def test_memory_is_let_go_of() -> None:
    data = bytearray(records_of(plain(BASE)))
    inspect(data, 1, BASE, **ANY, keys_required=False)
    with pytest.raises(DecodeError):
        inspect(data, 2, BASE, **ANY, keys_required=False)
    data.append(0)
