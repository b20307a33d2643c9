"""ListGroups: the groups of a node, by state and type."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.broker import Cluster
from ottla.wire.messages import ListGroupsRequest, ListGroupsResponse
from tests.broker.handlers.groups import commit, coordinator, stable
from tests.broker.handlers.requests import send

COORDINATOR_LOAD_IN_PROGRESS = 14


@pytest.mark.parametrize("version", range(6))
def test_every_group_of_the_node_is_listed(
    kafka: Cluster, new_topic: Callable[..., str], version: int
) -> None:
    full, simple = f"listed-{version}", f"simple-{version}"
    stable(kafka, full)
    commit(kafka, simple, (new_topic(kafka), 0, 1))
    response = send(kafka, ListGroupsRequest(), version, ListGroupsResponse)
    listed = {group.group_id: group for group in response.groups}
    assert (listed[full].protocol_type, listed[simple].protocol_type) == ("consumer", "")
    assert listed[full].group_state == ("Stable" if version >= 4 else "")
    assert listed[simple].group_type == ("classic" if version >= 5 else "")
    if version >= 4:
        request = ListGroupsRequest(
            states_filter=["stable"], types_filter=["CLASSIC"] if version >= 5 else []
        )
        found = {group.group_id for group in send(kafka, request, version, ListGroupsResponse).groups}
        assert full in found
        assert simple not in found


def test_while_one_partition_loads_nothing_is_listed(kafka: Cluster) -> None:
    coordinator(kafka, "listed-late")
    groups = kafka._cluster.node(1).groups
    led = groups._led[groups.partition_of("listed-late")]
    active = led.state
    kafka.call(lambda: setattr(led, "state", type(active).LOADING))
    try:
        response = send(kafka, ListGroupsRequest(), 5, ListGroupsResponse)
        assert (response.error_code, response.groups) == (COORDINATOR_LOAD_IN_PROGRESS, [])
    finally:
        kafka.call(lambda: setattr(led, "state", active))
