"""LeaveGroup: one member in old versions, several in new ones."""

from __future__ import annotations

import pytest

from ottla.broker import Cluster
from ottla.wire.messages import LeaveGroupRequest, LeaveGroupResponse
from tests.broker.handlers.groups import (
    INVALID_GROUP_ID,
    NOT_COORDINATOR,
    UNKNOWN_MEMBER,
    coordinator,
    stable,
)
from tests.broker.handlers.requests import send

Identity = LeaveGroupRequest.MemberIdentity


@pytest.mark.parametrize("version", range(3))
def test_one_member_leaves_with_one_code(kafka: Cluster, version: int) -> None:
    group = f"leave-{version}"
    member = stable(kafka, group).member_id
    for code in (0, UNKNOWN_MEMBER):
        request = LeaveGroupRequest(group_id=group, member_id=member)
        assert send(kafka, request, version, LeaveGroupResponse).error_code == code


@pytest.mark.parametrize("version", [3, 4, 5])
def test_each_of_several_members_has_its_own_code(kafka: Cluster, version: int) -> None:
    group = f"leave-many-{version}"
    member = stable(kafka, group, instance="i").member_id
    request = LeaveGroupRequest(
        group_id=group, members=[Identity(member_id="x"), Identity(member_id=member, group_instance_id="i")]
    )
    response = send(kafka, request, version, LeaveGroupResponse)
    assert [(each.member_id, each.group_instance_id, each.error_code) for each in response.members] == [
        ("x", None, UNKNOWN_MEMBER),
        (member, "i", 0),
    ]


def test_no_one_leaves_a_group_that_is_not_there(kafka: Cluster) -> None:
    coordinator(kafka, "nobody-leaves")
    request = LeaveGroupRequest(group_id="nobody-leaves", members=[Identity(member_id="x")])
    response = send(kafka, request, 5, LeaveGroupResponse)
    assert (response.error_code, response.members[0].error_code) == (0, UNKNOWN_MEMBER)
    nameless = LeaveGroupRequest(group_id="", members=[Identity(member_id="x")])
    assert send(kafka, nameless, 5, LeaveGroupResponse).error_code == INVALID_GROUP_ID


def test_only_the_coordinator_lets_members_go(kafka3: Cluster) -> None:
    other = coordinator(kafka3, "leave-elsewhere") % 3 + 1
    request = LeaveGroupRequest(group_id="leave-elsewhere", members=[Identity(member_id="x")])
    assert send(kafka3, request, 5, LeaveGroupResponse, node=other).error_code == NOT_COORDINATOR
