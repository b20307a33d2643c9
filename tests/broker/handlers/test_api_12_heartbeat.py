"""Heartbeat: what a member learns, and what it gets from a coordinator that is not ready."""

from __future__ import annotations

import pytest

from ottla.broker import Cluster
from ottla.wire.messages import HeartbeatRequest, HeartbeatResponse
from tests.broker.handlers.groups import (
    INVALID_GROUP_ID,
    NOT_COORDINATOR,
    UNKNOWN_MEMBER,
    coordinator,
    stable,
)
from tests.broker.handlers.requests import send

ILLEGAL_GENERATION = 22


@pytest.mark.parametrize("version", range(5))
def test_a_member_is_alive_in_its_generation(kafka: Cluster, version: int) -> None:
    group = f"heartbeat-{version}"
    member = stable(kafka, group).member_id
    for generation, member_id, code in (
        (1, member, 0),
        (2, member, ILLEGAL_GENERATION),
        (1, "x", UNKNOWN_MEMBER),
    ):
        request = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id)
        assert send(kafka, request, version, HeartbeatResponse).error_code == code


def test_a_group_that_is_not_there_has_no_members(kafka: Cluster) -> None:
    coordinator(kafka, "no-heartbeat")
    for group, code in (("no-heartbeat", UNKNOWN_MEMBER), ("", INVALID_GROUP_ID)):
        request = HeartbeatRequest(group_id=group, generation_id=1, member_id="m")
        assert send(kafka, request, 4, HeartbeatResponse).error_code == code


def test_while_the_coordinator_loads_a_heartbeat_succeeds(kafka: Cluster) -> None:
    coordinator(kafka, "loading")
    groups = kafka._cluster.node(1).groups
    led = groups._led[groups.partition_of("loading")]
    active = led.state
    kafka.call(lambda: setattr(led, "state", type(active).LOADING))
    try:
        request = HeartbeatRequest(group_id="loading", generation_id=1, member_id="m")
        assert send(kafka, request, 4, HeartbeatResponse).error_code == 0
    finally:
        kafka.call(lambda: setattr(led, "state", active))


def test_only_the_coordinator_hears_heartbeats(kafka3: Cluster) -> None:
    other = coordinator(kafka3, "heartbeat-elsewhere") % 3 + 1
    request = HeartbeatRequest(group_id="heartbeat-elsewhere", generation_id=1, member_id="m")
    assert send(kafka3, request, 4, HeartbeatResponse, node=other).error_code == NOT_COORDINATOR
