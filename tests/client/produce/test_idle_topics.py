"""Topics that nothing is produced to any more are forgotten, and found again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ottla.broker.faults import drop
from ottla.wire.batches import batch_headers
from tests.client.produce.producing import Rig, producing, values
from tests.client.worlds import Body, World

Run = Callable[[Body], object]
IDLE = 10


async def until_forgotten(world: World, rig: Rig, topic: str) -> None:
    world.clock.advance(IDLE + 1)
    await asyncio.sleep(0)
    assert topic not in rig.metadata.view.topics


def test_an_idle_topic_is_not_asked_for_and_the_next_record_goes_on_with_its_sequence(run: Run) -> None:
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
            assert [(each.base_sequence, each.producer_epoch) for each in headers] == [(0, 0), (1, 0), (2, 0)]

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


def test_a_thread_that_appends_the_old_way_is_served_and_waited_for(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, metadata_max_idle_ms=IDLE * 1000) as rig,
        ):
            await rig.producer.produce("orders", b"1")
            # What a thread has in its hands between looking it up and calling it.
            append = rig.producer._appends["orders"]
            await until_forgotten(world, rig, "orders")
            cluster.faults.add("Produce", when="after_append", action=drop, count=1)
            delivery = append(None, b"2", None, None, None)
            await rig.producer.flush()
            assert delivery.error is None
            assert values(cluster, "orders") == [b"1", b"2"]

    run(body)
