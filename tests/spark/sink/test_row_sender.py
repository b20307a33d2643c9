"""Sending the rows of a task: all of them are stored when it returns; when it raises, nothing is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

import pyarrow
import pytest

import ottla
from ottla.broker import Cluster
from ottla.broker.server.faults import delay, drop, error
from ottla.client.partitioners import murmur2_partition
from ottla.client.produce.batch_delivery import BatchDelivery, PartlySentError
from ottla.errors import BufferFullError, InvalidRecordError
from ottla.spark.options.client import sink_config
from ottla.spark.process import clients
from ottla.spark.sink.columns import SinkColumns
from ottla.spark.sink.errors import SinkRowError
from ottla.spark.sink.row_sender import RowSender, SendError
from ottla.spark.sink.sent_rows import Sent
from tests.client.produce.batches import batch_of
from tests.spark.sinks import numbered, rows, schema_of, send, sink_options, values

one_topic = pytest.mark.kafka_cluster(topics={"orders": 1})
three_partitions = pytest.mark.kafka_cluster(topics={"orders": 3})


@pytest.fixture(autouse=True)
def _no_client_outlives_its_cluster(kafka: Cluster) -> Iterator[None]:
    yield
    clients.discard(sink_config(sink_options(kafka).kafka))


@one_topic
def test_all_rows_are_stored_in_order_when_it_returns(kafka: Cluster) -> None:
    sent = send(kafka, [rows(value=numbered(100)), rows(value=[]), rows(value=numbered(50))], "orders")
    assert values(kafka, "orders") == [*numbered(100), *numbered(50)]
    assert sent.by_topic["orders"].rows == 150
    assert sent.by_topic["orders"].bytes > 150


def test_a_task_without_rows_does_not_connect() -> None:
    assert send("localhost:1", [rows(value=[])], "orders").by_topic == {}
    assert send("localhost:1", [], "orders", columns=["value"]).by_topic == {}


@three_partitions
def test_rows_go_where_javas_client_sends_their_keys(kafka: Cluster) -> None:
    keys = [b"%d" % (number % 10) for number in range(60)]
    send(kafka, [rows(key=keys, value=numbered(60))], "orders")
    for partition in range(3):
        expected = [
            value
            for key, value in zip(keys, numbered(60), strict=True)
            if murmur2_partition(key, 3) == partition
        ]
        assert values(kafka, "orders", partition) == expected


@three_partitions
def test_a_row_that_names_its_partition_goes_there_and_null_is_by_key(kafka: Cluster) -> None:
    send(kafka, [rows(value=numbered(3), key=[b"a"] * 3, partition=[2, 0, None])], "orders")
    send(kafka, [rows(value=[b"by key"], key=[b"a"])], "orders")
    (by_key,) = (number for number in range(3) if b"by key" in values(kafka, "orders", number))
    assert b"2" in values(kafka, "orders", by_key)
    assert b"0" in values(kafka, "orders", 2)
    assert b"1" in values(kafka, "orders", 0)


@three_partitions
def test_a_partition_that_does_not_exist_fails_the_task_with_its_number(kafka: Cluster) -> None:
    with pytest.raises(SendError, match=r"no partition 3 of topic 'orders', .* row 1"):
        send(kafka, [rows(value=numbered(2), partition=[0, 3])], "orders")
    with pytest.raises(SinkRowError, match="Invalid partition: -1"):
        send(kafka, [rows(value=numbered(2), partition=[0, -1])], "orders")
    assert values(kafka, "orders") == []


@pytest.mark.parametrize("name", ["round_robin", "org.apache.kafka.clients.producer.RoundRobinPartitioner"])
@three_partitions
def test_round_robin_is_even_whatever_the_keys(kafka: Cluster, name: str) -> None:
    send(kafka, [rows(value=numbered(9), key=[b"k"] * 9)], "orders", partitioner_class=name)
    assert [len(values(kafka, "orders", number)) for number in range(3)] == [3, 3, 3]
    clients.discard(sink_config(sink_options(kafka).kafka), "round_robin")


@one_topic
def test_headers_nulls_and_tombstones_arrive_as_they_are(kafka: Cluster) -> None:
    batch = rows(
        value=[b"1", None, b"3"],
        key=[None, b"k", b""],
        headers=[[{"key": "h", "value": b"x"}, {"key": "h", "value": None}], None, []],
    )
    send(kafka, [batch], "orders")
    assert [(record.key, record.value, record.headers) for record in kafka.dump("orders")] == [
        (None, b"1", [("h", b"x"), ("h", None)]),
        (b"k", None, []),
        (b"", b"3", []),
    ]


@one_topic
def test_a_header_without_a_key_fails_the_task(kafka: Cluster) -> None:
    batch = rows(value=[b"1"], headers=[[{"key": None, "value": b"x"}]])
    with pytest.raises(SendError, match="no key for header 0"):
        send(kafka, [batch], "orders")


def test_rows_go_to_the_topics_they_name_in_order(kafka: Cluster) -> None:
    names = [f"topic-{number % 3}" for number in range(90)]
    sent = send(kafka, [rows(topic=names, value=numbered(90))])
    for number in range(3):
        assert values(kafka, f"topic-{number}") == numbered(90)[number::3]
        assert sent.by_topic[f"topic-{number}"].rows == 30


def test_hundreds_of_new_topics_in_one_batch_are_created_together(kafka: Cluster) -> None:
    """One after the other they would take a quarter of a second each."""
    names = [f"topic-{number % 400}" for number in range(1200)]
    sent = send(kafka, [rows(topic=names, value=numbered(1200))])
    assert len(sent.by_topic) == 400
    assert sum(sent.by_topic.values(), Sent()).rows == 1200
    assert values(kafka, "topic-399") == [b"399", b"799", b"1199"]


def test_a_null_topic_fails_the_task_and_names_the_option(kafka: Cluster) -> None:
    with pytest.raises(SinkRowError, match="topic option"):
        send(kafka, [rows(topic=["orders", None], value=numbered(2))])


@one_topic
def test_the_option_beats_the_column(kafka: Cluster) -> None:
    send(kafka, [rows(topic=["other", None], value=numbered(2))], "orders")
    assert values(kafka, "orders") == numbered(2)


@pytest.mark.kafka_cluster(config={"auto.create.topics.enable": "false"})
def test_a_topic_that_does_not_exist_is_named_and_found_once_it_does(kafka: Cluster) -> None:
    with pytest.raises(SendError, match="missing"):
        send(kafka, [rows(value=numbered(2))], "missing")
    kafka.create_topic("missing")
    send(kafka, [rows(value=numbered(2))], "missing")
    assert values(kafka, "missing") == numbered(2)


@one_topic
def test_a_row_that_is_too_large_is_refused_before_its_batch_is_sent(kafka: Cluster) -> None:
    with pytest.raises(SendError, match=r"row 1 .*kafka\.max\.request\.size"):
        send(kafka, [rows(value=[b"small", bytes(2_000_000)])], "orders")
    assert values(kafka, "orders") == []


@pytest.mark.kafka_cluster(topics={"orders": 1}, config={"message.max.bytes": "2000000"})
def test_a_batch_with_nearly_all_bytes_in_its_last_rows_is_stored(kafka: Cluster) -> None:
    large = bytes(1_000_000)
    sent = send(kafka, [rows(value=[*numbered(7_955), *[large] * 45])], "orders")
    assert sent.by_topic["orders"].rows == 8_000
    assert values(kafka, "orders") == [*numbered(7_955), *[large] * 45]


@pytest.mark.kafka_cluster(topics={"one": 1, "two": 1})
def test_a_row_that_is_too_large_is_refused_before_rows_of_other_topics_are_sent(kafka: Cluster) -> None:
    batch = rows(topic=["one", "two", "two"], value=[b"small", b"small", bytes(2_000_000)])
    with pytest.raises(SendError, match=r"row 1 .*topic two.*kafka\.max\.request\.size"):
        send(kafka, [batch])
    assert values(kafka, "one") == values(kafka, "two") == []


class BreaksOff:
    """A client that hands over a part of what it is given; what becomes of that part is `fate`."""

    def __init__(self, fate: BaseException | None) -> None:
        self._fate = fate

    def produce_batches(self, tables: object) -> object:
        receipt = BatchDelivery("orders")
        batch, _ = batch_of(2)
        receipt.watch(batch)
        receipt.complete()
        if self._fate is not None:
            batch.complete(-1, -1, self._fate)
        reason = BufferFullError("waited for room", limit="buffer_memory")
        raise PartlySentError({"orders": receipt}, reason) from reason


@pytest.mark.parametrize(
    ("fate", "message"),
    [
        (None, r"first 2 rows for orders .*: waited for room; .*kafka\.buffer\.memory"),
        (InvalidRecordError("refused"), r"could not be written to topic orders: .*refused"),
    ],
)
def test_rows_that_break_off_in_the_middle_are_reported_with_what_was_sent_and_what_became_of_it(
    kafka: Cluster, fate: BaseException | None, message: str
) -> None:
    columns = SinkColumns.of(schema_of("value"), "orders")
    sender = RowSender(BreaksOff(fate), columns, "and sent again")  # type: ignore[arg-type]
    with pytest.raises(SendError, match=message):
        sender.send(rows(value=numbered(3)))


@pytest.mark.kafka_cluster(topics={"orders": 1}, config={"message.max.bytes": "1000"})
def test_a_row_that_the_broker_refuses_for_its_size_fails_the_task(kafka: Cluster) -> None:
    with pytest.raises(SendError, match="orders"):
        send(kafka, [rows(value=[bytes(5_000)])], "orders")


@one_topic
def test_a_send_that_fails_ends_the_task_before_the_rows_do(kafka: Cluster) -> None:
    send(kafka, [rows(value=[b"known"])], "orders")
    kafka.faults.add("Produce", action=error("INVALID_RECORD"))
    calls = 0

    def endless() -> Iterator[pyarrow.RecordBatch]:
        nonlocal calls
        while True:
            calls += 1
            yield rows(value=[bytes(100_000)])

    with pytest.raises(SendError, match=r"orders.*sends all of them again") as raised:
        send(kafka, endless(), "orders", columns=["value"])
    assert isinstance(raised.value.__cause__, InvalidRecordError)
    assert calls < 1000


@one_topic
def test_after_a_failure_nothing_of_the_attempt_is_sent_any_more(kafka: Cluster) -> None:
    send(kafka, [rows(value=[b"before"])], "orders")
    # Nothing can be stored, and everything is tried again for two minutes.
    fault = kafka.faults.add("Produce", action=error("NOT_ENOUGH_REPLICAS"))

    def failing() -> Iterator[pyarrow.RecordBatch]:
        yield rows(value=[b"of the failed attempt"])
        fault.wait(timeout=60)
        raise RuntimeError("upstream")

    with pytest.raises(RuntimeError, match="upstream"):
        send(kafka, failing(), "orders", columns=["value"])
    kafka.faults.clear()
    send(kafka, [rows(value=[b"after"])], "orders")
    assert values(kafka, "orders") == [b"before", b"after"]


@one_topic
def test_a_task_that_fails_does_not_wait_for_brokers_that_do_not_respond(kafka: Cluster) -> None:
    send(kafka, [rows(value=[b"known"])], "orders")
    fault = kafka.faults.add("Produce", action=delay(120))

    def failing() -> Iterator[pyarrow.RecordBatch]:
        yield rows(value=[b"of the failed attempt"])
        fault.wait(timeout=60)
        raise RuntimeError("upstream")

    began = monotonic()
    with pytest.raises(RuntimeError, match="upstream"):
        send(kafka, failing(), "orders", columns=["value"])
    assert monotonic() - began < 30


@one_topic
def test_a_lost_response_does_not_store_rows_twice(kafka: Cluster) -> None:
    send(kafka, [rows(value=[b"known"])], "orders")
    kafka.faults.add("Produce", when="after_append", action=drop, count=2)
    kafka.faults.add("Produce", when="before_append", action=drop, count=1)
    send(kafka, [rows(value=numbered(100))], "orders")
    assert values(kafka, "orders") == [b"known", *numbered(100)]


@one_topic
def test_brokers_that_do_not_tell_fail_the_task_in_time(kafka: Cluster) -> None:
    timeouts = {"request_timeout_ms": "5001", "delivery_timeout_ms": "10000"}
    send(kafka, [rows(value=[b"known"])], "orders", **timeouts)
    kafka.faults.add("Produce", when="after_append", action=drop)
    with pytest.raises(SendError, match=r"delivery\.timeout\.ms"):
        send(kafka, [rows(value=[b"lost"])], "orders", **timeouts)
    kafka.faults.clear()
    clients.discard(sink_config(sink_options(kafka, **timeouts).kafka))


@one_topic
def test_a_slow_broker_holds_rows_back_and_loses_none(kafka: Cluster) -> None:
    kafka.faults.add("Produce", action=delay(0.02))
    batches = [rows(value=[b"%d" % number + bytes(2_000) for number in range(30)]) for _ in range(10)]
    send(kafka, batches, "orders", buffer_memory="40000", batch_size="10000")
    assert len(values(kafka, "orders")) == 300
    clients.discard(sink_config(sink_options(kafka, buffer_memory="40000", batch_size="10000").kafka))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@one_topic
def test_rows_are_compressed_as_the_option_says(kafka: Cluster, codec: str) -> None:
    send(kafka, [rows(value=[bytes(1000)] * 20)], "orders", compression_type=codec)
    assert values(kafka, "orders") == [bytes(1000)] * 20
    clients.discard(sink_config(sink_options(kafka, compression_type=codec).kafka))


@one_topic
def test_the_next_task_finds_the_client_of_the_last(kafka: Cluster) -> None:
    send(kafka, [rows(value=[b"1"])], "orders")
    config = sink_config(sink_options(kafka).kafka)
    client = clients.client(config)
    send(kafka, [rows(value=[b"2"])], "orders")
    assert clients.client(config) is client


@one_topic
def test_partitions_that_were_added_since_the_last_task_are_found(kafka: Cluster) -> None:
    send(kafka, [rows(value=[b"1"], partition=[0])], "orders")
    with ottla.Client(kafka.bootstrap) as client:
        client.admin.create_partitions("orders", 2)
    send(kafka, [rows(value=[b"2"], partition=[1])], "orders")
    assert values(kafka, "orders", 1) == [b"2"]
