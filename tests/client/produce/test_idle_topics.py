"""Topics that nothing is produced to any more are forgotten, and found again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

import ottla
from ottla.broker import Cluster
from ottla.broker.server.faults import drop
from ottla.wire.batches import batch_headers
from ottla.wire.records import BufferRetired
from tests.client.produce.producing import Rig, producing, values
from tests.client.worlds import Body, World

Run = Callable[[Body], object]
IDLE = 10


async def until_forgotten(world: World, rig: Rig, topic: str) -> None:
    world.clock.advance(IDLE + 1)
    await asyncio.sleep(0)
    assert topic not in rig.metadata.view.topics


def test_an_idle_topic_is_not_asked_for_and_the_next_record_begins_another_epoch(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, metadata_max_idle_ms=IDLE * 1000) as rig,
        ):
            await rig.producer.produce("orders", b"1")
            await rig.producer.produce("orders", b"2")
            await until_forgotten(world, rig, "orders")
            await rig.producer.produce("orders", b"3")
            assert "orders" in rig.metadata.view.topics
            assert values(cluster, "orders") == [b"1", b"2", b"3"]
            stored = cluster.partition("orders").log.read(0, 1 << 20)
            headers = batch_headers(b"".join(stored.parts))
            assert [(each.base_sequence, each.producer_epoch) for each in headers] == [(0, 0), (1, 0), (0, 1)]

    run(body)


def test_a_topic_that_is_produced_to_now_and_then_is_kept(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, metadata_max_idle_ms=IDLE * 1000) as rig,
        ):
            for number in range(4):
                await rig.producer.produce("orders", b"%d" % number)
                world.clock.advance(IDLE * 0.9)
                await asyncio.sleep(0)
                assert "orders" in rig.metadata.view.topics

    run(body)


def test_a_topic_with_a_record_under_way_is_kept(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, metadata_max_idle_ms=IDLE * 1000) as rig,
        ):
            await rig.producer.produce("orders", b"1")
            cluster.pause_node(1)
            second = rig.producer.produce("orders", b"2")
            world.clock.advance(IDLE * 2)
            await asyncio.sleep(0)
            assert "orders" in rig.metadata.view.topics
            cluster.resume_node(1)
            await second
            assert values(cluster, "orders") == [b"1", b"2"]

    run(body)


def test_partitions_added_in_the_meantime_count_for_the_first_record_after_it(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, metadata_max_idle_ms=IDLE * 1000) as rig,
        ):
            await rig.producer.produce("orders", b"1")
            await until_forgotten(world, rig, "orders")
            await world.client(cluster).admin.create_partitions("orders", 3)
            delivery = rig.producer.produce("orders", b"2", partition=2)
            await rig.producer.flush()
            assert delivery.partition == 2
            assert values(cluster, "orders", 2) == [b"2"]

    run(body)


def test_a_thread_that_appends_the_old_way_is_told_and_nothing_is_appended(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 2}) as cluster,
            producing(world, cluster, metadata_max_idle_ms=IDLE * 1000) as rig,
        ):
            # What a thread has in its hands between looking it up and calling it.
            rig.producer.produce("orders", b"1", partition=0)
            held = rig.producer._topics.appenders["orders"]
            await rig.producer.flush()
            known = rig.producer._topics.appenders["orders"]
            await until_forgotten(world, rig, "orders")
            for late in (held, known):
                for partition in (0, 1):
                    with pytest.raises(BufferRetired):
                        late.append(None, b"2", None, partition, None)
            assert rig.producer.buffered_records == 0
            assert values(cluster, "orders") == [b"1"]

    run(body)


@pytest.mark.parametrize("serializer", [None, lambda value, topic, headers: value])
def test_a_record_that_comes_while_its_topic_is_forgotten_begins_anew(run: Run, serializer: Any) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, value_serializer=serializer, metadata_max_idle_ms=IDLE * 1000) as rig,
        ):
            await rig.producer.produce("orders", b"1")
            stale = rig.producer._topics.appenders["orders"]
            await until_forgotten(world, rig, "orders")

            def meanwhile(*record: Any) -> Any:
                # The thread has looked it up before the loop took it out.
                del rig.producer._topics.appenders["orders"]
                return stale.append(*record)

            rig.producer._topics.appenders["orders"] = SimpleNamespace(append=meanwhile)
            assert (await rig.producer.produce("orders", b"2")).offset == 1

    run(body)


def test_a_topic_that_nothing_is_known_of_is_forgotten_too_and_its_late_records_begin_anew(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, config={"auto.create.topics.enable": False}) as cluster,
            producing(world, cluster, metadata_max_idle_ms=IDLE * 1000) as rig,
        ):
            rig.producer.expect(["orders"])
            unknown = rig.producer._topics.by_name["orders"].unknown
            rig.producer._forget(rig.producer._topics.by_name["orders"])
            assert rig.producer._topics.by_name == {}
            with pytest.raises(BufferRetired):
                unknown.append(None, b"1")

    run(body)


def test_a_topic_with_a_record_that_waits_for_metadata_is_not_forgotten(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1) as cluster,
            producing(world, cluster, metadata_max_idle_ms=IDLE * 1000) as rig,
        ):
            delivery = rig.producer.produce("orders", b"1")
            assert not rig.producer._forget(rig.producer._topics.by_name["orders"])
            assert (await delivery).offset == 0

    run(body)


def test_a_topic_that_a_table_is_on_its_way_to_is_not_forgotten(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, metadata_max_idle_ms=IDLE * 1000) as rig,
        ):
            await rig.producer.produce("orders", b"1")
            topic = rig.producer._topics.by_name["orders"]
            with rig.producer.kept("orders"):
                assert not rig.producer._forget(topic)
            assert rig.producer._forget(topic)

    run(body)


def test_topics_that_come_and_go_leave_nothing_behind(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics=[f"orders-{number}" for number in range(20)]) as cluster,
            producing(world, cluster, metadata_max_idle_ms=IDLE * 1000) as rig,
        ):
            for number in range(20):
                await rig.producer.produce(f"orders-{number}", b"1")
                await until_forgotten(world, rig, f"orders-{number}")
            producer = rig.producer
            topics = producer._topics
            assert (topics.by_name, topics.by_buffer, topics.appenders) == ({}, {}, {})
            assert producer._accumulator.buffers() == []
            assert all(not sink._ready for sink in producer._sinks.values())

    run(body)


def test_a_partition_that_is_forgotten_and_used_again_stores_each_record_once_and_in_order(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1, "bills": 1}) as cluster,
            producing(world, cluster, metadata_max_idle_ms=IDLE * 1000, retry_backoff_ms=0) as rig,
        ):
            for number in range(6):
                # An answer is lost each time, so that every record is sent twice, under the sequence it has.
                cluster.faults.add("Produce", when="after_append", action=drop, count=1)
                await rig.producer.produce("orders", b"%d" % number)
                await rig.producer.produce("bills", b"%d" % number)
                await until_forgotten(world, rig, "orders")
            expected = [b"%d" % number for number in range(6)]
            assert values(cluster, "orders") == expected
            assert values(cluster, "bills") == expected
            ids = [
                (each.producer_id, each.producer_epoch)
                for each in batch_headers(b"".join(cluster.partition("orders").log.read(0, 1 << 20).parts))
            ]
            assert len(set(ids)) == len(ids)

    run(body)


def test_threads_produce_while_their_topic_is_forgotten_again_and_again() -> None:
    with (
        Cluster(topics={"orders": 3}) as cluster,
        ottla.Client(cluster.bootstrap, linger_ms=0) as kafka,
    ):
        # Less than the option allows.
        object.__setattr__(kafka._producer._settings, "max_idle", 0.0005)

        def produce(partition: int) -> None:
            for number in range(150):
                delivery = kafka.produce("orders", b"%d" % number, partition=partition)
                if number % 3 == 0:
                    delivery.result(timeout=30)

        with ThreadPoolExecutor(3) as threads:
            for done in [threads.submit(produce, partition) for partition in range(3)]:
                done.result()
        kafka.flush()
        for partition in range(3):
            stored = [record.value for record in cluster.dump("orders", partition)]
            assert stored == [b"%d" % number for number in range(150)]
