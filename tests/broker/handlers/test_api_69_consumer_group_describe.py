"""ConsumerGroupDescribe: groups from their coordinators, each by itself."""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker import Cluster
from ottla.wire.messages import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from tests.broker.handlers.requests import send
from tests.broker.handlers.test_api_68_consumer_group_heartbeat import beat, coordinator_of, join_request

NOT_COORDINATOR, INVALID_GROUP_ID, UNSUPPORTED_VERSION, NOT_FOUND = 16, 24, 35, 69


def describe(
    cluster: Cluster, *groups: str, node: int = 1, version: int = 1, operations: bool = False
) -> list[ConsumerGroupDescribeResponse.DescribedGroup]:
    request = ConsumerGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=operations)
    return send(cluster, request, version, ConsumerGroupDescribeResponse, node=node).groups


def test_each_group_has_its_own_answer(kafka: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka, 2)
    beat(kafka, join_request("described", topics=[topic]))
    found, missing, unnamed = describe(kafka, "described", "nowhere", "")
    assert (found.error_code, found.group_state, found.group_epoch) == (0, "Stable", 2)
    (member,) = found.members
    assert (member.member_id, member.subscribed_topic_names, member.member_type) == ("a", [topic], 1)
    (assigned,) = member.assignment.topic_partitions
    assert (assigned.topic_name, assigned.partitions) == (topic, [0, 1])
    assert (missing.error_code, missing.error_message) == (NOT_FOUND, "Group nowhere not found.")
    assert unnamed.error_code == INVALID_GROUP_ID


def test_operations_are_told_to_those_who_ask(kafka: Cluster) -> None:
    beat(kafka, join_request("consumer-described-2"))
    (silent,) = describe(kafka, "consumer-described-2", version=0)
    (asked,) = describe(kafka, "consumer-described-2", operations=True)
    assert silent.authorized_operations == -(1 << 31)
    assert asked.authorized_operations > 0


def test_only_the_coordinator_describes_a_group(kafka3: Cluster) -> None:
    other = coordinator_of(kafka3, "described-elsewhere") % 3 + 1
    (group,) = describe(kafka3, "described-elsewhere", node=other)
    assert (group.group_id, group.error_code) == ("described-elsewhere", NOT_COORDINATOR)


def test_a_broker_without_the_protocol_describes_nothing() -> None:
    with Cluster(config={"group.coordinator.rebalance.protocols": "classic"}) as cluster:
        (group,) = describe(cluster, "g")
        assert (group.group_id, group.error_code) == ("g", UNSUPPORTED_VERSION)
