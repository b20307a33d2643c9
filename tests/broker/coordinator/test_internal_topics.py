"""Kafka's own topics, and where a key is in them."""

from __future__ import annotations

from ottla.broker.configs import BrokerConfigs
from ottla.broker.coordinator.internal_topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    coordinator_partition,
    creatable,
)
from ottla.wire.messages import CreateTopicsRequest

CONFIGS = BrokerConfigs({"num.partitions": 4, "offsets.topic.replication.factor": 1}, node_id=1)


def configs_of(topic: CreateTopicsRequest.CreatableTopic) -> dict[str, str | None]:
    return {config.name: config.value for config in topic.configs}


def test_a_key_is_in_the_partition_of_its_java_hash_code() -> None:
    many = 2**31 - 1
    assert coordinator_partition("", many) == 0
    assert coordinator_partition("hello", many) == 99162322
    assert coordinator_partition("Aa", many) == coordinator_partition("BB", many) == 2112
    assert java_hash("consumers") < 0
    assert coordinator_partition("consumers", many) == -java_hash("consumers")


def test_characters_beyond_sixteen_bits_count_as_two() -> None:
    assert coordinator_partition("\U0001f600", 2**31 - 1) == abs(31 * 0xD83D + 0xDE00)


def test_the_smallest_hash_code_of_java_is_taken_for_zero() -> None:
    assert coordinator_partition("polygenelubricants", 50) == 0


def java_hash(text: str) -> int:
    code = 0
    for character in text:
        code = (31 * code + ord(character) + 2**31) % 2**32 - 2**31
    return code


def test_the_topic_of_offsets_is_compacted() -> None:
    topic = creatable(OFFSETS_TOPIC, CONFIGS)
    assert (topic.num_partitions, topic.replication_factor) == (50, 1)
    assert configs_of(topic) == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }


def test_the_topic_of_transactions_never_loses_its_records() -> None:
    topic = creatable(TRANSACTIONS_TOPIC, CONFIGS)
    assert (topic.num_partitions, topic.replication_factor) == (50, 3)
    assert configs_of(topic) == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "2",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    }


def test_the_topic_of_share_groups_keeps_everything() -> None:
    topic = creatable(SHARE_STATE_TOPIC, CONFIGS)
    assert (topic.num_partitions, topic.replication_factor) == (50, 3)
    assert configs_of(topic) == {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": "2",
        "retention.ms": "-1",
        "segment.bytes": "104857600",
    }


def test_any_other_topic_has_the_defaults_of_the_broker() -> None:
    topic = creatable("orders", CONFIGS)
    assert (topic.num_partitions, topic.replication_factor, topic.configs) == (4, 1, [])
