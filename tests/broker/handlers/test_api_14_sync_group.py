"""SyncGroup: the part of a member, in every version, and the protocol that new ones have to name."""

from __future__ import annotations

import pytest

from ottla.broker import Cluster
from ottla.wire.messages import SyncGroupRequest, SyncGroupResponse
from tests.broker.handlers.groups import (
    INVALID_GROUP_ID,
    NOT_COORDINATOR,
    UNKNOWN_MEMBER,
    coordinator,
    stable,
)
from tests.broker.handlers.requests import send

INCONSISTENT_PROTOCOL = 23


def sync_request(group: str, member_id: str, protocol: str | None = "range") -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=group,
        generation_id=1,
        member_id=member_id,
        protocol_type="consumer" if protocol is not None else None,
        protocol_name=protocol,
    )


@pytest.mark.parametrize("version", range(6))
def test_a_member_of_a_stable_group_gets_its_part_again(kafka: Cluster, version: int) -> None:
    group = f"sync-{version}"
    member = stable(kafka, group).member_id
    response = send(kafka, sync_request(group, member), version, SyncGroupResponse)
    assert (response.error_code, response.assignment) == (0, b"part")
    assert response.protocol_name == ("range" if version >= 5 else None)


def test_since_version_5_the_protocol_has_to_be_named_and_right(kafka: Cluster) -> None:
    member = stable(kafka, "sync-protocol").member_id
    for protocol in (None, "other"):
        request = sync_request("sync-protocol", member, protocol)
        assert send(kafka, request, 5, SyncGroupResponse).error_code == INCONSISTENT_PROTOCOL


def test_a_group_that_is_not_there_has_no_assignments(kafka: Cluster) -> None:
    coordinator(kafka, "no-sync")
    for group, code in (("no-sync", UNKNOWN_MEMBER), ("", INVALID_GROUP_ID)):
        assert send(kafka, sync_request(group, "m"), 5, SyncGroupResponse).error_code == code


def test_only_the_coordinator_has_assignments(kafka3: Cluster) -> None:
    other = coordinator(kafka3, "sync-elsewhere") % 3 + 1
    response = send(kafka3, sync_request("sync-elsewhere", "m"), 5, SyncGroupResponse, node=other)
    assert response.error_code == NOT_COORDINATOR
