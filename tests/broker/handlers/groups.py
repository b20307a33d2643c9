"""Groups for the tests of handlers: their coordinators, and members that join by plain requests."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.broker import Cluster
from ottla.broker.coordinator.groups.manager import GroupShard
from ottla.broker.coordinator.runtime import CoordinatorRuntime
from ottla.errors import BrokerError
from ottla.wire.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tests.broker.coordinator.groups.classic_world import subscription
from tests.broker.handlers.requests import send
from tests.interop.waiting import eventually

NOT_COORDINATOR, INVALID_GROUP_ID, UNKNOWN_MEMBER, MEMBER_ID_REQUIRED = 16, 24, 25, 79

Committed = tuple[str, int, int]
"""Topic, partition and offset."""


def coordinator(cluster: Cluster, group: str) -> int:
    """The node that coordinates a group, once it has loaded what there is of it."""
    found: list[int] = []

    def is_found() -> bool:
        response = send(cluster, FindCoordinatorRequest(key=group), 3, FindCoordinatorResponse)
        if response.error_code:
            return False
        found[:] = [response.node_id]
        nodes = cluster._cluster.nodes
        return bool(cluster.call(lambda: _is_loaded(nodes[response.node_id].groups, group)))

    eventually(is_found, f"the coordinator of {group}", 10, every=0.02)
    return found[0]


def _is_loaded(groups: CoordinatorRuntime[GroupShard], group: str) -> bool:
    try:
        groups.read(group, lambda shard: None)
    except BrokerError:
        return False
    return True


def join_request(group: str, member_id: str = "", **fields: object) -> JoinGroupRequest:
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=subscription("orders"))],
    )
    for name, value in fields.items():
        setattr(request, name, value)
    return request


def join(cluster: Cluster, group: str, *, version: int = 9, instance: str | None = None) -> JoinGroupResponse:
    """A member of its own, which leads."""
    node = coordinator(cluster, group)
    request = join_request(group, group_instance_id=instance)
    response = send(cluster, request, version, JoinGroupResponse, node=node)
    if response.error_code == MEMBER_ID_REQUIRED:
        request.member_id = response.member_id
        response = send(cluster, request, version, JoinGroupResponse, node=node)
    assert response.error_code == 0, response
    return response


def stable(cluster: Cluster, group: str, *, instance: str | None = None) -> JoinGroupResponse:
    """A group with one member, whose assignment is `part`."""
    joined = join(cluster, group, instance=instance)
    request = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        group_instance_id=instance,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[
            SyncGroupRequest.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"part")
        ],
    )
    synced = send(cluster, request, 5, SyncGroupResponse, node=coordinator(cluster, group))
    assert (synced.error_code, synced.assignment) == (0, b"part")
    return joined


def commit_request(group: str, offsets: Sequence[Committed], **fields: object) -> OffsetCommitRequest:
    topics: dict[str, OffsetCommitRequest.OffsetCommitRequestTopic] = {}
    for topic, partition, offset in offsets:
        topics.setdefault(topic, OffsetCommitRequest.OffsetCommitRequestTopic(name=topic)).partitions.append(
            OffsetCommitRequest.OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offset, committed_metadata="note"
            )
        )
    request = OffsetCommitRequest(group_id=group, topics=list(topics.values()))
    for name, value in fields.items():
        setattr(request, name, value)
    return request


def commit(
    cluster: Cluster, group: str, *offsets: Committed, version: int = 9, **fields: object
) -> list[tuple[str, int, int]]:
    """Topic, partition and error code of each."""
    response = send(
        cluster,
        commit_request(group, offsets, **fields),
        version,
        OffsetCommitResponse,
        node=coordinator(cluster, group),
    )
    return [
        (topic.name, partition.partition_index, partition.error_code)
        for topic in response.topics
        for partition in topic.partitions
    ]
