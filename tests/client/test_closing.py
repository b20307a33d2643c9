"""Closing ends in bounded time, whatever state the client and the cluster are in; and so does leaving it open."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import ottla
from ottla.broker import Cluster, never
from ottla.broker.cluster.cluster import AsyncCluster
from ottla.errors import AbortedError, ClientClosedError, DeliveryError
from ottla.hooks import Hook
from tests.client.worlds import Body, World, in_simulation

Run = Callable[[Body], object]

# How long closing may take beyond the time that it was given for what is under way.
REST = 6.0
# The same on a machine that is busy with other things.
BUSY_REST = 60.0


async def fresh(kafka: ottla.AsyncClient, cluster: AsyncCluster) -> None:
    """Never used."""


async def used(kafka: ottla.AsyncClient, cluster: AsyncCluster) -> None:
    await (await kafka.produce("orders", b"1"))
    await kafka.consume("orders", start="earliest").poll(timeout=10)


async def dead(kafka: ottla.AsyncClient, cluster: AsyncCluster) -> None:
    """Every broker has gone, with records on their way."""
    await used(kafka, cluster)
    for node in list(cluster.nodes):
        await cluster.stop_node(node, clean=False)
    await kafka.produce("orders", b"2")


async def silent(kafka: ottla.AsyncClient, cluster: AsyncCluster) -> None:
    await used(kafka, cluster)
    for node in list(cluster.nodes):
        cluster.pause_node(node)
    await kafka.produce("orders", b"2")


async def silent_from_the_first(kafka: ottla.AsyncClient, cluster: AsyncCluster) -> None:
    cluster.faults.add(api="ApiVersions", action=never)
    await kafka.produce("orders", b"1")


async def without_metadata(kafka: ottla.AsyncClient, cluster: AsyncCluster) -> None:
    cluster.faults.add(api="Metadata", action=never)
    await kafka.produce("orders", b"1")


async def unknown_topic(kafka: ottla.AsyncClient, cluster: AsyncCluster) -> None:
    await kafka.produce("nowhere", b"1")
    kafka.consume("nowhere").begin()


async def full(kafka: ottla.AsyncClient, cluster: AsyncCluster) -> None:
    await used(kafka, cluster)
    for node in list(cluster.nodes):
        cluster.pause_node(node)
    with pytest.raises(ottla.KafkaError, match="max_block_ms"):
        await _fill(kafka)


async def _fill(kafka: ottla.AsyncClient) -> None:
    while True:
        await kafka.produce("orders", bytes(1000))


STATES = [fresh, used, dead, silent, silent_from_the_first, without_metadata, unknown_topic, full]


@pytest.mark.parametrize("state", STATES)
def test_closing_ends_in_bounded_time(
    run: Run, state: Callable[[ottla.AsyncClient, AsyncCluster], Awaitable[None]]
) -> None:
    async def body(world: World) -> None:
        options = {"buffer_memory": 100_000, "max_block_ms": 100}
        config = {"auto.create.topics.enable": False}
        async with world.cluster(2, topics=["orders"], config=config) as cluster:
            kafka = world.client(cluster, **options)
            await state(kafka, cluster)
            begin = world.clock.monotonic()
            if state in (fresh, used):
                await kafka.close(timeout=0.3)
            else:
                with pytest.raises(DeliveryError):
                    await kafka.close(timeout=0.3)
            assert world.clock.monotonic() - begin < 0.3 + (REST if world.simulated else BUSY_REST)
            await kafka.close()
            with pytest.raises(ClientClosedError):
                await kafka.produce("orders", b"more")
            with pytest.raises(ClientClosedError):
                kafka.consume("orders")
            for node in list(cluster.nodes):
                cluster.resume_node(node)

    run(body)


def test_what_closing_gives_up_says_whether_it_may_be_stored(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            kafka = world.client(cluster, linger_ms=0)
            await (await kafka.produce("orders", b"1"))
            fault = cluster.faults.add(api="Produce", action=never)
            sent = await kafka.produce("orders", b"2")
            await fault.wait()
            with pytest.raises(DeliveryError):
                await kafka.close(timeout=0.3)
            assert isinstance(sent.error, AbortedError)
            assert sent.error.may_be_stored

    run(body)


def test_closing_delivers_what_is_buffered(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            async with world.client(cluster, linger_ms=60_000) as kafka:
                for number in range(10):
                    await kafka.produce("orders", b"%d" % number)
            assert [record.value for record in cluster.dump("orders")] == [
                b"%d" % number for number in range(10)
            ]

    run(body)


def test_all_who_close_at_once_wait_for_the_end(run: Run) -> None:
    async def body(world: World) -> None:
        closed: list[None] = []

        class Hears(Hook):
            def on_client_closed(self) -> None:
                closed.append(None)

        async with world.cluster(topics=["orders"]) as cluster:
            kafka = world.client(cluster, linger_ms=60_000, hooks=[Hears()])
            await kafka.produce("orders", b"1")
            loop = asyncio.get_running_loop()
            closers = [loop.create_task(kafka.close()) for _ in range(3)]
            for closer in closers:
                await closer
                assert closed == [None]
            assert len(cluster.dump("orders")) == 1

    run(body)


def test_closing_that_is_cancelled_closes_all_the_same(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            kafka = world.client(cluster)
            await (await kafka.produce("orders", b"1"))
            cluster.pause_node(1)
            delivery = await kafka.produce("orders", b"2")
            closing = asyncio.get_running_loop().create_task(kafka.close())
            await world.runtime.clock.sleep(0.05)
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            assert delivery.done()
            cluster.resume_node(1)

    run(body)


def test_those_who_wait_hear_of_the_end(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            kafka = world.client(cluster, max_buffered_records=1)
            await (await kafka.produce("orders", b"1"))
            consumer = kafka.consume("orders")
            loop = asyncio.get_running_loop()
            cluster.pause_node(1)
            first = await kafka.produce("orders", b"2")
            waiting: list[Awaitable[Any]] = [
                loop.create_task(kafka.produce("orders", b"3")),
                loop.create_task(_first(consumer)),
                loop.create_task(kafka.admin.list_topics()),
            ]
            await world.runtime.clock.sleep(0.05)
            with pytest.raises(DeliveryError):
                await kafka.close(timeout=0.1)
            assert first.done()
            for each in waiting:
                with pytest.raises(ottla.KafkaError):
                    await each
            cluster.resume_node(1)

    run(body)


async def _first(consumer: ottla.AsyncConsumer) -> Any:
    async for record in consumer:
        return record


def test_leaving_a_block_after_an_error_shows_that_error(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(config={"auto.create.topics.enable": False}) as cluster:
            with pytest.raises(ZeroDivisionError) as caught:
                await _fails_inside(world.client(cluster))
            assert "closing the client failed too" in caught.value.__notes__[0]

    run(body)


async def _fails_inside(kafka: ottla.AsyncClient) -> None:
    async with kafka:
        await kafka.produce("nowhere", b"1")
        raise ZeroDivisionError


@pytest.mark.parametrize("seed", range(1, 9))
def test_closing_at_any_moment_of_a_clients_life(seed: int) -> None:
    """Nothing is left running, and every receipt is done; the simulation fails if a task is left."""

    async def body(world: World) -> None:
        async with world.cluster(2, topics={"orders": 4}) as cluster:
            for step in range(20):
                kafka = world.client(cluster)
                loop = asyncio.get_running_loop()
                reading = loop.create_task(kafka.consume("orders", start="earliest").poll())
                deliveries = [await kafka.produce("orders", b"%d" % number) for number in range(10)]
                await world.runtime.clock.sleep(step * 0.0007 * seed)
                try:
                    await kafka.close(timeout=0.0 if step % 2 else 5.0)
                except DeliveryError:
                    assert any(delivery.error is not None for delivery in deliveries)
                assert all(delivery.done() for delivery in deliveries)
                await asyncio.gather(reading, return_exceptions=True)

    in_simulation(body, seed=seed)


# The blocking twin


def test_a_blocking_client_closes_in_bounded_time_in_every_state() -> None:
    with Cluster(topics=["orders"]) as cluster:
        kafka = ottla.Client(cluster.bootstrap)
        kafka.produce("orders", b"1").result(timeout=30)
        cluster.pause_node(1)
        delivery = kafka.produce("orders", b"2")
        begin = time.monotonic()
        with pytest.raises(DeliveryError):
            kafka.close(timeout=0.2)
        assert time.monotonic() - begin < 0.2 + BUSY_REST
        assert delivery.done()
        kafka.close()
        assert "ottla-client" not in [thread.name for thread in threading.enumerate()]


def test_calls_of_other_threads_end_when_the_client_is_closed() -> None:
    with Cluster(topics=["orders"]) as cluster:
        kafka = ottla.Client(cluster.bootstrap, max_buffered_records=1)
        kafka.produce("orders", b"1").result(timeout=30)
        consumer = kafka.consume("orders")
        cluster.pause_node(1)
        delivery = kafka.produce("orders", b"2")
        ended: list[BaseException] = []

        def waits(call: Callable[[], object]) -> threading.Thread:
            def run() -> None:
                try:
                    call()
                except ottla.KafkaError as error:
                    ended.append(error)

            thread = threading.Thread(target=run)
            thread.start()
            return thread

        calls: list[Callable[[], object]] = [
            lambda: kafka.produce("orders", b"3"),
            delivery.result,
            kafka.flush,
            lambda: next(iter(consumer)),
            kafka.admin.list_topics,
        ]
        threads = [waits(call) for call in calls]
        with pytest.raises(DeliveryError):
            kafka.close(timeout=0.3)
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
        # A flush whose records fail raises, unless the one who closes has heard of them first.
        assert len(ended) >= len(calls) - 1


def program(text: str) -> subprocess.CompletedProcess[str]:
    begin = "import asyncio, sys, threading, time\nimport ottla\nfrom ottla.broker import Cluster\n"
    return subprocess.run(
        [sys.executable, "-W", "default", "-c", begin + textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def assert_no_complaint(errors: str) -> None:
    """On a slow machine the cluster may end first, and the client says that it cannot reach it any more."""
    assert "Traceback" not in errors
    assert "Warning" not in errors
    assert "not closed" not in errors


@pytest.mark.parametrize("deletes", ["", "del kafka; import gc; gc.collect()"])
def test_a_program_ends_that_never_closed_its_client(deletes: str) -> None:
    done = program(f"""
        cluster = Cluster(topics=["orders"])
        cluster.start()
        kafka = ottla.Client(cluster.bootstrap)
        kafka.produce("orders", b"1").result(timeout=30)
        {deletes}
        print("end")
        """)
    assert (done.returncode, done.stdout) == (0, "end\n")
    assert_no_complaint(done.stderr)


def test_a_program_ends_while_a_consumer_iterates_in_a_daemon_thread() -> None:
    done = program("""
        cluster = Cluster(topics=["orders"])
        cluster.start()
        kafka = ottla.Client(cluster.bootstrap)
        seen = threading.Event()

        def reads():
            for record in kafka.consume("orders", start="earliest"):
                seen.set()

        threading.Thread(target=reads, daemon=True).start()
        kafka.produce("orders", b"1").result(timeout=30)
        assert seen.wait(30)
        print("end")
        """)
    assert (done.returncode, done.stdout) == (0, "end\n")
    assert_no_complaint(done.stderr)


def test_an_asynchronous_program_ends_that_never_closed_its_client() -> None:
    done = program("""
        cluster = Cluster(topics=["orders"])
        cluster.start()

        async def main():
            kafka = ottla.AsyncClient(cluster.bootstrap)
            await (await kafka.produce("orders", b"1"))
            async for record in kafka.consume("orders", start="earliest"):
                break

        asyncio.run(main())
        cluster.close()
        print("end")
        """)
    assert (done.returncode, done.stdout) == (0, "end\n")
    assert "Traceback" not in done.stderr


LOST = "a client was not closed and takes records with it that are not acknowledged: 1. End with flush()"


def test_a_program_that_ends_with_records_under_way_is_told() -> None:
    done = program("""
        cluster = Cluster(topics=["orders"])
        cluster.start()
        kafka = ottla.Client(cluster.bootstrap, linger_ms=60_000)
        kafka.produce("orders", b"1")
        print("end")
        """)
    assert (done.returncode, done.stdout) == (0, "end\n")
    # On a slow machine the cluster may end first, and the client says that it cannot reach it any more.
    assert sum(line.startswith(LOST) for line in done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr


def test_an_asynchronous_program_that_ends_with_records_under_way_is_told() -> None:
    done = program("""
        cluster = Cluster(topics=["orders"])
        cluster.start()

        async def main():
            kafka = ottla.AsyncClient(cluster.bootstrap, linger_ms=60_000)
            await kafka.produce("orders", b"1")

        asyncio.run(main())
        cluster.close()
        print("end")
        """)
    assert (done.returncode, done.stdout) == (0, "end\n")
    assert LOST in done.stderr
    assert "Traceback" not in done.stderr


def test_neither_a_closed_client_nor_one_of_a_parent_is_taken_for_one_left_open() -> None:
    done = program("""
        import os

        cluster = Cluster(topics=["orders"])
        cluster.start()
        kafka = ottla.Client(cluster.bootstrap, linger_ms=60_000)
        kafka.produce("orders", b"1")
        if (child := os.fork()) == 0:
            sys.exit()
        os.waitpid(child, 0)
        cluster.stop_node(1)
        try:
            kafka.close(timeout=0)
        except ottla.KafkaError:
            print("end")
        """)
    assert (done.returncode, done.stdout) == (0, "end\n")
    assert "not closed" not in done.stderr
