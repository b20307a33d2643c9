"""What the interop tests do through confluent-kafka, the client of reference: topics, records, leaders.

Every call is bounded in time and raises when Kafka refuses; nothing here starts or stops a node.
"""

import uuid
from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.interop import nodes
from tests.interop.waiting import eventually


def create_topic(
    bootstrap: str, partitions: int = 1, replicas: int = 1, config: dict[str, str] | None = None
) -> str:
    """A new topic under a name that no other test has. Every node knows it, and its leaders serve it."""
    name = f"topic-{uuid.uuid4().hex[:12]}"
    topic = NewTopic(name, num_partitions=partitions, replication_factor=replicas, config=config or {})
    # In a variable: an admin client that is collected takes its pending answers with it.
    admin = _admin(bootstrap)
    admin.create_topics([topic], operation_timeout=50)[name].result(timeout=60)
    # The controller has answered; the brokers hear of it a moment later.
    nodes.wait_until_served(bootstrap, name, partitions)
    return name


def produce(
    bootstrap: str,
    topic: str,
    values: Iterable[bytes],
    within: float = 60.0,
    compression: str = "none",
    idempotent: bool = False,
) -> None:
    """Send the values and return when all in-sync replicas have acknowledged each of them."""
    settings = {
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "compression.type": compression,
        "enable.idempotence": idempotent,
        "log_level": 0,
    }
    producer = Producer(settings)
    errors: list[KafkaException] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            errors.append(KafkaException(error))

    for value in values:
        producer.produce(topic, value, on_delivery=delivered)
    left = producer.flush(within)
    if left:
        raise TimeoutError(f"{left} records to {topic} not acknowledged after {within:g} s")
    if errors:
        raise errors[0]


def produce_transactions(
    bootstrap: str, topic: str, transactions: Iterable[tuple[list[bytes], bool]]
) -> None:
    """One transaction after the other, each with its values and whether it is committed or aborted."""
    settings = {
        "bootstrap.servers": bootstrap,
        "transactional.id": f"id-{uuid.uuid4().hex[:12]}",
        "log_level": 0,
    }
    producer = Producer(settings)
    producer.init_transactions(60)
    for values, commit in transactions:
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value)
        producer.flush(60)
        if commit:
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)


def consume(bootstrap: str, topic: str, count: int, within: float = 60.0) -> list[bytes]:
    """The first `count` values of the topic, read from the start by a new consumer group."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": f"group-{uuid.uuid4().hex[:12]}",
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    values: list[bytes] = []

    def read() -> bool:
        for message in consumer.consume(count - len(values), timeout=0.2):
            if message.error() is not None:
                raise KafkaException(message.error())
            values.append(message.value() or b"")
        return len(values) >= count

    try:
        consumer.subscribe([topic])
        eventually(read, f"{count} records of {topic}", within, every=0)
    finally:
        consumer.close()
    return values


def committed_values(bootstrap: str, topic: str, within: float = 60.0) -> list[bytes]:
    """The values of all committed records, up to the first transaction that is open, partition by partition."""
    return [message.value() or b"" for message in committed(bootstrap, topic, within)]


def committed(bootstrap: str, topic: str, within: float = 60.0) -> list[Message]:
    """The same, as messages. How many they are no offset says: marks of transactions take some too."""
    nodes.wait_until_marked(bootstrap)
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": f"group-{uuid.uuid4().hex[:12]}",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
    }
    consumer = Consumer(settings)
    found: list[Message] = []
    ended: set[int | None] = set()
    try:
        numbers = consumer.list_topics(topic, timeout=within).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in numbers])

        def read() -> bool:
            for message in consumer.consume(1000, timeout=0.2):
                error = message.error()
                if error is None:
                    found.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                else:
                    raise KafkaException(error)
            return len(ended) == len(numbers)

        eventually(read, f"the end of {topic}", within, every=0)
    finally:
        consumer.close()
    return found


def leader(bootstrap: str, topic: str, partition: int = 0) -> int:
    """The broker id of the partition's leader, -1 while it has none."""
    metadata = _admin(bootstrap).list_topics(topic, timeout=30)
    return int(metadata.topics[topic].partitions[partition].leader)


def partitions(bootstrap: str, topic: str) -> int:
    """How many it has."""
    return len(_admin(bootstrap).list_topics(topic, timeout=30).topics[topic].partitions)


def replicas(bootstrap: str, topic: str, partition: int = 0) -> list[int]:
    """The broker ids of the partition's replicas, the preferred leader first."""
    metadata = _admin(bootstrap).list_topics(topic, timeout=30)
    return list(metadata.topics[topic].partitions[partition].replicas)


def in_sync(bootstrap: str, topic: str, partition: int = 0) -> list[int]:
    """The broker ids of the partition's in-sync replicas, sorted."""
    metadata = _admin(bootstrap).list_topics(topic, timeout=30)
    return sorted(metadata.topics[topic].partitions[partition].isrs)


def brokers(bootstrap: str) -> list[int]:
    """The ids of the brokers that the cluster counts as alive, sorted."""
    return sorted(_admin(bootstrap).list_topics(timeout=30).brokers)


def _admin(bootstrap: str) -> AdminClient:
    # Tests take nodes down: a refused connection to one of several is no news.
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
