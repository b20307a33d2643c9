"""Ranges are read whole, once and in order; what is lost is reported, and what is merely not there is not a loss."""

from __future__ import annotations

import datetime
import logging
import pickle
import threading
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

import ottla
from ottla.broker import Cluster, TopicSpec
from ottla.broker.server import faults
from ottla.client.topic_partition import TopicPartition
from ottla.errors import ApiTimeoutError, CorruptBatchError, DataLossError
from ottla.spark.options.client import source_config
from ottla.spark.process import clients
from ottla.spark.source import range_reader
from ottla.spark.source.packing import RangePartition
from ottla.spark.source.range_reader import _Reading, read_ranges
from ottla.spark.source.ranges import OffsetRange
from ottla.spark.source.schema import SourceColumns
from ottla.wire.batches import ControlType, PlainRecord, encode_batch
from tests.broker.log.support import append_marker
from tests.spark.reading import (
    TOPIC,
    append,
    append_compacted,
    damage,
    offsets,
    options,
    read,
    source_schema,
    transaction,
)

pytestmark = pytest.mark.kafka_cluster(topics={TOPIC: 1})

NOON = datetime.datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=datetime.UTC)
NOON_MS = 1_700_000_000_123


def _consumers(client: ottla.Client) -> int:
    parts = client._client._core
    assert parts is not None
    return len(parts._consumers)


def delete_before(kafka: Cluster, offset: int) -> None:
    with ottla.Client(kafka.bootstrap) as client:
        client.admin.delete_records({TopicPartition(TOPIC, 0): offset})


def test_every_column_is_as_spark_wants_it(kafka: Cluster) -> None:
    with ottla.Client(kafka.bootstrap) as client:
        client.produce(TOPIC, b"1", key=b"a", timestamp=NOON_MS, headers=[("x", b"1"), ("x", None)])
        client.produce(TOPIC, None, key=None, timestamp=NOON_MS)
        client.produce(TOPIC, b"", key=b"", timestamp=NOON_MS)
    parsed = options(kafka, includeHeaders="true")
    table = read(parsed, 0, 3)
    assert table.schema.equals(to_arrow_schema(source_schema(parsed), timezone="UTC"))
    common = {"topic": TOPIC, "partition": 0, "timestamp": NOON, "timestampType": 0}
    headers = [{"key": "x", "value": b"1"}, {"key": "x", "value": None}]
    assert table.to_pylist() == [
        {"key": b"a", "value": b"1", "offset": 0, "headers": headers, **common},
        {"key": None, "value": None, "offset": 1, "headers": None, **common},
        {"key": b"", "value": b"", "offset": 2, "headers": None, **common},
    ]


def test_a_message_of_old_times_without_a_timestamp_is_one_millisecond_before_1970(kafka: Cluster) -> None:
    append(kafka, encode_batch([(0, -1, None, b"1", [])]))
    (row,) = read(options(kafka), 0, 1).to_pylist()
    assert row["timestamp"] == datetime.datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=datetime.UTC)


def test_a_range_is_read_from_its_start_up_to_its_end_and_no_further(kafka: Cluster) -> None:
    kafka.seed(TOPIC, [b"%d" % number for number in range(100)])
    assert offsets(read(options(kafka), 17, 60)) == list(range(17, 60))
    assert offsets(read(options(kafka), 99, 100)) == [99]
    assert offsets(read(options(kafka), 5, 5)) == []


def test_a_long_range_comes_in_pieces_of_bounded_size(
    kafka: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.seed(TOPIC, [b"x" * 100] * 1000)
    parsed = options(kafka)
    columns = SourceColumns.of(source_schema(parsed), parsed)
    for name, most, rows in (("MOST_ROWS", 300, 250), ("MOST_BYTES", 20_000, 200)):
        with monkeypatch.context() as patched:
            patched.setattr(range_reader, name, most)
            batches = list(read_ranges([OffsetRange(TOPIC, 0, 0, 1000)], parsed, columns))
            assert [batch.num_rows for batch in batches] == [rows] * (1000 // rows)
            assert offsets(pa.Table.from_batches(batches)) == list(range(1000))


@pytest.mark.kafka_cluster(topics={TOPIC: TopicSpec(config={"max.message.bytes": 20_000_000})})
def test_a_value_that_is_larger_than_a_piece_or_a_fetch_is_read_all_the_same(kafka: Cluster) -> None:
    large = b"x" * (range_reader.MOST_BYTES + 1)
    append(kafka, encode_batch([(0, 0, None, large, [])]))
    kafka.seed(TOPIC, [b"1"])
    parsed = options(kafka, kafka_max_partition_fetch_bytes="1000")
    assert [len(value) for value in read(parsed, 0, 2).column("value").to_pylist()] == [len(large), 1]


def test_gaps_of_transactions_are_no_loss_and_a_range_of_nothing_else_ends(kafka: Cluster) -> None:
    transaction(kafka, ControlType.ABORT, b"no", b"no")  # 0, 1 and a marker
    transaction(kafka, ControlType.COMMIT, b"yes", producer=8)  # 3 and a marker
    transaction(kafka, ControlType.ABORT, b"no", producer=9)  # 5 and a marker
    committed = options(kafka, kafka_isolation_level="read_committed")
    assert offsets(read(committed, 0, 7)) == [3]
    assert offsets(read(committed, 0, 3)) == []
    assert offsets(read(committed, 4, 7)) == []
    assert offsets(read(options(kafka), 0, 7)) == [0, 1, 3, 5]


def test_a_range_may_end_or_begin_where_compaction_has_left_nothing(kafka: Cluster) -> None:
    append_compacted(kafka, encode_batch([(0, 0, None, b"1", [])]))
    append_compacted(kafka, encode_batch([(9, 0, None, b"2", [])], base_offset=9))
    kafka.seed(TOPIC, [b"3"])
    assert offsets(read(options(kafka), 0, 5)) == [0]
    assert offsets(read(options(kafka), 3, 7)) == []
    assert offsets(read(options(kafka), 3, 11)) == [9, 10]


def test_what_was_deleted_is_an_error_that_names_partition_offsets_and_option(kafka: Cluster) -> None:
    kafka.seed(TOPIC, [b"1"] * 10)
    delete_before(kafka, 4)
    with pytest.raises(DataLossError, match=r"offsets 2 to 8 of orders-0.*offset 2.*4 to 10.*failOnDataLoss"):
        read(options(kafka), 2, 8)


def test_with_fail_on_data_loss_false_what_is_left_is_read_and_the_rest_is_a_warning(
    kafka: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.seed(TOPIC, [b"1"] * 10)
    delete_before(kafka, 4)
    lenient = options(kafka, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING, "ottla.spark"):
        assert offsets(read(lenient, 2, 8)) == [4, 5, 6, 7]
        assert "orders-0" in caplog.text
        assert offsets(read(lenient, 0, 3)) == []
        assert offsets(read(lenient, 20, 30)) == []


def test_a_topic_created_anew_in_the_middle_is_loss_and_nothing_of_the_new_one_is_taken_for_the_old(
    kafka: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_reader, "MOST_ROWS", 200)
    for fails in ("true", "false"):
        kafka.seed(TOPIC, [b"old" * 100] * 40_000)
        parsed = options(kafka, failOnDataLoss=fails, kafka_max_partition_fetch_bytes="100000")
        columns = SourceColumns.of(source_schema(parsed), parsed)
        batches = read_ranges([OffsetRange(TOPIC, 0, 0, 40_000)], parsed, columns)
        found = [next(batches)]
        kafka.delete_topic(TOPIC)
        kafka.create_topic(TOPIC)
        kafka.seed(TOPIC, [b"new" * 100] * 50_000)
        if fails == "true":
            with pytest.raises(DataLossError, match=r"orders-0.*failOnDataLoss"):
                found.extend(batches)
        else:
            found.extend(batches)
        values = set(pa.Table.from_batches(found).column("value").to_pylist())
        assert values == {b"old" * 100}
        kafka.delete_topic(TOPIC)
        kafka.create_topic(TOPIC)


def test_a_topic_that_only_the_kept_client_takes_for_the_old_one_is_read(
    kafka: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.seed(TOPIC, [b"1", b"2"])
    parsed = options(kafka)
    client = clients.client(source_config(parsed.kafka))
    consume, begun = client.consume, []

    def with_old_metadata(*args: Any, **named: Any) -> Any:
        begun.append(args)
        if len(begun) == 1:
            raise DataLossError("created again", topic=TOPIC, partition=0, wanted_offset=0, new_offset=-1)
        return consume(*args, **named)

    monkeypatch.setattr(client, "consume", with_old_metadata)
    assert offsets(read(parsed, 0, 2)) == [0, 1]
    assert len(begun) == 2


def test_behind_a_truncation_what_is_left_is_read_if_data_may_be_lost(kafka: Cluster) -> None:
    kafka.seed(TOPIC, [b"1"] * 5)
    with ottla.Client(kafka.bootstrap) as client:
        reading = _Reading([OffsetRange(TOPIC, 0, 0, 8)], client, fails=False)
        (range_,) = reading.pending.values()
        range_.position = 3
        reading.lose(DataLossError("truncated", topic=TOPIC, partition=0, wanted_offset=3, new_offset=2))
    assert (range_.position, range_.end) == (3, 5)


def test_a_slow_response_is_waited_for_and_not_requested_again(
    kafka: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_reader, "_LOOK_AFTER", 0.1)
    kafka.seed(TOPIC, [b"1"] * 3)
    kafka.faults.add("Fetch", action=faults.delay(0.4))
    parsed = options(kafka, **{"kafkaConsumer.pollTimeoutMs": "5000"})
    assert offsets(read(parsed, 0, 3)) == [0, 1, 2]


@pytest.mark.parametrize("fails", ["true", "false"])
def test_what_an_open_transaction_holds_back_is_not_lost(
    kafka: Cluster, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    monkeypatch.setattr(range_reader, "_LOOK_AFTER", 0.1)
    kafka.seed(TOPIC, [b"1"])
    record: PlainRecord = (0, 0, None, b"2", [])
    append(
        kafka, encode_batch([record], transactional=True, producer_id=7, producer_epoch=0, base_sequence=0)
    )
    committed = {"kafka_isolation_level": "read_committed", "failOnDataLoss": fails}
    in_vain = options(kafka, **committed, **{"kafkaConsumer.pollTimeoutMs": "5000"})
    with pytest.raises(ApiTimeoutError, match=r"orders-0.*offset 1.*open transaction.*pollTimeoutMs"):
        read(in_vain, 0, 2)
    parsed = options(kafka, **committed)
    batches = read_ranges(
        [OffsetRange(TOPIC, 0, 0, 2)], parsed, SourceColumns.of(source_schema(parsed), parsed)
    )
    found = [next(batches)]
    kafka.call(lambda: append_marker(kafka._cluster.partition(TOPIC).log, ControlType.COMMIT, 7))
    kafka.call(lambda: kafka._cluster.partition(TOPIC).commit(0))
    kafka.seed(TOPIC, [b"behind the marker, so that it is seen"])
    found.extend(batches)
    assert offsets(pa.Table.from_batches(found)) == [0, 1]


def test_a_deleted_topic_is_loss_too(kafka: Cluster) -> None:
    kafka.seed(TOPIC, [b"1"])
    kafka.delete_topic(TOPIC)
    quick = {
        "kafka_default_api_timeout_ms": "3000",
        "kafka_request_timeout_ms": "2000",
        "kafka_fetch_max_wait_ms": "100",
    }
    with pytest.raises(DataLossError, match=r"orders-0.*failOnDataLoss"):
        read(options(kafka, **quick), 0, 1)
    assert offsets(read(options(kafka, failOnDataLoss="false", **quick), 0, 1)) == []


def test_silence_is_an_error_that_names_the_option(kafka: Cluster) -> None:
    kafka.seed(TOPIC, [b"1"])
    kafka.faults.add("Fetch", action=faults.never)
    parsed = options(kafka, **{"kafkaConsumer.pollTimeoutMs": "200"})
    with pytest.raises(ApiTimeoutError, match=r"orders-0.*offset 0.*pollTimeoutMs, which is 200"):
        read(parsed, 0, 1)


def test_a_range_that_goes_beyond_the_log_is_a_loss_and_not_a_matter_of_patience(kafka: Cluster) -> None:
    kafka.seed(TOPIC, [b"1", b"2"])
    quick = {"kafkaConsumer.pollTimeoutMs": "3000"}
    with pytest.raises(
        DataLossError, match=r"orders-0.*from offset 2 on.*offsets 0 to 2 now.*failOnDataLoss"
    ):
        read(options(kafka, **quick), 0, 9)
    assert offsets(read(options(kafka, failOnDataLoss="false", **quick), 0, 9)) == [0, 1]


def test_a_damaged_batch_is_an_error_that_says_where_it_lies(kafka: Cluster) -> None:
    kafka.seed(TOPIC, [b"1", b"2"])
    kafka.seed(TOPIC, [b"3", b"4"])
    damage(kafka, 2)
    with pytest.raises(CorruptBatchError, match=r"orders, partition 0.*offset 2.*startingOffsets") as caught:
        read(options(kafka), 0, 4)
    assert (caught.value.offset, caught.value.next_offset) == (2, 4)


def test_a_range_is_read_once_and_in_order_although_brokers_are_restarted(
    kafka: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_reader, "MOST_ROWS", 200)
    kafka.seed(TOPIC, [b"x" * 1000] * 3000)
    parsed = options(kafka, kafka_max_partition_fetch_bytes="100000")
    batches = read_ranges(
        [OffsetRange(TOPIC, 0, 0, 3000)], parsed, SourceColumns.of(source_schema(parsed), parsed)
    )
    found = [next(batches)]
    kafka.stop_node(1, clean=False)
    restart = threading.Thread(target=kafka.start_node, args=(1,))
    restart.start()
    found.extend(batches)
    restart.join()
    assert offsets(pa.Table.from_batches(found)) == list(range(3000))


def test_reading_that_is_left_early_leaves_no_consumer_behind(
    kafka: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_reader, "MOST_ROWS", 200)
    kafka.seed(TOPIC, [b"x" * 1000] * 3000)
    parsed = options(kafka, kafka_max_partition_fetch_bytes="100000")
    batches = read_ranges(
        [OffsetRange(TOPIC, 0, 0, 3000)], parsed, SourceColumns.of(source_schema(parsed), parsed)
    )
    next(batches)
    client = clients.client(source_config(parsed.kafka))
    assert _consumers(client) == 1
    batches.close()  # type: ignore[attr-defined]
    assert _consumers(client) == 0
    assert len(read(parsed, 0, 3000)) == 3000
    assert _consumers(client) == 0


def test_the_next_range_uses_the_same_client_and_connection(kafka: Cluster) -> None:
    kafka.seed(TOPIC, [b"1"] * 10)
    parsed = options(kafka)
    read(parsed, 0, 5)
    client = clients.client(source_config(parsed.kafka))
    before = client.metrics().number("ottla.connection.creation.total")
    read(parsed, 5, 10)
    assert clients.client(source_config(parsed.kafka)) is client
    assert client.metrics().number("ottla.connection.creation.total") == before


def test_a_partition_travels_to_its_task() -> None:
    ranges = (OffsetRange(TOPIC, 1, 2, 3), OffsetRange(TOPIC, 2, 0, 9))
    there = pickle.loads(pickle.dumps(RangePartition(ranges)))
    assert there.ranges == ranges
