"""sticky and cooperative-sticky: Kafka's answers, balance, what stays, and what is withheld until it is free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ottla.assignors import ASSIGNORS, Assignment, Assignor, MemberSubscription, TopicLayout
from tests.assignors.groups import check_each_partition_has_one_reader, groups, layouts, spread
from tests.assignors.vectors import Vector, pairs, vectors

STICKY = ASSIGNORS["sticky"]
COOPERATIVE = ASSIGNORS["cooperative-sticky"]
BOTH = (STICKY, COOPERATIVE)


def owning(
    members: Sequence[MemberSubscription], assignment: Assignment, generation: int, assignor: Assignor
) -> list[MemberSubscription]:
    """The members as they join again after they were given this assignment."""
    return [
        replace(
            member,
            owned=tuple(assignment[member.member_id]),
            generation=generation,
            user_data=assignor.user_data(assignment[member.member_id], generation),
        )
        for member in members
    ]


def without_racks(members: Sequence[MemberSubscription]) -> list[MemberSubscription]:
    return [replace(member, rack=None) for member in members]


@pytest.mark.parametrize("vector", vectors("sticky") + vectors("cooperative-sticky"), ids=str)
def test_sticky_assignors_answer_as_kafkas_do(vector: Vector) -> None:
    assert ASSIGNORS[vector.assignor].assign(vector.members, vector.topics) == pairs(vector.expected)


@given(groups(), layouts, st.sampled_from(BOTH))
def test_a_new_group_gives_each_partition_to_one_reader(
    members: list[MemberSubscription], topics: dict[str, TopicLayout], assignor: Assignor
) -> None:
    assigned = assignor.assign(members, topics)
    check_each_partition_has_one_reader(members, topics, assigned)
    assert assignor.assign(members[::-1], topics) == assigned


@given(groups(), layouts, st.data())
def test_whatever_members_claim_each_partition_has_one_reader(
    members: list[MemberSubscription], topics: dict[str, TopicLayout], data: st.DataObject
) -> None:
    partitions = st.tuples(st.sampled_from((*topics, "gone")), st.integers(-1, 12))
    claiming = [
        replace(
            member,
            user_data=STICKY.user_data(
                data.draw(st.lists(partitions, max_size=6)), data.draw(st.integers(-1, 3))
            ),
        )
        for member in members
    ]
    check_each_partition_has_one_reader(members, topics, STICKY.assign(claiming, topics))


@given(groups(equal=True), layouts)
def test_members_that_read_the_same_topics_differ_by_one_partition_at_most(
    members: list[MemberSubscription], topics: dict[str, TopicLayout]
) -> None:
    assert spread(STICKY.assign(members, topics)) <= 1


@given(groups(), layouts)
def test_no_member_could_take_over_a_partition_for_a_better_balance(
    members: list[MemberSubscription], topics: dict[str, TopicLayout]
) -> None:
    assigned = STICKY.assign(members, topics)
    for member in members:
        for other, partitions in assigned.items():
            if any(topic in member.topics for topic, _ in partitions):
                assert len(partitions) <= len(assigned[member.member_id]) + 1, (member.member_id, other)


@given(groups(), layouts, st.sampled_from(BOTH))
def test_nothing_moves_when_nothing_changed(
    members: list[MemberSubscription], topics: dict[str, TopicLayout], assignor: Assignor
) -> None:
    members = without_racks(members)
    assigned = assignor.assign(members, topics)
    again = assignor.assign(owning(members, assigned, 1, assignor), topics)
    assert {member: set(partitions) for member, partitions in again.items()} == {
        member: set(partitions) for member, partitions in assigned.items()
    }


@given(groups(equal=True), layouts, st.sampled_from(BOTH), st.data())
def test_members_keep_all_they_have_when_another_leaves(
    members: list[MemberSubscription],
    topics: dict[str, TopicLayout],
    assignor: Assignor,
    data: st.DataObject,
) -> None:
    assume(len(members) > 1)
    members = without_racks(members)
    assigned = assignor.assign(members, topics)
    members.pop(data.draw(st.integers(0, len(members) - 1)))
    after = assignor.assign(owning(members, assigned, 1, assignor), topics)
    check_each_partition_has_one_reader(members, topics, after)
    assert spread(after) <= 1
    for member_id, partitions in after.items():
        assert set(assigned[member_id]) <= set(partitions)


@given(groups(equal=True), layouts)
def test_partitions_move_only_to_the_member_that_joins(
    members: list[MemberSubscription], topics: dict[str, TopicLayout]
) -> None:
    members = without_racks(members)
    assigned = STICKY.assign(members, topics)
    joining = [*owning(members, assigned, 1, STICKY), MemberSubscription("new", members[0].topics)]
    after = STICKY.assign(joining, topics)
    check_each_partition_has_one_reader(joining, topics, after)
    assert spread(after) <= 1
    for member_id, partitions in assigned.items():
        assert set(after[member_id]) <= set(partitions)


@given(groups(), groups(), layouts)
def test_cooperative_sticky_gives_nothing_away_that_another_member_owns(
    before: list[MemberSubscription], after: list[MemberSubscription], topics: dict[str, TopicLayout]
) -> None:
    owned = COOPERATIVE.assign(before, topics)
    joining = [
        replace(
            member,
            owned=tuple(owned.get(member.member_id, ())),
            generation=1 if member.member_id in owned else -1,
        )
        for member in after
    ]
    owners = {partition: member.member_id for member in joining for partition in member.owned}
    for member_id, partitions in COOPERATIVE.assign(joining, topics).items():
        assert all(owners.get(partition, member_id) == member_id for partition in partitions)


@given(groups(equal=True), groups(equal=True), layouts)
def test_cooperative_sticky_comes_to_rest_in_two_rounds_where_all_read_the_same(
    before: list[MemberSubscription], after: list[MemberSubscription], topics: dict[str, TopicLayout]
) -> None:
    before, after = without_racks(before), without_racks(after)
    owned = COOPERATIVE.assign(before, topics)
    joining = [
        replace(
            member,
            owned=tuple(owned.get(member.member_id, ())),
            generation=1 if member.member_id in owned else -1,
        )
        for member in after
    ]
    first = COOPERATIVE.assign(joining, topics)
    second = COOPERATIVE.assign(owning(after, first, 2, COOPERATIVE), topics)
    check_each_partition_has_one_reader(after, topics, second)
    assert spread(second) <= 1
    for member_id, partitions in first.items():
        assert set(partitions) <= set(second[member_id])


@given(groups(), groups(), layouts)
def test_cooperative_sticky_comes_to_rest_where_members_read_different_topics(
    before: list[MemberSubscription], after: list[MemberSubscription], topics: dict[str, TopicLayout]
) -> None:
    # With racks there are groups that never do: see the next test.
    before, after = without_racks(before), without_racks(after)
    assigned = COOPERATIVE.assign(before, topics)
    joining = [
        replace(
            member,
            owned=tuple(assigned.get(member.member_id, ())),
            generation=1 if member.member_id in assigned else -1,
        )
        for member in after
    ]
    for generation in range(2, 6):
        assigned = COOPERATIVE.assign(joining, topics)
        # Members join again only if one of them had to revoke something.
        if all(set(member.owned) <= set(assigned[member.member_id]) for member in joining):
            break
        joining = owning(after, assigned, generation, COOPERATIVE)
    check_each_partition_has_one_reader(after, topics, assigned)


def test_with_racks_and_different_topics_two_assignments_may_take_turns_as_with_kafkas_client() -> None:
    def topic(*racks: str) -> TopicLayout:
        return TopicLayout(len(racks), tuple(frozenset(rack) for rack in racks))

    topics = {"t0": topic("x", "", "", "x"), "t2": topic("x", "y"), "t3": topic("x", "", "")}
    members = [
        MemberSubscription("a", ("t0", "t2", "t3"), rack="x"),
        MemberSubscription("b", ("t2",), rack="y", owned=(("t2", 0),), generation=1),
        MemberSubscription("c", ("t0",)),
        MemberSubscription("d", ("t0", "t2")),
    ]
    # As CooperativeStickyAssignor of Kafka 4.3.1 answers, in each of 30 rounds.
    others = {"a": {("t3", 0), ("t3", 1), ("t3", 2)}, "d": {("t0", 1)}}
    odd = {**others, "b": {("t2", 1)}, "c": {("t0", 0), ("t0", 2), ("t0", 3)}}
    even = {**others, "b": {("t2", 0), ("t2", 1)}, "c": {("t0", 2), ("t0", 3)}}
    for generation in range(1, 31):
        assigned = COOPERATIVE.assign(members, topics)
        found = {member_id: set(partitions) for member_id, partitions in assigned.items()}
        assert found == (odd if generation % 2 else even)
        members = owning(members, assigned, generation + 1, COOPERATIVE)


def test_the_higher_generation_keeps_a_partition_that_two_members_claim() -> None:
    # KAFKA-14639: a member that missed a rebalance joins with what it owned before.
    members = [
        MemberSubscription("a", ("t",), owned=(("t", 0), ("t", 1)), generation=4),
        MemberSubscription("b", ("t",), owned=(("t", 0),), generation=5),
    ]
    assert COOPERATIVE.assign(members, {"t": TopicLayout(2)}) == {"a": [("t", 1)], "b": [("t", 0)]}


@pytest.mark.parametrize("topics_of_b", [("t",), ("t", "u")], ids=["same topics", "different topics"])
def test_a_partition_that_two_members_of_a_generation_claim_is_withheld_from_both(
    topics_of_b: tuple[str, ...],
) -> None:
    members = [
        MemberSubscription("a", ("t",), owned=(("t", 0), ("t", 1)), generation=5),
        MemberSubscription("b", topics_of_b, owned=(("t", 0),), generation=5),
    ]
    assigned = COOPERATIVE.assign(members, {"t": TopicLayout(2)})
    assert ("t", 0) not in assigned["a"] + assigned["b"]


def test_a_former_owner_does_not_get_back_what_it_no_longer_reads() -> None:
    # Kafka's client gives t2-2 to "k" here, which reads only t0.
    topics = {
        "t0": TopicLayout(8),
        "t1": TopicLayout(4),
        "t2": TopicLayout(5),
        "t3": TopicLayout(1),
        "t4": TopicLayout(7),
    }
    members = [
        MemberSubscription(
            "g", tuple(topics), owned=(("t1", 3), ("t1", 0), ("t4", 4), ("t2", 1)), generation=5
        ),
        MemberSubscription("k", ("t0",), owned=(("t0", 4), ("t2", 2)), generation=4),
        MemberSubscription(
            "m", tuple(topics), owned=(("t2", 3), ("t0", 2), ("t0", 7), ("t0", 0)), generation=5
        ),
    ]
    assert {topic for topic, _ in COOPERATIVE.assign(members, topics)["k"]} == {"t0"}
