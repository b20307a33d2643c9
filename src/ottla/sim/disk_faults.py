"""What goes wrong with the disks of a simulated cluster, beside all that goes wrong with a cluster (fault_kinds.py).

Processes die and machines lose their power: one, all of them with the controller, one while it works at a given call,
one that still recovers from the last time, one that was down already. Disks fill up, fail, and take long.

A disk that fails takes its directory offline, and a node that has lost its last one stops: healing mends the disk and
starts such a node again, and needs no other help.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from ottla.broker.log.fs.faulty import Operation
from ottla.sim.disks import Disks
from ottla.sim.fault_kinds import KINDS, LASTING, Injury, Kind, NoVictimError, Scene

_BREAKS_WITHIN: Final = 5.0
_NOTICED_WITHIN: Final = 1.0
_MOST_CALLS: Final = 120
"""Of its disk that a node may still make before the power goes."""
_FAILING: Final = (
    Operation.APPEND,
    Operation.FLUSH,
    Operation.FLUSH,
    Operation.CREATE,
    Operation.RENAME,
    Operation.SYNC_DIRECTORY,
    Operation.READ,
)


class DiskFaults:
    """The kinds of fault that need to know the disks."""

    def __init__(self, disks: Disks) -> None:
        self._disks = disks

    def kinds(self) -> dict[str, tuple[Kind, int]]:
        """Every kind of fault, with how often it comes compared to the others."""
        own: dict[str, Kind] = {
            "kill": self.kill,
            "power loss": self.power_loss,
            "power loss at work": self.power_loss_at_work,
            "power loss while down": self.power_loss_while_down,
            "power loss while recovering": self.power_loss_while_recovering,
            "power loss of all": self.power_loss_of_all,
            "power loss of the controller": self.power_loss_of_controller,
            "full disk": self.full_disk,
            "broken disk": self.broken_disk,
            "failing call": self.failing_call,
            "slow flushes": self.slow_flushes,
        }
        return {**KINDS, **{name: (kind, DISK_WEIGHTS[name]) for name, kind in own.items()}}

    # Power

    async def kill(self, scene: Scene) -> Injury:
        node_id = scene.take()
        await self._halt(scene, [node_id], power=False)
        return Injury(f"node {node_id}", lambda: scene.start(node_id))

    async def power_loss(self, scene: Scene) -> Injury:
        node_id = scene.take()
        await self._halt(scene, [node_id])
        return Injury(f"of node {node_id}", lambda: scene.start(node_id))

    async def power_loss_at_work(self, scene: Scene) -> Injury:
        """Between two calls of the disk, in the midst of whatever the node does."""
        node_id = scene.take()
        broken = self._break_soon(scene, node_id)
        with suppress(TimeoutError):
            async with asyncio.timeout(_BREAKS_WITHIN):
                await broken.wait()
        await self._halt(scene, [node_id])
        return Injury(f"of node {node_id}", lambda: scene.start(node_id))

    async def power_loss_while_down(self, scene: Scene) -> Injury:
        """A node that has stopped, or was killed, leaves what it wrote to the system, which goes down later."""
        node_id = scene.take()
        if scene.random.random() < 0.5:
            await scene.stop(node_id, clean=True)
        else:
            await self._halt(scene, [node_id], power=False)
        await asyncio.sleep(scene.random.choice((0.0, 0.5, 4.0)))
        self._disks.lose_power([node_id])
        return Injury(f"of node {node_id}", lambda: scene.start(node_id))

    async def power_loss_while_recovering(self, scene: Scene) -> Injury:
        """Again and again."""
        node_id = scene.take()
        await self._halt(scene, [node_id])
        times = scene.random.randint(1, 3)
        for _ in range(times):
            await asyncio.sleep(scene.random.choice((0.0, 0.5, 3.0)))
            await self._start_and_lose_power(scene, node_id)
        return Injury(f"of node {node_id}, {times} times", lambda: scene.start(node_id))

    async def _start_and_lose_power(self, scene: Scene, node_id: int) -> None:
        broken = self._break_soon(scene, node_id)
        starting = asyncio.get_running_loop().create_task(scene.cluster.start_node(node_id))
        with suppress(TimeoutError):
            async with asyncio.timeout(_BREAKS_WITHIN * 3):
                await broken.wait()
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await self._halt(scene, [node_id])

    async def power_loss_of_all(self, scene: Scene) -> Injury:
        """Every node and the controller at once; they come back in any order."""
        nodes = scene.free()
        if len(nodes) < len(self._disks.volumes):
            raise NoVictimError
        try:
            controller = scene.cluster.controller
        except RuntimeError as error:
            raise NoVictimError from error
        for node_id in nodes:
            scene.take(node_id)
        self._disks.lose_controller_power()
        await asyncio.gather(self._halt(scene, nodes), controller.stop(clean=False))
        pauses = [scene.random.choice((0.0, 0.5, 4.0)) for _ in range(len(nodes) + 1)]

        async def start_controller() -> None:
            await asyncio.sleep(pauses[-1])
            await scene.cluster.start_controller()

        async def start_node(node_id: int, pause: float) -> None:
            await asyncio.sleep(pause)
            await scene.start(node_id)

        async def heal() -> None:
            await asyncio.gather(start_controller(), *map(start_node, nodes, pauses))

        return Injury("", heal)

    async def power_loss_of_controller(self, scene: Scene) -> Injury:
        try:
            controller = scene.cluster.controller
        except RuntimeError as error:
            raise NoVictimError from error
        self._disks.lose_controller_power()
        await controller.stop(clean=False)
        return Injury("", scene.cluster.start_controller)

    async def _halt(self, scene: Scene, node_ids: Sequence[int], *, power: bool = True) -> None:
        """The nodes are dead from one moment to the next; one that has failed by itself is so already."""
        if power:
            self._disks.lose_power(node_ids)
        else:
            for node_id in node_ids:
                self._disks.crash(node_id)
        await asyncio.gather(*(_stop_if_it_runs(scene, node_id) for node_id in node_ids))

    def _break_soon(self, scene: Scene, node_id: int) -> asyncio.Event:
        """All disks of a node break together, when one of them has served a number of calls."""
        broken = asyncio.Event()
        volumes = self._disks.volumes[node_id]

        def break_all() -> None:
            for volume in volumes:
                volume.break_disk()
            broken.set()

        for volume in volumes:
            volume.break_after(scene.random.randrange(_MOST_CALLS), break_all)
        return broken

    # Disks

    async def full_disk(self, scene: Scene) -> Injury:
        node_id = scene.take()
        number, volume = scene.random.choice(list(enumerate(self._disks.volumes[node_id])))
        volume.fill(scene.random.choice((0, 100, 1000, 5000)))

        async def heal() -> None:
            volume.capacity = None
            await self._restart_if_offline(scene, node_id)

        return Injury(f"{number} of node {node_id}", heal)

    async def broken_disk(self, scene: Scene) -> Injury:
        node_id = scene.take()
        number, volume = scene.random.choice(list(enumerate(self._disks.volumes[node_id])))
        volume.break_disk()

        async def heal() -> None:
            volume.heal()
            await self._restart_if_offline(scene, node_id)

        return Injury(f"{number} of node {node_id}", heal)

    async def failing_call(self, scene: Scene) -> Injury:
        node_id = scene.take()
        number, volume = scene.random.choice(list(enumerate(self._disks.volumes[node_id])))
        operation = scene.random.choice(_FAILING)
        volume.fail_next(operation, "*", OSError(errno.EIO, os.strerror(errno.EIO)))

        async def heal() -> None:
            volume.heal()
            await self._restart_if_offline(scene, node_id)

        return Injury(f"{operation.value} on {number} of node {node_id}", heal)

    async def _restart_if_offline(self, scene: Scene, node_id: int) -> None:
        # What the disk has refused by now may be known to the node only a slow flush later.
        await asyncio.sleep(_NOTICED_WITHIN)
        node = scene.cluster.nodes.get(node_id)
        if node is not None:
            directories = node.replicas.directories
            if len(directories.online) == len(directories):
                del scene.taken[node_id]
                return
            if scene.random.random() < 0.5:
                await self._halt(scene, [node_id], power=False)
            else:
                await scene.stop(node_id, clean=True)
        await scene.start(node_id)

    async def slow_flushes(self, scene: Scene) -> Injury:
        node_id = scene.node().id
        seconds = scene.random.choice((0.01, 0.05, 0.2))
        for volume in self._disks.volumes[node_id]:
            volume.slow(seconds)

        async def heal() -> None:
            for volume in self._disks.volumes[node_id]:
                volume.slow(0.0)

        return Injury(f"of node {node_id}, {seconds} s each", heal)


async def _stop_if_it_runs(scene: Scene, node_id: int) -> None:
    if node_id in scene.cluster.nodes:
        await scene.stop(node_id, clean=False)


DISK_WEIGHTS: Final = {
    "kill": 6,
    "power loss": 12,
    "power loss at work": 12,
    "power loss while down": 6,
    "power loss while recovering": 6,
    "power loss of all": 10,
    "power loss of the controller": 4,
    "full disk": 6,
    "broken disk": 6,
    "failing call": 6,
    "slow flushes": 4,
}
DISK_LASTING: Final = (*LASTING, "power loss", "power loss of all", "broken disk", "full disk")
EVERY_KIND: Final = tuple({**KINDS, **DISK_WEIGHTS})
