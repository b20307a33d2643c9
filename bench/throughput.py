"""Records through a broker with confluent-kafka: how many a second, one way and the other."""

from __future__ import annotations

import time
import uuid

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

TOPICS = 5
PARTITIONS = 4
# librdkafka's mock cluster keeps 5 MB of a partition: what is read back must fit.
BYTES_PER_PARTITION = 4_000_000
_DEADLINE = 120.0


class Traffic:
    """A producer and a consumer of one broker, for records of one size."""

    def __init__(self, bootstrap: str, size: int) -> None:
        self._value = b"v" * size
        self._per_topic = PARTITIONS * (BYTES_PER_PARTITION // (size + 10))
        self.count = TOPICS * self._per_topic
        common: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._admin = AdminClient(common)
        self._producer = Producer(
            {
                **common,
                "acks": "all",
                "linger.ms": 5,
                "queue.buffering.max.messages": 2 * self.count,
                "queue.buffering.max.kbytes": 1_000_000,
            }
        )
        self._consumer = Consumer(
            {
                **common,
                "group.id": "bench",
                "enable.auto.commit": False,
                "queued.min.messages": 5_000,
                "fetch.queue.backoff.ms": 1,
                "queued.max.messages.kbytes": 1_000_000,
            }
        )
        self._topics: list[str] = []

    def produce(self) -> float:
        """Fills new topics; acknowledged records per second."""
        self._topics = [self._new_topic() for _ in range(TOPICS)]
        value, produce = self._value, self._producer.produce
        started = time.perf_counter()
        for topic in self._topics:
            for number in range(self._per_topic):
                produce(topic, value, None, number % PARTITIONS)
        left = self._producer.flush(_DEADLINE)
        spent = time.perf_counter() - started
        if left:
            raise TimeoutError(f"{left} records were not acknowledged")
        return self.count / spent

    def consume(self) -> float:
        """Reads the last topics from their beginning; records per second from the first ones on.

        What comes before, a consumer that finds out about topics it did not know, takes seconds in librdkafka.
        """
        self._consumer.assign(
            [
                TopicPartition(topic, number, OFFSET_BEGINNING)
                for topic in self._topics
                for number in range(PARTITIONS)
            ]
        )
        deadline = time.perf_counter() + _DEADLINE
        first = seen = self._read(deadline)
        started = time.perf_counter()
        while seen < self.count:
            seen += self._read(deadline)
        spent = time.perf_counter() - started
        self._consumer.unassign()
        return (seen - first) / spent

    def _read(self, deadline: float) -> int:
        """The next records, at least one."""
        while time.perf_counter() < deadline:
            messages = self._consumer.consume(10_000, timeout=0.2)
            for message in messages:
                if message.error() is not None:
                    raise KafkaException(message.error())
            if messages:
                return len(messages)
        raise TimeoutError("no more records came")

    def forget(self) -> None:
        """Deletes the last topics, from a broker that would keep them."""
        deleted = self._admin.delete_topics(self._topics)
        for future in deleted.values():
            future.result(_DEADLINE)

    def close(self) -> None:
        self._consumer.close()

    def _new_topic(self) -> str:
        """Both brokers create a topic that a Metadata request names; a later request finds its leaders."""
        name = f"bench-{uuid.uuid4().hex[:8]}"
        deadline = time.perf_counter() + _DEADLINE
        while time.perf_counter() < deadline:
            topic = self._producer.list_topics(name, timeout=10).topics[name]
            if topic.error is None and len(topic.partitions) == PARTITIONS:
                return name
        raise TimeoutError(f"{name} has no leaders")
