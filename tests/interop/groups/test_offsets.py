"""Offsets of groups: who may commit what, what is fetched, what is deleted, and which groups are listed."""

from __future__ import annotations

import pytest

from ottla.wire import ZERO_UUID, Uuid
from ottla.wire.messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from tests.interop.groups.group import Group
from tests.interop.waiting import eventually

UNKNOWN_TOPIC = 3
METADATA_TOO_LARGE = 12
UNKNOWN_MEMBER = 25
NON_EMPTY_GROUP = 68
GROUP_ID_NOT_FOUND = 69
SUBSCRIBED_TO_TOPIC = 86
UNKNOWN_TOPIC_ID = 100
STALE_EPOCH = 113
UNKNOWN_ID = Uuid(b"nobody knows me!")

Commits = list[tuple[int, int, str | None]]
"""Partitions, each with its offset and metadata."""


def commit(group: Group, topic: str | Uuid, parts: Commits, version: int = 9) -> dict[int, int]:
    """A commit by nobody: the codes, by partition."""
    wanted = OffsetCommitRequest.OffsetCommitRequestTopic(
        name=topic if isinstance(topic, str) else "",
        topic_id=topic if isinstance(topic, Uuid) else ZERO_UUID,
        partitions=[
            OffsetCommitRequest.OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=metadata
            )
            for index, offset, metadata in parts
        ],
    )
    request = OffsetCommitRequest(group_id=group.name, generation_id_or_member_epoch=-1, topics=[wanted])
    (answered,) = group.outside.get(request, version, OffsetCommitResponse).topics
    assert (answered.name, answered.topic_id) == (wanted.name, wanted.topic_id)
    return {each.partition_index: each.error_code for each in answered.partitions}


def fetch(
    group: Group,
    topic: str | Uuid | None,
    partitions: list[int],
    version: int = 9,
    member: tuple[str | None, int] = (None, -1),
) -> tuple[int, list[tuple[int, int, str | None, int]]]:
    """The code for the group; and each partition with its offset, metadata and code."""
    if version < 8:
        old = OffsetFetchRequest.OffsetFetchRequestTopic(name=str(topic), partition_indexes=partitions)
        request = OffsetFetchRequest(group_id=group.name, topics=None if topic is None else [old])
        plain = group.outside.get(request, version, OffsetFetchResponse)
        return plain.error_code, sorted(
            (part.partition_index, part.committed_offset, part.metadata, part.error_code)
            for each in plain.topics
            for part in each.partitions
        )
    named = OffsetFetchRequest.OffsetFetchRequestTopics(
        name=topic if isinstance(topic, str) else "",
        topic_id=topic if isinstance(topic, Uuid) else ZERO_UUID,
        partition_indexes=partitions,
    )
    wanted = OffsetFetchRequest.OffsetFetchRequestGroup(
        group_id=group.name,
        member_id=member[0],
        member_epoch=member[1],
        topics=None if topic is None else [named],
    )
    (found,) = group.outside.get(OffsetFetchRequest(groups=[wanted]), version, OffsetFetchResponse).groups
    assert found.group_id == group.name
    return found.error_code, sorted(
        (part.partition_index, part.committed_offset, part.metadata, part.error_code)
        for each in found.topics
        for part in each.partitions
    )


def test_metadata_has_a_limit_and_the_other_partitions_are_committed(group: Group) -> None:
    codes = commit(group, group.topic, [(0, 1, "m" * 4096), (1, 2, "m" * 4097), (2, 3, None)])
    assert codes == {0: 0, 1: METADATA_TOO_LARGE, 2: 0}
    found = fetch(group, group.topic, [0, 1, 2])
    assert found == (0, [(0, 1, "m" * 4096, 0), (1, -1, "", 0), (2, 3, "", 0)])


def test_unknown_topics_and_partitions_are_refused_one_by_one(group: Group) -> None:
    assert commit(group, "nothing-of-that-name", [(0, 1, "")]) == {0: UNKNOWN_TOPIC}
    assert commit(group, group.topic, [(99, 1, ""), (2, 5, "x")]) == {99: UNKNOWN_TOPIC, 2: 0}
    assert commit(group, UNKNOWN_ID, [(0, 1, "")], version=10) == {0: UNKNOWN_TOPIC_ID}
    assert commit(group, ZERO_UUID, [(0, 1, "")], version=10) == {0: UNKNOWN_TOPIC_ID}
    assert commit(group, group.topic_id, [(99, 1, ""), (3, 6, "y")], version=10) == {99: UNKNOWN_TOPIC, 3: 0}
    assert fetch(group, group.topic, [2, 3]) == (0, [(2, 5, "x", 0), (3, 6, "y", 0)])


@pytest.mark.parametrize("version", range(2, 11))
def test_each_version_commits_and_fetches(group: Group, version: int) -> None:
    topic = group.topic if version < 10 else group.topic_id
    assert commit(group, topic, [(0, 11, "m")], version) == {0: 0}
    assert fetch(group, topic, [0, 1, 99], version) == (0, [(0, 11, "m", 0), (1, -1, "", 0), (99, -1, "", 0)])
    assert fetch(group, None, [], version) == (0, [(0, 11, "m", 0)])


@pytest.mark.parametrize("version", [1, 2, 5, 7, 8, 9])
def test_a_group_that_does_not_exist_has_no_offsets(group: Group, version: int) -> None:
    assert fetch(group, group.topic, [0], version) == (0, [(0, -1, "", 0)])
    if version > 1:
        assert fetch(group, None, [], version) == (0, [])


def test_a_topic_id_that_nobody_knows_has_no_offsets(group: Group) -> None:
    assert fetch(group, UNKNOWN_ID, [0], version=10) == (0, [(0, -1, "", UNKNOWN_TOPIC_ID)])


def test_several_groups_are_fetched_at_once(group: Group) -> None:
    commit(group, group.topic, [(0, 4, "")])
    topics = [OffsetFetchRequest.OffsetFetchRequestTopics(name=group.topic, partition_indexes=[0])]
    names = [group.name, f"{group.name}-absent"]
    wanted = [OffsetFetchRequest.OffsetFetchRequestGroup(group_id=name, topics=topics) for name in names]
    answer = group.outside.get(OffsetFetchRequest(groups=wanted), 8, OffsetFetchResponse)
    found = {each.group_id: each.topics[0].partitions[0].committed_offset for each in answer.groups}
    assert found == dict(zip(names, [4, -1], strict=True))


def test_a_stable_fetch_of_what_no_transaction_holds_is_an_ordinary_one(group: Group) -> None:
    commit(group, group.topic, [(0, 4, "")])
    assert group.committed(require_stable=True) == 4


def test_an_empty_group_takes_commits_of_nobody_only(group: Group) -> None:
    group.stable_one().leave()
    assert group.classic(member_id="nobody").commit(8) == 0
    assert group.classic(generation=2).commit() == UNKNOWN_MEMBER
    assert group.classic(member_id="nobody", generation=2).commit() == UNKNOWN_MEMBER
    assert group.committed() == 8


def test_a_group_with_members_takes_no_commits_of_nobody(group: Group) -> None:
    group.stable_one()
    assert (group.classic().commit(), group.classic(generation=1).commit()) == (
        UNKNOWN_MEMBER,
        UNKNOWN_MEMBER,
    )


def test_a_classic_group_does_not_ask_who_fetches(group: Group) -> None:
    commit(group, group.topic, [(0, 4, "")])
    assert fetch(group, group.topic, [0], member=("nobody", 3)) == (0, [(0, 4, "", 0)])


def test_a_consumer_group_lets_its_members_fetch_at_their_epoch_and_others_without_one(
    new_group: Group,
) -> None:
    member = new_group.consumer()
    member.join()
    member.commit(5)
    offset = (0, [(0, 5, "", 0)])
    asked = {
        (member.member_id, 2): offset,
        (member.member_id, 1): (STALE_EPOCH, []),
        (member.member_id, 3): (STALE_EPOCH, []),
        (member.member_id, -1): (STALE_EPOCH, []),
        ("nobody", 2): (UNKNOWN_MEMBER, []),
        ("", -1): (UNKNOWN_MEMBER, []),
        (None, -1): offset,
    }
    found = {who: fetch(new_group, new_group.topic, [0], member=who) for who in asked}
    assert found == asked
    assert fetch(new_group, new_group.topic, [0], version=8) == offset
    assert fetch(new_group, new_group.topic, [0], version=7) == offset
    member.leave()
    assert fetch(new_group, new_group.topic, [0], member=(member.member_id, 2)) == (UNKNOWN_MEMBER, [])


def test_offsets_of_topics_that_members_subscribe_to_are_not_deleted(group: Group) -> None:
    assert group.delete_offsets([0]) == (GROUP_ID_NOT_FOUND, {})
    member = group.stable_one()
    member.commit(5)
    assert group.delete_offsets([0, 99]) == (0, {0: SUBSCRIBED_TO_TOPIC, 99: UNKNOWN_TOPIC})
    assert group.delete_offsets([0], "nothing-of-that-name") == (0, {0: UNKNOWN_TOPIC})
    assert group.committed() == 5
    member.leave()
    assert (group.delete_offsets([0, 1]), group.committed()) == ((0, {0: 0, 1: 0}), -1)


def test_offsets_of_another_protocol_type_are_deleted_when_nobody_is_left(group: Group) -> None:
    member = group.stable_one(protocol_type="connect")
    member.commit(5)
    assert group.delete_offsets([0]) == (NON_EMPTY_GROUP, {})
    member.leave()
    assert (group.delete_offsets([0]), group.committed()) == ((0, {0: 0}), -1)


def test_a_group_is_deleted_with_its_offsets_when_nobody_is_left(group: Group) -> None:
    assert group.delete() == GROUP_ID_NOT_FOUND
    member = group.stable_one()
    member.commit(5)
    assert group.delete() == NON_EMPTY_GROUP
    member.leave()
    assert (group.delete(), group.committed(), group.state()) == (0, -1, "")
    # The next one starts again from the beginning.
    assert group.classic().enter().generation_id == 1


def test_groups_are_deleted_one_by_one_and_each_once(group: Group) -> None:
    group.classic().commit(5)
    names = [group.name, f"{group.name}-absent", group.name]
    results = group.outside.get(DeleteGroupsRequest(groups_names=names), 2, DeleteGroupsResponse).results
    codes = sorted((each.group_id, each.error_code) for each in results)
    assert codes == [(names[0], 0), (names[1], GROUP_ID_NOT_FOUND)]


def listed(
    group: Group, version: int, states: tuple[str, ...] = (), types: tuple[str, ...] = ()
) -> tuple[str, str, str] | None:
    """Protocol type, state and type of the group, if it is listed."""
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    answer = group.outside.get(request, version, ListGroupsResponse)
    assert answer.error_code == 0
    found = [each for each in answer.groups if each.group_id == group.name]
    return (found[0].protocol_type, found[0].group_state, found[0].group_type) if found else None


@pytest.mark.parametrize(
    ("states", "types", "has"),
    [
        (("Stable",), (), True),
        (("stable", "Empty"), (), True),
        (("STABLE",), ("CLASSIC",), True),
        ((), ("Classic", "consumer"), True),
        (("Empty",), (), False),
        (("Stable",), ("consumer",), False),
        (("nothing",), (), False),
        ((), ("nothing",), False),
    ],
)
def test_groups_are_listed_by_state_and_type_whatever_their_case(
    group: Group, states: tuple[str, ...], types: tuple[str, ...], has: bool
) -> None:
    group.stable_one()
    assert listed(group, 5, states, types) == (("consumer", "Stable", "classic") if has else None)


def test_each_version_lists_what_it_has_room_for(group: Group) -> None:
    group.classic().commit(5)
    assert [listed(group, version) for version in range(6)] == [
        *[("", "", "")] * 4,
        ("", "Empty", ""),
        ("", "Empty", "classic"),
    ]


def test_a_consumer_group_is_listed_as_one(new_group: Group) -> None:
    new_group.consumer().join()
    assert listed(new_group, 5) == ("consumer", "Stable", "consumer")
    assert listed(new_group, 5, states=("stable",), types=("Consumer",)) is not None
    assert listed(new_group, 5, types=("classic",)) is None


def test_offsets_of_a_deleted_topic_go_with_it(group: Group) -> None:
    topic = group.broker.create_topic(1)
    assert commit(group, topic, [(0, 5, "")]) == {0: 0}
    assert commit(group, group.topic, [(0, 6, "")]) == {0: 0}
    group.delete_topic(topic)
    eventually(lambda: fetch(group, topic, [0]) == (0, [(0, -1, "", 0)]), "the offset to be gone")
    assert fetch(group, group.topic, [0]) == (0, [(0, 6, "", 0)])
