"""kafka-python: Python with threads."""

from __future__ import annotations

import socket
import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import count as numbers
from typing import Any

from tests.interop.peers.base import WITHIN_S, Outcome, Sent
from tests.interop.waiting import eventually

# It reads its schemas in a way that Python 3.11 calls outdated.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import NewTopic
    from kafka.errors import KafkaError
    from kafka.net.inet import KafkaNetSocket

__all__ = ["KafkaAdminClient", "KafkaPython", "NewTopic"]

_IN_FLIGHT = 200


class _ClosedWhenDropped(socket.socket):
    """kafka-python leaves the sockets of nodes that it did not reach to the collector, in whichever test it runs."""

    def __del__(self) -> None:
        self.close()


KafkaNetSocket.socket = staticmethod(_ClosedWhenDropped)


class KafkaPython:
    name = "kafka-python"
    writes_null_headers = False

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Sent], *, codec: str = "none", partition: int = 0
    ) -> list[int]:
        with closing(_producer(bootstrap, codec)) as producer:
            pending = [
                producer.send(
                    topic,
                    record.value,
                    record.key,
                    list(record.headers),
                    partition,
                    record.timestamp,
                )
                for record in records
            ]
            return [future.get(WITHIN_S).offset for future in pending]

    def stream(self, bootstrap: str, topic: str, partitions: int, more: Callable[[int], bool]) -> Outcome:
        errors: list[str] = []
        pending: list[Any] = []

        def settle() -> None:
            for future in pending:
                try:
                    future.get(WITHIN_S)
                except KafkaError as error:
                    errors.append(repr(error))
            pending.clear()

        sent = 0
        with closing(_producer(bootstrap, "none")) as producer:
            for number in numbers():
                if not more(number):
                    break
                pending.append(producer.send(topic, b"%d" % number, partition=number % partitions))
                sent += 1
                if len(pending) >= _IN_FLIGHT:
                    settle()
            settle()
        return Outcome(sent, errors)

    def consume(
        self, bootstrap: str, topic: str, count: int, *, partition: int = 0, offset: int = 0
    ) -> list[Sent]:
        found: list[Sent] = []
        with closing(_consumer(bootstrap)) as consumer:
            assigned = TopicPartition(topic, partition)
            consumer.assign([assigned])
            consumer.seek(assigned, offset)

            def read() -> bool:
                for records in consumer.poll(200, count - len(found)).values():
                    found.extend(map(_sent, records))
                return len(found) >= count

            eventually(read, f"{count} records of {topic}", WITHIN_S, every=0)
        return found

    def offset_at(self, bootstrap: str, topic: str, timestamp: int) -> int | None:
        with closing(_consumer(bootstrap)) as consumer:
            (found,) = consumer.offsets_for_times({TopicPartition(topic, 0): timestamp}).values()
        return None if found is None else int(found.offset)

    def range_of(self, bootstrap: str, topic: str, partition: int = 0) -> tuple[int, int]:
        wanted = TopicPartition(topic, partition)
        with closing(_consumer(bootstrap)) as consumer:
            return consumer.beginning_offsets([wanted])[wanted], consumer.end_offsets([wanted])[wanted]


def _producer(bootstrap: str, codec: str) -> Any:
    compression = None if codec == "none" else codec
    return KafkaProducer(
        bootstrap_servers=bootstrap.split(","),
        compression_type=compression,
        acks="all",
        enable_idempotence=True,
    )


def _consumer(bootstrap: str) -> Any:
    return KafkaConsumer(
        bootstrap_servers=bootstrap.split(","),
        auto_offset_reset="none",
        enable_auto_commit=False,
        group_id=None,
    )


def _sent(record: Any) -> Sent:
    return Sent(record.value, record.key, tuple(record.headers), record.timestamp)
