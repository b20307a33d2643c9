"""What a leader refuses: batches like these were sent to Apache Kafka 4.3.1, and the codes here are its answers.

The exceptions are what only brokers write, which no client can send, and a batch that is shorter than its header.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from ottla._native.record_batch import whole_batch
from ottla.broker.log.log import LogConfig, Origin
from ottla.broker.log.rewrite import assign_offsets, for_topic
from ottla.broker.log.validation import (
    RecordsRefused,
    accept_batch,
    append_rules,
    inspect_batch,
    only_batch,
)
from ottla.errors import BrokerError
from ottla.wire.batch_header import BATCH_OVERHEAD
from ottla.wire.batches import PlainRecord, encode_batch
from ottla.wire.compression import Compression
from tests.broker.log.support import NOW, append, headers, make_batch, open_log, patched
from tests.native.record_fuzz import framed
from tests.wire.fuzz import MUTATIONS

ACCEPTED = 0
CORRUPT_MESSAGE = 2
MESSAGE_TOO_LARGE = 10
RECORD_LIST_TOO_LARGE = 18
INVALID_TIMESTAMP = 32
UNSUPPORTED_COMPRESSION_TYPE = 76
INVALID_RECORD = 87
UNKNOWN_SERVER_ERROR = -1

COUNT_AT, LAST_DELTA_AT, ATTRIBUTES_AT, MAX_TIMESTAMP_AT, MAGIC_AT = 57, 23, 21, 35, 16
HOUR = 3_600_000

GOOD = bytes(make_batch(3))
WITH_GAP: list[PlainRecord] = [(number, NOW, b"key", b"value", []) for number in (0, 1, 3)]
TWICE: list[PlainRecord] = [(0, NOW, b"key", b"value", []), (0, NOW, b"key", b"value", [])]


def answer(data: bytes | bytearray, config: LogConfig | None = None, version: int = 9) -> int:
    """The error code for a batch; nothing of a refused one is in the log."""
    log = open_log(config=config)
    try:
        log.append_as_leader(only_batch(data, version), 0, NOW)
    except BrokerError as error:
        assert (log.size, log.log_end_offset) == (0, 0)
        return error.code
    assert log.log_end_offset
    return ACCEPTED


def counted(data: bytes | bytearray, count: int) -> bytearray:
    return patched(patched(data, ">i", COUNT_AT, count), ">i", LAST_DELTA_AT, count - 1)


def damaged(at: int, value: int) -> bytearray:
    return patched(GOOD, ">B", at, value)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        pytest.param(GOOD, ACCEPTED, id="as it should be"),
        pytest.param(b"", INVALID_RECORD, id="nothing"),
        pytest.param(GOOD + GOOD, INVALID_RECORD, id="two batches"),
        pytest.param(GOOD + bytes(5), ACCEPTED, id="a few bytes behind the batch"),
        pytest.param(GOOD + bytes(20), CORRUPT_MESSAGE, id="an impossible length behind the batch"),
        pytest.param(GOOD[:-1], INVALID_RECORD, id="cut off"),
        pytest.param(patched(GOOD, ">b", MAGIC_AT, 1), INVALID_RECORD, id="magic 1"),
        pytest.param(patched(GOOD, ">b", MAGIC_AT, 0), INVALID_RECORD, id="magic 0"),
        pytest.param(patched(GOOD, ">b", MAGIC_AT, 3), CORRUPT_MESSAGE, id="magic 3"),
        pytest.param(patched(GOOD, ">I", 17, 1, new_crc=False), CORRUPT_MESSAGE, id="a wrong checksum"),
        pytest.param(patched(GOOD, ">q", 0, 5), INVALID_RECORD, id="a base offset"),
        pytest.param(patched(GOOD, ">i", LAST_DELTA_AT, 5), INVALID_RECORD, id="more offsets than records"),
        pytest.param(patched(GOOD, ">i", LAST_DELTA_AT, -1), INVALID_RECORD, id="no offsets"),
        pytest.param(patched(GOOD, ">i", LAST_DELTA_AT, -5), INVALID_RECORD, id="a negative delta"),
        pytest.param(patched(GOOD, ">i", COUNT_AT, 0), INVALID_RECORD, id="count 0"),
        pytest.param(patched(GOOD, ">i", COUNT_AT, -1), INVALID_RECORD, id="count -1"),
        pytest.param(counted(GOOD, 2), INVALID_RECORD, id="a record too many"),
        pytest.param(counted(GOOD, 4), INVALID_RECORD, id="a record too few"),
        pytest.param(encode_batch([], base_offset=0, last_offset=0), INVALID_RECORD, id="no records"),
        pytest.param(encode_batch(WITH_GAP, last_offset=2), ACCEPTED, id="a gap in the deltas"),
        pytest.param(encode_batch(TWICE, last_offset=1), ACCEPTED, id="a delta twice"),
        pytest.param(
            encode_batch(WITH_GAP, last_offset=2, codec=Compression.GZIP),
            UNKNOWN_SERVER_ERROR,
            id="a gap in compressed deltas",
        ),
        pytest.param(
            encode_batch([(0, NOW, b"\0\0\0\1", b"", [])], control=True), INVALID_RECORD, id="a control batch"
        ),
        pytest.param(make_batch(producer=(7, 0, -1)), INVALID_RECORD, id="a producer without sequence"),
        pytest.param(make_batch(producer=(7, -1, 0)), ACCEPTED, id="a producer without epoch"),
        pytest.param(make_batch(producer=(-1, -1, 5)), ACCEPTED, id="a sequence without producer"),
        pytest.param(damaged(61, 200), INVALID_RECORD, id="a record that is too long"),
        pytest.param(damaged(61, 2), INVALID_RECORD, id="a record that is too short"),
        pytest.param(damaged(61, 0), INVALID_RECORD, id="an empty record"),
        pytest.param(patched(GOOD, ">q", MAX_TIMESTAMP_AT, 12345), ACCEPTED, id="a wrong largest timestamp"),
        pytest.param(patched(GOOD, ">h", ATTRIBUTES_AT, 0x80), ACCEPTED, id="an attribute nobody knows"),
        pytest.param(patched(GOOD, ">h", ATTRIBUTES_AT, 0x40), ACCEPTED, id="a delete horizon"),
        pytest.param(patched(GOOD, ">h", ATTRIBUTES_AT, 5), UNKNOWN_SERVER_ERROR, id="codec 5"),
        pytest.param(patched(GOOD, ">h", ATTRIBUTES_AT, 7), UNKNOWN_SERVER_ERROR, id="codec 7"),
    ],
)
def test_a_batch_is_answered_as_by_kafka(data: bytes, code: int) -> None:
    assert answer(data) == code


@pytest.mark.parametrize("codec", [1, 2, 3, 4], ids=["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param(lambda data: data, ACCEPTED, id="as it should be"),
        pytest.param(lambda data: counted(data, 49), INVALID_RECORD, id="a record too many"),
        pytest.param(lambda data: counted(data, 51), INVALID_RECORD, id="a record too few"),
        pytest.param(
            lambda data: patched(GOOD, ">h", ATTRIBUTES_AT, data[ATTRIBUTES_AT + 1]),
            UNKNOWN_SERVER_ERROR,
            id="not compressed at all",
        ),
        pytest.param(
            lambda data: patched(data[:-6], ">i", 8, len(data) - 18), UNKNOWN_SERVER_ERROR, id="cut off"
        ),
    ],
)
def test_a_compressed_batch_is_answered_as_by_kafka(
    codec: int, change: Callable[[bytearray], bytearray], code: int
) -> None:
    assert answer(change(make_batch(50, codec=codec))) == code


def test_zstd_is_refused_from_old_producers() -> None:
    data = bytes(make_batch(5, codec=Compression.ZSTD))
    assert answer(data, version=6) == UNSUPPORTED_COMPRESSION_TYPE
    assert answer(data, version=7) == ACCEPTED
    assert answer(make_batch(5, codec=Compression.LZ4), version=6) == ACCEPTED


def test_a_batch_has_the_size_that_the_topic_allows() -> None:
    data = make_batch(value=b"x" * 300)
    assert answer(bytes(data), LogConfig(max_message_bytes=len(data))) == ACCEPTED
    assert answer(data, LogConfig(max_message_bytes=len(data) - 1)) == MESSAGE_TOO_LARGE


def test_size_is_looked_at_before_the_checksum() -> None:
    data = patched(make_batch(value=b"x" * 300), ">I", 17, 1, new_crc=False)
    assert answer(data, LogConfig(max_message_bytes=100)) == MESSAGE_TOO_LARGE


def test_a_batch_has_to_fit_a_segment() -> None:
    data = make_batch(value=b"x" * 300)
    assert answer(bytes(data), LogConfig(segment_bytes=len(data))) == ACCEPTED
    assert answer(data, LogConfig(segment_bytes=len(data) - 1)) == RECORD_LIST_TOO_LARGE


@pytest.mark.parametrize("size", [26, 60])
def test_a_batch_has_a_header(size: int) -> None:
    # Kafka agrees at 60 bytes; at 26 it runs off the end of its buffer and answers UNKNOWN_SERVER_ERROR.
    assert answer(patched(GOOD[:size], ">i", 8, size - 12, new_crc=False)) == CORRUPT_MESSAGE


def refusal(data: bytes | bytearray, config: LogConfig) -> tuple[int, str | None, list[tuple[int, str]]]:
    log = open_log(config=config)
    with pytest.raises(BrokerError) as raised:
        append(log, bytearray(data))
    error = raised.value
    assert isinstance(error, RecordsRefused)
    return error.code, error.message, error.record_errors


def at_times(*timestamps: int, append_time: int | None = None) -> bytes:
    records: list[PlainRecord] = [
        (index, timestamp, b"key", b"value", []) for index, timestamp in enumerate(timestamps)
    ]
    return encode_batch(records, append_time=append_time)


def test_records_from_the_future_are_named() -> None:
    code, message, errors = refusal(at_times(NOW, NOW + 2 * HOUR, NOW + HOUR), LogConfig())
    assert code == INVALID_TIMESTAMP
    assert message == "One or more records have been rejected due to invalid timestamp"
    assert errors == [
        (
            1,
            f"Timestamp {NOW + 2 * HOUR} of message with offset 1 is out of range. The timestamp should be "
            f"within [{NOW - 2**63 + 1}, {NOW + HOUR}]",
        )
    ]


def test_records_that_are_too_old_are_named() -> None:
    config = LogConfig(message_timestamp_before_max_ms=1000)
    code, _, errors = refusal(at_times(NOW - 1001, -1, NOW - 1000, NOW - 1002), config)
    assert (code, [index for index, _ in errors]) == (INVALID_TIMESTAMP, [0, 3])


def test_a_record_without_timestamp_is_never_too_old() -> None:
    assert answer(at_times(-1), LogConfig(message_timestamp_before_max_ms=1000)) == ACCEPTED


def test_no_limits_are_no_limits() -> None:
    config = LogConfig(message_timestamp_after_max_ms=2**63 - 1)
    assert answer(at_times(2**62, -(2**40)), config) == ACCEPTED


def test_a_time_that_is_too_far_away_for_64_bits_wraps() -> None:
    unlimited = LogConfig(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=2**63 - 1)
    assert answer(at_times(-(2**63)), unlimited) == ACCEPTED
    assert answer(at_times(-(2**62)), unlimited) == INVALID_TIMESTAMP
    assert answer(at_times(-(2**63)), LogConfig()) == INVALID_TIMESTAMP


def test_a_topic_with_append_time_takes_any_timestamp() -> None:
    config = LogConfig(message_timestamp_type="LogAppendTime", message_timestamp_before_max_ms=0)
    assert answer(at_times(5, NOW + 100 * HOUR, -2), config) == ACCEPTED


@pytest.mark.parametrize(
    ("timestamp_type", "claimed", "code"),
    [
        ("CreateTime", NOW, ACCEPTED),
        ("CreateTime", -1, INVALID_TIMESTAMP),
        ("CreateTime", NOW + 2 * HOUR, INVALID_TIMESTAMP),
        ("LogAppendTime", NOW, INVALID_TIMESTAMP),
    ],
)
def test_a_producer_that_claims_to_be_the_log(timestamp_type: str, claimed: int, code: int) -> None:
    data = at_times(NOW, NOW, append_time=claimed)
    assert answer(data, LogConfig(message_timestamp_type=timestamp_type)) == code


def test_every_record_of_a_batch_that_claims_append_time_is_named() -> None:
    config = LogConfig(message_timestamp_type="LogAppendTime", compact=True)
    records: list[PlainRecord] = [(0, NOW, b"key", b"", []), (1, NOW, None, b"", [])]
    code, _, errors = refusal(encode_batch(records, append_time=NOW), config)
    assert code == INVALID_TIMESTAMP
    assert "should not set timestamp type to LogAppendTime" in errors[0][1]
    assert "without key" in errors[1][1]


def with_keys(*keys: bytes | None, timestamp: int = NOW) -> bytes:
    return encode_batch([(index, timestamp, key, b"value", []) for index, key in enumerate(keys)])


def test_a_compacted_topic_needs_keys() -> None:
    code, message, errors = refusal(with_keys(None, b"key", None, b"", None, None), LogConfig(compact=True))
    said = "Compacted topic cannot accept message without key in topic partition orders-0"
    assert code == INVALID_RECORD
    assert errors == [(index, said) for index in (0, 2, 4, 5)]
    assert message == (
        "One or more records have been rejected due to 4 record errors in total, and only showing the first three "
        f"errors at most: [RecordError(batchIndex=0, message='{said}'), RecordError(batchIndex=2, "
        f"message='{said}'), RecordError(batchIndex=4, message='{said}')]"
    )


def test_a_missing_key_and_a_wrong_time_are_a_wrong_time() -> None:
    records: list[PlainRecord] = [(0, NOW, None, b"", []), (1, NOW + 2 * HOUR, b"key", b"", [])]
    code, _, errors = refusal(encode_batch(records), LogConfig(compact=True))
    assert (code, [index for index, _ in errors]) == (INVALID_TIMESTAMP, [0, 1])
    assert "without key" in errors[0][1]
    assert "out of range" in errors[1][1]


def test_a_missing_key_comes_before_a_wrong_time_of_the_same_record() -> None:
    code, _, errors = refusal(with_keys(None, timestamp=NOW + 2 * HOUR), LogConfig(compact=True))
    assert (code, len(errors)) == (INVALID_RECORD, 1)


def test_an_empty_key_is_a_key() -> None:
    assert answer(with_keys(b""), LogConfig(compact=True)) == ACCEPTED


@pytest.mark.parametrize("origin", [Origin.COORDINATOR, Origin.REPLICATION])
def test_what_only_clients_may_not_do(origin: Origin) -> None:
    log = open_log()
    for data in (
        encode_batch([(0, NOW, b"\0\0\0\1", b"\0\0\0\0\0\0", [])], control=True, transactional=True),
        encode_batch([(5, NOW, b"key", b"value", [])]),
        encode_batch([(0, NOW, b"key", b"value", [])], producer_id=7, producer_epoch=0),
    ):
        log.append_as_leader(only_batch(data), 0, NOW, origin=origin)
    assert [header.base_offset for header in headers(log.read(0, 10_000))] == [0, 1, 2]


CONFIGS = [
    LogConfig(),
    LogConfig(compact=True),
    LogConfig(message_timestamp_type="LogAppendTime"),
    LogConfig(message_timestamp_before_max_ms=10, message_timestamp_after_max_ms=10),
    LogConfig(compression_type="uncompressed", max_message_bytes=150),
    LogConfig(compression_type="lz4"),
]


def long_way(data: bytes, config: LogConfig) -> bytes | None:
    """The batch as the log has it; None if it is refused."""
    batch = whole_batch(bytearray(data))
    assert batch is not None
    try:
        inspected = inspect_batch(batch, config, Origin.CLIENT, NOW, "orders-0")
        stored = assign_offsets(for_topic(inspected, config, NOW), 77, 3)
    except BrokerError:
        return None
    assert stored.data is not None
    return bytes(stored.data)


@pytest.mark.parametrize("seed", range(4))
def test_the_short_way_takes_only_what_the_long_way_takes_and_leaves_the_same_bytes(seed: int) -> None:
    random = Random(seed)
    samples = [
        bytes(make_batch(count, codec=codec, key=key, producer=producer))
        for count in (1, 3)
        for codec in (0, 1, 3)
        for key in (b"key", None)
        for producer in ((-1, -1, -1), (7, 0, 2**31 - 2))
    ]
    taken = refused = 0
    for _ in range(3_000):
        data = bytearray(random.choice(samples))
        for _ in range(random.choice([0, 1, 1, 2])):
            if data:
                random.choice(MUTATIONS)(random, data)
        if len(data) < BATCH_OVERHEAD:
            continue
        sent = framed(bytes(data)) if random.random() < 0.9 else bytes(data)
        memory = bytearray(sent)
        batch = whole_batch(memory)
        if batch is None:
            continue
        config = random.choice(CONFIGS)
        expected = long_way(sent, config)
        if accept_batch(batch, append_rules(config), 77, 3, NOW):
            assert bytes(memory) == expected
            taken += 1
        else:
            assert memory == sent
            refused += expected is None
    assert taken > 200
    assert refused > 200


@pytest.mark.parametrize("config", CONFIGS[:4])
@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_an_ordinary_batch_takes_the_short_way(config: LogConfig, codec: int) -> None:
    batch = only_batch(make_batch(3, codec=codec, producer=(7, 0, 0)))
    assert accept_batch(batch, append_rules(config), 77, 3, NOW)
