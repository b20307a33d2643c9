"""How long partitions stand still when a member leaves, in a simulation, where computing takes no time.

What stays is not interrupted: its longest gap is one round of fetches. What moves waits for the next heartbeat, which
says that the group rebalances, and for a few round trips.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from typing import Any

import pytest

from ottla.broker.server import faults
from ottla.client.group.consumer import AsyncGroupConsumer
from ottla.hooks import Hook
from ottla.wire import api_for_key
from tests.client.group.grouping import COOPERATIVE, EAGER, KIP_848, QUICK, until_shared
from tests.client.worlds import World, in_simulation

MEMBERS = 4
PARTITIONS = MEMBERS * (MEMBERS - 1)
"""So many that each member that stays gets one."""
TICK = 0.03
"""Seconds from one record of a partition to its next."""
HEARTBEAT = 0.5
ROUND_TRIP = 0.005
"""More than any takes in the simulated network."""
CONFIG = {**QUICK, "group.consumer.heartbeat.interval.ms": str(int(HEARTBEAT * 1000))}


class Flow:
    """Members that read what is written all the time, and when they got it."""

    def __init__(self, world: World, cluster: Any, options: dict[str, Any]) -> None:
        self.world = world
        self.cluster = cluster
        self.options = {**options, "heartbeat_interval_ms": int(HEARTBEAT * 1000)}
        self.members: list[AsyncGroupConsumer] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.got: dict[int, list[tuple[float, int]]] = defaultdict(list)

    async def __aenter__(self) -> Flow:
        self.feed = asyncio.create_task(self._feed())
        for number in range(MEMBERS):
            kafka = self.world.client(self.cluster, **self.options)
            self.members.append(kafka.consume("orders", group="billing"))
            self.tasks.append(asyncio.create_task(self._read(number)))
            # Apart, so that heartbeats of KIP-848 are too.
            await self.world.runtime.clock.sleep(HEARTBEAT / MEMBERS)
        await until_shared(self.world, *self.members, count=PARTITIONS)
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in (self.feed, *self.tasks):
            task.cancel()
        await asyncio.gather(self.feed, *self.tasks, return_exceptions=True)

    async def _feed(self) -> None:
        while True:
            for partition in range(PARTITIONS):
                self.cluster.seed("orders", [b"x"], partition)
            await self.world.runtime.clock.sleep(TICK)

    async def _read(self, number: int) -> None:
        async with self.members[number] as consumer:
            while True:
                for record in await consumer.poll():
                    self.got[record.partition].append((self.world.runtime.clock.monotonic(), number))

    async def gaps_when_one_leaves(self) -> tuple[float, float]:
        """The longest of what moves, and of what stays."""
        clock = self.world.runtime.clock
        await clock.sleep(2 * HEARTBEAT)
        left = clock.monotonic()
        self.tasks[-1].cancel()
        await until_shared(self.world, *self.members[:-1], count=PARTITIONS)
        await clock.sleep(2 * HEARTBEAT)
        moved, stayed = [0.0], [0.0]
        for times in self.got.values():
            around = [each for each in times if each[0] > left - HEARTBEAT]
            gap = max(later[0] - earlier[0] for earlier, later in itertools.pairwise(around))
            (stayed if around[0][1] == around[-1][1] else moved).append(gap)
        assert len(moved) > 1
        return max(moved), max(stayed)


@pytest.mark.parametrize("options", [COOPERATIVE, KIP_848], ids=["cooperative", "kip-848"])
def test_what_stays_is_not_interrupted_when_a_member_leaves(options: dict[str, Any]) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(topics={"orders": PARTITIONS}, config=CONFIG) as cluster,
            Flow(world, cluster, options) as flow,
        ):
            moved, stayed = await flow.gaps_when_one_leaves()
            assert stayed < TICK + ROUND_TRIP
            # The member that leaves commits and leaves, the next heartbeat says so, and where to begin is fetched; a
            # fetch that is on its way then comes back with the next record.
            assert moved < HEARTBEAT + 2 * TICK + 6 * ROUND_TRIP

    in_simulation(body)


def test_what_moves_waits_for_a_heartbeat_and_a_few_round_trips_in_an_eager_group() -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(topics={"orders": PARTITIONS}, config=CONFIG) as cluster,
            Flow(world, cluster, EAGER) as flow,
        ):
            moved, _ = await flow.gaps_when_one_leaves()
            assert moved < HEARTBEAT + 2 * TICK + 8 * ROUND_TRIP

    in_simulation(body)


class _Beats(Hook):
    """When heartbeats were sent."""

    def __init__(self, world: World) -> None:
        self._clock = world.runtime.clock
        self.times: list[float] = []

    def on_broker_write(self, node_id: int, api_key: int, size: int, error: BaseException | None) -> None:
        if api_for_key(api_key).name.endswith("Heartbeat"):
            self.times.append(self._clock.monotonic())


@pytest.mark.parametrize("options", [EAGER, KIP_848], ids=["classic", "kip-848"])
def test_heartbeats_keep_their_interval_however_long_the_coordinator_takes_to_respond(
    options: dict[str, Any],
) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 4}, config=CONFIG) as cluster:
            beats = _Beats(world)
            kafka = world.client(cluster, hooks=[beats], **{**options, "heartbeat_interval_ms": 500})
            async with kafka.consume("orders", group="billing") as consumer:
                await until_shared(world, consumer)
                for api in ("Heartbeat", "ConsumerGroupHeartbeat"):
                    cluster.faults.add(api, action=faults.delay(HEARTBEAT / 2))
                beats.times.clear()
                await world.runtime.clock.sleep(6.5 * HEARTBEAT)
                between = [later - earlier for earlier, later in itertools.pairwise(beats.times)]
                assert len(between) >= 4
                assert between == pytest.approx([HEARTBEAT] * len(between), abs=0.001)

    in_simulation(body)
