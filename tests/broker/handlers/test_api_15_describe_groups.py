"""DescribeGroups: a group with its members, and one that is not there."""

from __future__ import annotations

import pytest

from ottla.broker import Cluster
from ottla.wire.messages import DescribeGroupsRequest, DescribeGroupsResponse
from tests.broker.coordinator.groups.classic_world import subscription
from tests.broker.handlers.groups import NOT_COORDINATOR, coordinator, stable
from tests.broker.handlers.requests import send

GROUP_ID_NOT_FOUND = 69
EVERY_OPERATION = 3400
NO_OPERATIONS = -(2**31)


@pytest.mark.parametrize("version", range(7))
def test_a_stable_group_is_described_with_what_its_members_sent_and_got(kafka: Cluster, version: int) -> None:
    group = f"described-{version}"
    member = stable(kafka, group, instance="i").member_id
    coordinator(kafka, "absent")
    request = DescribeGroupsRequest(groups=[group, "absent"], include_authorized_operations=version >= 3)
    known, absent = send(kafka, request, version, DescribeGroupsResponse).groups
    assert (known.error_code, known.group_state) == (0, "Stable")
    assert (known.protocol_type, known.protocol_data) == ("consumer", "range")
    (described,) = known.members
    assert (described.member_id, described.client_id) == (member, "ottla-tests")
    assert described.client_host == "/127.0.0.1"
    assert described.group_instance_id == ("i" if version >= 4 else None)
    assert (described.member_metadata, described.member_assignment) == (subscription("orders"), b"part")
    assert known.authorized_operations == (EVERY_OPERATION if version >= 3 else NO_OPERATIONS)
    assert absent.group_state == "Dead"
    assert absent.error_code == (GROUP_ID_NOT_FOUND if version >= 6 else 0)
    assert absent.error_message == ("Group absent not found." if version >= 6 else None)


def test_only_the_coordinator_describes(kafka3: Cluster) -> None:
    other = coordinator(kafka3, "described-elsewhere") % 3 + 1
    request = DescribeGroupsRequest(groups=["described-elsewhere"])
    response = send(kafka3, request, 5, DescribeGroupsResponse, node=other)
    assert response.groups[0].error_code == NOT_COORDINATOR
