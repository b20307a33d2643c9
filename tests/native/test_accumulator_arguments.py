"""The arguments of append(): what is taken, what is refused, and how that is told."""

from __future__ import annotations

import array
import mmap
import time
from collections import OrderedDict, deque
from types import MappingProxyType
from typing import Any

import pytest

from ottla._native.record_buffer import RecordBuffer
from tests.native.accumulator_support import accumulator, everything, only_record
from tests.native.encode_support import NOW, Row, decoded, oracle_bytes


@pytest.mark.parametrize(
    "given",
    [
        b"bytes",
        bytearray(b"bytes"),
        memoryview(b"bytes"),
        memoryview(b"-bytes-")[1:6],
        array.array("B", b"bytes"),
        type("Subclass", (bytes,), {})(b"bytes"),
    ],
    ids=lambda given: type(given).__name__,
)
def test_anything_contiguous_is_taken_as_bytes(given: Any) -> None:
    records = accumulator()
    records.append("orders", 0, given, given, [("h", given)])
    record = only_record(records)
    assert record.key == record.value == b"bytes"
    assert record.headers == (("h", b"bytes"),)


def test_a_mapped_file_is_taken_and_given_back() -> None:
    records = accumulator()
    with mmap.mmap(-1, 5) as mapped:
        mapped[:] = b"bytes"
        records.append("orders", 0, mapped, mapped, [("h", mapped)])
    assert only_record(records).value == b"bytes"  # and closing it did not raise: nobody holds the buffer


@pytest.mark.parametrize("headers", [[("h", "text")], [("h", b"x"), 5], 5])
def test_buffers_are_given_back_when_another_argument_is_wrong(headers: Any) -> None:
    key, value = bytearray(b"key"), bytearray(b"value")
    with pytest.raises(TypeError):
        accumulator().append("orders", 0, key, value, headers)
    key.append(0)  # raises BufferError while somebody holds the buffer
    value.append(0)


@pytest.mark.parametrize("name", ["key", "value"])
@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ("text", TypeError, "must be bytes-like or None, not str: encode it"),
        (5, TypeError, "must be bytes-like or None, not int"),
        (memoryview(b"abcdef")[::2], ValueError, "must be contiguous in memory"),
    ],
)
def test_what_is_not_bytes_is_refused_by_name(
    name: str, given: Any, error: type[Exception], message: str
) -> None:
    records = accumulator()
    arguments: dict[str, Any] = {"key": b"k", "value": b"v", name: given}
    with pytest.raises(error, match=f"^{name} {message}"):
        records.append("orders", 0, **arguments)
    assert records.records == 0


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (None, ()),
        ([], ()),
        ({}, ()),
        ([("a", b"1"), ("a", None)], (("a", b"1"), ("a", None))),
        ((("a", b"1"),), (("a", b"1"),)),
        ([["a", b"1"]], (("a", b"1"),)),
        ({"a": b"1", "ä": None}, (("a", b"1"), ("ä", None))),
        (OrderedDict(a=b"1"), (("a", b"1"),)),
        (MappingProxyType({"a": b"1"}), (("a", b"1"),)),
        (deque([("a", b"1")]), (("a", b"1"),)),
        ([("", b"")], (("", b""),)),
        ([("x" * 511, b"y")], (("x" * 511, b"y"),)),
        ([("x", b"y" * 300)] * 50, (("x", b"y" * 300),) * 50),
        ([("big", bytes(100_000)), ("last", None)], (("big", bytes(100_000)), ("last", None))),
    ],
)
def test_headers_come_in_several_shapes(headers: Any, expected: Any) -> None:
    records = accumulator()
    records.append("orders", 0, b"k", b"v", headers)
    assert only_record(records).headers == expected


@pytest.mark.parametrize(
    ("headers", "error", "message"),
    [
        ("text", TypeError, "headers must be a list of pairs, a dict or None, not str"),
        (b"bytes", TypeError, "headers must be a list of pairs, a dict or None, not bytes"),
        (5, TypeError, "headers must be a list of pairs, a dict or None, not int"),
        ([("a", b"1"), ("b",)], TypeError, r"headers\[1\] must be a pair of key and value, not \('b',\)"),
        ([("a", b"1", b"2")], TypeError, r"headers\[0\] must be a pair"),
        (["ab"], TypeError, r"headers\[0\] must be a pair of key and value, not 'ab'"),
        ([("a", b"1"), (b"b", b"2")], TypeError, r"headers\[1\] must have a str as its key, not bytes"),
        ({None: b"1"}, TypeError, r"headers\[0\] must have a str as its key, not NoneType"),
        ([("a", "1")], TypeError, r"headers\[0\]: value must be bytes-like or None, not str: encode it"),
        ([("a", b"1"), ("b", 5)], TypeError, r"headers\[1\]: value must be bytes-like or None, not int"),
        ([("\ud800", b"1")], ValueError, r"headers\[0\] has a key that is not text"),
    ],
)
def test_wrong_headers_are_told_by_their_place(headers: Any, error: type[Exception], message: str) -> None:
    records = accumulator()
    with pytest.raises(error, match=f"^{message}"):
        records.append("orders", 0, b"k", b"v", headers)
    assert records.records == 0


@pytest.mark.parametrize("timestamp", [0, 1, NOW, 2**63 - 1])
def test_a_timestamp_is_kept(timestamp: int) -> None:
    records = accumulator()
    assert records.append("orders", 0, None, b"v", None, timestamp).timestamp == timestamp
    assert only_record(records).timestamp == timestamp


@pytest.mark.parametrize(
    ("timestamp", "error", "message"),
    [
        (1.5, TypeError, r"timestamp must be an int \(milliseconds\) or None, not float"),
        ("now", TypeError, "timestamp must be an int"),
        (2**63, ValueError, "timestamp must fit into 64 bits"),
        (-(2**63) - 1, ValueError, "timestamp must fit into 64 bits"),
        (-1, ValueError, r"timestamp must be from 0 on \(milliseconds since 1970\), not -1"),
    ],
)
def test_a_wrong_timestamp_is_refused_by_name(timestamp: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        accumulator().append("orders", 0, None, b"v", None, timestamp)


def test_without_a_timestamp_the_clock_is_asked() -> None:
    ticks = iter([5, 7, 6])
    records = accumulator(clock=lambda: next(ticks))
    for _ in range(3):
        records.append("orders", 0, None, b"v")
    (batch,) = everything(records)
    assert [record.timestamp for record in decoded(batch).records] == [5, 7, 6]
    assert (batch.base_timestamp, batch.max_timestamp) == (5, 7)


def test_without_a_clock_it_is_that_of_the_system() -> None:
    records = accumulator(clock=None)
    before = time.time_ns() // 1_000_000
    records.append("orders", 0, None, b"v")
    assert before <= only_record(records).timestamp <= time.time_ns() // 1_000_000
    started = time.monotonic()
    records.append("orders", 0, None, b"v")
    opened_at = records.buffer("orders", 0).opened_at
    assert opened_at is not None
    assert started <= opened_at <= time.monotonic()


def test_an_error_of_the_clock_is_passed_on() -> None:
    records = accumulator(clock=lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        records.append("orders", 0, None, b"v")
    assert records.records == 0


@pytest.mark.parametrize(
    ("topic", "partition", "error", "message"),
    [
        (b"orders", 0, TypeError, "topic must be a str, not bytes"),
        ("orders", "0", TypeError, "partition must be an int, not str"),
        ("orders", -1, ValueError, "partition must be from 0 on, not -1"),
        ("orders", 2**31, ValueError, "partition must be"),
    ],
)
def test_a_wrong_partition_is_refused_by_name(
    topic: Any, partition: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        accumulator().append(topic, partition, None, b"v")


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("batch_size", 61, "batch_size must be from 62"),
        ("batch_size", 2**31, "batch_size must be"),
        ("max_record_size", 61, "max_record_size must be from 62"),
        ("max_bytes", 100, "max_bytes must hold at least one batch of 16384 bytes, not 100"),
    ],
)
def test_options_out_of_range_are_named(option: str, value: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        accumulator(**{option: value})


def test_buffers_are_not_made_by_hand() -> None:
    with pytest.raises(TypeError, match="buffers are made by"):
        RecordBuffer()


def test_a_record_may_be_exactly_as_large_as_allowed() -> None:
    size = len(oracle_bytes([Row(bytes(500), b"key", (("h", b"v"),))]))
    accumulator(max_record_size=size).append("orders", 0, b"key", bytes(500), {"h": b"v"})
    with pytest.raises(ValueError, match=rf"^the record takes {size} bytes, more than max_request_size="):
        accumulator(max_record_size=size - 1).append("orders", 0, b"key", bytes(500), {"h": b"v"})
