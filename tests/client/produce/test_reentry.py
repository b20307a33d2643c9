"""Callbacks and hooks of the user that come back to the producer in the middle of what it is doing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest

from ottla.broker.server import faults
from ottla.client.produce.batch_delivery import PartlySentError
from ottla.errors import AbortedError, ClientClosedError, DeliveryError
from tests.client.produce.producing import Rig, producing, values
from tests.client.worlds import Body, World

Run = Callable[[Body], object]


def test_memory_that_is_freed_before_anybody_waits_for_it_is_noticed(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 1}) as cluster:
            client = world.client(cluster, max_buffered_records=1, max_block_ms=10_000, linger_ms=10_000)
            await (await client.produce("orders", b"0"))
            await client.produce("orders", b"1")
            waits = asyncio.ensure_future(client.produce("orders", b"2"))
            # After the first try, before whoever finds no room has waited for anything.
            asyncio.get_running_loop().call_soon(client.abort_buffered)
            await (await waits)
            with pytest.raises(DeliveryError):
                await client.flush()

    run(body)


def test_a_callback_may_abort_while_records_expire(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 2}) as cluster,
            producing(
                world,
                cluster,
                linger_ms=0,
                batch_size=100,
                delivery_timeout_ms=2000,
                request_timeout_ms=1000,
                default_api_timeout_ms=1000,
            ) as rig,
        ):
            cluster.faults.add("Produce", action=faults.error("NOT_ENOUGH_REPLICAS"))
            deliveries = [rig.producer.produce("orders", b"x" * 90, partition=each % 2) for each in range(10)]
            deliveries[0].add_done_callback(lambda _: rig.producer.abort_buffered())
            with pytest.raises(DeliveryError) as caught:
                await rig.producer.flush(60)
            assert caught.value.failed == 10
            assert all(each.error is not None for each in deliveries)

    run(body)


def test_a_callback_may_abort_while_held_records_are_aborted(run: Run) -> None:
    async def body(world: World) -> None:
        async with producing(world, "nobody.invalid:1") as rig:
            first, second = rig.producer.produce("first", b""), rig.producer.produce("second", b"")
            again: list[int] = []
            first.add_done_callback(lambda _: again.append(rig.producer.abort_buffered()))
            assert rig.producer.abort_buffered() + sum(again) == 2
            assert first.done()
            assert second.done()
            with pytest.raises(DeliveryError) as caught:
                await rig.producer.flush(60)
            assert caught.value.failed == 2

    run(body)


class Aborts:
    """A hook that aborts once, when a batch is about to be sent."""

    rig: Rig | None = None

    def on_batch_sealed(self, batch: object) -> None:
        if self.rig is not None:
            rig, self.rig = self.rig, None
            rig.producer.abort_buffered()


def test_a_hook_that_aborts_does_not_change_what_the_receipt_says(run: Run) -> None:
    async def body(world: World) -> None:
        hook = Aborts()
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, hook, linger_ms=0) as rig,
        ):
            await rig.producer.produce("orders", b"0")
            hook.rig = rig
            delivery = rig.producer.produce("orders", b"1")
            with suppress(AbortedError):
                await delivery
            for _ in range(3):
                await rig.producer.produce("orders", b"2")
            stored = delivery.error is None
            assert values(cluster, "orders") == [b"0", *[b"1"] * stored, b"2", b"2", b"2"]
            with suppress(DeliveryError):
                await rig.producer.flush()

    run(body)


def test_a_table_whose_client_is_closed_in_the_middle_ends(run: Run) -> None:
    async def body(world: World) -> None:
        arrow = pytest.importorskip("pyarrow")
        async with world.cluster(1, topics={"orders": 1}) as cluster:
            client = world.client(cluster, linger_ms=0, buffer_memory=40_000, batch_size=10_000)
            table = arrow.table({"value": [b"x" * 1000] * 500})
            producing = asyncio.ensure_future(client.produce_batch("orders", table))
            await cluster.wait_for_records("orders", 1)
            parts = client._running()
            await client.close()
            with pytest.raises(PartlySentError) as raised:
                await producing
            assert isinstance(raised.value.__cause__, ClientClosedError)
            assert parts.producer.buffered_records == 0
            assert raised.value.sent["orders"].count == len(values(cluster, "orders")) < 500

    run(body)
