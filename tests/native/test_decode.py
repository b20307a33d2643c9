"""Fetched bytes to records: the rules of a consumer, and who holds the memory."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from ottla._native import memory
from ottla._native.decode import decode_fetch
from ottla._native.memory import Memory
from ottla.errors import DecodeError
from tests.native.decoding import as_oracle, decode, decompress
from tests.oracle.message_sets import OracleRecord
from tests.oracle.records import (
    ABORT,
    COMMIT,
    OracleBatch,
    build_batch,
    decode_records,
    encode_batch,
    end_marker,
    resealed,
)

NOW = 1_700_000_000_000


def record(offset: int, value: bytes | None = None) -> OracleRecord:
    return OracleRecord(offset, NOW + offset, key=b"k%d" % offset, value=value or b"v%d" % offset)


def batch(first: int, count: int, codec: str = "none", **fields: int | bool) -> bytes:
    records = [record(offset) for offset in range(first, first + count)]
    return encode_batch(build_batch(records, codec=codec, **fields))  # type: ignore[arg-type]


@pytest.fixture
def poisoned() -> Iterator[None]:
    """Memory that goes back to the pool is overwritten: whoever still reads it gets garbage."""
    memory._poison(True)
    yield
    memory._poison(False)


def test_records_are_what_was_written() -> None:
    headers = (("trace", b"1"), ("empty", b""), ("null", None), ("trace", b"2"), ("käse", b"\xff"))
    written = [
        OracleRecord(7, NOW, key=None, value=None),
        OracleRecord(8, NOW - 5000, key=b"", value=b""),
        OracleRecord(10, NOW + 2**40, key=b"k" * 300, value=bytes(70_000), headers=headers),
    ]
    records = decode(encode_batch(build_batch(written, leader_epoch=9)))
    assert [r.plain for r in as_oracle(records)] == [r.plain for r in written]
    assert (records.topic, records.partition, records.next_offset) == ("orders", 3, 11)
    first = records[0]
    assert (first.topic, first.partition, first.leader_epoch, first.timestamp_type) == ("orders", 3, 9, 0)
    assert records[-1].offset == 10
    with pytest.raises(IndexError, match="there are 3 records"):
        records[3]
    assert "orders[3] offset=10" in repr(records[-1])
    assert "<70000 bytes>" in repr(records[-1])


def test_nothing_fetched_is_no_records() -> None:
    records = decode(b"", offset=12)
    assert (len(records), list(records), records.next_offset, records.bytes_read) == (0, [], 12, 0)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_offsets_below_the_wanted_one_are_cut(codec: str) -> None:
    data = batch(0, 10, codec) + batch(10, 10, codec)
    for offset in (0, 1, 9, 10, 15, 19, 20):
        records = decode(data, offset=offset)
        assert [r.offset for r in records] == list(range(offset, 20))
        assert records.next_offset == 20


def test_a_truncated_last_batch_is_left_out() -> None:
    whole, rest = batch(0, 3), batch(3, 3)
    for cut in range(len(rest)):
        records = decode(whole + rest[:cut])
        assert [r.offset for r in records] == [0, 1, 2]
        assert (records.next_offset, records.bytes_read) == (3, len(whole))


def test_a_damaged_first_batch_is_an_error_that_says_where() -> None:
    data = bytearray(batch(5, 3))
    data[-2] ^= 1
    with pytest.raises(DecodeError, match=r"orders\[3\] at offset 5: the checksum of the batch is wrong"):
        decode(data)
    assert len(decode(data, check_crc=False)) == 3


def test_what_precedes_a_damaged_batch_is_delivered() -> None:
    """The next fetch begins with the damaged batch, and fails."""
    damaged = bytearray(batch(3, 3))
    damaged[-1] ^= 1
    records = decode(batch(0, 3) + damaged)
    assert ([r.offset for r in records], records.next_offset) == ([0, 1, 2], 3)
    with pytest.raises(DecodeError, match="at offset 3"):
        decode(damaged, offset=records.next_offset)


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (16, b"\3", "a magic that is not known"),
        (23, b"\xff\xff\xff\xff", "a count or an offset that none has"),
        (57, b"\xff\xff\xff\xff", "a count or an offset that none has"),
        (57, b"\x7f\xff\xff\xff", "more records than its bytes can hold"),
        (57, b"\0\0\0\2", "bytes behind its last record"),
        (61, b"\0", "a record is empty"),
        (61, b"\x7e", "a record claims more bytes than there are"),
        (65, b"\x7e", "a record's key is longer than the record"),
        (68, b"\x7e", "a record's value is longer than the record"),
        (71, b"\x7e", "more headers than bytes"),
    ],
)
def test_what_is_wrong_inside_a_batch_is_said(at: int, value: bytes, reason: str) -> None:
    data = bytearray(batch(0, 3))
    assert data[65:73] == b"\x04k0\x04v0\0\x14", "the layout that this table is about"
    data[at : at + len(value)] = value
    with pytest.raises(DecodeError, match=reason):
        decode(resealed(bytes(data)))


@pytest.mark.parametrize("length", [b"\x01", b"\x7e"])
def test_damaged_headers_are_noticed(length: bytes) -> None:
    data = encode_batch(build_batch([OracleRecord(0, NOW, headers=(("a", b"b"),))]))
    assert data[-5:] == b"\x02\x02a\x02b"
    for at in (-4, -2):
        damaged = data[:at] + length + data[at + 1 :]
        with pytest.raises(DecodeError, match=r"headers are damaged|bytes behind its headers"):
            decode(resealed(damaged))


def test_control_batches_are_not_delivered() -> None:
    marker = end_marker(COMMIT, offset=3, timestamp=NOW, producer_id=5, producer_epoch=0)
    data = batch(0, 3, producer_id=5, transactional=True) + encode_batch(marker)
    aborted: list[tuple[int, int]] | None
    for aborted in (None, []):
        records = decode(data, aborted=aborted)
        assert ([r.offset for r in records], records.next_offset) == ([0, 1, 2], 4)


def test_aborted_transactions_are_left_out_when_reading_committed_data() -> None:
    def ended(outcome: int, offset: int, producer_id: int) -> bytes:
        marker = end_marker(outcome, offset=offset, timestamp=NOW, producer_id=producer_id, producer_epoch=0)
        return encode_batch(marker)

    data = b"".join(
        [
            batch(0, 2, producer_id=1, transactional=True),  # aborted
            batch(2, 2, producer_id=2, transactional=True),  # committed
            batch(4, 2),  # not transactional
            ended(ABORT, 6, 1),
            batch(7, 2, producer_id=1, transactional=True),  # the same producer's next one, committed
            ended(COMMIT, 9, 2),
            ended(COMMIT, 10, 1),
            batch(11, 1, producer_id=2, transactional=True),  # aborted
            batch(12, 1, producer_id=2, transactional=False),  # same producer, no transaction
            ended(ABORT, 13, 2),
        ]
    )
    aborted = [(2, 11), (1, 0)]
    assert [r.offset for r in decode(data)] == [0, 1, 2, 3, 4, 5, 7, 8, 11, 12]
    records = decode(data, aborted=aborted)
    assert [r.offset for r in records] == [2, 3, 4, 5, 7, 8, 12]
    assert records.next_offset == 14
    assert as_oracle(records) == decode_records(data, read_committed=True, aborted=aborted)


def test_append_time_is_that_of_the_batch() -> None:
    written = [record(offset) for offset in range(3)]
    records = decode(encode_batch(build_batch(written, timestamp_type=1, max_timestamp=NOW + 77)))
    assert {(r.timestamp, r.timestamp_type) for r in records} == {(NOW + 77, 1)}


def test_empty_batches_move_the_offset() -> None:
    """What compaction leaves of a batch whose records are all gone, for its producer's sake."""
    empty = OracleBatch(base_offset=0, last_offset=9, base_timestamp=-1, max_timestamp=-1, producer_id=4)
    records = decode(encode_batch(empty))
    assert (len(records), records.next_offset) == (0, 10)


def test_decompressed_bytes_are_bounded() -> None:
    data = batch(0, 100, "gzip") + batch(100, 100, "gzip")
    grown: list[int] = []

    def counting(codec: int, compressed: memoryview, limit: int) -> bytes:
        plain = decompress(codec, compressed, limit)
        grown.append(len(plain))
        return plain

    def fetch(limit: int) -> list[int]:
        records = decode_fetch(data, topic="t", partition=0, decompress=counting, max_decompressed=limit)
        return [records.next_offset, len(records)]

    assert fetch(10**6) == [200, 200]
    first, second = grown[:2]
    # The second batch no longer fits: it is left for the next fetch.
    assert fetch(first + second - 1) == [100, 100]
    with pytest.raises(DecodeError, match=f"more than {first - 1} bytes"):
        fetch(first - 1)


def test_arguments_are_named() -> None:
    with pytest.raises(TypeError, match="data must be a bytes-like object, not str"):
        decode("text")
    with pytest.raises(TypeError, match="topic"):
        decode_fetch(b"", topic=None, partition=0, decompress=decompress)  # type: ignore[arg-type]


def test_the_fetched_buffer_is_held_while_a_record_needs_it(poisoned: None) -> None:
    data = batch(0, 50)
    buffer = Memory(len(data))
    memoryview(buffer)[:] = data
    kept = decode(buffer)[7]
    del buffer
    for _ in range(20):
        memoryview(Memory(len(data)))[:] = b"\xee" * len(data)
    assert (kept.key, kept.value) == (b"k7", b"v7")
    before = memory.statistics()["in_use"]
    del kept
    gc.collect()
    assert memory.statistics()["in_use"] < before


def test_memory_that_nobody_needs_is_used_again() -> None:
    data = batch(0, 2000)
    decode(data)
    before = memory.statistics()
    for _ in range(50):
        decode(data).columns()
    after = memory.statistics()
    assert after["in_use"] == before["in_use"]
    assert after["reused"] - before["reused"] >= after["taken"] - before["taken"] - 2


def test_large_fetches_are_decoded_side_by_side() -> None:
    """The GIL is released; nothing is shared but the pool."""
    data = b"".join(batch(start, 500) for start in range(0, 20_000, 500))
    expected = [b"v%d" % offset for offset in range(20_000)]
    right: list[bool] = []

    def work(number: int) -> None:
        right.append(all([r.value for r in decode(data)] == expected for _ in range(5)))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 4
