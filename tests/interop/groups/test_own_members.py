"""Ottla's consumer in groups, on both brokers: alone, with its like, and beside members of other clients."""

from __future__ import annotations

import asyncio
import threading
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AioRange
from confluent_kafka import Consumer

import ottla
from ottla.client.blocking.group_consumer import GroupConsumer
from tests.client.group.grouping import COOPERATIVE, EAGER, KIP_848, PROTOCOLS
from tests.interop.brokers import Broker
from tests.interop.waiting import eventually

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer
    from kafka.coordinator.assignors.range import RangePartitionAssignor as PythonRange

PARTITIONS = 6
COUNT = 300
Seen = set[tuple[int, int]]


class Joined(Protocol):
    """A member of a group, whoever wrote it; in a thread of its own, until it leaves."""

    def owned(self) -> set[int]: ...


class ThreadedMember:
    """One whose client is polled in a thread; `step` polls, gives what has come, and what is owned."""

    def __init__(self, step: Callable[[], tuple[list[tuple[int, int]], set[int]]], seen: Seen) -> None:
        self._step = step
        self._seen = seen
        self._owned: set[int] = set()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ends.is_set():
            found, self._owned = self._step()
            self._seen.update(found)

    def owned(self) -> set[int]:
        return self._owned

    def stop(self) -> None:
        self._ends.set()
        self._thread.join()


@contextmanager
def ottlas(bootstrap: str, topic: str, group: str, seen: Seen, options: dict[str, Any]) -> Iterator[Joined]:
    with ottla.Client(bootstrap, **options) as kafka:
        consumer: GroupConsumer = kafka.consume(topic, group=group)

        def step() -> tuple[list[tuple[int, int]], set[int]]:
            found = [(record.partition, record.offset) for record in consumer.poll(20, timeout=0.1)]
            return found, {tp.partition for tp in consumer.assignment()}

        member = ThreadedMember(step, seen)
        try:
            yield member
        finally:
            member.stop()
            consumer.close()


@contextmanager
def confluents(
    bootstrap: str, topic: str, group: str, seen: Seen, options: dict[str, Any]
) -> Iterator[Joined]:
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
    }
    if options.get("group_protocol") == "consumer":
        settings["group.protocol"] = "consumer"
    else:
        settings["session.timeout.ms"] = 6000
        settings["heartbeat.interval.ms"] = 100
        settings["partition.assignment.strategy"] = options["partition_assignment_strategy"]
    consumer = Consumer(settings)
    consumer.subscribe([topic])

    def step() -> tuple[list[tuple[int, int]], set[int]]:
        found = [
            (int(each.partition() or 0), int(each.offset() or 0))
            for each in consumer.consume(20, timeout=0.1)
            if not each.error()
        ]
        return found, {each.partition for each in consumer.assignment()}

    member = ThreadedMember(step, seen)
    try:
        yield member
    finally:
        member.stop()
        consumer.close()


@contextmanager
def kafka_pythons(
    bootstrap: str, topic: str, group: str, seen: Seen, options: dict[str, Any]
) -> Iterator[Joined]:
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        session_timeout_ms=6000,
        heartbeat_interval_ms=100,
        partition_assignment_strategy=[PythonRange],
    )

    def step() -> tuple[list[tuple[int, int]], set[int]]:
        found = consumer.poll(100, max_records=20)
        records = [(each.partition, each.offset) for part in found.values() for each in part]
        return records, {each.partition for each in consumer.assignment()}

    member = ThreadedMember(step, seen)
    try:
        yield member
    finally:
        member.stop()
        consumer.close()


@contextmanager
def aiokafkas(
    bootstrap: str, topic: str, group: str, seen: Seen, options: dict[str, Any]
) -> Iterator[Joined]:
    loop = asyncio.new_event_loop()

    async def begin() -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            session_timeout_ms=6000,
            heartbeat_interval_ms=100,
            partition_assignment_strategy=[AioRange],
        )
        await consumer.start()
        return consumer

    begun: list[AIOKafkaConsumer] = []

    def step() -> tuple[list[tuple[int, int]], set[int]]:
        if not begun:
            begun.append(loop.run_until_complete(begin()))
        found = loop.run_until_complete(begun[0].getmany(timeout_ms=100, max_records=20))
        records = [(each.partition, each.offset) for part in found.values() for each in part]
        return records, {each.partition for each in begun[0].assignment()}

    member = ThreadedMember(step, seen)
    try:
        yield member
    finally:
        member.stop()
        for consumer in begun:
            loop.run_until_complete(consumer.stop())
        loop.close()


def filled(broker: Broker) -> str:
    topic = broker.create_topic(PARTITIONS)
    with ottla.Client(broker.bootstrap) as kafka:
        for number in range(COUNT):
            kafka.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    return topic


def share(members: list[Joined], within: float = 60.0) -> None:
    def shared() -> bool:
        owned = [each for member in members for each in member.owned()]
        return all(member.owned() for member in members) and sorted(owned) == list(range(PARTITIONS))

    eventually(shared, f"{len(members)} members to share {PARTITIONS} partitions", within=within)


def everything() -> Seen:
    return {(number % PARTITIONS, number // PARTITIONS) for number in range(COUNT)}


FOREIGN = {
    "confluent-kafka-eager": (confluents, EAGER),
    "confluent-kafka-cooperative": (confluents, COOPERATIVE),
    "confluent-kafka-848": (confluents, KIP_848),
    "kafka-python": (kafka_pythons, EAGER),
    "aiokafka": (aiokafkas, EAGER),
}


@pytest.mark.parametrize("options", PROTOCOLS.values(), ids=PROTOCOLS)
def test_members_come_and_go_and_everything_is_read(quick: Broker, options: dict[str, Any]) -> None:
    topic, group = filled(quick), f"own-{uuid.uuid4()}"
    seen: Seen = set()
    with ottlas(quick.bootstrap, topic, group, seen, options) as one:
        share([one])
        with ottlas(quick.bootstrap, topic, group, seen, options) as two:
            share([one, two])
            with ottlas(quick.bootstrap, topic, group, seen, options) as three:
                share([one, two, three])
            share([one, two])
        share([one])
        eventually(lambda: seen == everything(), "all records to be read", within=60)


@pytest.mark.parametrize(("foreign", "options"), FOREIGN.values(), ids=FOREIGN)
def test_members_of_other_clients_share_a_group_with_ours(
    quick: Broker, foreign: Callable[..., Any], options: dict[str, Any]
) -> None:
    topic, group = filled(quick), f"mixed-{uuid.uuid4()}"
    seen: Seen = set()
    with ottlas(quick.bootstrap, topic, group, seen, options) as ours:
        share([ours])
        # Ours leads and assigns: also to members that it did not write.
        with foreign(quick.bootstrap, topic, group, seen, options) as theirs:
            share([ours, theirs])
            with ottlas(quick.bootstrap, topic, group, seen, options) as third:
                share([ours, theirs, third])
            share([ours, theirs])
        share([ours])
    with foreign(quick.bootstrap, topic, group, seen, options) as theirs:
        share([theirs])
        # And the other way round: theirs leads.
        with ottlas(quick.bootstrap, topic, group, seen, options) as ours:
            share([theirs, ours])
        share([theirs])
        eventually(lambda: seen == everything(), "all records to be read", within=60)


def test_all_clients_together_are_one_group(quick: Broker) -> None:
    topic, group = filled(quick), f"all-{uuid.uuid4()}"
    seen: Seen = set()
    with ExitStack() as stack:
        members: list[Joined] = []
        for join in (ottlas, confluents, kafka_pythons, aiokafkas):
            members.append(stack.enter_context(join(quick.bootstrap, topic, group, seen, EAGER)))
            share(members)
        eventually(lambda: seen == everything(), "all records to be read", within=60)
