"""Ottla's client beside the others: what it writes they read, what they write it reads, byte for byte."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

import ottla
from tests.interop import confluent, tools
from tests.interop.brokers import Broker
from tests.interop.own import read_all, take, values_of, with_client
from tests.interop.peers import PEERS, Peer, Sent
from tests.interop.peers.by_ottla import Ottla

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
TIME = 1_700_000_000_000
OWN = Ottla()
CONFLUENT = PEERS[0]
every_codec = pytest.mark.parametrize("codec", CODECS)
every_peer = pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)


def varied(peer: Peer, count: int) -> list[Sent]:
    """Records with and without keys, values and headers, a second apart."""
    null: list[tuple[str, bytes | None]] = [("null", None)] if peer.writes_null_headers else []
    shapes = [
        Sent(b"plain"),
        Sent(b"keyed", b"key"),
        Sent(None, b"tombstone"),
        Sent(b"", b""),
        Sent(b"headed", None, (("a", b"1"), ("a", b"2"), ("empty", b""), *null, ("äöü", b"\xff"))),
        Sent(b"\x00\xff" * 500, b"k" * 100),
    ]
    if peer is OWN:
        shapes.append(Sent(None))  # others refuse to send it
    return [shapes[n % len(shapes)]._replace(timestamp=TIME + 1000 * n) for n in range(count)]


def as_table(records: Sequence[Sent]) -> pa.Table:
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    return pa.table(
        {
            "key": pa.array([record.key for record in records], pa.binary()),
            "value": pa.array([record.value for record in records], pa.binary()),
            "headers": pa.array(
                [[{"key": key, "value": value} for key, value in record.headers] for record in records],
                pa.list_(header),
            ),
            "timestamp": pa.array([record.timestamp for record in records], pa.timestamp("ms")),
        }
    )


@every_codec
def test_every_client_reads_what_was_produced_one_by_one(broker: Broker, codec: str) -> None:
    topic = broker.create_topic()
    records = varied(OWN, 60)
    assert OWN.produce(broker.bootstrap, topic, records, codec=codec) == list(range(60))
    for reader in (OWN, *PEERS):
        assert reader.consume(broker.bootstrap, topic, 60) == records, reader.name


@every_codec
def test_every_client_reads_what_was_produced_as_a_table(broker: Broker, codec: str) -> None:
    topic = broker.create_topic()
    records = varied(OWN, 60)
    options: dict[str, Any] = {"compression_type": codec, "batch_size": 4096}
    with ottla.Client(broker.bootstrap, **options) as kafka:
        kafka.produce_batch(topic, as_table(records), partition=0).result(60)
    for reader in (OWN, *PEERS):
        assert reader.consume(broker.bootstrap, topic, 60) == records, reader.name


@every_codec
@every_peer
def test_what_another_client_wrote_is_read(broker: Broker, peer: Peer, codec: str) -> None:
    topic = broker.create_topic()
    records = varied(peer, 60)
    peer.produce(broker.bootstrap, topic, records, codec=codec)
    assert OWN.consume(broker.bootstrap, topic, 60) == records
    assert OWN.consume(broker.bootstrap, topic, 13, offset=47) == records[47:]


@every_codec
def test_what_another_client_wrote_is_read_as_columns(broker: Broker, codec: str) -> None:
    topic = broker.create_topic()
    records = varied(CONFLUENT, 60)
    CONFLUENT.produce(broker.bootstrap, topic, records, codec=codec)

    async def body(kafka: ottla.AsyncClient) -> None:
        batches = [batch async for batch in kafka.consume_batches(topic, start="earliest", stop="latest")]
        table = pa.Table.from_batches(batches)
        assert table.column("offset").to_pylist() == list(range(60))
        assert table.column("key").to_pylist() == [record.key for record in records]
        assert table.column("value").to_pylist() == [record.value for record in records]

    with_client(broker, body)


@every_codec
def test_records_of_every_size_pass_whole(broker: Broker, codec: str) -> None:
    topic = broker.create_topic()
    sizes = [0, 1, 127, 128, 16_383, 16_384, 65_536, 250_000, 900_000, 3]
    records = [Sent(bytes([n]) * size) for n, size in enumerate(sizes)]
    assert OWN.produce(broker.bootstrap, topic, records, codec=codec) == list(range(len(sizes)))
    assert CONFLUENT.consume(broker.bootstrap, topic, len(sizes)) == records
    assert OWN.consume(broker.bootstrap, topic, len(sizes)) == records


def test_large_records_of_other_clients_pass_whole(broker: Broker) -> None:
    topic = broker.create_topic()
    large = [Sent(bytes([n]) * 900_000) for n in range(9)]
    for peer in PEERS:
        peer.produce(broker.bootstrap, topic, large[:3])
    assert OWN.consume(broker.bootstrap, topic, 9) == large[:3] * 3


def test_many_records_come_back_in_order(broker: Broker) -> None:
    topic = broker.create_topic(partitions=3)
    assert OWN.stream(broker.bootstrap, topic, 3, lambda number: number < 60_000) == (60_000, [])
    for partition in range(3):
        found = OWN.consume(broker.bootstrap, topic, 20_000, partition=partition)
        assert [record.value for record in found] == [b"%d" % n for n in range(partition, 60_000, 3)]


def test_append_time_replaces_the_clients_time(broker: Broker) -> None:
    topic = broker.create_topic(config={"message.timestamp.type": "LogAppendTime"})

    async def body(kafka: ottla.AsyncClient) -> None:
        delivery = await (await kafka.produce(topic, b"x", timestamp=TIME))
        (record,) = await read_all(kafka, topic)
        assert record.timestamp == delivery.timestamp > TIME
        assert record.timestamp_type == 1

    with_client(broker, body)


def test_every_level_of_acknowledgement_delivers(broker3: Broker) -> None:
    for acks in ("all", 1, 0):
        topic = broker3.create_topic()
        options: dict[str, Any] = {"acks": acks, "enable_idempotence": acks == "all"}

        async def body(kafka: ottla.AsyncClient, topic: str = topic) -> None:
            for number in range(100):
                await kafka.produce(topic, b"%d" % number)
            await kafka.flush()

        with_client(broker3, body, **options)
        found = OWN.consume(broker3.bootstrap, topic, 100)
        assert [record.value for record in found] == [b"%d" % number for number in range(100)]


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("broker", [pytest.param("apache", marks=pytest.mark.kafka)], indirect=True)
def test_transactions_of_another_client_are_read_as_asked_for(broker: Broker, isolation: str) -> None:
    topic = broker.create_topic()
    aborted, committed = [b"a%d" % n for n in range(5)], [b"c%d" % n for n in range(4)]
    confluent.produce_transactions(
        broker.bootstrap, topic, [(aborted, False), (committed, True), (aborted, False)]
    )
    options: dict[str, Any] = {"isolation_level": isolation}

    async def body(kafka: ottla.AsyncClient) -> None:
        # The markers are written after the producer has its answer: 14 records, and three of them.
        wanted = committed if isolation == "read_committed" else [*aborted, *committed, *aborted]
        partition = ottla.TopicPartition(topic, 0)
        found: list[bytes | None] = []
        async with kafka.consume(topic, start="earliest") as consumer:
            while await consumer.position(partition) < 17:
                found += [record.value for record in await consumer.poll(timeout=0.1)]
        assert found == wanted

    with_client(broker, body, **options)


@pytest.mark.parametrize("broker", [pytest.param("apache", marks=pytest.mark.kafka)], indirect=True)
def test_an_open_transaction_of_another_client_is_the_end(broker: Broker) -> None:
    topic = broker.create_topic()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(60)
    CONFLUENT.produce(broker.bootstrap, topic, [Sent(b"before")])
    producer.begin_transaction()
    producer.produce(topic, b"inside")
    assert producer.flush(60) == 0
    CONFLUENT.produce(broker.bootstrap, topic, [Sent(b"after")])

    async def body(kafka: ottla.AsyncClient) -> None:
        assert await values_of(kafka, topic) == [b"before"]
        async with kafka.consume(topic, start="earliest") as consumer:
            assert await take(consumer, 1) == [b"before"]
            assert await consumer.poll(timeout=0.1) == []
            await asyncio.to_thread(producer.commit_transaction, 60)
            assert await take(consumer, 2) == [b"inside", b"after"]

    with_client(broker, body, isolation_level="read_committed")


@pytest.mark.kafka
@pytest.mark.usefixtures("kafka_installed")
def test_the_java_consumer_reads_every_codec(broker: Broker) -> None:
    topic = broker.create_topic()
    lines = [(n, codec) for n, codec in enumerate(CODECS * 4)]
    for codec in CODECS:
        mine = [(n, each) for n, each in lines if each == codec]
        records = [Sent(f"{codec} {n}".encode(), b"k%d" % n, (("h", b"1"), ("g", b"2"))) for n, _ in mine]
        OWN.produce(broker.bootstrap, topic, records, codec=codec)
    read = tools.output(
        broker.bootstrap,
        "kafka-console-consumer",
        *("--topic", topic, "--partition", "0", "--offset", "earliest"),
        *("--max-messages", str(len(lines)), "--timeout-ms", "60000"),
        *("--formatter-property", "print.key=true", "--formatter-property", "print.headers=true"),
        *("--formatter-property", "print.timestamp=true"),
    )
    wanted = [
        f"CreateTime:{TIME}\th:1,g:2\tk{n}\t{codec} {n}"
        for codec in CODECS
        for n, each in lines
        if each == codec
    ]
    assert read.splitlines() == wanted


# Java frames these two in its own way. The other codecs, and the embedded cluster, have test_tools.py.
@pytest.mark.parametrize("codec", ["snappy", "lz4"])
@pytest.mark.parametrize("broker", [pytest.param("apache", marks=pytest.mark.kafka)], indirect=True)
def test_what_the_java_producer_wrote_is_read(broker: Broker, codec: str) -> None:
    topic = broker.create_topic()
    lines = [f"line {number}".encode() for number in range(200)]
    tools.output(
        broker.bootstrap,
        "kafka-console-producer",
        *("--topic", topic, "--command-property", f"compression.type={codec}"),
        text=b"\n".join(lines).decode() + "\n",
    )
    found = OWN.consume(broker.bootstrap, topic, 200)
    assert [record.value for record in found] == lines
