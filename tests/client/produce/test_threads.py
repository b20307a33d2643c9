"""Threads that produce beside the loop, as the blocking client has them: nothing is lost between the two."""

from __future__ import annotations

import asyncio
import threading

import pytest

from ottla.broker.server.faults import drop
from ottla.client.home_loop import CallingThreads
from ottla.client.produce.producer import Producer
from ottla.wire.records import BufferFull, Delivery
from tests.client.produce.producing import producing, values
from tests.client.worlds import World, on_sockets

THREADS = 4
RECORDS = 5000


def produce_many(producer: Producer, number: int) -> list[Delivery]:
    return [produce_one(producer, b"%d-%d" % (number, each)) for each in range(RECORDS)]


def produce_one(producer: Producer, value: bytes) -> Delivery:
    while True:
        try:
            return producer.produce("orders", value, key=value)
        except BufferFull:
            freed = threading.Event()
            producer.on_space(freed.set)
            try:
                return producer.produce("orders", value, key=value)
            except BufferFull:
                assert freed.wait(30)


def test_every_record_of_every_thread_arrives_once_and_in_order() -> None:
    async def body(world: World) -> None:
        wakes = 0
        loop = asyncio.get_running_loop()

        def wake(function: object) -> None:
            nonlocal wakes
            wakes += 1
            loop.call_soon_threadsafe(function)  # type: ignore[arg-type]

        calling = CallingThreads(
            wake, wake, lambda: None, lambda receipt, timeout: pytest.fail("a receipt is not waited for")
        )
        async with world.cluster(1, topics={"orders": 3}) as cluster:
            async with producing(
                world, cluster, threads=calling, buffer_memory=200_000, batch_size=20_000, linger_ms=1
            ) as rig:
                cluster.faults.add("Produce", when="after_append", action=drop, count=3)
                threads = [asyncio.to_thread(produce_many, rig.producer, number) for number in range(THREADS)]
                deliveries = [each for part in await asyncio.gather(*threads) for each in part]
                await rig.producer.flush(60)
                assert all(each.done() and each.error is None for each in deliveries)
                assert rig.producer.buffered_bytes == rig.producer.buffered_records == 0
                stored = [str(value, "ascii").split("-") for value in values(cluster, "orders") if value]
                assert len(stored) == THREADS * RECORDS == len({tuple(each) for each in stored})
                assert wakes < THREADS * RECORDS / 5
            for partition in range(3):
                placed = [
                    str(value, "ascii").split("-") for value in values(cluster, "orders", partition) if value
                ]
                for thread in range(THREADS):
                    mine = [int(number) for name, number in placed if int(name) == thread]
                    assert mine == sorted(mine)

    on_sockets(body)
