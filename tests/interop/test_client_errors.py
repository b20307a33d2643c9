"""What users of other people's clients see when they ask for what cannot be."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.interop.brokers import Broker
from tests.interop.peers import PEERS, Peer, Sent
from tests.interop.waiting import eventually

WITHIN_S = 30.0


@pytest.fixture
def admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})


def refusal(answers: dict[Any, Future[Any]]) -> tuple[str, str]:
    """The name of the error and its words."""
    (answer,) = answers.values()
    with pytest.raises(KafkaException) as raised:
        answer.result(WITHIN_S)
    error = raised.value.args[0]
    return error.name(), error.str()


def unused() -> str:
    return f"none-{uuid.uuid4().hex[:12]}"


def test_a_topic_that_exists_is_not_created_again(broker: Broker, admin: AdminClient) -> None:
    topic = broker.create_topic()
    assert refusal(admin.create_topics([NewTopic(topic, 1, 1)])) == (
        "TOPIC_ALREADY_EXISTS",
        f"Topic '{topic}' already exists.",
    )


def test_a_topic_without_enough_brokers_is_not_created(admin: AdminClient) -> None:
    name, words = refusal(admin.create_topics([NewTopic(unused(), 1, 3)]))
    assert name == "INVALID_REPLICATION_FACTOR"
    assert "3" in words


@pytest.mark.parametrize("topic", ["two words", "..", "t" * 250])
def test_a_topic_with_a_bad_name_is_not_created(admin: AdminClient, topic: str) -> None:
    name, _ = refusal(admin.create_topics([NewTopic(topic, 1, 1)]))
    assert name == "TOPIC_EXCEPTION"


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (
            {"retention.ms": "soon"},
            "Invalid value soon for configuration retention.ms: Not a number of type LONG",
        ),
        ({"no.such.config": "1"}, "Unknown topic config name: no.such.config"),
    ],
)
def test_a_topic_with_a_bad_config_is_not_created(
    admin: AdminClient, config: dict[str, str], words: str
) -> None:
    assert refusal(admin.create_topics([NewTopic(unused(), 1, 1, config=config)])) == (
        "INVALID_CONFIG",
        words,
    )


def test_a_bad_config_is_not_set(broker: Broker, admin: AdminClient) -> None:
    topic = broker.create_topic()
    entry = ConfigEntry("cleanup.policy", "sometimes", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    name, words = refusal(admin.incremental_alter_configs([resource]))
    assert name == "INVALID_CONFIG"
    assert "sometimes" in words


def test_an_unknown_topic_is_neither_deleted_nor_grown_nor_described(admin: AdminClient) -> None:
    asked: list[Callable[[], dict[Any, Future[Any]]]] = [
        lambda: admin.delete_topics([unused()]),
        lambda: admin.create_partitions([NewPartitions(unused(), 2)]),
        lambda: admin.describe_configs([ConfigResource(ResourceType.TOPIC, unused())]),
    ]
    assert {refusal(ask())[0] for ask in asked} == {"UNKNOWN_TOPIC_OR_PART"}


def test_partitions_are_not_taken_away(broker: Broker, admin: AdminClient) -> None:
    topic = broker.create_topic(partitions=3)
    name, words = refusal(admin.create_partitions([NewPartitions(topic, 2)]))
    assert name == "INVALID_PARTITIONS"
    assert words == f"The topic {topic} currently has 3 partition(s); 2 would not be an increase."


def test_records_after_the_end_are_not_deleted(broker: Broker, admin: AdminClient) -> None:
    topic = broker.create_topic()
    name, _ = refusal(admin.delete_records([TopicPartition(topic, 0, 5)]))
    assert name == "OFFSET_OUT_OF_RANGE"


def test_a_record_that_is_too_large_is_refused(broker: Broker) -> None:
    topic = broker.create_topic(config={"max.message.bytes": "500"})
    for peer in PEERS:
        with pytest.raises(Exception, match=r"(?i)large"):
            peer.produce(broker.bootstrap, topic, [Sent(b"x" * 1000)])


def test_a_record_without_a_key_is_refused_by_a_compacted_topic(broker: Broker) -> None:
    topic = broker.create_topic(config={"cleanup.policy": "compact"})
    with pytest.raises(KafkaException, match="validate"):
        PEERS[0].produce(broker.bootstrap, topic, [Sent(b"x")])


def test_too_few_replicas_in_sync_refuse_to_acknowledge(broker3: Broker) -> None:
    topic = broker3.create_topic(config={"min.insync.replicas": "3"})
    settings = {"bootstrap.servers": broker3.bootstrap, "acks": "all", "retries": 0, "log_level": 0}

    def is_refused() -> bool:
        errors: list[Any] = []
        producer = Producer(settings)
        producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error and error.name()))
        assert producer.flush(2 * WITHIN_S) == 0
        assert errors != [None], "it was acknowledged"
        return errors == ["NOT_ENOUGH_REPLICAS"]

    broker3.stop_node(2)
    try:
        broker3.wait_until_fenced(2)
        # A leader that has only just heard of it says something else, and still acknowledges nothing.
        eventually(is_refused, "the record to be refused", within=60)
    finally:
        broker3.start_node(2)


def test_an_unknown_partition_is_told_to_the_producer(broker: Broker) -> None:
    topic = broker.create_topic(partitions=1)
    with pytest.raises(KafkaException, match="partition"):
        PEERS[0].produce(broker.bootstrap, topic, [Sent(b"x")], partition=5)


def test_an_offset_out_of_range_is_told_to_the_consumer(broker: Broker) -> None:
    topic = broker.create_topic()
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "unused", "auto.offset.reset": "error"}
    consumer = Consumer({**settings, "log_level": 0})
    try:
        consumer.assign([TopicPartition(topic, 0, 99)])
        message: Any = eventually(lambda: consumer.poll(1.0), "an answer")
        assert message.error().name() == "_AUTO_OFFSET_RESET"
    finally:
        consumer.close()


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_producing_to_a_topic_that_is_not_there_creates_it(broker: Broker, peer: Peer) -> None:
    topic = unused()
    peer.produce(broker.bootstrap, topic, [Sent(b"first")])
    assert peer.consume(broker.bootstrap, topic, 1) == [Sent(b"first")]
