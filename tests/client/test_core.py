"""A client is put together and taken apart in order, and each step of its end is taken whatever the others do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from ottla.broker.server.faults import never
from ottla.client.consume.subscription import Subscription
from ottla.errors import KafkaError
from tests.client.worlds import Body, World, in_simulation

Run = Callable[[Body], object]


def test_consumers_beside_each_other_have_lanes_of_their_own_and_give_them_back() -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster, world.client(cluster) as kafka:
            core = kafka._running()
            first, second = (core.consumer(Subscription.of("orders")) for _ in range(2))
            assert list(core._consumers.values()) == [0, 1]
            await first.close()
            third = core.consumer(Subscription.of("orders"))
            assert core._consumers == {second: 1, third: 0}

    in_simulation(body)


def test_a_step_that_fails_keeps_none_of_the_others_from_their_end(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            kafka = world.client(cluster)
            await (await kafka.produce("orders", b"1"))
            core = kafka._running()

            async def fails() -> None:
                raise KafkaError("no telemetry today")

            monkeypatch.setattr(core._telemetry, "close", fails)
            with pytest.raises(KafkaError, match="no telemetry today"):
                await kafka.close()
            # Only this body is left, and what runs the cluster.
            left = [task.get_name() for task in asyncio.all_tasks() if not task.done()]
            assert not [name for name in left if name.startswith(("metadata", "sink", "source", "consumer"))]

    run(body)


def test_consumers_end_with_their_client(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            kafka = world.client(cluster)
            consumers = [kafka.consume("orders") for _ in range(3)]
            for consumer in consumers:
                assert await consumer.poll(timeout=0.01) == []
            await kafka.close()
            assert all(consumer.is_closed for consumer in consumers)

    run(body)


def test_a_task_that_crashes_fails_whoever_would_wait_for_it() -> None:
    """Not that any should: but a bug must not look like a cluster that is slow."""

    async def crash() -> None:
        raise ZeroDivisionError

    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            kafka = world.client(cluster, linger_ms=60_000)
            await (await kafka.produce("orders", b"1"))
            delivery = await kafka.produce("orders", b"2")
            consumer = kafka.consume("orders", start="latest")
            assert await consumer.poll(timeout=1) == []
            kafka._running()._tasks.spawn(crash(), "a bug")
            with pytest.raises(KafkaError, match="'a bug' crashed"):
                await consumer.poll(timeout=10)
            with pytest.raises(KafkaError, match="'a bug' crashed"):
                await delivery
            for topic in ("orders", "new"):
                with pytest.raises(KafkaError, match="'a bug' crashed"):
                    await kafka.produce(topic, b"3")
            with pytest.raises(KafkaError, match="'a bug' crashed"):
                await kafka.consume("orders").poll(timeout=10)
            with pytest.raises(KafkaError):
                await kafka.close()

    in_simulation(body)


def test_records_of_topics_that_are_not_known_yet_fail_with_the_others() -> None:
    async def crash() -> None:
        raise ZeroDivisionError

    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            kafka = world.client(cluster)
            cluster.faults.add("Metadata", action=never)
            held = await kafka.produce("orders", b"1")
            kafka._running()._tasks.spawn(crash(), "a bug")
            with pytest.raises(KafkaError, match="'a bug' crashed"):
                await held
            with pytest.raises(KafkaError):
                await kafka.close()

    in_simulation(body)
