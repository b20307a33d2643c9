"""Targets of KIP-848 groups: range as Kafka's, uniform by its contract, balance and stickiness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.assignors import TARGET_ASSIGNORS, MemberSubscription, Target, TargetMember, TopicLayout
from ottla.assignors.target import target_range, target_uniform
from ottla.wire.primitives import Uuid
from tests.assignors.groups import groups, layouts
from tests.assignors.vectors import Vector, vectors


def target_members(
    members: Sequence[MemberSubscription], targets: Mapping[str, Mapping[str, Sequence[int]]] | None = None
) -> list[TargetMember[str]]:
    """The members as their coordinator knows them, with what the last target gave them."""
    return [
        TargetMember(
            member.member_id, member.topics, member.instance_id, (targets or {}).get(member.member_id, {})
        )
        for member in members
    ]


def widths(topics: Mapping[str, TopicLayout]) -> dict[str, int]:
    return {topic: layout.partitions for topic, layout in topics.items()}


def flat(target: Target[str]) -> dict[str, set[tuple[str, int]]]:
    return {
        member: {(topic, number) for topic, numbers in topics.items() for number in numbers}
        for member, topics in target.items()
    }


def check_target(
    members: Sequence[MemberSubscription], topics: Mapping[str, TopicLayout], target: Target[str]
) -> None:
    reads = {member.member_id: set(member.topics) for member in members}
    assert target.keys() == reads.keys()
    for member_id, assigned in target.items():
        assert assigned.keys() <= reads[member_id]
        assert all(numbers and numbers == sorted(numbers) for numbers in assigned.values())
    every = sorted(
        (topic, number) for owned in target.values() for topic, numbers in owned.items() for number in numbers
    )
    wanted = set().union(*reads.values())
    assert every == sorted(
        (topic, number)
        for topic, width in widths(topics).items()
        if topic in wanted
        for number in range(width)
    )


def spread(target: Target[str]) -> int:
    sizes = [len(partitions) for partitions in flat(target).values()]
    return max(sizes) - min(sizes)


@pytest.mark.parametrize("vector", vectors("target-range"), ids=str)
def test_range_answers_as_kafkas_coordinator_does(vector: Vector) -> None:
    assert target_range(target_members(vector.members), widths(vector.topics)) == vector.expected


@pytest.mark.parametrize("name", TARGET_ASSIGNORS)
@given(groups(), layouts)
def test_a_target_gives_each_partition_to_one_reader(
    name: str, members: list[MemberSubscription], topics: dict[str, TopicLayout]
) -> None:
    target = TARGET_ASSIGNORS[name](target_members(members), widths(topics))
    check_target(members, topics, target)
    assert TARGET_ASSIGNORS[name](target_members(members[::-1]), widths(topics)) == target


@given(groups(equal=True), layouts)
def test_uniform_is_balanced_where_all_members_read_the_same_topics(
    members: list[MemberSubscription], topics: dict[str, TopicLayout]
) -> None:
    assert spread(target_uniform(target_members(members), widths(topics))) <= 1


@given(groups(), groups(), layouts)
def test_uniform_leaves_no_partition_with_a_member_that_has_two_more_than_another_reader(
    before: list[MemberSubscription], after: list[MemberSubscription], topics: dict[str, TopicLayout]
) -> None:
    previous = target_uniform(target_members(before), widths(topics))
    target = target_uniform(target_members(after, previous), widths(topics))
    check_target(after, topics, target)
    assigned = flat(target)
    for member in after:
        for partitions in assigned.values():
            if any(topic in member.topics for topic, _ in partitions):
                assert len(partitions) <= len(assigned[member.member_id]) + 1


@given(groups(), layouts)
def test_uniform_moves_nothing_when_nothing_changed(
    members: list[MemberSubscription], topics: dict[str, TopicLayout]
) -> None:
    target = target_uniform(target_members(members), widths(topics))
    assert target_uniform(target_members(members, target), widths(topics)) == target


@given(groups(equal=True), layouts, st.data())
def test_uniform_takes_nothing_from_the_members_that_stay_when_one_leaves(
    members: list[MemberSubscription], topics: dict[str, TopicLayout], data: st.DataObject
) -> None:
    target = target_uniform(target_members(members), widths(topics))
    leaving = data.draw(st.sampled_from(members))
    staying = [member for member in members if member is not leaving]
    after = flat(target_uniform(target_members(staying, target), widths(topics)))
    before = flat(target)
    for member in staying:
        assert before[member.member_id] <= after[member.member_id]


@given(groups(equal=True), layouts)
def test_uniform_moves_partitions_only_to_the_member_that_joins(
    members: list[MemberSubscription], topics: dict[str, TopicLayout]
) -> None:
    target = target_uniform(target_members(members), widths(topics))
    joined = [*members, MemberSubscription("A new one", members[0].topics)]
    after = flat(target_uniform(target_members(joined, target), widths(topics)))
    for member, partitions in flat(target).items():
        assert after[member] <= partitions


def test_uniform_keeps_its_balance_when_a_topic_grows() -> None:
    members = [
        TargetMember("a", ("t",), target={"t": [0, 1, 2]}),
        TargetMember("b", ("t",), target={"t": [3, 4, 5]}),
    ]
    assert target_uniform(members, {"t": 8}) == {"a": {"t": [0, 1, 2, 6]}, "b": {"t": [3, 4, 5, 7]}}


def test_a_partition_that_two_targets_name_stays_with_one_member() -> None:
    members = [TargetMember("a", ("t",), target={"t": [0]}), TargetMember("b", ("t",), target={"t": [0]})]
    assert target_uniform(members, {"t": 2}) == {"a": {"t": [0]}, "b": {"t": [1]}}


def test_topics_may_be_ids() -> None:
    topic = Uuid.parse("AAAAAAAAAAAAAAAAAAAAAQ")
    members = [TargetMember(name, (topic,)) for name in ("a", "b")]
    for assign in TARGET_ASSIGNORS.values():
        assert assign(members, {topic: 2}) == {"a": {topic: [0]}, "b": {topic: [1]}}


def test_a_group_without_members_has_no_target() -> None:
    for assign in TARGET_ASSIGNORS.values():
        assert assign(list[TargetMember[str]](), {"t": 2}) == {}
