"""Which partition a record goes to with Ottla's client: where the other clients, and Java, would put it."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from confluent_kafka import Producer

import ottla
from tests.interop import tools
from tests.interop.brokers import Broker
from tests.interop.own import read_all, with_client

KEYS = [b"", b"a", b"42", "schlüssel".encode(), bytes(range(256)), *(b"key-%d" % n for n in range(300))]


async def places(kafka: ottla.AsyncClient, topic: str) -> dict[bytes | None, int]:
    return {record.key: record.partition for record in await read_all(kafka, topic)}


def test_keys_go_where_librdkafkas_murmur2_puts_them(broker: Broker) -> None:
    theirs, ours, columns = (broker.create_topic(partitions=17) for _ in range(3))
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random", "log_level": 0}
    )
    for key in KEYS:
        producer.produce(theirs, b"x", key)
    assert producer.flush(30) == 0

    async def body(kafka: ottla.AsyncClient) -> None:
        for key in KEYS:
            await kafka.produce(ours, b"x", key)
        table = pa.table({"key": pa.array(KEYS, pa.binary()), "value": [b"x"] * len(KEYS)})
        await (await kafka.produce_batch(columns, table))
        await kafka.flush()
        wanted = await places(kafka, theirs)
        assert len(wanted) == len(KEYS)
        assert await places(kafka, ours) == wanted
        assert await places(kafka, columns) == wanted

    with_client(broker, body)


@pytest.mark.kafka
@pytest.mark.usefixtures("kafka_installed")
def test_keys_go_where_java_puts_them(broker: Broker) -> None:
    theirs, ours = (broker.create_topic(partitions=17) for _ in range(2))
    keys = [f"key-{number}" for number in range(300)]
    tools.output(
        broker.bootstrap,
        "kafka-console-producer",
        *("--topic", theirs, "--reader-property", "parse.key=true"),
        text="".join(f"{key}\tx\n" for key in keys),
    )

    async def body(kafka: ottla.AsyncClient) -> None:
        for key in keys:
            await kafka.produce(ours, b"x", key.encode())
        await kafka.flush()
        wanted = await places(kafka, theirs)
        assert len(wanted) == len(keys)
        assert await places(kafka, ours) == wanted

    with_client(broker, body)


def test_a_named_partition_is_the_one(broker: Broker) -> None:
    topic = broker.create_topic(partitions=5)

    async def body(kafka: ottla.AsyncClient) -> None:
        for number in range(50):
            await kafka.produce(topic, b"%d" % number, b"same key", partition=number % 5)
        table = pa.table({"value": [b"t"] * 5, "partition": pa.array([4, 3, 2, 1, 0], pa.int32())})
        await kafka.produce_batch(topic, table)
        await kafka.flush()
        found = Counter((record.partition, record.value) for record in await read_all(kafka, topic))
        assert found == Counter(
            [(number % 5, b"%d" % number) for number in range(50)] + [(part, b"t") for part in range(5)]
        )

    with_client(broker, body)


def test_records_without_a_key_fill_batches_of_every_partition(broker: Broker) -> None:
    topic = broker.create_topic(partitions=3)

    async def body(kafka: ottla.AsyncClient) -> None:
        for _ in range(2000):
            await kafka.produce(topic, b"x" * 100)
        await kafka.flush()
        found = Counter(record.partition for record in await read_all(kafka, topic))
        assert sum(found.values()) == 2000
        assert sorted(found) == [0, 1, 2]

    with_client(broker, body, batch_size=4096)


def test_hundreds_of_partitions_over_all_brokers(broker3: Broker) -> None:
    partitions = 300
    topic = broker3.create_topic(partitions=partitions)

    async def body(kafka: ottla.AsyncClient) -> None:
        for number in range(10 * partitions):
            await kafka.produce(topic, b"%d" % number, partition=number % partitions)
        await kafka.flush()
        found: dict[int, list[int]] = {}
        for record in await read_all(kafka, topic):
            found.setdefault(record.partition, []).append(int(record.value))
        assert found == {part: list(range(part, 10 * partitions, partitions)) for part in sorted(found)}
        assert len(found) == partitions

    with_client(broker3, body)
