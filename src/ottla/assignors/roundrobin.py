"""roundrobin: all partitions of all topics, in order, dealt to the members in turn; only to readers of the topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.assignors.subscription import (
    Assignment,
    MemberSubscription,
    TopicLayout,
    in_order,
    subscribers,
)


def assign_roundrobin(members: Sequence[MemberSubscription], topics: Mapping[str, TopicLayout]) -> Assignment:
    assignment: Assignment = {member.member_id: [] for member in members}
    ordered = in_order(members)
    turn = 0
    for topic, readers in subscribers(ordered, topics).items():
        reading = {member.member_id for member in readers}
        for number in range(topics[topic].partitions):
            while ordered[turn].member_id not in reading:
                turn = (turn + 1) % len(ordered)
            assignment[ordered[turn].member_id].append((topic, number))
            turn = (turn + 1) % len(ordered)
    return assignment
