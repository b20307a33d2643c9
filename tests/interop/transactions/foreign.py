"""Transactions of clients that nobody here wrote, behind the same few words: write, read, and copy exactly once."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol, TypeVar

import aiokafka
import confluent_kafka

# It reads its schemas in a way that Python 3.11 calls outdated.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    from kafka.structs import OffsetAndMetadata

_T = TypeVar("_T")

WITHIN_S = 60.0
Transactions = Sequence[tuple[Sequence[bytes], bool]]
"""The values of each transaction, and whether it is committed."""


class ForeignClient(Protocol):
    """A client of partition 0."""

    name: str

    def write(self, bootstrap: str, transactional_id: str, topic: str, transactions: Transactions) -> None:
        """One transaction after the other."""

    def read_until(self, bootstrap: str, topic: str, last: bytes, *, committed: bool) -> list[bytes]:
        """The values from the beginning up to this one."""

    def copy(
        self,
        bootstrap: str,
        transactional_id: str,
        group: str,
        source: str,
        target: str,
        *,
        count: int,
        commit: bool,
    ) -> list[bytes]:
        """The group's next records, copied in one transaction with their offsets; what was read."""


class ConfluentTransactions:
    name = "confluent-kafka"

    def write(self, bootstrap: str, transactional_id: str, topic: str, transactions: Transactions) -> None:
        producer = self._producer(bootstrap, transactional_id)
        for values, commit in transactions:
            producer.begin_transaction()
            for value in values:
                producer.produce(topic, value, partition=0)
            assert producer.flush(WITHIN_S) == 0
            if commit:
                producer.commit_transaction(WITHIN_S)
            else:
                producer.abort_transaction(WITHIN_S)

    def read_until(self, bootstrap: str, topic: str, last: bytes, *, committed: bool) -> list[bytes]:
        level = "read_committed" if committed else "read_uncommitted"
        consumer = self._consumer(bootstrap, "reader", level)
        try:
            consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
            found: list[bytes] = []
            while not found or found[-1] != last:
                found.append(_next_value(consumer))
            return found
        finally:
            consumer.close()

    def copy(
        self,
        bootstrap: str,
        transactional_id: str,
        group: str,
        source: str,
        target: str,
        *,
        count: int,
        commit: bool,
    ) -> list[bytes]:
        producer = self._producer(bootstrap, transactional_id)
        consumer = self._consumer(bootstrap, group, "read_committed")
        try:
            consumer.subscribe([source])
            producer.begin_transaction()
            values = [_next_value(consumer) for _ in range(count)]
            for value in values:
                producer.produce(target, value, partition=0)
            producer.send_offsets_to_transaction(
                consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), WITHIN_S
            )
            if commit:
                producer.commit_transaction(WITHIN_S)
            else:
                producer.abort_transaction(WITHIN_S)
            return values
        finally:
            consumer.close()

    @staticmethod
    def _producer(bootstrap: str, transactional_id: str) -> Any:
        settings = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "log_level": 0}
        producer = confluent_kafka.Producer(settings)
        producer.init_transactions(WITHIN_S)
        return producer

    @staticmethod
    def _consumer(bootstrap: str, group: str, level: str) -> Any:
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "isolation.level": level,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
        return confluent_kafka.Consumer(settings)


def _next_value(consumer: Any) -> bytes:
    message = consumer.poll(WITHIN_S)
    assert message is not None, f"no record within {WITHIN_S:g} s"
    assert message.error() is None, message.error()
    value: bytes = message.value()
    return value


class AioKafkaTransactions:
    name = "aiokafka"

    def write(self, bootstrap: str, transactional_id: str, topic: str, transactions: Transactions) -> None:
        async def body() -> None:
            async with aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap, transactional_id=transactional_id
            ) as producer:
                for values, commit in transactions:
                    await producer.begin_transaction()
                    for value in values:
                        await producer.send_and_wait(topic, value, partition=0)
                    await (producer.commit_transaction() if commit else producer.abort_transaction())

        _run(body())

    def read_until(self, bootstrap: str, topic: str, last: bytes, *, committed: bool) -> list[bytes]:
        async def body() -> list[bytes]:
            level = "read_committed" if committed else "read_uncommitted"
            consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level=level)
            async with consumer:
                partition = aiokafka.TopicPartition(topic, 0)
                consumer.assign([partition])
                await consumer.seek_to_beginning(partition)
                found: list[bytes] = []
                while not found or found[-1] != last:
                    found.append((await consumer.getone()).value)
                return found

        return _run(body())

    def copy(
        self,
        bootstrap: str,
        transactional_id: str,
        group: str,
        source: str,
        target: str,
        *,
        count: int,
        commit: bool,
    ) -> list[bytes]:
        async def body() -> list[bytes]:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap, transactional_id=transactional_id
            )
            consumer = aiokafka.AIOKafkaConsumer(
                source,
                bootstrap_servers=bootstrap,
                group_id=group,
                isolation_level="read_committed",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
            )
            async with producer:
                # Before the group's offsets are asked for: it waits until the last transaction has ended.
                await producer.begin_transaction()
                async with consumer:
                    records = [await consumer.getone() for _ in range(count)]
                    for record in records:
                        await producer.send_and_wait(target, record.value, partition=0)
                    partition = aiokafka.TopicPartition(source, 0)
                    await producer.send_offsets_to_transaction({partition: records[-1].offset + 1}, group)
                    await (producer.commit_transaction() if commit else producer.abort_transaction())
                    return [record.value for record in records]

        return _run(body())


def _run(body: Coroutine[Any, Any, _T]) -> _T:
    async def bounded() -> _T:
        async with asyncio.timeout(WITHIN_S):
            return await body

    return asyncio.run(bounded())


class KafkaPythonTransactions:
    name = "kafka-python"

    def write(self, bootstrap: str, transactional_id: str, topic: str, transactions: Transactions) -> None:
        producer = self._producer(bootstrap, transactional_id)
        try:
            for values, commit in transactions:
                producer.begin_transaction()
                for value in values:
                    producer.send(topic, value, partition=0)
                producer.flush(WITHIN_S)
                if commit:
                    producer.commit_transaction()
                else:
                    producer.abort_transaction()
        finally:
            producer.close(WITHIN_S)

    def read_until(self, bootstrap: str, topic: str, last: bytes, *, committed: bool) -> list[bytes]:
        level = "read_committed" if committed else "read_uncommitted"
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap, isolation_level=level, consumer_timeout_ms=WITHIN_S * 1000
        )
        try:
            partition = kafka.TopicPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek_to_beginning(partition)
            found: list[bytes] = []
            for record in consumer:
                found.append(record.value)
                if record.value == last:
                    return found
            raise TimeoutError(f"{last!r} did not come, after {found}")
        finally:
            consumer.close()

    def copy(
        self,
        bootstrap: str,
        transactional_id: str,
        group: str,
        source: str,
        target: str,
        *,
        count: int,
        commit: bool,
    ) -> list[bytes]:
        producer = self._producer(bootstrap, transactional_id)
        consumer = kafka.KafkaConsumer(
            source,
            bootstrap_servers=bootstrap,
            group_id=group,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            consumer_timeout_ms=WITHIN_S * 1000,
        )
        try:
            producer.begin_transaction()
            records = [next(consumer) for _ in range(count)]
            for record in records:
                producer.send(target, record.value, partition=0)
            producer.flush(WITHIN_S)
            offset = OffsetAndMetadata(records[-1].offset + 1, "", -1)
            producer.send_offsets_to_transaction(
                {kafka.TopicPartition(source, 0): offset}, consumer.group_metadata()
            )
            if commit:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
            return [record.value for record in records]
        finally:
            producer.close(WITHIN_S)
            consumer.close()

    @staticmethod
    def _producer(bootstrap: str, transactional_id: str) -> Any:
        producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
        producer.init_transactions()
        return producer


FOREIGN: tuple[ForeignClient, ...] = (
    ConfluentTransactions(),
    AioKafkaTransactions(),
    KafkaPythonTransactions(),
)
