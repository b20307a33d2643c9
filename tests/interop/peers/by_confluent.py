"""confluent-kafka: librdkafka behind Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count as numbers
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.interop.peers.base import WITHIN_S, Outcome, Sent
from tests.interop.waiting import eventually

_QUIET = {"log_level": 0}


class Confluent:
    name = "confluent-kafka"
    writes_null_headers = True

    def __init__(self, **streaming: str | int | bool) -> None:
        """With the settings of `stream` by librdkafka's names, dots as underscores."""
        settings = streaming or {"enable_idempotence": True}
        self._streaming = {name.replace("_", "."): value for name, value in settings.items()}

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Sent], *, codec: str = "none", partition: int = 0
    ) -> list[int]:
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, **_QUIET})
        offsets: list[int] = []
        errors: list[Any] = []

        def delivered(error: Any, message: Any) -> None:
            errors.append(error) if error is not None else offsets.append(message.offset())

        for record in records:
            producer.produce(
                topic,
                record.value,
                record.key,
                partition,
                on_delivery=delivered,
                timestamp=record.timestamp,
                headers=list(record.headers),
            )
        left = producer.flush(WITHIN_S)
        if errors:
            raise KafkaException(errors[0])
        assert not left, f"{left} records not acknowledged"
        return offsets

    def stream(self, bootstrap: str, topic: str, partitions: int, more: Callable[[int], bool]) -> Outcome:
        settings = {"bootstrap.servers": bootstrap, "linger.ms": 1, **self._streaming, **_QUIET}
        producer = Producer(settings)
        errors: list[str] = []

        def delivered(error: Any, _message: Any) -> None:
            if error is not None:
                errors.append(str(error))

        sent = 0
        for number in numbers():
            if not more(number):
                break
            producer.produce(topic, b"%d" % number, None, number % partitions, on_delivery=delivered)
            sent += 1
            # Not too far ahead of the broker: a stream, not one large batch.
            if len(producer) > 200:
                producer.poll(0.01)
            producer.poll(0)
        left = producer.flush(WITHIN_S)
        assert not left, f"{left} records not acknowledged"
        return Outcome(sent, errors)

    def consume(
        self, bootstrap: str, topic: str, count: int, *, partition: int = 0, offset: int = 0
    ) -> list[Sent]:
        found: list[Sent] = []
        with _consumer(bootstrap) as consumer:
            consumer.assign([TopicPartition(topic, partition, offset)])

            def read() -> bool:
                for message in consumer.consume(count - len(found), timeout=0.2):
                    if message.error() is not None:
                        raise KafkaException(message.error())
                    found.append(_sent(message))
                return len(found) >= count

            eventually(read, f"{count} records of {topic}", WITHIN_S, every=0)
        return found

    def offset_at(self, bootstrap: str, topic: str, timestamp: int) -> int | None:
        with _consumer(bootstrap) as consumer:
            (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp)], timeout=WITHIN_S)
        # The end of the partition stands for "none" here.
        return int(found.offset) if found.offset >= 0 else None

    def range_of(self, bootstrap: str, topic: str, partition: int = 0) -> tuple[int, int]:
        with _consumer(bootstrap) as consumer:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=WITHIN_S)
        return low, high


@contextmanager
def _consumer(bootstrap: str) -> Iterator[Any]:
    settings = {
        "bootstrap.servers": bootstrap,
        # Wanted by the client, never sent: partitions are assigned, nothing is committed.
        "group.id": "unused",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        **_QUIET,
    }
    consumer = Consumer(settings)
    try:
        yield consumer
    finally:
        consumer.close()


def _sent(message: Any) -> Sent:
    return Sent(message.value(), message.key(), tuple(message.headers() or ()), int(message.timestamp()[1]))
