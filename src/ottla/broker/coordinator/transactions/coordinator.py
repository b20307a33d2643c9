"""The transaction coordinator of one node: the runtime of its shards, producer ids for them, and their markers.

What becomes of a transactional id is its shard's business (manager.py). Here is what takes a while: an operation that
needs another producer id gets one from the node's block, which may ask the controller, and runs again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ottla.broker.coordinator.internal_topics import TRANSACTIONS_TOPIC
from ottla.broker.coordinator.runtime import CoordinatorRuntime
from ottla.broker.coordinator.transactions.manager import TransactionShard
from ottla.broker.coordinator.transactions.markers import MarkerSender, NodeRequests
from ottla.broker.coordinator.transactions.state import ProducerIdAndEpoch, ProducerIdNeeded
from ottla.errors import ConcurrentTransactionsError
from ottla.wire.compression import Compression

if TYPE_CHECKING:
    from ottla.broker.configs.node import NodeConfigs
    from ottla.broker.coordinator.producer_ids import ProducerIdBlock
    from ottla.broker.coordinator.shard import Result, ShardContext
    from ottla.broker.metadata.image import Delta, MetadataImage
    from ottla.broker.replication.replica_manager import ReplicaManager
    from ottla.broker.server.background import BackgroundTasks
    from ottla.runtime import Runtime

_R = TypeVar("_R")


class TransactionCoordinator(CoordinatorRuntime[TransactionShard]):
    """The transactional ids that this node coordinates."""

    def __init__(
        self,
        *,
        node_id: int,
        image: MetadataImage,
        configs: NodeConfigs,
        replicas: ReplicaManager,
        runtime: Runtime,
        link: NodeRequests,
        producer_ids: ProducerIdBlock,
        background: BackgroundTasks,
    ) -> None:
        super().__init__(
            TRANSACTIONS_TOPIC,
            self._shard,
            node_id=node_id,
            image=image,
            configs=configs,
            replicas=replicas,
            runtime=runtime,
        )
        self.markers = MarkerSender(image, link, runtime.clock, self.write_timeout, background.spawn)
        self._producer_ids = producer_ids
        self._background = background

    def _shard(self, context: ShardContext) -> TransactionShard:
        partition = self.replicas.partitions[TRANSACTIONS_TOPIC, context.partition]
        return TransactionShard(context, self.markers, lambda: partition.leader_epoch, self._allocate)

    def write_timeout(self) -> float:
        return float(self.configs.value("request.timeout.ms")) / 1000

    def compression(self) -> Compression:
        return Compression.NONE

    # Requests

    async def init(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None
    ) -> ProducerIdAndEpoch:
        producer = await self._with_spare_id(
            transactional_id,
            lambda shard, spare_id: shard.init(transactional_id, timeout_ms, expected, spare_id),
        )
        if producer is None:
            raise ConcurrentTransactionsError
        return producer

    async def end(
        self, transactional_id: str, producer: ProducerIdAndEpoch, *, is_commit: bool, bumps: bool
    ) -> ProducerIdAndEpoch:
        return await self._with_spare_id(
            transactional_id,
            lambda shard, spare_id: shard.end(transactional_id, producer, is_commit, bumps, spare_id),
        )

    async def _with_spare_id(
        self, transactional_id: str, operation: Callable[[TransactionShard, int | None], Result[_R]]
    ) -> _R:
        try:
            return await self.write(transactional_id, lambda shard: operation(shard, None))
        except ProducerIdNeeded:
            spare_id = await self._producer_ids.next()
        # Meanwhile the state may have changed: the operation decides anew, and may not need the id any more.
        return await self.write(transactional_id, lambda shard: operation(shard, spare_id))

    def _allocate(self, then: Callable[[int], object]) -> None:
        async def allocate() -> None:
            then(await self._producer_ids.next())

        self._background.spawn(allocate())

    # Life

    def apply(self, delta: Delta) -> None:
        super().apply(delta)
        self.markers.flush()

    def pause(self) -> None:
        super().pause()
        self.markers.pause()

    def resume(self) -> None:
        super().resume()
        self.markers.resume()

    async def close(self) -> None:
        self.markers.close()
        await super().close()
