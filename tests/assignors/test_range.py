"""range: Kafka's answers, one reader for each partition, equal cuts of equal topics."""

from __future__ import annotations

import pytest
from hypothesis import given

from ottla.assignors import MemberSubscription, TopicLayout
from ottla.assignors.range import assign_range
from tests.assignors.groups import check_each_partition_has_one_reader, groups, layouts
from tests.assignors.vectors import Vector, pairs, vectors


@pytest.mark.parametrize("vector", vectors("range"), ids=str)
def test_range_answers_as_kafka_does(vector: Vector) -> None:
    assigned = assign_range(vector.members, vector.topics)
    # Kafka lists topics in the order of a hash map.
    assert assigned == {member: sorted(partitions) for member, partitions in pairs(vector.expected).items()}


@given(groups(), layouts)
def test_range_gives_each_partition_to_one_reader(
    members: list[MemberSubscription], topics: dict[str, TopicLayout]
) -> None:
    check_each_partition_has_one_reader(members, topics, assign_range(members, topics))


@given(groups(), layouts)
def test_range_cuts_each_topic_evenly(
    members: list[MemberSubscription], topics: dict[str, TopicLayout]
) -> None:
    assigned = assign_range(members, topics)
    for topic in topics:
        sizes = [
            sum(topic == name for name, _ in assigned[member.member_id])
            for member in members
            if topic in member.topics
        ]
        assert not sizes or max(sizes) - min(sizes) <= 1


@given(groups(), layouts)
def test_range_does_not_depend_on_the_order_of_members(
    members: list[MemberSubscription], topics: dict[str, TopicLayout]
) -> None:
    assert assign_range(members[::-1], topics) == assign_range(members, topics)


@given(groups(equal=True), layouts)
def test_range_gives_a_member_the_same_numbers_of_topics_with_the_same_width_and_racks(
    members: list[MemberSubscription], topics: dict[str, TopicLayout]
) -> None:
    first = next(iter(topics.values()))
    members = [MemberSubscription(member.member_id, ("a", "b"), rack=member.rack) for member in members]
    for partitions in assign_range(members, {"a": first, "b": first}).values():
        assert [number for topic, number in partitions if topic == "a"] == [
            number for topic, number in partitions if topic == "b"
        ]


def test_a_static_member_keeps_its_place_under_a_new_member_id() -> None:
    topics = {"orders": TopicLayout(4)}
    before = assign_range(
        [
            MemberSubscription("m9", ("orders",), instance_id="i1"),
            MemberSubscription("m1", ("orders",), instance_id="i2"),
        ],
        topics,
    )
    after = assign_range(
        [
            MemberSubscription("m0", ("orders",), instance_id="i2"),
            MemberSubscription("m9", ("orders",), instance_id="i1"),
        ],
        topics,
    )
    assert before["m9"] == after["m9"] == [("orders", 0), ("orders", 1)]
    assert before["m1"] == after["m0"]
