"""The oracle itself: it reads and writes records as Kafka does, and refuses what Kafka refuses."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from random import Random

import pytest

from tests.facts import third_party_vectors
from tests.oracle.crc32c import crc32c
from tests.oracle.message_sets import (
    CODECS,
    OracleMessage,
    compress,
    decompress,
    encode_message,
    inner_messages,
    message_records,
    wrap,
)
from tests.oracle.records import (
    ABORT,
    COMMIT,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    Entry,
    OracleBatch,
    OracleError,
    OracleRecord,
    build_batch,
    control_type,
    coordinator_epoch,
    decode_batch,
    decode_entry,
    decode_header,
    decode_records,
    encode_batch,
    encode_entry,
    encode_varint,
    end_marker,
    fast_crc32c,
    iter_records,
    next_fetch_offset,
    resealed,
    split_entries,
)
from tests.records.vectors import (
    BatchFacts,
    KafkaVector,
    captures,
    checksum_vectors,
    invalid_vectors,
    kafka_vectors,
    third_party_batches,
)

kafkas = pytest.mark.parametrize("vector", kafka_vectors(), ids=str)
codecs = pytest.mark.parametrize("codec", CODECS)


# Known answers


def test_kafka_has_written_every_magic_with_every_codec_of_its_time() -> None:
    written = {(fact.magic, fact.codec) for vector in kafka_vectors() for fact in vector.facts}
    assert written == {(magic, codec) for magic in range(3) for codec in CODECS[: 5 if magic == 2 else 4]}


@kafkas
def test_a_consumer_gets_what_kafka_was_asked_to_write(vector: KafkaVector) -> None:
    assert decode_records(vector.data) == list(vector.records)


@kafkas
def test_every_field_is_read_as_it_was_meant(vector: KafkaVector) -> None:
    entries = [decode_entry(entry) for entry in split_entries(vector.data)]
    assert [contents(entry) for entry in entries] == [contents(entry) for entry in vector.entries]


@kafkas
def test_bytes_are_written_as_kafka_writes_them(vector: KafkaVector) -> None:
    written = b"".join(encode_entry(entry) for entry in vector.entries)
    if vector.exact:
        assert written.hex() == vector.data.hex()
    else:
        assert decode_records(written) == list(vector.records)


@kafkas
def test_what_kafka_tells_about_a_batch_is_told_alike(vector: KafkaVector) -> None:
    if vector.facts:
        assert tuple(map(facts_of, split_entries(vector.data))) == vector.facts


@pytest.mark.parametrize("codec", ["snappy", "lz4"])
def test_these_codecs_give_the_very_bytes_of_the_java_client(codec: str) -> None:
    """Not a rule that anybody has to follow, but a close look at the framing."""
    for vector in kafka_vectors():
        if any(entry.codec == codec for entry in vector.entries) and len(vector.records) < 50:
            assert b"".join(map(encode_entry, vector.entries)).hex() == vector.data.hex(), vector


def test_what_other_projects_wrote_is_read_as_they_meant_it() -> None:
    for vector in third_party_batches():
        assert decode_records(vector.data, check_crc=vector.crc_ok) == list(vector.records), vector
        entries = [decode_entry(data, check_crc=vector.crc_ok) for data in split_entries(vector.data)]
        assert [entry.crc for entry in entries] == [raw["crc"] for raw in vector.entries], vector
        for entry, raw in zip(entries, vector.entries, strict=True):
            if isinstance(entry, OracleBatch):
                told = [raw[name] for name in THIRD_PARTY_FIELDS]
                assert [getattr(entry, name) for name in THIRD_PARTY_FIELDS.values()] == told, vector


THIRD_PARTY_FIELDS = {
    "attributes": "attributes",
    "baseOffset": "base_offset",
    "lastOffset": "last_offset",
    "partitionLeaderEpoch": "leader_epoch",
    "baseTimestamp": "base_timestamp",
    "maxTimestamp": "max_timestamp",
    "producerId": "producer_id",
    "producerEpoch": "producer_epoch",
    "baseSequence": "base_sequence",
    "count": "count",
}


def test_what_other_projects_wrote_is_written_alike() -> None:
    for vector in third_party_batches():
        # kafka-protocol-rs sets an attribute of a record. None has a meaning, so the oracle does not keep them.
        if vector.crc_ok and not vector.name.startswith("kafka-protocol-rs"):
            for data in split_entries(vector.data):
                entry = decode_entry(data)
                if entry.codec == "none" or isinstance(entry, OracleMessage):
                    assert encode_entry(entry) == data, vector


def test_what_another_project_got_wrong_is_told() -> None:
    """kafka-python's control batch has a checksum that does not fit; nothing else in there is broken."""
    broken = [vector for vector in third_party_batches() if not vector.crc_ok]
    assert [vector.name for vector in broken] == ["kafka-python-control_batch_data_v2-0"]
    with pytest.raises(OracleError, match="crc"):
        decode_records(broken[0].data)


def test_checksums_that_other_projects_expect_come_out() -> None:
    for name, batch, crc in checksum_vectors():
        assert decode_header(encode_batch(batch)).crc == crc, name


def test_answers_of_a_broker_that_mix_all_formats_are_read() -> None:
    for capture in captures():
        records = decode_records(capture.data)
        assert [(record.key, record.value) for record in records] == list(capture.pairs), capture.name
        assert [record.offset for record in records] == list(range(len(records))), capture.name


def test_what_kafka_refuses_or_leaves_out_is_refused_or_left_out() -> None:
    for vector in invalid_vectors():
        if vector.corrupt:
            with pytest.raises(OracleError, match=r"size|magic"):
                decode_records(vector.data)
        else:
            assert decode_records(vector.data) == [], vector.name


def test_control_records_are_read_as_other_projects_read_them() -> None:
    numbers = {"ABORT": 0, "COMMIT": 1, "UNKNOWN": 128}
    for vector in third_party_vectors("control-record"):
        given, expected = vector["input"], vector["expected"]
        if "keyHex" in given:
            version, kind = control_type(bytes.fromhex(given["keyHex"]))
            assert kind == numbers.get(expected["type"], expected["type"]), vector["id"]
            assert version == expected.get("version", version), vector["id"]
        if "coordinatorEpoch" in expected:
            assert coordinator_epoch(bytes.fromhex(given["valueHex"])) == expected["coordinatorEpoch"]


# Round trips


def test_the_checksum_by_table_is_the_checksum_by_division() -> None:
    data = Random(1).randbytes(500)
    assert all(fast_crc32c(data[:length]) == crc32c(data[:length]) for length in range(len(data)))


@codecs
@pytest.mark.parametrize("size", [0, 1, 100, 32 * 1024, 32 * 1024 + 1, 64 * 1024, 64 * 1024 + 1, 200_000])
def test_a_codec_gives_back_what_it_got(codec: str, size: int) -> None:
    for data in (bytes(size), Random(size).randbytes(size)):
        for magic in range(3):
            assert decompress(codec, compress(codec, data, magic=magic), magic=magic) == data


def test_raw_snappy_is_read_too() -> None:
    framed = compress("snappy", b"hello" * 20)
    assert (
        decompress("snappy", framed[20:]) == b"hello" * 20
    )  # behind the header and the length of its one block


@codecs
def test_a_batch_with_all_features_comes_back(codec: str) -> None:
    batch = full_batch(codec)
    data = encode_batch(batch)
    assert decode_batch(data) == batch
    assert decode_records(data) == batch.delivered
    assert decode_header(data) == dataclasses.replace(batch, records=())


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
def test_messages_inside_a_message_come_back(magic: int, codec: str) -> None:
    messages = [OracleMessage(magic, at, 100 + at if magic else -1, b"k", b"v") for at in (7, 8, 11)]
    wrapper = wrap(messages, codec, magic=magic)
    assert wrapper.offset == 11
    assert [m.offset for m in inner_messages(wrapper)] == ([0, 1, 4] if magic else [7, 8, 11])
    assert [record.offset for record in message_records(wrapper)] == [7, 8, 11]
    assert decode_entry(encode_message(wrapper)) == wrapper


# What a consumer makes of batches


def test_a_batch_that_is_cut_off_is_left_out() -> None:
    first, second = encode_batch(full_batch("none")), encode_batch(shifted(full_batch("none"), 10))
    whole = decode_records(first)
    for length in range(len(second)):
        assert decode_records(first + second[:length]) == whole
    assert len(decode_records(first + second)) == 2 * len(whole)


def test_records_below_the_fetch_offset_are_cut() -> None:
    data = encode_batch(full_batch("gzip")) + encode_batch(shifted(full_batch("lz4"), 10))
    offsets = [record.offset for record in decode_records(data)]
    for fetch_offset in range(max(offsets) + 2):
        kept = [record.offset for record in decode_records(data, fetch_offset=fetch_offset)]
        assert kept == [offset for offset in offsets if offset >= fetch_offset]


def test_the_next_fetch_starts_behind_what_compaction_took() -> None:
    batch = dataclasses.replace(full_batch("none"), last_offset=90)
    assert next_fetch_offset(encode_batch(batch), 0) == 91
    assert next_fetch_offset(encode_batch(batch) + encode_batch(batch)[:-1], 0) == 91
    assert next_fetch_offset(encode_message(OracleMessage(1, 30, 0)), 0) == 31
    assert next_fetch_offset(b"", 12) == 12


def test_a_batch_without_records_delivers_nothing() -> None:
    empty = OracleBatch(5, 9, -1, 1_700_000_000_000, producer_id=4, producer_epoch=0, base_sequence=3)
    assert decode_records(encode_batch(empty)) == []
    assert decode_records(
        encode_batch(empty) + encode_batch(shifted(full_batch("none"), 10)), fetch_offset=10
    )


@pytest.mark.parametrize("read_committed", [True, False])
def test_control_records_are_never_delivered(read_committed: bool) -> None:
    data = b"".join(encode_batch(marker(kind, 5, producer=1)) for kind in (ABORT, COMMIT, 2, 77))
    assert decode_records(data, read_committed=read_committed) == []


def test_with_log_append_time_every_record_has_the_time_of_its_batch() -> None:
    batch = dataclasses.replace(full_batch("none"), timestamp_type=LOG_APPEND_TIME, max_timestamp=42)
    delivered = decode_records(encode_batch(batch))
    assert {(record.timestamp, record.timestamp_type) for record in delivered} == {(42, LOG_APPEND_TIME)}
    inner = [OracleMessage(1, at, 1000 + at, b"k", b"v") for at in range(3)]
    wrapper = dataclasses.replace(wrap(inner, "gzip", magic=1), timestamp=42, timestamp_type=LOG_APPEND_TIME)
    assert {r.timestamp for r in decode_records(encode_message(wrapper))} == {42}
    assert {r.timestamp for r in message_records(wrap(inner, "gzip", magic=1))} == {1000, 1001, 1002}


def test_read_committed_skips_an_aborted_transaction_up_to_its_marker_and_no_further() -> None:
    log = [
        written(0, producer=1),  # aborted
        written(1, producer=2),  # committed
        written(2),  # part of no transaction
        written(3, producer=1, transactional=False),  # nor this, by the same producer
        written(4, producer=1),
        marker(ABORT, 5, producer=1),
        written(6, producer=1),  # its next transaction, committed
        marker(COMMIT, 7, producer=2),
        written(8, producer=2),  # aborted
        marker(COMMIT, 9, producer=1),
        marker(ABORT, 10, producer=2),
        written(11, producer=2),
        marker(COMMIT, 12, producer=2),
    ]
    data = b"".join(map(encode_batch, log))
    aborted = [(2, 8), (1, 0)]
    assert offsets(decode_records(data, read_committed=True, aborted=aborted)) == [1, 2, 3, 6, 11]
    assert offsets(decode_records(data, aborted=aborted)) == [0, 1, 2, 3, 4, 6, 8, 11]
    # The marker may lie behind the end of the answer, and the begin of the transaction in front of it.
    assert offsets(decode_records(encode_batch(log[4]), read_committed=True, aborted=aborted)) == []


def test_a_wrapper_that_librdkafka_left_at_offset_0_keeps_the_offsets_inside() -> None:
    wrapper = wrap([OracleMessage(1, at, 100 + at) for at in range(3)], "gzip", magic=1)
    assert offsets(message_records(dataclasses.replace(wrapper, offset=0))) == [0, 1, 2]


# What is refused


def test_every_changed_bit_of_what_the_checksum_covers_is_found() -> None:
    data = encode_batch(full_batch("none"))
    for at in range(HEADER_SIZE - 44, len(data)):
        with pytest.raises(OracleError) as caught:
            decode_records(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        assert caught.value.reason == "crc"
    message = encode_message(OracleMessage(1, 0, 5, b"key", b"value"))
    for at in range(17, len(message)):
        with pytest.raises(OracleError, match="crc"):
            decode_records(message[:at] + bytes([message[at] ^ 1]) + message[at + 1 :])
        decode_records(message[:-1] + b"!", check_crc=False)


def replaced(at: int, new: bytes) -> Callable[[bytes], bytes]:
    return lambda data: data[:at] + new + data[at + len(new) :]


def records_of(*parts: bytes) -> Callable[[bytes], bytes]:
    """One record of these bytes behind a header that announces one."""
    body = b"".join(parts)
    return lambda data: data[: HEADER_SIZE - 4] + struct.pack(">i", 1) + encode_varint(len(body)) + body


ATTRIBUTES, COUNT = 21, 57
START = b"\0" + encode_varint(0) + encode_varint(0)
NULL, NONE = encode_varint(-1), encode_varint(0)


@pytest.mark.parametrize(
    ("tamper", "reason"),
    [
        (replaced(COUNT, struct.pack(">i", -1)), "negative"),
        (replaced(COUNT, struct.pack(">i", 3)), "count"),
        (replaced(COUNT, struct.pack(">i", 5)), "count"),
        (replaced(ATTRIBUTES + 1, b"\x05"), "codec"),
        (replaced(ATTRIBUTES + 1, b"\x01"), "codec"),
        (replaced(ATTRIBUTES + 1, b"\x02"), "codec"),
        (replaced(ATTRIBUTES + 1, b"\x03"), "codec"),
        (replaced(ATTRIBUTES + 1, b"\x04"), "codec"),
        (lambda data: data[:-1], "truncated"),
        (replaced(HEADER_SIZE, encode_varint(-1)), "negative"),
        (replaced(HEADER_SIZE, encode_varint(3)), "truncated"),
        (replaced(HEADER_SIZE, encode_varint(30)), "size"),
        (replaced(HEADER_SIZE, b"\xff" * 5), "varint"),
        (records_of(), "truncated"),
        (records_of(START), "truncated"),
        (records_of(START, NULL, NULL), "truncated"),
        (records_of(START, NULL, NULL, NONE, b"more"), "size"),
        (records_of(START, encode_varint(1), NULL, NONE), "truncated"),
        (records_of(START, NULL, encode_varint(100), NONE), "truncated"),
        (records_of(START, NULL, NULL, encode_varint(-1)), "negative"),
        (records_of(START, NULL, NULL, encode_varint(2**31 - 1)), "truncated"),
        (records_of(START, NULL, NULL, encode_varint(1), NULL, NULL), "negative"),
        (records_of(START, NULL, NULL, encode_varint(1), NONE), "truncated"),
        (records_of(b"\0", b"\x80" * 10 + b"\0", NONE, NULL, NULL, NONE), "varint"),
        (records_of(b"\0", NONE, b"\x80" * 5 + b"\0", NULL, NULL, NONE), "varint"),
    ],
)
def test_a_batch_that_contradicts_itself_is_refused(tamper: Callable[[bytes], bytes], reason: str) -> None:
    good = encode_batch(full_batch("none"))
    with pytest.raises(OracleError) as caught:
        decode_records(resealed(tamper(good)))
    assert caught.value.reason == reason
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "tamper",
    [
        records_of(START, encode_varint(-2), encode_varint(-(2**31)), NONE),  # any negative length is null
        records_of(b"\x7f", NONE, NONE, NULL, NULL, NONE),  # attributes of a record mean nothing
        records_of(
            b"\0", b"\x80" * 9 + b"\0", b"\x80" * 4 + b"\0", NULL, NULL, NONE
        ),  # zeros, at full length
        replaced(COUNT, bytes(4)),  # without records, what follows is not looked at
    ],
)
def test_what_is_odd_but_harmless_is_read(tamper: Callable[[bytes], bytes]) -> None:
    for record in decode_records(resealed(tamper(encode_batch(full_batch("none"))))):
        assert (record.key, record.value) == (None, None)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (OracleMessage(0, 5, codec="gzip", value=None), "wrapper"),
        (OracleMessage(1, 5, codec="gzip", value=b""), "codec"),
        (OracleMessage(1, 5, codec="lz4", value=b"\x04\x22\x4d\x18"), "codec"),
        (OracleMessage(0, 5, codec="lz4", value=compress("lz4", b"x" * 99)[:-9]), "codec"),
        (OracleMessage(1, 5, codec="snappy", value=b"\x82SNAPPY\0" + bytes(8) + b"\0\0\0\x7f1"), "codec"),
        (OracleMessage(1, 5, codec="snappy", value=compress("snappy", struct.pack(">qi", 0, 13))), "size"),
        (
            dataclasses.replace(wrap([OracleMessage(1, 9), OracleMessage(1, 12)], "gzip", magic=1), offset=2),
            "wrapper",
        ),
        (wrap([wrap([OracleMessage(0, 9)], "gzip", magic=0)], "gzip", magic=0), "wrapper"),
        (
            OracleMessage(
                1,
                5,
                codec="gzip",
                value=compress(
                    "gzip",
                    encode_batch(end_marker(0, offset=0, timestamp=0, producer_id=0, producer_epoch=0)),
                ),
            ),
            "magic",
        ),
    ],
)
def test_a_compressed_message_that_breaks_its_rules_is_refused(message: OracleMessage, reason: str) -> None:
    with pytest.raises(OracleError) as caught:
        decode_records(encode_message(message))
    assert caught.value.reason == reason


def test_a_message_too_short_for_its_format_is_refused() -> None:
    good = encode_message(OracleMessage(1, 5, 6, b"k", b"v"))
    for length in range(26, len(good)):
        data = struct.pack(">qi", 5, length - 12) + good[12:length]
        with pytest.raises(OracleError) as caught:
            decode_records(data, check_crc=False)
        assert caught.value.reason == "truncated"


def test_a_marker_without_a_type_is_refused_when_it_matters() -> None:
    for key in (None, b"\0\0\0", b"\xff\xff\0\0"):
        batch = dataclasses.replace(marker(ABORT, 0, producer=1), records=(OracleRecord(0, 0, key),))
        with pytest.raises(OracleError, match="control"):
            decode_records(encode_batch(batch), read_committed=True)


def test_what_lies_in_front_of_an_error_is_delivered() -> None:
    good, bad = encode_batch(full_batch("none")), bytearray(encode_batch(full_batch("none")))
    bad[-1] ^= 1
    records = iter_records(good + bytes(bad))
    assert [next(records) for _ in range(4)] == full_batch("none").delivered
    with pytest.raises(OracleError, match="crc"):
        next(records)


# Batches to start from


def full_batch(codec: str) -> OracleBatch:
    """Nulls, nothing, headers twice and without value, times before the first, a gap."""
    return build_batch(
        [
            OracleRecord(0, 1_700_000_000_000, None, b"value"),
            OracleRecord(1, 1_699_999_999_000, b"", None, (("a", b"1"), ("a", None), ("größe", b""))),
            OracleRecord(2, 1_700_000_009_000, b"key", b"", (("", b"x"),)),
            OracleRecord(6, -1, b"key" * 100, b"value" * 200),
        ],
        base_timestamp=1_700_000_000_000,
        leader_epoch=3,
        codec=codec,
        producer_id=2**40,
        producer_epoch=5,
        base_sequence=2**31 - 3,
        last_offset=7,
        delete_horizon=True,
    )


def shifted(batch: OracleBatch, by: int) -> OracleBatch:
    return dataclasses.replace(
        batch,
        base_offset=batch.base_offset + by,
        last_offset=batch.last_offset + by,
        records=tuple(dataclasses.replace(r, offset=r.offset + by) for r in batch.records),
    )


def written(offset: int, *, producer: int = -1, transactional: bool | None = None) -> OracleBatch:
    return build_batch(
        [OracleRecord(offset, 1_700_000_000_000, b"key", b"value")],
        producer_id=producer,
        producer_epoch=min(producer, 0),
        base_sequence=min(producer, 0),
        transactional=producer >= 0 if transactional is None else transactional,
    )


def marker(kind: int, offset: int, *, producer: int) -> OracleBatch:
    return end_marker(
        kind, offset=offset, timestamp=1_700_000_000_000, producer_id=producer, producer_epoch=0
    )


def offsets(records: list[OracleRecord]) -> list[int]:
    return [record.offset for record in records]


def contents(entry: Entry) -> object:
    """An entry to compare: what is inside a compressed message, not its compressed bytes."""
    if isinstance(entry, OracleMessage) and entry.codec != "none":
        return dataclasses.replace(entry, value=None), inner_messages(entry)
    return entry


def facts_of(data: bytes) -> BatchFacts:
    entry = decode_entry(data)
    if isinstance(entry, OracleBatch):
        return BatchFacts(
            2,
            entry.codec,
            entry.base_offset,
            entry.last_offset,
            entry.max_timestamp,
            len(data),
            entry.crc,
            entry.producer_id,
            entry.producer_epoch,
            entry.base_sequence,
            entry.last_sequence,
            entry.transactional,
            entry.control,
        )
    records = message_records(entry)
    first, last = records[0].offset, records[-1].offset
    return BatchFacts(
        entry.magic,
        entry.codec,
        first,
        last,
        entry.timestamp,
        len(data),
        entry.crc,
        -1,
        -1,
        -1,
        -1,
        False,
        False,
    )
