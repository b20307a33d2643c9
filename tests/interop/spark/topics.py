"""The topics that the cases share: filled once, read by both connectors, changed by nobody.

Times and keys are fixed, so that timestamps can stand in options and partitions in outcomes. Written by
confluent-kafka, which neither connector has a part in.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.interop.waiting import eventually

FIRST_MS = 1_700_000_000_000
STEP_MS = 1000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_WITHIN_S = 30.0
# The records' times are long past: retention would delete them.
_KEPT = {"retention.ms": "-1"}


@dataclass(frozen=True)
class Entry:
    """A record to write."""

    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    headers: list[tuple[str, str | bytes | None]] = field(default_factory=list)
    time: int = FIRST_MS


def entries(count: int, partition: int = 0, first: int = 0) -> list[Entry]:
    """Records a second apart, some without a key, without a value, with headers of every kind."""
    return [_entry(number, partition) for number in range(first, first + count)]


def _entry(number: int, partition: int) -> Entry:
    headers: list[tuple[str, str | bytes | None]] = [("a", b"1"), ("b", None), ("a", b"")]
    return Entry(
        value=None if number % 7 == 3 else b"value-%d-%d" % (partition, number),
        key=None if number % 5 == 0 else b"key-%d" % number,
        partition=partition,
        headers=headers[: number % 4],
        time=FIRST_MS + number * STEP_MS,
    )


class Topics:
    """Makes and changes topics of one cluster."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._open: list[Producer] = []

    def create(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        settings = {**_KEPT, **(config or {})}
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=settings)
        self._admin.create_topics([topic])[name].result(timeout=_WITHIN_S)
        self._await_partitions(name, partitions)

    def delete(self, name: str) -> None:
        self._admin.delete_topics([name])[name].result(timeout=_WITHIN_S)
        eventually(
            lambda: name not in self._admin.list_topics(timeout=_WITHIN_S).topics, f"no {name}", _WITHIN_S
        )

    def grow(self, name: str, partitions: int) -> None:
        self._admin.create_partitions([NewPartitions(name, partitions)])[name].result(timeout=_WITHIN_S)
        self._await_partitions(name, partitions)

    def trim(self, name: str, before: int, partition: int = 0) -> None:
        """Delete the records of a partition that are before an offset."""
        wanted = TopicPartition(name, partition, before)
        for future in self._admin.delete_records([wanted]).values():
            future.result(timeout=_WITHIN_S)

    def write(self, name: str, records: Iterable[Entry], codec: str = "none") -> None:
        producer = Producer(self._settings({"compression.type": codec}))
        self._send(producer, name, records)

    def transact(self, name: str, records: Iterable[Entry], outcome: str) -> None:
        """One transaction: committed, aborted, or left open for as long as these topics are used."""
        producer = self.begin(name, records)
        if outcome == "committed":
            producer.commit_transaction(_WITHIN_S)
        elif outcome == "aborted":
            producer.abort_transaction(_WITHIN_S)
        else:
            self._open.append(producer)

    def begin(self, name: str, records: Iterable[Entry]) -> Producer:
        """A transaction that has written these records; its producer ends it."""
        settings = {"transactional.id": uuid.uuid4().hex, "transaction.timeout.ms": 900_000}
        producer = Producer(self._settings(settings))
        producer.init_transactions(_WITHIN_S)
        producer.begin_transaction()
        self._send(producer, name, records)
        return producer

    def close(self) -> None:
        for producer in self._open:
            try:
                producer.abort_transaction(_WITHIN_S)
            except KafkaException as error:
                # Kafka itself has ended what was open for longer than transaction.timeout.ms.
                if error.args[0].code() != KafkaError._FENCED:
                    raise

    def _await_partitions(self, name: str, count: int) -> None:
        def known() -> bool:
            topic = self._admin.list_topics(name, timeout=_WITHIN_S).topics[name]
            return topic.error is None and len(topic.partitions) == count

        eventually(known, f"{name} to have {count} partitions", _WITHIN_S)

    def _settings(self, more: Mapping[str, object]) -> dict[str, object]:
        return {"bootstrap.servers": self._bootstrap, "linger.ms": 0, "log_level": 0, **more}

    def _send(self, producer: Producer, name: str, records: Iterable[Entry]) -> None:
        failed: list[object] = []

        def delivered(error: object, _message: object) -> None:
            if error is not None:
                failed.append(error)

        for record in records:
            producer.produce(
                name,
                record.value,
                record.key,
                partition=record.partition,
                headers=record.headers,
                timestamp=record.time,
                on_delivery=delivered,
            )
        if producer.flush(_WITHIN_S) or failed:
            raise KafkaException(failed[0] if failed else TimeoutError(f"writing to {name}"))


def fill_shared(topics: Topics) -> None:
    """All topics whose names begin with `side-`."""
    topics.create("side-plain", partitions=3)
    for partition in range(3):
        topics.write("side-plain", entries(10 * (partition + 1), partition))
    topics.create("side-other")
    topics.write("side-other", entries(5))
    topics.create("side-empty", partitions=2)
    topics.create("side-codecs")
    for number, codec in enumerate(CODECS):
        topics.write("side-codecs", entries(20, first=20 * number), codec)
    topics.create("side-append-time", config={"message.timestamp.type": "LogAppendTime"})
    topics.write("side-append-time", entries(4))
    topics.create("side-trimmed")
    topics.write("side-trimmed", entries(10))
    topics.trim("side-trimmed", before=4)
    _fill_transactions(topics)


def _fill_transactions(topics: Topics) -> None:
    topics.create("side-transactions")
    topics.transact("side-transactions", entries(3), "committed")
    topics.transact("side-transactions", entries(3, first=3), "aborted")
    topics.transact("side-transactions", entries(2, first=6), "committed")
    topics.write("side-transactions", entries(1, first=8))
    topics.create("side-aborted")
    topics.transact("side-aborted", entries(3), "aborted")
    topics.create("side-open")
    topics.transact("side-open", entries(2), "committed")
    topics.transact("side-open", entries(2, first=2), "open")
    topics.write("side-open", entries(1, first=4))
