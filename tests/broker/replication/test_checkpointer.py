"""Checkpoints are written beside the loop: one after the other, and only what still holds."""

from __future__ import annotations

import asyncio
import errno
import random
import threading
from collections.abc import Mapping

from ottla.broker.log.checkpoints import LOG_STARTS, RECOVERY_POINTS, read_offsets
from ottla.broker.log.fs.faulty import FaultyFileSystem, Operation
from ottla.broker.log.log_dir import LogDirectory
from ottla.broker.replication.checkpointer import Checkpointer
from ottla.runtime import SystemRuntime
from ottla.wire import Uuid
from tests.broker.replication.slow_disks import HeldRuntime, SlowDisk
from tests.broker.worlds import World, batch, on_sockets


class OneFile:
    """A directory, the file that is written there, and what it is to say."""

    def __init__(self) -> None:
        self.fs = FaultyFileSystem(random.Random(1))
        self.directory = LogDirectory("/logs", self.fs, Uuid(bytes(16)), in_memory=False)
        self.runtime = HeldRuntime()
        self.failures: list[OSError] = []
        self.checkpointer = Checkpointer(self.runtime, lambda _, error: self.failures.append(error))
        self.offsets = {"orders-0": 10}

    def write(self) -> None:
        self.checkpointer.write(self.directory, RECOVERY_POINTS, lambda: dict(self.offsets))

    async def step(self) -> None:
        """Lets the disk do what it was asked for next."""
        await self.runtime.begun()
        self.runtime.held[-1].set_result(None)

    @property
    def written(self) -> Mapping[str, int]:
        return read_offsets(self.fs, RECOVERY_POINTS)


def test_a_checkpoint_is_written_when_the_disk_has_it() -> None:
    async def main() -> None:
        world = OneFile()
        world.write()
        await world.runtime.begun()
        assert world.written == {}
        world.runtime.held[0].set_result(None)
        await world.step()
        await world.checkpointer.close(clean=True)
        assert world.written == {"orders-0": 10}
        world.fs.power_loss()
        assert world.written == {"orders-0": 10}

    asyncio.run(main())


def test_what_was_taken_back_meanwhile_is_not_claimed() -> None:
    async def main() -> None:
        world = OneFile()
        world.write()
        await world.runtime.begun()
        world.offsets = {"orders-0": 4}
        world.runtime.held[0].set_result(None)
        await world.runtime.begun()
        assert world.written == {}
        world.runtime.held[1].set_result(None)
        await world.step()
        await world.checkpointer.close(clean=True)
        assert world.written == {"orders-0": 4}

    asyncio.run(main())


def test_a_log_that_was_deleted_meanwhile_is_not_named() -> None:
    async def main() -> None:
        world = OneFile()
        world.offsets["orders-1"] = 7
        world.write()
        await world.runtime.begun()
        del world.offsets["orders-1"]
        world.runtime.held[0].set_result(None)
        await world.step()
        await world.step()
        await world.checkpointer.close(clean=True)
        assert world.written == {"orders-0": 10}

    asyncio.run(main())


def test_what_is_asked_for_meanwhile_is_written_once_and_afterwards() -> None:
    async def main() -> None:
        world = OneFile()
        world.write()
        await world.runtime.begun()
        for offset in (11, 12):
            world.offsets = {"orders-0": offset}
            world.write()
        world.runtime.held[0].set_result(None)
        await world.step()
        await world.runtime.begun()
        assert world.written == {"orders-0": 10}
        world.runtime.held[2].set_result(None)
        await world.step()
        await world.checkpointer.close(clean=True)
        assert (world.written, len(world.runtime.held)) == ({"orders-0": 12}, 4)

    asyncio.run(main())


def test_a_node_that_is_killed_writes_no_more() -> None:
    async def main() -> None:
        world = OneFile()
        world.write()
        await world.runtime.begun()
        world.write()
        closing = asyncio.ensure_future(world.checkpointer.close(clean=False))
        await asyncio.sleep(0)
        world.runtime.held[0].set_result(None)
        await closing
        assert (world.written, len(world.runtime.held), world.failures) == ({}, 1, [])

    asyncio.run(main())


def test_a_directory_that_fails_meanwhile_is_left_alone() -> None:
    async def main() -> None:
        world = OneFile()
        world.write()
        await world.runtime.begun()
        world.directory.failure = OSError(errno.EIO, "planted")
        world.fs.break_disk()
        world.runtime.held[0].set_result(None)
        await world.checkpointer.close(clean=True)
        assert world.failures == []

    asyncio.run(main())


def test_a_disk_that_refuses_is_told_of() -> None:
    async def main() -> None:
        for operation in (Operation.FLUSH, Operation.RENAME, Operation.SYNC_DIRECTORY):
            world = OneFile()
            world.fs.fail_next(operation, "*", OSError(errno.EIO, "planted"))
            world.checkpointer = Checkpointer(SystemRuntime(), lambda _, error: world.failures.append(error))  # noqa: B023
            world.write()
            await world.checkpointer.close(clean=True)
            assert [error.errno for error in world.failures] == [errno.EIO]

    asyncio.run(main())


def test_a_node_serves_while_the_disk_is_slow_with_its_checkpoints() -> None:
    async def body(world: World) -> None:
        disk = SlowDisk()
        cluster = world.cluster(topics={"orders": 1})
        cluster.volumes.use(1, disk.fs, on_disk=True)
        async with cluster:
            client = await world.client(cluster)
            assert (await client.produce("orders", batch(b"begins the epoch"))).error_code == 0
            disk.fs.slow(1.0)
            replicas = cluster.nodes[1].replicas
            replicas.checkpoint_high_watermarks()
            replicas.checkpoint_recovery_points()
            replicas.checkpoint_log_starts()
            replicas.checkpoint_cleaner_offsets()
            await cluster.wait_for(lambda: len(disk.threads) > 0, "a flush that takes long")
            for number in range(3):
                assert (await client.produce("orders", batch(b"%d" % number))).error_code == 0
            assert not disk.fs.exists(LOG_STARTS)
            disk.fs.slow(0)
            disk.go_on.set()
            await cluster.wait_for(lambda: disk.fs.exists(LOG_STARTS), "the checkpoint")
            assert threading.get_ident() not in disk.threads

    on_sockets(body)
