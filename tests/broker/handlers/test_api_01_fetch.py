"""Fetch: a long poll ends with the append that it waits for, also one that comes right behind it."""

from __future__ import annotations

import asyncio

from ottla.sim.network import Conditions
from tests.broker.worlds import World, batch, in_simulation

WAIT_MS = 10_000


def test_an_append_right_behind_a_long_poll_is_not_missed() -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 1}) as cluster:
            reader = await world.client(cluster)
            writers = [await world.client(cluster) for _ in range(10)]
            for offset, writer in enumerate(writers):
                begin = world.runtime.clock.monotonic()
                fetched, produced = await asyncio.gather(
                    reader.fetch("orders", offset, max_wait=WAIT_MS), writer.produce("orders", batch(b"1"))
                )
                assert produced.error_code == 0
                assert fetched.records
                assert world.runtime.clock.monotonic() - begin < WAIT_MS / 2000

    # Everything that is sent in the same moment arrives, and is served, in the same moment.
    in_simulation(body, conditions=Conditions(min_latency=0.001, max_latency=0.001, jitter=0, cut_up=0))
