"""A member of a classic group that sends single requests: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetCommit.

It follows no protocol by itself. What an answer gives it (an id, a generation) it keeps for the next request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ottla.wire.messages import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tests.interop.groups.link import Link

Parts = Mapping[str, Sequence[int]]
"""Partitions by topic."""
MEMBER_ID_REQUIRED = 79
JOIN, SYNC, HEARTBEAT, LEAVE, COMMIT = 9, 5, 4, 5, 9


def subscription(
    topics: Iterable[str], owned: Parts | None = None, generation: int = -1, version: int = 3
) -> bytes:
    """The metadata of a protocol of type "consumer", with its version in front."""
    parts = [
        ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=list(each))
        for topic, each in (owned or {}).items()
    ]
    body = ConsumerProtocolSubscription(
        topics=sorted(topics), user_data=None, owned_partitions=parts, generation_id=generation, rack_id=None
    )
    return version.to_bytes(2, "big") + body.encode(version)


def assignment(parts: Parts, version: int = 3) -> bytes:
    assigned = [
        ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=list(each))
        for topic, each in parts.items()
    ]
    return version.to_bytes(2, "big") + ConsumerProtocolAssignment(assigned_partitions=assigned).encode(
        version
    )


def assigned_parts(data: bytes) -> dict[str, list[int]]:
    """What an assignment says; nothing for the empty bytes that a forgotten member gets."""
    if not data:
        return {}
    body = ConsumerProtocolAssignment.decode(data[2:], int.from_bytes(data[:2], "big"))
    return {each.topic: list(each.partitions) for each in body.assigned_partitions}


@dataclass
class ClassicMember:
    """One member: its connection, and what it says about itself in the next request. A test may change any of it."""

    link: Link
    group: str
    topics: list[str]
    protocols: Sequence[str] = ("range",)
    instance: str | None = None
    session_ms: int = 10_000
    rebalance_ms: int = 10_000
    protocol_type: str = "consumer"
    owned: Parts = field(default_factory=dict)
    member_id: str = ""
    generation: int = -1
    leader: str = ""
    protocol: str | None = None

    def start_join(self, version: int = JOIN) -> None:
        """Sends JoinGroup; `joined` waits for what comes."""
        metadata = subscription(self.topics, self.owned, self.generation if self.owned else -1)
        protocols = [
            JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=metadata) for name in self.protocols
        ]
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self.session_ms,
            member_id=self.member_id,
            protocol_type=self.protocol_type,
            protocols=protocols,
            rebalance_timeout_ms=self.rebalance_ms,
            group_instance_id=self.instance,
        )
        self.link.send(request, version)

    def joined(self) -> JoinGroupResponse:
        answer = self.link.receive_as(JoinGroupResponse)
        if answer.error_code in (0, MEMBER_ID_REQUIRED):
            self.member_id = answer.member_id
        if answer.error_code == 0:
            self.generation, self.leader, self.protocol = (
                answer.generation_id,
                answer.leader,
                answer.protocol_name,
            )
        return answer

    def join(self, version: int = JOIN) -> JoinGroupResponse:
        self.start_join(version)
        return self.joined()

    def get_id(self) -> None:
        """The first JoinGroup of a dynamic member, which gives it an id and no more (KIP-394)."""
        assert self.join().error_code == MEMBER_ID_REQUIRED

    def start_entering(self) -> None:
        """Everything up to the JoinGroup that parks."""
        if self.instance is None and not self.member_id:
            self.get_id()
        self.start_join()

    def enter(self) -> JoinGroupResponse:
        self.start_entering()
        return self.joined()

    def start_sync(
        self, assignments: Mapping[str, Parts] | None = None, version: int = SYNC, protocol: str | None = None
    ) -> None:
        """Sends SyncGroup; `synced` waits for what comes."""
        given = [
            SyncGroupRequest.SyncGroupRequestAssignment(member_id=member_id, assignment=assignment(parts))
            for member_id, parts in (assignments or {}).items()
        ]
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type=self.protocol_type if version >= 5 else None,
            protocol_name=(protocol or self.protocol) if version >= 5 else None,
            assignments=given,
        )
        self.link.send(request, version)

    def synced(self) -> SyncGroupResponse:
        return self.link.receive_as(SyncGroupResponse)

    def sync(
        self, assignments: Mapping[str, Parts] | None = None, version: int = SYNC, protocol: str | None = None
    ) -> SyncGroupResponse:
        self.start_sync(assignments, version, protocol)
        return self.synced()

    def heartbeat(self) -> int:
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )
        return self.link.get(request, HEARTBEAT, HeartbeatResponse).error_code

    def leave(self) -> int:
        """LeaveGroup for itself: the code of the request, or if that is none, the member's."""
        identity = LeaveGroupRequest.MemberIdentity(member_id=self.member_id, group_instance_id=self.instance)
        request = LeaveGroupRequest(group_id=self.group, members=[identity])
        answer = self.link.get(request, LEAVE, LeaveGroupResponse)
        return answer.error_code or answer.members[0].error_code

    def commit(
        self, offset: int = 1, partition: int = 0, version: int = COMMIT, retention_ms: int = -1
    ) -> int:
        """OffsetCommit of one partition: its code. Versions 2 to 4 may say how long the offset is kept."""
        part = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=""
        )
        wanted = OffsetCommitRequest.OffsetCommitRequestTopic(name=self.topics[0], partitions=[part])
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance if version >= 7 else None,
            retention_time_ms=retention_ms,
            topics=[wanted],
        )
        (answered,) = self.link.get(request, version, OffsetCommitResponse).topics
        return answered.partitions[0].error_code
