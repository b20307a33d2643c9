"""roundrobin: Kafka's answers, one reader for each partition, balance where all read the same."""

from __future__ import annotations

import pytest
from hypothesis import given

from ottla.assignors import MemberSubscription, TopicLayout
from ottla.assignors.roundrobin import assign_roundrobin
from tests.assignors.groups import check_each_partition_has_one_reader, groups, layouts, spread
from tests.assignors.vectors import Vector, pairs, vectors


@pytest.mark.parametrize("vector", vectors("roundrobin"), ids=str)
def test_roundrobin_answers_as_kafka_does(vector: Vector) -> None:
    assert assign_roundrobin(vector.members, vector.topics) == pairs(vector.expected)


@given(groups(), layouts)
def test_roundrobin_gives_each_partition_to_one_reader(
    members: list[MemberSubscription], topics: dict[str, TopicLayout]
) -> None:
    assigned = assign_roundrobin(members, topics)
    check_each_partition_has_one_reader(members, topics, assigned)
    assert assign_roundrobin(members[::-1], topics) == assigned


@given(groups(equal=True), layouts)
def test_roundrobin_is_balanced_where_all_members_read_the_same_topics(
    members: list[MemberSubscription], topics: dict[str, TopicLayout]
) -> None:
    assert spread(assign_roundrobin(members, topics)) <= 1
