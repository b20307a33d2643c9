"""What tests of transactions on failing clusters share: nodes that go and come back, readers of committed numbers."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

import ottla
from tests.interop import confluent
from tests.interop.brokers import Broker
from tests.interop.transactions.producer import STATE_TOPIC
from tests.interop.waiting import eventually

OFFSETS_TOPIC = "__consumer_offsets"
DURABLE = {"min.insync.replicas": "2"}
_END_S = 120.0


def make_durable(broker: Broker, group: str) -> None:
    """The offsets of groups are on two nodes before they count as committed; Kafka's default is one."""
    with ottla.Client(broker.bootstrap) as kafka:
        # Whoever looks for a coordinator has the topic made.
        kafka.admin.group_offsets(group)
        kafka.admin.alter_configs(topic=OFFSETS_TOPIC, set=DURABLE)


def bounce_brokers(
    broker: Broker,
    nodes: Sequence[int],
    hard: bool,
    topics: Sequence[str],
    while_down: Callable[[], None] = lambda: None,
) -> None:
    """One node after the other goes and comes back; the next goes when all replicas are in sync again."""
    for node in nodes:
        if hard:
            broker.kill_node(node)
            broker.wait_until_fenced(node)
        else:
            broker.stop_node(node)
        while_down()
        broker.start_node(node)
        for topic in (*topics, STATE_TOPIC, OFFSETS_TOPIC):
            broker.wait_until_in_sync(topic, confluent.partitions(broker.bootstrap, topic))


class CommittedReader:
    """confluent-kafka, which follows a topic of numbers in a thread of its own, from its beginning."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.values: list[int] = []
        self._stop = threading.Event()
        self._consumer = _consumer(bootstrap, topic)
        self._thread = threading.Thread(target=self._read)

    def _read(self) -> None:
        while not self._stop.is_set():
            for message in self._consumer.consume(1000, 0.2):
                if message.error() is None:
                    self.values.append(int(message.value() or b""))

    def __enter__(self) -> CommittedReader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    def wait_for(self, count: int, within: float) -> None:
        try:
            eventually(lambda: len(self.values) >= count, f"{count} records", within, every=0.1)
        except TimeoutError as error:
            raise TimeoutError(f"{error}: {len(self.values)} were read") from None


def committed_numbers(bootstrap: str, topic: str) -> list[int]:
    """All that is committed in the topic, by confluent-kafka. Nothing writes to it any more."""
    _wait_until_nothing_is_open(bootstrap, topic)
    unread = set(range(confluent.partitions(bootstrap, topic)))
    values: list[int] = []
    consumer = _consumer(bootstrap, topic, **{"enable.partition.eof": True})

    def is_read() -> bool:
        for message in consumer.consume(1000, 0.2):
            error = message.error()
            if error is None:
                values.append(int(message.value() or b""))
            elif error.code() == KafkaError._PARTITION_EOF:
                unread.discard(message.partition())
            else:
                raise KafkaException(error)
        return not unread

    try:
        eventually(is_read, f"the end of {topic}", _END_S, every=0)
    finally:
        consumer.close()
    return values


def _wait_until_nothing_is_open(bootstrap: str, topic: str) -> None:
    """Until the last marker is written: a reader of committed records has the same end as any other."""
    with ottla.Client(bootstrap) as kafka:
        eventually(
            lambda: (
                kafka.admin.list_offsets(topic, isolation="read_committed")
                == kafka.admin.list_offsets(topic, isolation="read_uncommitted")
            ),
            f"the last transaction in {topic} to end",
            _END_S,
        )


def _consumer(bootstrap: str, topic: str, **settings: object) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader-{uuid.uuid4().hex[:8]}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "log_level": 0,
            **settings,
        }
    )
    partitions = range(confluent.partitions(bootstrap, topic))
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
    return consumer
