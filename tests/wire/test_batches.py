"""Batches from outside: headers and control batches, against the oracle."""

from __future__ import annotations

from random import Random

import pytest

from ottla.errors import DecodeError
from ottla.wire.batches import (
    BatchHeader,
    ControlType,
    TimestampType,
    batch_headers,
    control_type,
    encode_batch,
    end_transaction_marker,
)
from ottla.wire.records import decode_fetch
from tests.oracle.message_sets import CODECS, OracleMessage, OracleRecord, encode_message
from tests.oracle.records import ABORT, COMMIT, OracleBatch, build_batch, decode_batch, end_marker, resealed
from tests.oracle.records import encode_batch as encode_oracle_batch
from tests.records.random_records import RandomBatches

NOW = 1_700_000_000_000
RECORDS = [OracleRecord(5, NOW, b"k", b"v"), OracleRecord(9, NOW + 3, b"k", None)]


def test_a_header_is_what_the_oracle_reads() -> None:
    written = build_batch(
        RECORDS,
        leader_epoch=4,
        codec="gzip",
        timestamp_type=1,
        transactional=True,
        delete_horizon=True,
        producer_id=77,
        producer_epoch=3,
        base_sequence=0x7FFFFFFE,
    )
    data = encode_oracle_batch(written)
    (header,) = batch_headers(data)
    assert header == BatchHeader(
        position=0,
        size=len(data),
        magic=2,
        base_offset=5,
        last_offset=9,
        leader_epoch=4,
        crc=decode_batch(data).crc,
        attributes=written.attributes,
        base_timestamp=NOW,
        max_timestamp=NOW + 3,
        producer_id=77,
        producer_epoch=3,
        base_sequence=0x7FFFFFFE,
        count=2,
    )
    assert (header.next_offset, header.last_sequence, header.codec) == (10, 2, 1)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert (header.is_transactional, header.is_control, header.has_delete_horizon) == (True, False, True)


def test_all_batches_are_found_and_a_truncated_last_one_is_left_out() -> None:
    data = encode_oracle_batch(build_batch(RECORDS))
    old = encode_message(OracleMessage(magic=1, offset=11, timestamp=NOW, value=b"v"))
    oldest = encode_message(OracleMessage(magic=0, offset=12, value=b"v"))
    headers = batch_headers(data + old + oldest + data[:-1])
    assert [h.magic for h in headers] == [2, 1, 0]
    assert [h.position for h in headers] == [0, len(data), len(data) + len(old)]
    assert [h.base_timestamp for h in headers] == [NOW, NOW, -1]
    assert [h.timestamp_type for h in headers] == [0, 0, -1]
    assert [h.last_sequence for h in headers] == [-1, -1, -1]
    assert batch_headers(b"") == []


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (8, b"\0\0\0\x05", "claims a length of 5"),
        (8, b"\xff\xff\xff\xff", "claims a length of -1"),
        (16, b"\4", "magic 4"),
        (30, b"\xff", "checksum of the batch at byte 0 is wrong"),
    ],
)
def test_a_damaged_batch_is_an_error(at: int, value: bytes, reason: str) -> None:
    data = bytearray(encode_oracle_batch(build_batch(RECORDS)))
    data[at : at + len(value)] = value
    with pytest.raises(DecodeError, match=reason):
        batch_headers(data)


def test_counts_below_zero_and_short_headers_are_errors() -> None:
    data = bytearray(encode_oracle_batch(build_batch(RECORDS)))
    data[57:61] = b"\xff\xff\xff\xff"
    with pytest.raises(DecodeError, match="negative count"):
        batch_headers(resealed(bytes(data)))
    short = b"\0" * 8 + (20).to_bytes(4) + b"\0" * 4 + b"\2" + bytes(15)
    with pytest.raises(DecodeError, match="shorter than its header"):
        batch_headers(short)
    old = bytearray(encode_message(OracleMessage(magic=1, offset=11, timestamp=NOW, value=b"v")))
    old[-1] ^= 1
    with pytest.raises(DecodeError, match="checksum of the message at byte 0 is wrong"):
        batch_headers(old)


@pytest.mark.parametrize(("outcome", "oracle"), [(ControlType.ABORT, ABORT), (ControlType.COMMIT, COMMIT)])
def test_markers_are_those_of_the_oracle(outcome: ControlType, oracle: int) -> None:
    marker = end_transaction_marker(
        outcome,
        producer_id=9,
        producer_epoch=2,
        timestamp=NOW,
        coordinator_epoch=6,
        offset=40,
        leader_epoch=1,
    )
    expected = end_marker(
        oracle,
        offset=40,
        timestamp=NOW,
        producer_id=9,
        producer_epoch=2,
        coordinator_epoch=6,
        leader_epoch=1,
    )
    assert marker == encode_oracle_batch(expected)
    (record,) = decode_fetch(marker, "orders", 0, control=True)
    assert (record.is_control, control_type(record.key)) == (True, outcome)
    assert len(decode_fetch(marker, "orders", 0)) == 0


@pytest.mark.parametrize("seed", range(30))
def test_batches_of_every_kind_are_written_as_the_oracle_writes_them(seed: int) -> None:
    """Control records, transactions, append time, delete horizons, gaps left by compaction."""
    compared = 0
    for entry in RandomBatches(Random(seed), magics=(2,), largest=5_000).log().entries:
        if not isinstance(entry, OracleBatch) or entry.base_timestamp != first_timestamp(entry):
            continue  # no caller here chooses a base timestamp that is neither the first nor a horizon
        written = encode_batch(
            [record.plain for record in entry.records],
            base_offset=entry.base_offset,
            last_offset=entry.last_offset,
            max_timestamp=entry.max_timestamp,
            leader_epoch=entry.leader_epoch,
            codec=CODECS.index(entry.codec),
            append_time=entry.max_timestamp if entry.timestamp_type == 1 else None,
            delete_horizon=entry.base_timestamp if entry.delete_horizon else None,
            transactional=entry.transactional,
            control=entry.control,
            producer_id=entry.producer_id,
            producer_epoch=entry.producer_epoch,
            base_sequence=entry.base_sequence,
        )
        assert decode_batch(written) == entry
        if entry.codec == "none":
            assert written == encode_oracle_batch(entry)
            compared += 1
    assert compared > 0


def first_timestamp(entry: OracleBatch) -> int:
    if entry.delete_horizon:
        return entry.base_timestamp
    return entry.records[0].timestamp if entry.records else -1


def test_only_outcomes_end_a_transaction() -> None:
    with pytest.raises(ValueError, match="does not end a transaction"):
        end_transaction_marker(
            ControlType.LEADER_CHANGE, producer_id=9, producer_epoch=2, timestamp=NOW, coordinator_epoch=6
        )


def test_the_type_of_a_control_record() -> None:
    assert control_type(b"\0\0\0\1") == ControlType.COMMIT
    assert control_type(b"\0\5\x03\xe7newer") == 999
    for key in (None, b"", b"\0\0\0"):
        with pytest.raises(DecodeError, match="does not say its type"):
            control_type(key)
