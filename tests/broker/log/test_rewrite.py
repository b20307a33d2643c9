"""What a leader changes in a batch: offsets and epoch always, times and codec where the topic says so."""

from __future__ import annotations

import pytest

from ottla.broker.log.log import LogConfig
from ottla.broker.log.validation import only_batch
from ottla.errors import BrokerError, InvalidRecordError, MessageTooLargeError, UnknownServerError
from ottla.wire.batch_header import BATCH_OVERHEAD
from ottla.wire.batches import PlainRecord, batch_headers, encode_batch
from ottla.wire.compression import Compression
from ottla.wire.records import decode_fetch
from tests.broker.log.support import NOW, append, headers, joined, make_batch, open_log, patched

MAX_TIMESTAMP_AT = 35
RECORDS: list[PlainRecord] = [
    (index, NOW + index, b"key-%d" % index, b"value" * index, [("h", None), ("i", b"x")])
    for index in range(40)
]


def stored(data: bytes | bytearray, config: LogConfig) -> bytes:
    log = open_log(config=config)
    append(log, bytearray(data), epoch=6)
    return joined(log.read(0, 1 << 20))


def plain(data: bytes) -> list[PlainRecord]:
    return [
        (record.offset, record.timestamp, record.key, record.value, record.headers)
        for record in decode_fetch(data, "orders", 0)
    ]


def test_a_batch_gets_its_offsets_and_the_epoch_of_its_leader() -> None:
    log = open_log()
    append(log, make_batch(3), epoch=4)
    append(log, make_batch(2), epoch=4)
    first, second = headers(log.read(0, 10_000))
    assert (first.base_offset, first.last_offset, first.leader_epoch) == (0, 2, 4)
    assert (second.base_offset, second.last_offset, second.leader_epoch) == (3, 4, 4)


def test_nothing_else_changes_without_need() -> None:
    data = make_batch(3, producer=(7, 1, 0), codec=Compression.LZ4)
    kept = bytes(data)
    assert stored(data, LogConfig())[16:] == kept[16:]


def test_memory_that_cannot_be_written_is_copied() -> None:
    data = bytes(make_batch(3))
    kept = bytes(bytearray(data))
    log = open_log()
    log.append_as_leader(only_batch(data), 6, NOW)
    log.append_as_leader(only_batch(memoryview(data)), 6, NOW)
    assert data == kept
    assert log.log_end_offset == 6


def test_memory_that_belongs_to_the_log_is_written_in_place() -> None:
    whole = bytearray(b"frame" + make_batch(3, value=b"x" * 100_000))
    log = open_log()
    append(log, make_batch())
    log.append_as_leader(only_batch(memoryview(whole)[5:]), 6, NOW)
    assert batch_headers(whole[5:])[0].base_offset == 1
    (part,) = log.read(1, 1 << 20).parts
    assert part.obj is whole


def test_a_topic_with_append_time_has_the_time_of_the_log() -> None:
    data = encode_batch(RECORDS)
    log = open_log(config=LogConfig(message_timestamp_type="LogAppendTime"))
    appended = append(log, bytearray(data), now_ms=NOW + 77)
    assert appended.append_time_ms == NOW + 77
    (header,) = headers(log.read(0, 1 << 20))
    assert (header.attributes, header.max_timestamp, header.base_timestamp) == (0x08, NOW + 77, NOW)
    records = decode_fetch(joined(log.read(0, 1 << 20)), "orders", 0)
    assert {record.timestamp for record in records} == {NOW + 77}


def test_a_topic_with_create_time_answers_no_append_time() -> None:
    assert append(open_log(), make_batch()).append_time_ms == -1


def test_a_wrong_largest_timestamp_is_mended() -> None:
    for claimed in (12345, -1):
        data = stored(patched(encode_batch(RECORDS), ">q", MAX_TIMESTAMP_AT, claimed), LogConfig())
        assert batch_headers(data)[0].max_timestamp == NOW + 39


def test_timestamps_below_all_count_as_none() -> None:
    data = stored(encode_batch([(0, -2, b"key", b"", [])]), LogConfig())
    assert batch_headers(data)[0].max_timestamp == -1


def test_a_claim_to_append_time_is_taken_out() -> None:
    data = stored(encode_batch(RECORDS[:2], append_time=NOW), LogConfig())
    (header,) = batch_headers(data)
    assert (header.attributes, header.max_timestamp) == (0, NOW)


def test_a_claimed_append_time_below_all_counts_as_none() -> None:
    for codec in (Compression.NONE, Compression.GZIP):
        data = stored(encode_batch(RECORDS[:2], append_time=-5, codec=codec), LogConfig())
        (header,) = batch_headers(data)
        assert (header.attributes, header.max_timestamp) == (codec, -1)


@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("codec", list(Compression), ids=lambda codec: codec.name.lower())
def test_a_topic_has_its_own_codec(codec: Compression, target: str) -> None:
    data = encode_batch(
        RECORDS, codec=codec, producer_id=7, producer_epoch=1, base_sequence=0, transactional=True
    )
    data = stored(data, LogConfig(compression_type=target))
    (header,) = batch_headers(data)
    expected = Compression.NONE if target == "uncompressed" else Compression[target.upper()]
    assert header.codec == expected
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 0)
    assert header.is_transactional
    assert plain(data) == RECORDS


@pytest.mark.parametrize(("epoch", "sequence"), [(-1, 0), (-1, -1)])
def test_a_batch_of_half_a_producer_is_not_compressed_anew(epoch: int, sequence: int) -> None:
    half = encode_batch(RECORDS, producer_id=7, producer_epoch=epoch, base_sequence=sequence)
    if sequence >= 0:
        stored(half, LogConfig())
    with pytest.raises(BrokerError) as refused:
        stored(half, LogConfig(compression_type="gzip"))
    assert refused.value.code == (UnknownServerError if sequence >= 0 else InvalidRecordError).code


def test_a_batch_of_a_transaction_of_no_producer_is_not_compressed_anew() -> None:
    nobody = encode_batch(RECORDS, transactional=True)
    stored(nobody, LogConfig())
    with pytest.raises(UnknownServerError):
        stored(nobody, LogConfig(compression_type="gzip"))


def test_a_batch_that_is_compressed_anew_has_no_horizon_for_deletes() -> None:
    data = stored(encode_batch(RECORDS[:2], delete_horizon=NOW - 5), LogConfig(compression_type="gzip"))
    (header,) = batch_headers(data)
    assert header.base_timestamp == plain(data)[0][1]
    assert header.attributes == Compression.GZIP


def test_records_of_a_claimed_append_time_have_it_where_they_are_compressed_anew() -> None:
    data = stored(encode_batch(RECORDS[:2], append_time=NOW - 5), LogConfig(compression_type="gzip"))
    assert [record[1] for record in plain(data)] == [NOW - 5, NOW - 5]


def test_times_below_none_are_not_compressed_anew() -> None:
    odd = encode_batch([(0, -5, None, b"v", [])])
    assert plain(stored(odd, LogConfig())) == [(0, -5, None, b"v", [])]
    with pytest.raises(UnknownServerError):
        stored(odd, LogConfig(compression_type="gzip"))
    none = encode_batch([(0, -1, None, b"v", [])])
    assert plain(stored(none, LogConfig(compression_type="gzip"))) == [(0, -1, None, b"v", [])]


def test_the_codec_of_the_producer_is_kept_where_it_is_the_topics() -> None:
    data = make_batch(40, codec=Compression.GZIP)
    kept = bytes(data)
    assert stored(data, LogConfig(compression_type="gzip", compression_gzip_level=1))[16:] == kept[16:]


def test_a_level_counts_where_the_leader_compresses() -> None:
    value = b"".join(b"%d" % (number * number % 9973) for number in range(4000))
    sizes = [
        len(
            stored(
                make_batch(3, value=value), LogConfig(compression_type="gzip", compression_gzip_level=level)
            )
        )
        for level in (1, 9)
    ]
    assert sizes[0] > sizes[1]


# What Apache Kafka 4.3.1 has behind the header of a batch that it compressed anew.
ZSTD_OF_KAFKA = [
    ([(0, NOW, b"key", b"a" * 10, [])], "28b52ffd00588c00005826000000066b65791461000100054002010000"),
    (
        [(0, NOW, b"k", b"aaa", [("h", None), ("h", b"")]), (1, NOW + 1, b"k", b"bbb", [])],
        "28b52ffd0058e0000020000000026b066161610402680102680014000202026b0662626200010000",
    ),
]


@pytest.mark.parametrize("delete_horizon", [None, NOW], ids=["as it is", "built anew"])
@pytest.mark.parametrize(("records", "packed"), ZSTD_OF_KAFKA)
def test_zstd_is_framed_as_kafkas_leaders_frame_it_since_sizes_decide_what_a_fetch_returns(
    records: list[PlainRecord], packed: str, delete_horizon: int | None
) -> None:
    data = encode_batch(records, delete_horizon=delete_horizon)
    data = stored(data, LogConfig(compression_type="zstd"))
    assert data[BATCH_OVERHEAD:].hex() == packed
    assert plain(data) == records


def test_a_new_codec_and_append_time_together() -> None:
    config = LogConfig(compression_type="lz4", message_timestamp_type="LogAppendTime")
    data = stored(encode_batch(RECORDS), config)
    (header,) = batch_headers(data)
    assert (header.attributes, header.max_timestamp) == (0x08 | Compression.LZ4, NOW)


def test_records_with_gaps_are_numbered_anew_where_they_are_compressed_anew() -> None:
    records: list[PlainRecord] = [(number, NOW, b"key", b"value", []) for number in (0, 1, 3)]
    data = stored(encode_batch(records, last_offset=2), LogConfig(compression_type="gzip"))
    assert [record[0] for record in plain(data)] == [0, 1, 2]


def test_a_batch_that_grew_is_measured_again() -> None:
    data = make_batch(100, codec=Compression.ZSTD)
    config = LogConfig(compression_type="uncompressed", max_message_bytes=len(data))
    log = open_log(config=config)
    with pytest.raises(MessageTooLargeError):
        append(log, data)
    assert log.size == 0
