"""confluent-kafka, the peer of reference, in a process by itself: what its own thread of the caller costs.

Its broker is librdkafka's mock cluster, a C program inside the producer; only the CPU of the calling thread is
counted, so neither the broker nor librdkafka's own threads are in the figures.
"""

from __future__ import annotations

import time

from confluent_kafka import Consumer, Producer, TopicPartition

PARTITIONS = 4
# The mock cluster keeps 5 MB and 100,000 messages of a partition.
PER_PARTITION = 40_000
COUNT = PARTITIONS * PER_PARTITION
# What is iterated are records without headers.
TOPIC, TOPIC_WITH_HEADERS = "orders", "orders-with-headers"


Headers = list[tuple[str, str | bytes | None]]


class Confluent:
    """A producer with a broker behind it, and consumers of what it has produced."""

    def __init__(self) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": "127.0.0.1:1",
                "test.mock.num.brokers": 1,
                "queue.buffering.max.messages": 2 * COUNT,
                "queue.buffering.max.kbytes": 1_000_000,
                "log_level": 0,
            }
        )
        broker = next(iter(self._producer.list_topics(timeout=10).brokers.values()))
        self._bootstrap = f"{broker.host}:{broker.port}"
        for topic in (TOPIC, TOPIC_WITH_HEADERS):
            self._producer.list_topics(topic, timeout=10)

    def produce(self, key: bytes, value: bytes, headers: Headers | None = None) -> float:
        """Seconds of CPU of this thread for one `produce()`."""
        produce = self._producer.produce
        started = time.thread_time()
        # By position as far as it goes, which is its quickest call.
        if headers is None:
            for number in range(COUNT):
                produce(TOPIC, value, key, number % PARTITIONS)
        else:
            for number in range(COUNT):
                produce(TOPIC_WITH_HEADERS, value, key, number % PARTITIONS, headers=headers)
        spent = time.thread_time() - started
        left = self._producer.flush(60)
        if left:
            raise TimeoutError(f"{left} messages were not delivered to the mock cluster")
        return spent / COUNT

    def iterate(self) -> float:
        """Seconds of CPU of this thread for one message: `consume(10000)`, then `value()` of each."""
        settings = {
            "bootstrap.servers": self._bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 10_000_000,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
        consumer = Consumer(settings)
        try:
            consumer.assign([TopicPartition(TOPIC, partition, -2) for partition in range(PARTITIONS)])
            return self._consume(consumer)
        finally:
            consumer.close()

    def _consume(self, consumer: Consumer) -> float:
        seen, spent = 0, 0.0
        deadline = time.monotonic() + 60
        while seen < COUNT:
            started = time.thread_time()
            messages = consumer.consume(10_000, timeout=1)
            for message in messages:
                message.value()
            spent += time.thread_time() - started
            seen += len(messages)
            if time.monotonic() > deadline:
                raise TimeoutError(f"the mock cluster gave {seen} messages in a minute")
        return spent / seen
