"""The record core against Apache Kafka: what we write its consumers read, what its producers write we read."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ottla.wire.compression import Compression
from ottla.wire.records import Accumulator, EncodedBatch, decode_fetch, encode_columns, seal, to_arrow
from tests.interop import confluent
from tests.interop.apache import ApacheKafka
from tests.interop.plain import Connection
from tests.interop.waiting import eventually

pytestmark = pytest.mark.kafka

CODECS = list(Compression)
COUNT = 500
VALUES = [b"value-%d-%s" % (number, b"x" * (number % 200)) for number in range(COUNT)]


def as_text(codec: Compression) -> str:
    return codec.name.lower()


def send(connection: Connection, topic: str, batches: list[EncodedBatch], codec: Compression) -> None:
    for batch in batches:
        connection.produce(topic, memoryview(seal(batch, codec)), batch.partition)


def accumulated(topic: str) -> list[EncodedBatch]:
    accumulator = Accumulator(batch_size=16_384, max_bytes=1 << 24)
    for number, value in enumerate(VALUES):
        accumulator.append(topic, 0, b"key-%d" % number, value, [("h", b"%d" % number), ("null", None)])
    return accumulator.drain(topic, 0, force=True)


@pytest.mark.parametrize("codec", CODECS, ids=as_text)
def test_confluent_kafka_reads_what_the_accumulator_wrote(apache: ApacheKafka, codec: Compression) -> None:
    topic = confluent.create_topic(apache.bootstrap)
    with Connection(apache.bootstrap) as connection:
        send(connection, topic, accumulated(topic), codec)
    assert confluent.consume(apache.bootstrap, topic, COUNT) == VALUES


@pytest.mark.parametrize("codec", CODECS, ids=as_text)
def test_the_java_console_consumer_reads_what_columns_became(apache: ApacheKafka, codec: Compression) -> None:
    topic = confluent.create_topic(apache.bootstrap)
    table = pa.table({"key": [b"k%d" % n for n in range(COUNT)], "value": VALUES})
    batches = encode_columns(table, partitions=1, batch_size=8_192, now=1_700_000_000_000, topic=topic)
    with Connection(apache.bootstrap) as connection:
        send(connection, topic, batches, codec)
    done = apache.tool(
        "kafka-console-consumer",
        *("--topic", topic, "--from-beginning"),
        *("--max-messages", str(COUNT), "--timeout-ms", "60000"),
        *("--formatter-property", "print.key=true", "--formatter-property", "print.timestamp=true"),
    )
    lines = done.stdout.splitlines()
    assert lines == [f"CreateTime:1700000000000\tk{n}\t{value.decode()}" for n, value in enumerate(VALUES)]


@pytest.mark.parametrize("codec", CODECS, ids=as_text)
def test_what_confluent_kafka_wrote_is_read(apache: ApacheKafka, codec: Compression) -> None:
    topic = confluent.create_topic(apache.bootstrap)
    confluent.produce(apache.bootstrap, topic, VALUES, compression=as_text(codec))
    with Connection(apache.bootstrap) as connection:
        assert read_all(connection, topic) == VALUES


@pytest.mark.parametrize("codec", CODECS, ids=as_text)
def test_what_the_java_console_producer_wrote_is_read(apache: ApacheKafka, codec: Compression) -> None:
    topic = confluent.create_topic(apache.bootstrap)
    apache.tool(
        "kafka-console-producer",
        *("--topic", topic, "--command-property", f"compression.type={as_text(codec)}"),
        text="\n".join(value.decode() for value in VALUES) + "\n",
    ).check_returncode()
    with Connection(apache.bootstrap) as connection:
        assert read_all(connection, topic) == VALUES


def test_append_time_is_seen(apache: ApacheKafka) -> None:
    topic = confluent.create_topic(apache.bootstrap, config={"message.timestamp.type": "LogAppendTime"})
    with Connection(apache.bootstrap) as connection:
        send(connection, topic, accumulated(topic), Compression.NONE)
        fetched = connection.fetch(topic)
        assert fetched.records is not None
        table = to_arrow(decode_fetch(fetched.records, topic, 0))
    assert set(table.column("timestampType").to_pylist()) == {1}


def test_aborted_transactions_of_a_real_producer_are_left_out(apache: ApacheKafka) -> None:
    topic = confluent.create_topic(apache.bootstrap)
    confluent.produce_transactions(apache.bootstrap, topic, [(VALUES[:5], False), (VALUES[5:9], True)])
    with Connection(apache.bootstrap) as connection:
        # The markers are written after the producer has its answer.
        eventually(lambda: connection.fetch(topic).last_stable_offset == 11, "the last marker to be written")
        fetched = connection.fetch(topic, committed=True)
    assert fetched.records is not None
    aborted = [(a.producer_id, a.first_offset) for a in fetched.aborted_transactions or []]
    assert len(aborted) == 1
    committed = decode_fetch(fetched.records, topic, 0, aborted=aborted)
    assert [record.value for record in committed] == VALUES[5:9]
    everything = decode_fetch(fetched.records, topic, 0)
    assert [record.value for record in everything] == VALUES[:9]
    assert committed.next_offset == everything.next_offset == 11  # nine records and two markers


def read_all(connection: Connection, topic: str) -> list[bytes | None]:
    values: list[bytes | None] = []
    offset = 0
    while len(values) < COUNT:
        fetched = connection.fetch(topic, offset)
        assert fetched.records is not None
        records = decode_fetch(fetched.records, topic, 0, offset=offset)
        values += [record.value for record in records]
        assert records.next_offset > offset
        offset = records.next_offset
    return values
