"""OffsetDelete: single offsets go, unless members need them."""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker import Cluster
from ottla.wire.messages import OffsetDeleteRequest, OffsetDeleteResponse
from tests.broker.handlers.groups import NOT_COORDINATOR, commit, coordinator, stable
from tests.broker.handlers.requests import send

UNKNOWN_TOPIC_OR_PARTITION, INVALID_GROUP_ID, GROUP_ID_NOT_FOUND = 3, 24, 69
SUBSCRIBED = 86


def delete_request(group: str, *partitions: tuple[str, int]) -> OffsetDeleteRequest:
    topics: dict[str, OffsetDeleteRequest.OffsetDeleteRequestTopic] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, OffsetDeleteRequest.OffsetDeleteRequestTopic(name=topic)).partitions.append(
            OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=partition)
        )
    return OffsetDeleteRequest(group_id=group, topics=list(topics.values()))


def test_offsets_of_what_exists_are_deleted(kafka: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka)
    commit(kafka, "offsets-deleted", (topic, 0, 5))
    request = delete_request("offsets-deleted", (topic, 0), (topic, 7), ("nowhere", 0))
    response = send(kafka, request, 0, OffsetDeleteResponse)
    assert [
        (each.name, partition.partition_index, partition.error_code)
        for each in response.topics
        for partition in each.partitions
    ] == [
        (topic, 7, UNKNOWN_TOPIC_OR_PARTITION),
        (topic, 0, 0),
        ("nowhere", 0, UNKNOWN_TOPIC_OR_PARTITION),
    ]


def test_what_members_subscribe_to_is_kept(kafka: Cluster) -> None:
    kafka.create_topic("orders")
    stable(kafka, "offsets-kept")
    response = send(kafka, delete_request("offsets-kept", ("orders", 0)), 0, OffsetDeleteResponse)
    assert response.topics[0].partitions[0].error_code == SUBSCRIBED


def test_the_group_has_to_be_there(kafka: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka)
    coordinator(kafka, "nothing-deleted")
    for group, code in (("nothing-deleted", GROUP_ID_NOT_FOUND), ("", INVALID_GROUP_ID)):
        assert send(kafka, delete_request(group, (topic, 0)), 0, OffsetDeleteResponse).error_code == code
    nowhere = send(kafka, delete_request("nothing-deleted", ("nowhere", 0)), 0, OffsetDeleteResponse)
    assert nowhere.error_code == 0


def test_only_the_coordinator_deletes_offsets(kafka3: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka3)
    other = coordinator(kafka3, "offsets-elsewhere") % 3 + 1
    response = send(
        kafka3, delete_request("offsets-elsewhere", (topic, 0)), 0, OffsetDeleteResponse, node=other
    )
    assert response.error_code == NOT_COORDINATOR
