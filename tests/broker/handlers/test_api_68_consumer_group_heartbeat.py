"""ConsumerGroupHeartbeat: what is checked before the group is, and members that a node serves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker import Cluster
from ottla.wire.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from tests.broker.handlers.requests import send

NOT_COORDINATOR, UNSUPPORTED_VERSION, INVALID_REQUEST, UNKNOWN_MEMBER, UNSUPPORTED_ASSIGNOR = (
    16,
    35,
    42,
    25,
    112,
)
LOADING, NOT_AVAILABLE = 14, 15


def coordinator_of(cluster: Cluster, group: str) -> int:
    """The node that coordinates a group, when there is one."""

    async def found() -> int:
        while True:
            request = FindCoordinatorRequest(coordinator_keys=[group])
            response = await asyncio.to_thread(send, cluster, request, 4, FindCoordinatorResponse)
            (coordinator,) = response.coordinators
            if coordinator.error_code == 0:
                return coordinator.node_id
            await asyncio.sleep(0)

    return asyncio.run(asyncio.wait_for(found(), 30))


def join_request(group: str, member: str = "a", topics: list[str] | None = None, **fields: Any) -> Any:
    defaults = {"rebalance_timeout_ms": 1000, "topic_partitions": []}
    return ConsumerGroupHeartbeatRequest(
        group_id=group, member_id=member, subscribed_topic_names=topics or ["t"], **{**defaults, **fields}
    )


def beat(cluster: Cluster, request: Any, version: int = 1) -> ConsumerGroupHeartbeatResponse:
    """A heartbeat to the coordinator, again while that is loading."""
    node = coordinator_of(cluster, request.group_id)

    async def answered() -> ConsumerGroupHeartbeatResponse:
        while True:
            response = await asyncio.to_thread(
                send, cluster, request, version, ConsumerGroupHeartbeatResponse, node=node
            )
            if response.error_code not in (LOADING, NOT_AVAILABLE, NOT_COORDINATOR):
                return response
            await asyncio.sleep(0)

    return asyncio.run(asyncio.wait_for(answered(), 30))


@pytest.mark.parametrize("version", [0, 1])
def test_a_member_joins_in_every_version(kafka: Cluster, new_topic: Callable[..., str], version: int) -> None:
    topic = new_topic(kafka, 2)
    response = beat(kafka, join_request(f"beat-{version}", topics=[topic]), version)
    assert (response.error_code, response.member_id, response.member_epoch) == (0, "a", 2)
    assert response.heartbeat_interval_ms == 5000
    assert response.assignment is not None
    assert [topic.partitions for topic in response.assignment.topic_partitions] == [[0, 1]]


def test_a_refusal_says_why(kafka: Cluster) -> None:
    unknown = beat(kafka, join_request("beat-refused", member="a"))
    assert unknown.error_code == 0
    refused = beat(
        kafka,
        ConsumerGroupHeartbeatRequest(
            group_id="beat-refused",
            member_id="b",
            member_epoch=1,
            subscribed_topic_names=None,
            topic_partitions=None,
        ),
    )
    assert (refused.error_code, refused.error_message) == (
        UNKNOWN_MEMBER,
        "Member b is not a member of group beat-refused.",
    )
    assert (refused.member_id, refused.member_epoch, refused.assignment) == (None, 0, None)


def test_what_no_group_understands_is_refused_by_any_node(kafka3: Cluster) -> None:
    for request, code in (
        (join_request(""), INVALID_REQUEST),
        (join_request("beat", server_assignor="sticky"), UNSUPPORTED_ASSIGNOR),
    ):
        for node in kafka3.nodes:
            assert send(kafka3, request, 1, ConsumerGroupHeartbeatResponse, node=node).error_code == code


def test_only_the_coordinator_serves_a_group(kafka3: Cluster) -> None:
    other = coordinator_of(kafka3, "beat-elsewhere") % 3 + 1
    response = send(kafka3, join_request("beat-elsewhere"), 1, ConsumerGroupHeartbeatResponse, node=other)
    assert response.error_code == NOT_COORDINATOR


def test_a_broker_without_the_protocol_refuses_it() -> None:
    with Cluster(config={"group.coordinator.rebalance.protocols": "classic"}) as cluster:
        response = send(cluster, join_request("g"), 1, ConsumerGroupHeartbeatResponse)
        assert response.error_code == UNSUPPORTED_VERSION


def test_a_cluster_whose_group_version_is_0_refuses_it() -> None:
    with Cluster() as cluster:
        update = UpdateFeaturesRequest.FeatureUpdateKey(
            feature="group.version", max_version_level=0, upgrade_type=2
        )
        request = UpdateFeaturesRequest(feature_updates=[update], timeout_ms=10_000)
        assert send(cluster, request, 1, UpdateFeaturesResponse).error_code == 0
        response = send(cluster, join_request("g"), 1, ConsumerGroupHeartbeatResponse)
        assert response.error_code == UNSUPPORTED_VERSION
