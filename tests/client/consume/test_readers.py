"""Readers that are cancelled, closed, interrupted or more than one: nothing is lost, and nothing is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.server import faults
from ottla.client.consume.dead_letters import DeadLetters
from ottla.client.topic_partition import TopicPartition
from ottla.errors import ClientClosedError, TopicAuthorizationFailedError
from ottla.serde import resolve_deserializer
from tests.client.consume.consuming import consuming, numbered, until, values
from tests.client.worlds import Body, World

Run = Callable[[Body], object]
ORDERS = TopicPartition("orders", 0)


def test_an_iterator_survives_a_wait_that_is_cancelled(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            cluster.seed("orders", numbered(2))
            async with consuming(world, cluster, "orders", start="earliest") as consumer:
                records = aiter(consumer)
                assert [(await anext(records)).value for _ in range(2)] == numbered(2)
                waiting = asyncio.ensure_future(anext(records))
                await world.runtime.clock.sleep(0.2)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
                cluster.seed("orders", numbered(3, 2))
                assert [(await anext(records)).value for _ in range(3)] == numbered(3, 2)
                tables = aiter(consumer.batches())
                waiting_for_table = asyncio.ensure_future(anext(tables))
                await world.runtime.clock.sleep(0.2)
                waiting_for_table.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting_for_table
                cluster.seed("orders", [b"5"])
                assert (await anext(tables)).column("value").to_pylist() == [b"5"]

    run(body)


def test_an_iterator_goes_on_after_an_error(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            cluster.seed("orders", numbered(2))
            cluster.faults.add("Fetch", topic="orders", action=faults.error(29), count=1)
            async with consuming(world, cluster, "orders", start="earliest", stop="latest") as consumer:
                records = aiter(consumer)
                with pytest.raises(TopicAuthorizationFailedError):
                    await anext(records)
                assert [record.value async for record in records] == numbered(2)
                with pytest.raises(StopAsyncIteration):
                    await anext(records)

    run(body)


def test_a_poll_times_out_in_a_task_that_went_on_after_a_cancellation(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(topics={"orders": 1}) as cluster,
            consuming(world, cluster, "orders", start="earliest") as consumer,
        ):

            async def stubborn() -> list[Any]:
                try:
                    await consumer.poll()
                except asyncio.CancelledError:
                    return await consumer.poll(timeout=0.2)
                raise AssertionError

            task = asyncio.ensure_future(stubborn())
            await world.runtime.clock.sleep(0.2)
            task.cancel()
            assert await task == []

    run(body)


def test_two_loops_share_the_records(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3, topics={"orders": 6}) as cluster:
            for partition in range(6):
                for part in range(20):
                    cluster.seed("orders", numbered(25, part * 25), partition)
            options: dict[str, Any] = {"max_partition_fetch_bytes": 500, "stop": "latest"}
            found: list[tuple[int, int]] = []
            async with consuming(world, cluster, "orders", start="earliest", **options) as consumer:

                async def loop(pause: float) -> None:
                    async for record in consumer:
                        found.append((record.partition, record.offset))
                        if record.offset % 7 == 0:
                            await world.runtime.clock.sleep(pause)
                        if record.offset % 31 == 0:
                            found.extend(
                                (each.partition, each.offset) for each in await consumer.poll(3, timeout=0)
                            )

                await asyncio.gather(loop(0.001), loop(0.002))
            assert sorted(found) == [(partition, offset) for partition in range(6) for offset in range(500)]

    run(body)


def test_a_closed_consumer_begins_nothing(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            client = world.client(cluster)
            consumer = client.consume("orders")
            await consumer.close()
            with pytest.raises(ClientClosedError):
                await consumer.position(ORDERS)
            assert consumer._beginning is None

    run(body)


def test_closing_ends_whoever_waits_for_a_position(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(topics={"orders": 1}) as cluster,
            consuming(world, cluster, "orders", start="earliest") as consumer,
        ):
            waiting = asyncio.ensure_future(consumer.position(TopicPartition("orders", 9)))
            await world.runtime.clock.sleep(0.2)
            await consumer.close()
            with pytest.raises(ClientClosedError):
                await asyncio.wait_for(waiting, 60)

    run(body)


def test_a_hook_that_seeks_when_a_position_was_reset_is_obeyed(run: Run) -> None:
    async def body(world: World) -> None:
        class Seeks:
            consumer: Any = None

            def on_position_reset(self, topic: str, partition: int, old: int, new: int, reason: str) -> None:
                self.consumer.seek(ORDERS, 3)

        seeks = Seeks()
        async with world.cluster(topics={"orders": 1}) as cluster:
            cluster.seed("orders", numbered(5))
            options: dict[str, Any] = {"start": 100, "auto_offset_reset": "earliest", "hooks": (seeks,)}
            async with consuming(world, cluster, "orders", **options) as consumer:
                seeks.consumer = consumer
                assert values(await consumer.poll(timeout=60)) == numbered(2, 3)

    run(body)


def test_a_paused_partition_is_dead_lettered_without_an_error(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1, "dead": 1}) as cluster:
            cluster.seed("orders", [b"1", b"x", b"3"])
            client = world.client(cluster)
            held = cluster.faults.add("Produce", action=faults.delay(10), count=1)
            letters = DeadLetters("dead", client)
            options: dict[str, Any] = {
                "on_error": letters,
                "value_deserializer": resolve_deserializer("json", "value"),
            }
            async with consuming(world, cluster, "orders", start="earliest", **options) as consumer:
                first = await consumer.poll(1)
                waiting = asyncio.ensure_future(consumer.poll(timeout=2))
                await held.wait()
                consumer.pause(ORDERS)
                cluster.clock.advance(10)
                assert await waiting == []
                consumer.resume(ORDERS)
                assert [record.value for record in [*first, *await consumer.poll(timeout=60)]] == [1, 3]

    run(body)


def test_nothing_is_fetched_while_everything_is_paused_or_failing(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 2}) as cluster:
            fault = cluster.faults.add(
                "Fetch", topic="orders", partition=0, action=faults.error("KAFKA_STORAGE_ERROR")
            )
            async with consuming(world, cluster, "orders", start="earliest") as consumer:
                assert await consumer.poll(timeout=4) == []
                assert fault.hits < 20
                consumer.pause()
                await consumer.poll(timeout=1)
                before = fault.hits
                assert await consumer.poll(timeout=2) == []
                assert fault.hits == before

    run(body)


def test_closing_leaves_no_task_behind_even_if_it_is_cancelled(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(topics={"orders": 1}) as cluster,
            consuming(world, cluster, "orders", start="earliest") as consumer,
        ):
            await consumer.position(ORDERS)
            waiting = asyncio.ensure_future(consumer.poll())
            closing = asyncio.ensure_future(consumer.close())
            await asyncio.sleep(0)
            closing.cancel()
            await asyncio.gather(closing, return_exceptions=True)
            with pytest.raises(ClientClosedError):
                await waiting
            await until(world, lambda: not consumer._session._workers)

    run(body)
