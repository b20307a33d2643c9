"""The disks of a simulated cluster: every node and the controller on volumes that fail, and what each loss may cost.

A node whose power is lost is paused first, so that nothing it had in mind leaves the machine any more. What it had
flushed is written down at that moment (`PowerLoss`): that much it must still have when it comes back.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.broker.log.fs.faulty import FaultyFileSystem
from ottla.broker.log.segment import LOG_SUFFIX
from ottla.sim.runtime import SimRuntime, generator
from ottla.wire.batch_header import CHECKED_FROM

if TYPE_CHECKING:
    from ottla.broker.cluster.cluster import AsyncCluster
    from ottla.broker.cluster.node import Node
    from ottla.broker.log.log import Log

_FLIPS: Final = 0.3
"""How likely a power loss also leaves a bit in an unflushed batch that is not what it was."""


class PowerLoss(NamedTuple):
    """A node has lost its power."""

    node_id: int
    broker_epoch: int
    """Of its last life that the controller knew."""
    flushed: dict[int, int]
    """By partition, up to where its log was on the disk."""


class _UnflushedBatch(NamedTuple):
    volume: FaultyFileSystem
    path: str
    position: int
    data: bytes


class Disks:
    """The volumes of one cluster."""

    def __init__(self, runtime: SimRuntime, nodes: int, directories: int, topic: str) -> None:
        self._runtime = runtime
        self._topic = topic
        self._random = generator(runtime.seed, "disks")
        self.volumes = {
            node_id: [
                self._volume(node_id, f"disk {number} of node {node_id}") for number in range(directories)
            ]
            for node_id in range(1, nodes + 1)
        }
        self.controller = FaultyFileSystem(generator(runtime.seed, "disk of the controller"))
        self.losses: list[PowerLoss] = []
        self._cluster: AsyncCluster | None = None
        # By node and partition, as it was last seen.
        self._flushed: dict[tuple[int, int], int] = {}
        self._epochs: dict[int, int] = {}
        self._busy_until: dict[int, float] = {}

    def _volume(self, node_id: int, name: str) -> FaultyFileSystem:
        return FaultyFileSystem(
            generator(self._runtime.seed, name), delayed=lambda seconds: self._keep_busy(node_id, seconds)
        )

    def give_to(self, cluster: AsyncCluster) -> None:
        """Before it starts."""
        self._cluster = cluster
        for node_id, volumes in self.volumes.items():
            cluster.volumes.use(node_id, *volumes, on_disk=True)
        cluster.volumes.controller = self.controller

    def look(self) -> None:
        """Notes how far the logs of all nodes are flushed: a node that stops by itself leaves no time for it."""
        self._note_registrations()
        for node in self._nodes().values():
            self._note(node)

    def _note_registrations(self) -> None:
        """A node that is still starting has an epoch, and may be in sync, before anything else is seen of it."""
        if self._cluster is not None:
            with suppress(RuntimeError):  # a controller that is away registers none
                for node_id, broker in self._cluster.controller.state.image.brokers.items():
                    self._epochs[node_id] = max(self._epochs.get(node_id, -1), broker.epoch)

    def _nodes(self) -> dict[int, Node]:
        return {} if self._cluster is None else self._cluster.nodes

    def _note(self, node: Node) -> None:
        self._epochs[node.id] = max(self._epochs.get(node.id, -1), node.link.broker_epoch)
        for (topic, index), replica in node.replicas.partitions.items():
            if topic == self._topic:
                self._flushed[node.id, index] = replica.log.recovery_point

    # Power

    def crash(self, node_id: int) -> None:
        """The process of a node is gone; the system has what it wrote."""
        node = self._nodes().get(node_id)
        if node is not None:
            self._note(node)
            node.pause()
        for volume in self.volumes[node_id]:
            volume.crash()

    def lose_power(self, node_ids: Iterable[int]) -> None:
        """All at once; their nodes have to be stopped next."""
        self._note_registrations()
        for node_id in node_ids:
            node = self._nodes().get(node_id)
            if node is not None:
                self._note(node)
                node.pause()
            for volume in self.volumes[node_id]:
                volume.heal()
            damaged = self._unflushed_batch(node) if node is not None else None
            flushed = {index: at for (each, index), at in self._flushed.items() if each == node_id}
            self.losses.append(PowerLoss(node_id, self._epochs.get(node_id, -1), flushed))
            for volume in self.volumes[node_id]:
                volume.power_loss()
            if damaged is not None and self._random.random() < _FLIPS:
                self._flip(damaged)

    def lose_controller_power(self) -> None:
        self.controller.power_loss()
        self.controller.heal()

    # Damage

    def _unflushed_batch(self, node: Node) -> _UnflushedBatch | None:
        """One that a recovery has to read with its checksum, for it is not flushed."""
        logs = [
            (directory.fs, log)
            for directory in node.replicas.directories.online
            for name, log in sorted(directory.logs.items())
            if name.rpartition("-")[0] == self._topic and log.recovery_point < log.log_end_offset
        ]
        if not logs:
            return None
        volume, log = self._random.choice(logs)
        assert isinstance(volume, FaultyFileSystem)
        found = _unflushed(log, volume)
        if not found:
            return None
        return _UnflushedBatch(volume, *self._random.choice(found))

    def _flip(self, batch: _UnflushedBatch) -> None:
        """In what its checksum covers: nothing covers what is before, in Kafka as well."""
        volume, path, position, data = batch
        if not volume.exists(path):
            return
        if b"".join(volume.open(path).read(position, len(data))) == data:
            volume.flip_bit(path, position + CHECKED_FROM, position + len(data))

    # Time

    def _keep_busy(self, node_id: int, seconds: float) -> None:
        """A flush takes so long: the process stands still meanwhile."""
        node = self._nodes().get(node_id)
        if node is None:
            return
        clock = self._runtime.clock
        until = max(clock.monotonic(), self._busy_until.get(node_id, 0.0)) + seconds
        self._busy_until[node_id] = until
        node.pause()
        clock.call_later(until - clock.monotonic(), self._go_on, node, until)

    def _go_on(self, node: Node, until: float) -> None:
        if self._busy_until.get(node.id) == until:
            node.resume()


def _unflushed(log: Log, volume: FaultyFileSystem) -> list[tuple[str, int, bytes]]:
    """The batches behind the recovery point: file, position and content of each.

    Not those which were flushed all the same, in a life before or since the recovery point was last moved: it is on
    them that the promises rest.
    """
    return [
        (path, position, bytes(segment.batch_at(position, batch)))
        for segment, path in ((segment, f"{segment.path}{LOG_SUFFIX}") for segment in log.segments)
        # In the midst of a swap the log of a segment has another name.
        if segment.next_offset > log.recovery_point and volume.exists(path)
        for position, batch in segment.headers(0)
        if batch.base_offset >= log.recovery_point and position >= volume.synced_size(path)
    ]
