"""Deleted logs keep another name for a while, and then their files go."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.log.fs.faulty import FaultyFileSystem, Operation
from tests.broker.worlds import Body, World

Run = Callable[[Body], object]

DELAY_S = 60


def on(world: World, *volumes: FaultyFileSystem) -> AsyncCluster:
    config = {"log.segment.delete.delay.ms": DELAY_S * 1000}
    cluster = world.cluster(1, topics=["orders"], config=config)
    cluster.volumes.use(1, *volumes, on_disk=True)
    return cluster


def disk(seed: int = 1) -> FaultyFileSystem:
    return FaultyFileSystem(random.Random(seed))


def test_the_files_of_a_deleted_topic_go_when_the_delay_has_passed(run: Run) -> None:
    async def body(world: World) -> None:
        volume = disk()
        async with on(world, volume) as cluster:
            await cluster.delete_topic("orders")
            (doomed,) = volume.directories()
            assert doomed.startswith("orders-0.")
            assert doomed.endswith("-delete")
            cluster.clock.advance(DELAY_S)
            await cluster.wait_for(lambda: volume.directories() == [], "that the files are removed")

    run(body)


def test_files_that_cannot_be_removed_do_not_stop_the_node(run: Run) -> None:
    async def body(world: World) -> None:
        volume = disk()
        async with on(world, volume) as cluster:
            volume.fail_next(Operation.REMOVE, "*-delete/*", OSError(errno.EIO, "planted"))
            await cluster.delete_topic("orders")
            removals = cluster.nodes[1].replicas._removals
            cluster.clock.advance(DELAY_S)
            await cluster.wait_for(lambda: not removals._timers, "that the removal was tried")
            assert volume.directories() != []
            assert cluster.failures == {}

    run(body)


def test_a_directory_in_which_a_log_cannot_be_deleted_is_taken_offline(run: Run) -> None:
    async def body(world: World) -> None:
        first, second = disk(1), disk(2)
        async with on(world, first, second) as cluster:
            for volume in (first, second):
                volume.fail_next(Operation.RENAME, "*-delete", OSError(errno.EIO, "planted"))
            await cluster.delete_topic("orders")
            assert len(cluster.nodes[1].replicas.directories.online) == 1
            assert cluster.failures == {}

    run(body)
