"""Tells the controller in which log directory each replica of a node lies (AssignReplicasToDirs, KIP-858).

Only a node with several directories has to: when one of them fails, the controller has to know which partitions want
another leader. What cannot be sent is sent again, and what was decided about a replica last counts. A move
(log_dir_moves.py) waits until the controller has accepted where the replica will lie.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from ottla.broker.server.background import Fail, unending
from ottla.errors import KafkaError
from ottla.wire import Uuid
from ottla.wire.messages import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse

if TYPE_CHECKING:
    from ottla.runtime import Clock

_log = logging.getLogger("ottla.broker.replication.directory_assignments")

LOST: Final = Uuid(bytes(15) + b"\x01")
"""As in Kafka: of a replica that lies in a directory which is offline, and whose id the node does not know."""
_RETRY: Final = 0.5


class DirectoryController(Protocol):
    """The way to the controller."""

    @property
    def broker_epoch(self) -> int: ...

    async def assign_replicas(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse: ...

    def log_dir_failed(self, directory_id: Uuid) -> None: ...


class DirectoryAssignments:
    """What one node has to say."""

    def __init__(self, node_id: int, controller: DirectoryController, clock: Clock, fail: Fail) -> None:
        self._node_id = node_id
        self._controller = controller
        self._clock = clock
        self._fail = fail
        self._waiting: dict[tuple[Uuid, int], Uuid] = {}
        self._on_accepted: dict[tuple[Uuid, int], tuple[Uuid, Callable[[], None]]] = {}
        self._sending: asyncio.Task[None] | None = None

    def assign(
        self,
        topic_id: Uuid,
        index: int,
        directory_id: Uuid,
        on_accepted: Callable[[], None] | None = None,
    ) -> None:
        """A replica lies there now, or is about to; `on_accepted` is called, unless another place is decided on."""
        self._waiting[topic_id, index] = directory_id
        self._on_accepted.pop((topic_id, index), None)
        if on_accepted is not None:
            self._on_accepted[topic_id, index] = (directory_id, on_accepted)
        if self._sending is None:
            work = unending(self._send_all, "it cannot say where its replicas lie", self._fail)
            self._sending = asyncio.get_running_loop().create_task(work)

    async def close(self) -> None:
        sending, self._sending = self._sending, None
        if sending is not None:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                places, self._waiting = self._waiting, {}
                if not await self._send(places):
                    self._waiting = places | self._waiting
                    await self._clock.sleep(_RETRY)
        finally:
            self._sending = None

    async def _send(self, places: dict[tuple[Uuid, int], Uuid]) -> bool:
        try:
            response = await self._controller.assign_replicas(self._request(places))
        except (OSError, TimeoutError, KafkaError) as error:
            _log.info("node %s cannot say where its replicas lie: %s", self._node_id, error)
            return False
        if response.error_code:
            return False
        for directory in response.directories:
            for topic in directory.topics:
                for partition in topic.partitions:
                    # A code of a single partition says that the node has no such replica any more.
                    if not partition.error_code:
                        self._accepted(topic.topic_id, partition.partition_index, directory.id)
        return True

    def _accepted(self, topic_id: Uuid, index: int, directory_id: Uuid) -> None:
        awaited, call = self._on_accepted.get((topic_id, index), (None, None))
        if awaited == directory_id and call is not None:
            del self._on_accepted[topic_id, index]
            call()

    def _request(self, places: dict[tuple[Uuid, int], Uuid]) -> AssignReplicasToDirsRequest:
        directories: dict[Uuid, dict[Uuid, list[int]]] = {}
        for (topic_id, index), directory_id in places.items():
            directories.setdefault(directory_id, {}).setdefault(topic_id, []).append(index)
        return AssignReplicasToDirsRequest(
            broker_id=self._node_id,
            broker_epoch=self._controller.broker_epoch,
            directories=[
                AssignReplicasToDirsRequest.DirectoryData(
                    id=directory_id,
                    topics=[
                        AssignReplicasToDirsRequest.TopicData(
                            topic_id=topic_id,
                            partitions=[
                                AssignReplicasToDirsRequest.PartitionData(partition_index=index)
                                for index in indexes
                            ],
                        )
                        for topic_id, indexes in topics.items()
                    ],
                )
                for directory_id, topics in directories.items()
            ],
        )
