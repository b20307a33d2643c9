"""Ottla's client while leaders move and nodes come and go: nothing is lost, nothing comes twice, in order.

A producer streams from one thread and a consumer reads along in another, each with a client of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import ottla
from ottla.client.topic_partition import TopicPartition
from tests.interop.brokers import Broker
from tests.interop.peers import PEERS, Outcome
from tests.interop.peers.by_ottla import Ottla
from tests.interop.waiting import eventually

PARTITIONS = 3
AT_LEAST = 200_000
DURABLE = {"min.insync.replicas": "2"}
WITHIN_S = 90.0
OWN = Ottla()
CONFLUENT = PEERS[0]


class Stream:
    """A producer and a consumer at work in threads, and how far they have come."""

    def __init__(self, broker: Broker, topic: str, pool: ThreadPoolExecutor) -> None:
        self.read: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
        self._broker = broker
        self._topic = topic
        self._number = 0
        self._wanted: int | None = None
        self._pace = threading.Event()
        self._outcome = pool.submit(OWN.stream, broker.bootstrap, topic, PARTITIONS, self._more)
        self._reading = pool.submit(self._read)

    def wait_for_more(self, records: int = 2000) -> None:
        """Until so many more were sent and read: the next disturbance meets both at work."""
        sent, read = self._number + records, self._count() + records
        eventually(
            lambda: self._is_over() or (self._number >= sent and self._count() >= read),
            f"record {sent} to be sent and {read} to be read",
            within=WITHIN_S,
        )

    def finish(self) -> Outcome:
        """Lets the producer send what is missing of AT_LEAST, and the consumer read to the end."""
        self._wanted = max(AT_LEAST, self._number + 1)
        try:
            outcome = self._outcome.result(WITHIN_S)
            self._wanted = outcome.sent
            eventually(
                lambda: self._reading.done() or self._count() >= outcome.sent, "all to be read", WITHIN_S
            )
        finally:
            self._pace.set()
        self._reading.result(WITHIN_S)
        return outcome

    def _more(self, number: int) -> bool:
        self._number = number
        if self._wanted is None and number % 20 == 0:
            # A stream at some pace: so many records that one disturbance after the other fits in.
            self._pace.wait(0.001)
        return (self._wanted is None or number < self._wanted) and not self._pace.is_set()

    def _read(self) -> None:
        with (
            ottla.Client(self._broker.bootstrap) as kafka,
            kafka.consume(self._topic, start="earliest") as consumer,
        ):
            while not self._pace.is_set():
                for record in consumer.poll(10_000, timeout=0.1):
                    self.read[record.partition].append(int(record.value))

    def _count(self) -> int:
        return sum(map(len, self.read.values()))

    def _is_over(self) -> bool:
        return self._outcome.done() or self._reading.done()


@contextmanager
def streaming(broker: Broker) -> Iterator[tuple[str, Stream]]:
    """Every number that was sent is there once, in order, and was read once, in order."""
    topic = broker.create_topic(PARTITIONS, DURABLE)
    with ThreadPoolExecutor(2) as pool:
        stream = Stream(broker, topic, pool)
        try:
            stream.wait_for_more()
            yield topic, stream
            stream.wait_for_more()
        finally:
            outcome = stream.finish()
    assert outcome.errors == []
    assert outcome.sent >= AT_LEAST
    for partition in range(PARTITIONS):
        wanted = list(range(partition, outcome.sent, PARTITIONS))
        assert stream.read[partition] == wanted
        # As a client that nobody here wrote sees it.
        assert CONFLUENT.range_of(broker.bootstrap, topic, partition) == (0, len(wanted))
    theirs = CONFLUENT.consume(broker.bootstrap, topic, len(stream.read[0]), partition=0)
    assert [int(record.value or b"") for record in theirs] == stream.read[0]


def test_moving_leaders_loses_and_doubles_nothing(broker3: Broker) -> None:
    with streaming(broker3) as (topic, stream):
        for turn in range(6):
            partition = turn % PARTITIONS
            others = [node for node in broker3.node_ids if node != broker3.leader(topic, partition)]
            broker3.move_leader(topic, partition, others[turn % len(others)])
            stream.wait_for_more()


def test_leaders_that_we_have_elected_ourselves_are_followed(broker3: Broker) -> None:
    with streaming(broker3) as (topic, stream), ottla.Client(broker3.bootstrap) as kafka:
        partitions = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        described = kafka.admin.describe_topic(topic).partitions
        turned = {
            partition: [*view.replicas[1:], view.replicas[0]]
            for partition, view in zip(partitions, described, strict=True)
        }
        kafka.admin.alter_partition_reassignments(turned)
        eventually(lambda: not kafka.admin.list_partition_reassignments(partitions), "all to be moved")
        kafka.admin.elect_leaders(partitions)
        stream.wait_for_more()
        wanted = [order[0] for order in turned.values()]
        eventually(
            lambda: [view.leader for view in kafka.admin.describe_topic(topic).partitions] == wanted,
            "every node to know the leaders",
        )


def test_restarting_a_node_loses_and_doubles_nothing(broker3: Broker) -> None:
    with streaming(broker3) as (topic, stream):
        broker3.restart(broker3.leader(topic, 0), topic, PARTITIONS)
        stream.wait_for_more()
