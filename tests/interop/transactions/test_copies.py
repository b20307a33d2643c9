"""Copies of a topic in transactions, while brokers or copiers are bounced: every record is there, once, in order.

The transactional copy of Kafka's system tests. `make copies` runs all of it with as many records as there
(COPY_RECORDS=N); a reader of committed records follows the copy and another reads it at the end.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import product

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tests.interop import confluent
from tests.interop.brokers import ApacheBroker, Broker, EmbeddedBroker
from tests.interop.transactions.copier import Copier
from tests.interop.transactions.producer import STATE_TOPIC
from tests.interop.waiting import eventually

IS_WHOLE = "OTTLA_COPY_RECORDS" in os.environ
RECORDS = int(os.environ.get("OTTLA_COPY_RECORDS", "1500"))
WITHIN_S = 300.0 + RECORDS / 100
OFFSETS = "__consumer_offsets"
SIZE = 750 if IS_WHOLE else 50
BOUNCES = (1, 2, 3) if IS_WHOLE else (2,)
"""When copiers are bounced: so many fifths of the records have been copied."""


class Reader:
    """A reader of committed records, in a thread of its own."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.values: list[int] = []
        self._stop = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"reader-{uuid.uuid4().hex[:8]}",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        partitions = range(confluent.partitions(bootstrap, topic))
        self._consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        self._thread = threading.Thread(target=self._read)

    def _read(self) -> None:
        while not self._stop.is_set():
            for message in self._consumer.consume(1000, 0.2):
                if message.error() is None:
                    self.values.append(int(message.value() or b""))

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    def wait_for(self, count: int) -> None:
        eventually(
            lambda: len(self.values) >= count, f"{count} records, of {len(self.values)}", WITHIN_S, every=0.1
        )


@dataclass(frozen=True)
class Copy:
    """Copiers at work on a topic full of numbers, and a reader of what they write."""

    bootstrap: str
    source: str
    target: str
    copiers: list[Copier]
    following: Reader
    ordered: bool

    def check(self) -> None:
        """Until all is copied; each number once, for the reader that followed and for one that comes afterwards."""
        self.following.wait_for(RECORDS)
        for copier in self.copiers:
            copier.stop()
        with Reader(self.bootstrap, self.target) as afterwards:
            afterwards.wait_for(RECORDS)
            self._check(afterwards.values)
        self._check(self.following.values)

    def _check(self, values: list[int]) -> None:
        assert len(values) == len(set(values)), "records were copied twice"
        assert sorted(values) == list(range(RECORDS)), "records are missing"
        if self.ordered:
            assert values == list(range(RECORDS))


@contextmanager
def copying(broker: Broker, client: str, ordered: bool) -> Iterator[Copy]:
    """As in the system tests: one partition to one where the order counts, else two to three with two copiers."""
    sources, targets = (1, 1) if ordered else (2, 3)
    safe = {"min.insync.replicas": "2"}
    source, target = broker.create_topic(sources, safe), broker.create_topic(targets, safe)
    numbers = [str(number).encode() for number in range(RECORDS)]
    confluent.produce(broker.bootstrap, source, numbers, within=120, idempotent=True)
    group = f"copy-{uuid.uuid4().hex[:12]}"
    with ExitStack() as stack:
        following = stack.enter_context(Reader(broker.bootstrap, target))
        copiers = [
            stack.enter_context(
                Copier(client, broker.bootstrap, group, f"{group}-{number}", source, target, str(SIZE))
            )
            for number in range(sources)
        ]
        yield Copy(broker.bootstrap, source, target, copiers, following, ordered)


def bounce_copiers(copiers: list[Copier], hard: bool) -> None:
    for copier in copiers:
        if hard:
            copier.kill()
        else:
            copier.stop()
        copier.start()


def bounce_brokers(broker: Broker, hard: bool, topics: list[str]) -> None:
    """One node after the other goes and comes back; the next goes when it is in sync again."""
    for node in broker.node_ids:
        if hard:
            broker.kill_node(node)
            broker.wait_until_fenced(node)
        else:
            broker.stop_node(node)
        broker.start_node(node)
        for topic in topics:
            broker.wait_until_in_sync(topic, confluent.partitions(broker.bootstrap, topic))


IN_EVERY_RUN = {(True, "ottla", "confluent-kafka"), (False, "apache", "ottla")}
"""Whether brokers are bounced, the kind of cluster, the client."""


def cases(*, of_brokers: bool) -> list[object]:
    """Kind of cluster, client, hard, ordered: all of them, of which one for each cluster is in every run.

    There the client is not of the cluster's house: each is tried against what others have written.
    """
    found: list[object] = []
    for kind, client, hard, ordered in product(
        ("ottla", "apache"), ("confluent-kafka", "ottla"), (True, False), (True, False)
    ):
        in_every_run = hard and not ordered and (of_brokers, kind, client) in IN_EVERY_RUN
        mark = [pytest.mark.kafka] if kind == "apache" else []
        found.append(
            pytest.param(
                *(kind, client, hard, ordered),
                id=f"{kind}-by-{client}-{'hard' if hard else 'clean'}-{'ordered' if ordered else 'unordered'}",
                marks=mark if in_every_run else [pytest.mark.kafka_full],
            )
        )
    return found


@pytest.fixture
def bounced(request: pytest.FixtureRequest) -> Broker:
    """A cluster of three nodes, of either kind, which notices soon that a node has gone."""
    if request.param == "ottla":
        return EmbeddedBroker(request.getfixturevalue("alert3"))
    return ApacheBroker(request.getfixturevalue("apache3"))


@pytest.mark.parametrize(
    ("bounced", "client", "hard", "ordered"), cases(of_brokers=False), indirect=["bounced"]
)
def test_every_record_is_copied_once_while_copiers_are_bounced(
    bounced: Broker, client: str, hard: bool, ordered: bool
) -> None:
    with copying(bounced, client, ordered) as copy:
        for share in BOUNCES:
            copy.following.wait_for(RECORDS * share // 5)
            bounce_copiers(copy.copiers, hard)
        copy.check()


@pytest.mark.parametrize(
    ("bounced", "client", "hard", "ordered"), cases(of_brokers=True), indirect=["bounced"]
)
def test_every_record_is_copied_once_while_brokers_are_bounced(
    bounced: Broker, client: str, hard: bool, ordered: bool
) -> None:
    with copying(bounced, client, ordered) as copy:
        copy.following.wait_for(RECORDS // 10)
        bounce_brokers(bounced, hard, [copy.source, copy.target, STATE_TOPIC, OFFSETS])
        copy.check()
