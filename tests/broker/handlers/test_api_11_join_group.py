"""JoinGroup: what is checked before the group is, and the form of its responses."""

from __future__ import annotations

import pytest

from ottla.broker import Cluster
from ottla.wire.messages import JoinGroupResponse
from tests.broker.handlers.groups import (
    INVALID_GROUP_ID,
    MEMBER_ID_REQUIRED,
    NOT_COORDINATOR,
    UNKNOWN_MEMBER,
    coordinator,
    join,
    join_request,
)
from tests.broker.handlers.requests import send

INVALID_SESSION_TIMEOUT = 26


@pytest.mark.parametrize("version", range(10))
def test_a_member_joins_in_every_version(kafka: Cluster, version: int) -> None:
    joined = join(kafka, f"join-{version}", version=version)
    assert (joined.generation_id, joined.protocol_name, joined.leader) == (1, "range", joined.member_id)
    assert [member.member_id for member in joined.members] == [joined.member_id]


@pytest.mark.parametrize("version", range(10))
def test_a_refusal_has_a_form_that_its_version_can_carry(kafka: Cluster, version: int) -> None:
    coordinator(kafka, "refused")
    response = send(kafka, join_request("refused", "nobody"), version, JoinGroupResponse)
    assert (response.error_code, response.member_id) == (UNKNOWN_MEMBER, "nobody")
    assert response.protocol_name == (None if version >= 7 else "")


def test_the_group_is_checked_before_the_session_and_that_before_the_member(kafka: Cluster) -> None:
    coordinator(kafka, "checked")
    for group, session, code in (
        ("", 1, INVALID_GROUP_ID),
        ("checked", 5999, INVALID_SESSION_TIMEOUT),
        ("checked", 1_800_001, INVALID_SESSION_TIMEOUT),
        ("checked", 6000, UNKNOWN_MEMBER),
    ):
        request = join_request(group, "m", session_timeout_ms=session)
        assert send(kafka, request, 9, JoinGroupResponse).error_code == code


def test_a_member_id_begins_with_the_id_of_the_client(kafka: Cluster) -> None:
    coordinator(kafka, "named")
    response = send(kafka, join_request("named"), 9, JoinGroupResponse)
    assert response.error_code == MEMBER_ID_REQUIRED
    assert response.member_id.startswith("ottla-tests-")


def test_only_the_coordinator_lets_members_in(kafka3: Cluster) -> None:
    other = coordinator(kafka3, "join-elsewhere") % 3 + 1
    response = send(kafka3, join_request("join-elsewhere"), 9, JoinGroupResponse, node=other)
    assert response.error_code == NOT_COORDINATOR
