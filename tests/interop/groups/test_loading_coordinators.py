"""Members of librdkafka and kafka-python at a coordinator that takes long to load: they wait, and lose nothing.

Only the embedded cluster can be made to hold a load; what it answers meanwhile is in tests/client/group.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import ottla
from ottla import TopicPartition
from ottla.broker import Cluster
from ottla.broker.coordinator import runtime as coordinators
from tests.client.group.grouping import QUICK
from tests.interop.groups.confluent_member import ConfluentMember
from tests.interop.waiting import eventually

# It reads its schemas in a way that Python 3.11 calls outdated.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer

OFFSETS = "__consumer_offsets"
NUMBERS = [b"%d" % number for number in range(20)]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    config = {
        **QUICK,
        "offsets.topic.replication.factor": "2",
        "group.consumer.session.timeout.ms": "45000",
        "group.consumer.max.session.timeout.ms": "60000",
    }
    with Cluster(2, topics={"orders": 2}, config=config) as cluster:
        for partition in range(2):
            cluster.seed("orders", NUMBERS, partition)
        yield cluster


class SlowMove:
    """Moves the coordinator of all groups to the other node, where the load begins with `let_go` only."""

    def __init__(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        self._cluster = cluster
        self._gate = asyncio.Event()
        self._waiting = 0
        load = coordinators._LedPartition.load

        async def held(led: Any) -> None:
            self._waiting += 1
            await self._gate.wait()
            await load(led)

        cluster.wait_until_in_sync(OFFSETS)
        monkeypatch.setattr(coordinators._LedPartition, "load", held)
        old = cluster.leader(OFFSETS)
        cluster.move_leader(OFFSETS, 0, next(node for node in (1, 2) if node != old))
        eventually(lambda: self._waiting == 1, "the load to begin")

    def let_go(self) -> None:
        self._cluster.call(self._gate.set)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_of_librdkafka_waits(
    cluster: Cluster, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ConfluentMember(cluster.bootstrap, "billing", protocol, "orders") as member:
        member.owns(2)
        eventually(lambda: len(member.read) == 40, "all records")
        slow = SlowMove(cluster, monkeypatch)
        cluster.seed("orders", NUMBERS)
        eventually(lambda: len(member.read) == 60, "what it owns is read on")
        slow.let_go()
        cluster.seed("orders", NUMBERS, 1)
        eventually(lambda: len(member.read) == 80, "and after the load")
        assert len(set(member.read)) == 80, "it has kept its place"
        # Its commits, which go on by themselves, arrive.
        wanted = dict.fromkeys([TopicPartition("orders", 0), TopicPartition("orders", 1)], 40)
        with ottla.Client(cluster.bootstrap) as kafka:
            outside = kafka.consume("orders", group="billing")
            eventually(lambda: outside.committed(*wanted) == wanted, "all to be committed", within=60)


def test_a_member_of_kafka_python_waits(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=cluster.bootstrap,
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=30_000,
        heartbeat_interval_ms=200,
    )
    read: list[tuple[int, int]] = []

    def has_read(count: int) -> bool:
        for records in consumer.poll(timeout_ms=200).values():
            read.extend((record.partition, record.offset) for record in records)
        return len(read) == count

    try:
        eventually(lambda: has_read(40), "all records", within=60)
        consumer.commit()
        slow = SlowMove(cluster, monkeypatch)
        cluster.seed("orders", NUMBERS)
        eventually(lambda: has_read(60), "what it owns is read on", within=60)
        slow.let_go()
        consumer.commit()
        cluster.seed("orders", NUMBERS, 1)
        eventually(lambda: has_read(80), "and after the load", within=60)
        assert len(set(read)) == 80
    finally:
        consumer.close()
