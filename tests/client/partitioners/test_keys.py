"""Partitions by key: what other clients answer for the same keys."""

from __future__ import annotations

import warnings
from typing import Any

import pyarrow as pa
import pytest
from aiokafka.partitioner import DefaultPartitioner as AioDefaultPartitioner
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st

from ottla._native.encode import encode_columns
from ottla.broker import Cluster
from ottla.client.partitioners import (
    ColumnsMode,
    ConsistentRandomPartitioner,
    DefaultPartitioner,
    HashPartitioner,
    Partitioner,
    crc32_partition,
    murmur2_partition,
)
from tests.client.partitioners.support import BATCH_SIZE, choices, idle, topic_of, unkeyed
from tests.facts import input_bytes, third_party_vectors
from tests.native.known_answers import known_answers

with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
    # It reads its own files in a way that Python 3.11 warns of.
    from kafka.partitioner.default import DefaultPartitioner as KafkaPythonDefaultPartitioner

KEYS = [b"%d" % number for number in range(60)] + [b"\0", b"\xff" * 40, "Größe".encode(), bytes(999)]
PARTITIONS = 7


class KafkaPythonCluster:
    """What kafka-python's partitioner asks of a cluster."""

    def __init__(self, partitions: int) -> None:
        self.partitions = set(range(partitions))

    def topics(self) -> set[str]:
        return {"orders"}

    def partitions_for_topic(self, topic: str) -> set[int]:
        return self.partitions

    available_partitions_for_topic = partitions_for_topic


def placed_by_librdkafka(cluster: Cluster, partitioner: str, keys: list[bytes]) -> list[int]:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "partitioner": partitioner})
    placed: dict[bytes, int] = {}

    def delivered(error: object, message: Any) -> None:
        assert error is None, error
        placed[message.key()] = message.partition()

    for key in keys:
        producer.produce("orders", b"value", key, on_delivery=delivered)
    assert producer.flush(30) == 0
    return [placed[key] for key in keys]


@pytest.mark.parametrize("partitioner", [DefaultPartitioner(), HashPartitioner()], ids=repr)
def test_kafkas_own_client_gives_the_same_partitions(partitioner: Partitioner) -> None:
    topic = topic_of(partitioner)
    for answer in known_answers():
        for count, partition in answer.partitions.items():
            assert topic.choose(answer.data, None, 100, idle(count)) == partition


def test_other_projects_give_the_same_partitions() -> None:
    for vector in third_party_vectors("murmur2-partition"):
        partitions = vector["input"]["partitions"]
        assert murmur2_partition(input_bytes(vector), partitions) == vector["expected"], vector["id"]


@given(key=st.binary(max_size=100), partitions=st.integers(1, 1000))
def test_kafka_python_and_aiokafka_give_the_same_partitions(key: bytes, partitions: int) -> None:
    ours = murmur2_partition(key, partitions)
    cluster = KafkaPythonCluster(partitions)
    assert KafkaPythonDefaultPartitioner().partition("orders", key, key, None, None, cluster) == ours
    everything = list(range(partitions))
    assert AioDefaultPartitioner()(key, everything, everything) == ours


@pytest.mark.kafka_cluster(topics={"orders": PARTITIONS})
def test_librdkafka_gives_the_same_partitions(kafka: Cluster) -> None:
    by_murmur2, by_crc32 = topic_of(HashPartitioner()), topic_of(ConsistentRandomPartitioner())
    load = idle(PARTITIONS)
    assert placed_by_librdkafka(kafka, "murmur2_random", KEYS) == [
        by_murmur2.choose(key, None, 100, load) for key in KEYS
    ]
    assert placed_by_librdkafka(kafka, "consistent_random", KEYS) == [
        by_crc32.choose(key, None, 100, load) for key in KEYS
    ]


@given(key=st.binary(max_size=100), partitions=st.integers(1, 1000))
def test_whole_columns_give_the_same_partitions(key: bytes, partitions: int) -> None:
    columns = {"key": pa.array([key], pa.binary()), "value": pa.array([b""], pa.binary())}
    (batch,) = encode_columns(columns, partitions=partitions, batch_size=BATCH_SIZE, now=0)
    assert batch.partition == murmur2_partition(key, partitions)


def test_the_hash_of_librdkafka_is_unsigned() -> None:
    """CRC-32 of "a" is 0xE8B7BE43: its highest bit is set, and counts."""
    assert crc32_partition(b"a", 1000) == 0xE8B7BE43 % 1000


def test_an_empty_key_is_a_key_for_kafka_and_none_for_librdkafka() -> None:
    load = idle(12)
    assert topic_of(HashPartitioner()).choose(b"", None, 100, load) == murmur2_partition(b"", 12)
    topic = topic_of(ConsistentRandomPartitioner())
    assert topic.choose(b"", None, 100, load) == unkeyed(topic, load)
    assert {topic.choose(b"", None, 10 * BATCH_SIZE, load) for _ in range(300)} == set(range(12))


@pytest.mark.parametrize("partitioner", [HashPartitioner(), ConsistentRandomPartitioner()], ids=repr)
def test_records_without_a_key_go_everywhere_equally(partitioner: Partitioner) -> None:
    seen = choices(topic_of(partitioner), idle(4), 4000)
    assert all(900 < seen[partition] < 1100 for partition in range(4))


def test_only_murmur2_is_done_natively_for_whole_columns() -> None:
    assert HashPartitioner().columns_mode() is ColumnsMode.BY_KEY
    assert ConsistentRandomPartitioner().columns_mode() is ColumnsMode.BY_ROW
