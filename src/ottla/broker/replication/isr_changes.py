"""A leader's proposals about who is in sync, on their way to the controller and back: AlterPartition (KIP-497).

One request is on its way at a time; what is proposed meanwhile goes with the next. What the controller answers
decides what becomes of a proposal: it is made, or refused because of a member, in which case the ISR stays what it
was, or tried again. Every other refusal says that the controller knows better than this leader: the proposal stays
pending, and with it the maximal ISR, until the metadata log brings the news.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from ottla.broker.replication.partition import IsrChange, Partition, PartitionKey
from ottla.broker.server.background import Fail, unending
from ottla.errors import KafkaError
from ottla.runtime import Clock
from ottla.wire.messages import AlterPartitionRequest, AlterPartitionResponse

_log = logging.getLogger("ottla.broker.replication.isr_changes")

_RETRY: Final = 0.05
_NONE: Final = 0
_INELIGIBLE_REPLICA: Final = 107
_STAY_PENDING: Final = frozenset(
    {
        3,  # UNKNOWN_TOPIC_OR_PARTITION
        42,  # INVALID_REQUEST
        74,  # FENCED_LEADER_EPOCH
        95,  # INVALID_UPDATE_VERSION
        100,  # UNKNOWN_TOPIC_ID
        108,  # NEW_LEADER_ELECTED
    }
)

Proposal = tuple[Partition, IsrChange]


class IsrController(Protocol):
    """The way to the controller."""

    @property
    def broker_epoch(self) -> int: ...

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse: ...


class IsrChanges:
    """The proposals of one node."""

    def __init__(
        self,
        node_id: int,
        controller: IsrController,
        clock: Clock,
        *,
        on_change: Callable[[Partition], None],
        fail: Fail,
    ) -> None:
        self._node_id = node_id
        self._controller = controller
        self._clock = clock
        self._on_change = on_change
        self._fail = fail
        self._waiting: dict[PartitionKey, Proposal] = {}
        self._sending: asyncio.Task[None] | None = None
        self._closed = False

    def propose(self, partition: Partition, change: IsrChange) -> None:
        _log.info(
            "node %s: %s-%s: in sync are %s, proposed are %s",
            *(self._node_id, *partition.key, partition.image.isr, change.isr),
        )
        self._waiting[partition.key] = (partition, change)
        if self._sending is None and not self._closed:
            work = unending(self._send_all, "it cannot propose who is in sync", self._fail)
            self._sending = asyncio.get_running_loop().create_task(work)

    async def close(self) -> None:
        self._closed = True
        sending, self._sending = self._sending, None
        if sending is not None:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                # What was given up meanwhile, because the metadata log brought something newer, is not sent.
                proposals = [each for each in self._waiting.values() if each[0].pending is each[1]]
                self._waiting = {}
                if proposals and not await self._send(proposals):
                    await self._clock.sleep(_RETRY)
        finally:
            self._sending = None

    async def _send(self, proposals: list[Proposal]) -> bool:
        """Sends what is proposed; whether all of it is decided."""
        try:
            response = await self._controller.alter_partition(self._request(proposals))
        except (OSError, TimeoutError, KafkaError) as error:
            _log.info("node %s cannot change who is in sync: %s", self._node_id, error)
            self._try_again(proposals)
            return False
        if response.error_code:
            self._try_again(proposals)
            return False
        results = {
            (topic.topic_id, result.partition_index): result
            for topic in response.topics
            for result in topic.partitions
        }
        undecided = [
            (partition, change)
            for partition, change in proposals
            if not self._decided(partition, change, results.get((partition.topic_id, partition.index)))
        ]
        self._try_again(undecided)
        return not undecided

    def _try_again(self, proposals: list[Proposal]) -> None:
        for partition, change in proposals:
            self._waiting.setdefault(partition.key, (partition, change))

    def _request(self, proposals: list[Proposal]) -> AlterPartitionRequest:
        topics: dict[object, AlterPartitionRequest.TopicData] = {}
        for partition, change in proposals:
            topic = topics.get(partition.topic_id)
            if topic is None:
                topic = topics[partition.topic_id] = AlterPartitionRequest.TopicData(
                    topic_id=partition.topic_id
                )
            topic.partitions.append(
                AlterPartitionRequest.PartitionData(
                    partition_index=partition.index,
                    leader_epoch=change.leader_epoch,
                    partition_epoch=change.partition_epoch,
                    new_isr_with_epochs=[
                        AlterPartitionRequest.BrokerState(broker_id=replica, broker_epoch=epoch)
                        for replica, epoch in zip(change.isr, change.broker_epochs, strict=True)
                    ],
                )
            )
        return AlterPartitionRequest(
            broker_id=self._node_id,
            broker_epoch=self._controller.broker_epoch,
            topics=list(topics.values()),
        )

    def _decided(
        self, partition: Partition, change: IsrChange, result: AlterPartitionResponse.PartitionData | None
    ) -> bool:
        """Takes the controller's decision over, if it is one."""
        if result is None:
            return False
        code = result.error_code
        if code == _NONE:
            if partition.altered(change, tuple(result.isr), result.leader_epoch, result.partition_epoch):
                self._on_change(partition)
            return True
        _log.info("node %s: %s-%s: %s is refused: %s", self._node_id, *partition.key, change.isr, code)
        if code == _INELIGIBLE_REPLICA:
            partition.refused(change)
            return True
        return code in _STAY_PENDING
