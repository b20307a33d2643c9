"""DeleteGroups: what goes, and what has members or is not there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.broker import Cluster
from ottla.wire.messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from tests.broker.handlers.groups import NOT_COORDINATOR, commit, coordinator, stable
from tests.broker.handlers.requests import send

NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND = 68, 69


@pytest.mark.parametrize("version", range(3))
def test_groups_without_members_go_with_their_offsets(
    kafka: Cluster, new_topic: Callable[..., str], version: int
) -> None:
    simple, full = f"deleted-{version}", f"kept-{version}"
    commit(kafka, simple, (new_topic(kafka), 0, 5))
    stable(kafka, full)
    coordinator(kafka, "absent")
    request = DeleteGroupsRequest(groups_names=[simple, full, "absent"])
    response = send(kafka, request, version, DeleteGroupsResponse)
    codes = {result.group_id: result.error_code for result in response.results}
    assert codes == {simple: 0, full: NON_EMPTY_GROUP, "absent": GROUP_ID_NOT_FOUND}
    fetched = send(kafka, OffsetFetchRequest(group_id=simple, topics=None), 7, OffsetFetchResponse)
    assert fetched.topics == []


def test_only_the_coordinator_deletes(kafka3: Cluster) -> None:
    other = coordinator(kafka3, "deleted-elsewhere") % 3 + 1
    request = DeleteGroupsRequest(groups_names=["deleted-elsewhere"])
    response = send(kafka3, request, 2, DeleteGroupsResponse, node=other)
    assert response.results[0].error_code == NOT_COORDINATOR
