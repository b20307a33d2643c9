"""OffsetCommit: what is stored, and what is refused for which reason."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.broker import Cluster
from ottla.wire import Uuid
from ottla.wire.messages import OffsetCommitRequest, OffsetCommitResponse
from tests.broker.handlers.groups import NOT_COORDINATOR, commit, commit_request, coordinator, stable
from tests.broker.handlers.requests import send

UNKNOWN_TOPIC_OR_PARTITION, ILLEGAL_GENERATION, UNKNOWN_TOPIC_ID = 3, 22, 100


@pytest.mark.parametrize("version", range(2, 10))
def test_an_offset_is_stored_and_what_does_not_exist_is_refused(
    kafka: Cluster, new_topic: Callable[..., str], version: int
) -> None:
    topic = new_topic(kafka)
    group = f"commit-{version}"
    answered = commit(kafka, group, (topic, 0, 5), (topic, 7, 5), ("nowhere", 0, 5), version=version)
    refused = UNKNOWN_TOPIC_OR_PARTITION
    assert answered == [(topic, 7, refused), (topic, 0, 0), ("nowhere", 0, refused)]
    records = kafka.dump("__consumer_offsets")
    assert any(group.encode() in (record.key or b"") for record in records)


def test_topics_are_named_by_their_ids(kafka: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka)
    topic_id = kafka.call(lambda: kafka._cluster.node(1).image.topics[topic].id)
    request = commit_request("by-id", [(topic, 0, 5)])
    request.topics[0].topic_id = topic_id
    unknown = OffsetCommitRequest.OffsetCommitRequestTopic(
        topic_id=Uuid(b"x" * 16), partitions=request.topics[0].partitions
    )
    request.topics.append(unknown)
    node = coordinator(kafka, "by-id")
    response = send(kafka, request, 10, OffsetCommitResponse, node=node)
    assert {each.topic_id: each.partitions[0].error_code for each in response.topics} == {
        topic_id: 0,
        unknown.topic_id: UNKNOWN_TOPIC_ID,
    }


def test_a_member_commits_in_its_generation(kafka: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka)
    member = stable(kafka, "commit-members")
    for generation, code in ((1, 0), (0, ILLEGAL_GENERATION)):
        answered = commit(
            kafka,
            "commit-members",
            (topic, 0, 1),
            member_id=member.member_id,
            generation_id_or_member_epoch=generation,
        )
        assert answered == [(topic, 0, code)]


def test_a_request_about_nothing_that_exists_needs_no_coordinator(kafka: Cluster) -> None:
    request = commit_request("anyone", [("nowhere", 0, 5)])
    response = send(kafka, request, 9, OffsetCommitResponse)
    assert response.topics[0].partitions[0].error_code == UNKNOWN_TOPIC_OR_PARTITION


def test_only_the_coordinator_takes_commits(kafka3: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka3)
    other = coordinator(kafka3, "commit-elsewhere") % 3 + 1
    response = send(
        kafka3, commit_request("commit-elsewhere", [(topic, 0, 5)]), 9, OffsetCommitResponse, node=other
    )
    assert response.topics[0].partitions[0].error_code == NOT_COORDINATOR
