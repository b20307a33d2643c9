"""A member of a group of KIP-848 that sends single heartbeats, and commits.

A heartbeat says only what the test has it say: null everywhere else is "unchanged". What an answer gives the member
(its epoch, its partitions) it keeps, and tells the coordinator when the test has it do so.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ottla.wire import Uuid
from ottla.wire.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from tests.interop.groups.link import Link

HEARTBEAT = 1
COMMIT = 9
LEAVE, LEAVE_STATIC = -1, -2
Owned = Mapping[Uuid, Sequence[int]]


@dataclass
class ConsumerMember:
    """One member: its connection and what it knows."""

    link: Link
    group: str
    topic: str
    topic_id: Uuid
    instance: str | None = None
    rebalance_ms: int = 10_000
    member_id: str = field(default_factory=lambda: str(Uuid(uuid.uuid4().bytes)))
    epoch: int = 0
    assigned: dict[Uuid, list[int]] = field(default_factory=dict)

    def beat(
        self,
        *,
        owned: Owned | None = None,
        epoch: int | None = None,
        topics: list[str] | None = None,
        regex: str | None = None,
        assignor: str | None = None,
        rack: str | None = None,
        rebalance_ms: int = -1,
        version: int = HEARTBEAT,
    ) -> ConsumerGroupHeartbeatResponse:
        """One heartbeat. What it leaves out stays as it was."""
        parts = None
        if owned is not None:
            parts = [
                ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=topic_id, partitions=list(each))
                for topic_id, each in owned.items()
            ]
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch if epoch is None else epoch,
            instance_id=self.instance,
            rack_id=rack,
            rebalance_timeout_ms=rebalance_ms,
            subscribed_topic_names=topics,
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=parts,
        )
        answer = self.link.get(request, version, ConsumerGroupHeartbeatResponse)
        if answer.error_code == 0:
            self.member_id = answer.member_id or self.member_id
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.assigned = {
                    each.topic_id: sorted(each.partitions) for each in answer.assignment.topic_partitions
                }
        return answer

    def join(
        self,
        *,
        topics: list[str] | None = None,
        regex: str | None = None,
        assignor: str | None = None,
        version: int = HEARTBEAT,
    ) -> ConsumerGroupHeartbeatResponse:
        """The full heartbeat that joins: epoch 0, with nothing owned."""
        if topics is None and regex is None:
            topics = [self.topic]
        return self.beat(
            epoch=0,
            owned={},
            topics=topics,
            regex=regex,
            assignor=assignor,
            rebalance_ms=self.rebalance_ms,
            version=version,
        )

    def ack(self) -> ConsumerGroupHeartbeatResponse:
        """A heartbeat with the true list of what the member has: the last assignment that it was told."""
        return self.beat(owned=self.assigned)

    def leave(self, epoch: int = LEAVE) -> ConsumerGroupHeartbeatResponse:
        return self.beat(epoch=epoch)

    @property
    def partitions(self) -> list[int]:
        """What it has of the group's topic."""
        return self.assigned.get(self.topic_id, [])

    def commit(
        self, offset: int = 1, partition: int = 0, epoch: int | None = None, version: int = COMMIT
    ) -> int:
        """OffsetCommit of one partition: its code."""
        part = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=""
        )
        wanted = OffsetCommitRequest.OffsetCommitRequestTopic(
            name=self.topic if version < 10 else "", topic_id=self.topic_id, partitions=[part]
        )
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.epoch if epoch is None else epoch,
            member_id=self.member_id,
            group_instance_id=self.instance,
            topics=[wanted],
        )
        (answered,) = self.link.get(request, version, OffsetCommitResponse).topics
        return answered.partitions[0].error_code
