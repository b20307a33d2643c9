"""Administration through other people's clients: topics, partitions, configs, offsets."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import closing
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioNewTopic
from confluent_kafka import KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.interop.brokers import Broker
from tests.interop.peers import PEERS, Sent
from tests.interop.peers.by_kafka_python import KafkaAdminClient
from tests.interop.peers.by_kafka_python import NewTopic as KpNewTopic
from tests.interop.waiting import eventually

CONFLUENT = PEERS[0]
WITHIN_S = 30.0
SPECIFICATION: Any = OffsetSpec  # its methods have no types


@pytest.fixture
def admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})


def new_name() -> str:
    return f"admin-{uuid.uuid4().hex[:12]}"


def only(answers: dict[Any, Future[Any]]) -> Any:
    """The result of the one thing that was asked for."""
    (answer,) = answers.values()
    return answer.result(WITHIN_S)


def topic_configs(admin: AdminClient, topic: str) -> dict[str, ConfigEntry]:
    found: dict[str, ConfigEntry] = only(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
    return found


def altered(topic: str, name: str, operation: AlterConfigOpType, value: str | None) -> ConfigResource:
    entry = ConfigEntry(name, value, incremental_operation=operation)
    return ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])


def test_a_topic_is_created_described_and_deleted(broker: Broker, admin: AdminClient) -> None:
    topic = new_name()
    only(admin.create_topics([NewTopic(topic, num_partitions=4, replication_factor=1)]))
    listed: Any = eventually(lambda: admin.list_topics(timeout=10).topics.get(topic), f"{topic} to be listed")
    assert sorted(listed.partitions) == [0, 1, 2, 3]

    described = only(admin.describe_topics(TopicCollection([topic])))
    assert (described.name, described.is_internal, len(described.partitions)) == (topic, False, 4)
    assert [node.id for node in described.partitions[0].isr] == broker.node_ids

    only(admin.delete_topics([topic]))
    eventually(lambda: topic not in admin.list_topics(timeout=10).topics, f"{topic} to be gone")


def test_a_topic_that_was_deleted_can_be_made_again_and_is_empty(broker: Broker, admin: AdminClient) -> None:
    topic = broker.create_topic()
    CONFLUENT.produce(broker.bootstrap, topic, [Sent(b"old")] * 3)
    only(admin.delete_topics([topic]))
    eventually(lambda: topic not in admin.list_topics(timeout=10).topics, f"{topic} to be gone")
    only(admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)]))
    assert CONFLUENT.produce(broker.bootstrap, topic, [Sent(b"new")]) == [0]
    assert CONFLUENT.consume(broker.bootstrap, topic, 1) == [Sent(b"new")]


def test_partitions_are_added_and_serve(broker: Broker, admin: AdminClient) -> None:
    topic = broker.create_topic(partitions=1)
    only(admin.create_partitions([NewPartitions(topic, 3)]))
    eventually(
        lambda: len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == 3, "three partitions"
    )
    CONFLUENT.produce(broker.bootstrap, topic, [Sent(b"x")], partition=2)
    assert CONFLUENT.consume(broker.bootstrap, topic, 1, partition=2) == [Sent(b"x")]


def test_configs_of_a_topic_are_described_with_their_sources(broker: Broker, admin: AdminClient) -> None:
    topic = broker.create_topic(config={"retention.ms": "12345"})
    configs = topic_configs(admin, topic)
    assert (configs["retention.ms"].value, configs["retention.ms"].is_default) == ("12345", False)
    assert (configs["cleanup.policy"].value, configs["cleanup.policy"].is_default) == ("delete", True)


def test_configs_are_set_appended_to_and_deleted(broker: Broker, admin: AdminClient) -> None:
    topic = broker.create_topic(config={"cleanup.policy": "delete"})

    def becomes(name: str, value: str) -> None:
        eventually(lambda: topic_configs(admin, topic)[name].value == value, f"{name} to be {value}")

    only(admin.incremental_alter_configs([altered(topic, "retention.ms", AlterConfigOpType.SET, "777")]))
    becomes("retention.ms", "777")
    only(
        admin.incremental_alter_configs(
            [altered(topic, "cleanup.policy", AlterConfigOpType.APPEND, "compact")]
        )
    )
    becomes("cleanup.policy", "delete,compact")
    only(
        admin.incremental_alter_configs(
            [altered(topic, "cleanup.policy", AlterConfigOpType.SUBTRACT, "delete")]
        )
    )
    becomes("cleanup.policy", "compact")
    only(admin.incremental_alter_configs([altered(topic, "retention.ms", AlterConfigOpType.DELETE, None)]))
    becomes("retention.ms", "604800000")


def test_a_changed_config_takes_effect(broker: Broker, admin: AdminClient) -> None:
    topic = broker.create_topic()
    only(admin.incremental_alter_configs([altered(topic, "max.message.bytes", AlterConfigOpType.SET, "100")]))

    def refused() -> bool:
        try:
            CONFLUENT.produce(broker.bootstrap, topic, [Sent(b"x" * 1000)])
        except KafkaException as error:
            return str(error.args[0].name()) == "MSG_SIZE_TOO_LARGE"
        return False

    eventually(refused, "large records to be refused")


def test_configs_of_a_broker_are_described(broker: Broker, admin: AdminClient) -> None:
    resource = ConfigResource(ResourceType.BROKER, str(broker.node_ids[0]))
    configs = only(admin.describe_configs([resource]))
    assert configs["num.partitions"].value == "1"
    assert configs["node.id"].is_read_only


def test_records_are_deleted_up_to_an_offset(broker: Broker, admin: AdminClient) -> None:
    topic = broker.create_topic()
    CONFLUENT.produce(broker.bootstrap, topic, [Sent(b"%d" % n) for n in range(10)])
    deleted = only(admin.delete_records([TopicPartition(topic, 0, 4)]))
    assert deleted.low_watermark == 4
    assert CONFLUENT.range_of(broker.bootstrap, topic) == (4, 10)
    found = CONFLUENT.consume(broker.bootstrap, topic, 6, offset=4)
    assert [record.value for record in found] == [b"%d" % n for n in range(4, 10)]


def test_offsets_are_listed_by_every_specification(broker: Broker, admin: AdminClient) -> None:
    topic = broker.create_topic()
    times = [1_700_000_000_000, 1_700_000_009_000, 1_700_000_005_000]
    CONFLUENT.produce(broker.bootstrap, topic, [Sent(b"x", timestamp=time) for time in times])

    def listed(specification: OffsetSpec) -> tuple[int, int]:
        found = only(admin.list_offsets({TopicPartition(topic, 0): specification}))
        return found.offset, found.timestamp

    assert listed(SPECIFICATION.earliest()) == (0, -1)
    assert listed(SPECIFICATION.latest()) == (3, -1)
    assert listed(SPECIFICATION.max_timestamp()) == (1, times[1])
    assert listed(SPECIFICATION.for_timestamp(times[0] + 1)) == (1, times[1])


def test_the_cluster_is_described(broker: Broker, admin: AdminClient) -> None:
    described = admin.describe_cluster(request_timeout=WITHIN_S).result(WITHIN_S)
    assert [node.id for node in described.nodes] == broker.node_ids
    assert described.controller.id in broker.node_ids
    assert described.cluster_id


def by_aiokafka(broker: Broker, action: Callable[[AIOKafkaAdminClient], Awaitable[Any]]) -> Any:
    """One action of aiokafka's admin client."""

    async def run() -> Any:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
        await admin.start()
        try:
            return await action(admin)
        finally:
            await admin.close()

    return asyncio.run(asyncio.wait_for(run(), WITHIN_S))


def test_aiokafka_administers_topics(broker: Broker) -> None:
    topic = new_name()
    by_aiokafka(broker, lambda admin: admin.create_topics([AioNewTopic(topic, 2, 1)]))
    eventually(
        lambda: topic in by_aiokafka(broker, lambda admin: admin.list_topics()), f"{topic} to be there"
    )
    (described,) = by_aiokafka(broker, lambda admin: admin.describe_topics([topic]))
    assert len(described["partitions"]) == 2
    by_aiokafka(broker, lambda admin: admin.delete_topics([topic]))
    eventually(
        lambda: topic not in by_aiokafka(broker, lambda admin: admin.list_topics()), f"{topic} to be gone"
    )


def test_kafka_python_administers_topics(broker: Broker) -> None:
    topic = new_name()
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        admin.create_topics([KpNewTopic(topic, 2, 1)])
        eventually(lambda: topic in admin.list_topics(), f"{topic} to be there")
        (described,) = admin.describe_topics([topic])
        assert len(described["partitions"]) == 2
        admin.delete_topics([topic])
        eventually(lambda: topic not in admin.list_topics(), f"{topic} to be gone")
