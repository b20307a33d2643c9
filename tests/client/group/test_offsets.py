"""Offsets of a group as messages: by ids where they are known, and errors by weight."""

from __future__ import annotations

from ottla.client.group.membership import GroupMetadata
from ottla.client.group.offsets import OffsetAndMetadata, commit_request, fetch_request, read_fetched
from ottla.client.group.reactions import Reaction
from ottla.client.topic_partition import TopicPartition
from ottla.errors import GroupAuthorizationFailedError, UnstableOffsetCommitError
from ottla.wire import ZERO_UUID, Uuid
from ottla.wire.messages import OffsetFetchResponse

ORDERS = [TopicPartition("orders", number) for number in range(3)]
MEMBER = GroupMetadata("billing", 4, "one", "static")
TOPIC = Uuid(bytes(range(16)))


def test_a_commit_names_the_member_and_each_topic_once_with_the_id_that_was_read() -> None:
    request = commit_request(
        MEMBER,
        {ORDERS[0]: OffsetAndMetadata(7, "a note", 3, TOPIC), ORDERS[2]: OffsetAndMetadata(9, "", 3, TOPIC)},
    )
    assert (request.group_id, request.member_id, request.group_instance_id) == ("billing", "one", "static")
    assert request.generation_id_or_member_epoch == 4
    (topic,) = request.topics
    assert (topic.name, topic.topic_id) == ("orders", TOPIC)
    found = [
        (each.partition_index, each.committed_offset, each.committed_metadata) for each in topic.partitions
    ]
    assert found == [(0, 7, "a note"), (2, 9, "")]
    assert {each.committed_leader_epoch for each in topic.partitions} == {3}


def test_a_fetch_waits_for_what_is_stable_and_says_who_asks_only_as_a_member() -> None:
    for as_member, who in ((True, ("one", 4)), (False, (None, -1))):
        request = fetch_request(MEMBER, ORDERS, {}, as_member=as_member)
        assert request.require_stable
        (group,) = request.groups
        assert (group.member_id, group.member_epoch) == who
        assert group.topics is not None
        (topic,) = group.topics
        assert (topic.name, topic.topic_id, topic.partition_indexes) == ("orders", ZERO_UUID, [0, 1, 2])


def fetched(*codes: int) -> OffsetFetchResponse:
    kind = OffsetFetchResponse.OffsetFetchResponseGroup
    partitions = [
        OffsetFetchResponse.OffsetFetchResponsePartitions(
            partition_index=number, committed_offset=-1 if number == 2 else number, error_code=code
        )
        for number, code in enumerate(codes)
    ]
    topic = OffsetFetchResponse.OffsetFetchResponseTopics(name="orders", partitions=partitions)
    return OffsetFetchResponse(groups=[kind(group_id="billing", topics=[topic])])


def test_what_is_not_committed_is_none_and_the_error_that_weighs_most_counts() -> None:
    request = fetch_request(MEMBER, ORDERS, {}, as_member=False)
    found, error, reaction = read_fetched(request, fetched(0, 0, 0), ORDERS)
    assert [None if each is None else each.offset for each in found.values()] == [0, 1, None]
    assert (error, reaction) == (None, Reaction.GO_ON)
    unstable, refused = UnstableOffsetCommitError.code, GroupAuthorizationFailedError.code
    _, error, reaction = read_fetched(request, fetched(0, refused, unstable), ORDERS)
    assert isinstance(error, GroupAuthorizationFailedError)
    assert (error.topic, error.partition, reaction) == ("orders", 1, Reaction.FAIL)
