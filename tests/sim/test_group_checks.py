"""Each rule of groups fires where it is broken, and only there."""

from __future__ import annotations

import pytest

from ottla.client.topic_partition import TopicPartition
from ottla.sim.group_checks import (
    Assigned,
    CallbackBegan,
    CallbackEnded,
    Committed,
    Delivered,
    GroupChecker,
    GroupEvent,
    TakenAway,
    nothing_left_behind,
)

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def rules(*events: GroupEvent) -> list[str]:
    checker = GroupChecker()
    for event in events:
        checker.take(event)
    return [violation.rule for violation in checker.violations]


def assigned(member: str, *partitions: TopicPartition) -> Assigned:
    return Assigned("billing", member, partitions)


def taken(member: str, *partitions: TopicPartition) -> TakenAway:
    return TakenAway("billing", member, partitions)


def given(member: str, *offsets: int, partition: TopicPartition = P0) -> list[Delivered]:
    return [Delivered("billing", member, partition, offset) for offset in offsets]


def committed(member: str, offset: int, partition: TopicPartition = P0) -> Committed:
    return Committed("billing", member, {partition: offset})


def test_a_partition_that_changes_hands_between_commits_breaks_no_rule() -> None:
    assert (
        rules(
            assigned("a", P0, P1),
            *given("a", 0, 1, 2),
            committed("a", 2),
            taken("a", P0),
            assigned("b", P0),
            *given("b", 2, 3),
            committed("b", 4),
            taken("b", P0),
            assigned("a", P0),
            *given("a", 4),
            *given("a", 0, 1, partition=P1),
        )
        == []
    )


def test_a_member_that_does_not_know_of_others_may_go_on() -> None:
    assert (
        rules(
            assigned("a", P0),
            *given("a", 0),
            assigned("b", P0),
            *given("b", 0, 1, 2),
            committed("b", 3),
            *given("a", 1, 2),
        )
        == []
    )


def test_what_was_committed_before_an_assignment_is_not_delivered_again() -> None:
    events: list[GroupEvent] = [
        assigned("a", P0),
        *given("a", 0, 1),
        committed("a", 2),
        taken("a", P0),
        assigned("b", P0),
    ]
    assert rules(*events, *given("b", 1)) == ["delivered after its commit"]


def test_commits_of_other_groups_and_partitions_bind_nobody() -> None:
    other = Committed("audit", "a", {P0: 5})
    assert rules(other, committed("a", 5, P1), assigned("b", P0), *given("b", 0)) == []


def test_a_lower_commit_does_not_take_a_higher_one_back() -> None:
    assert rules(committed("a", 5), committed("a", 3), assigned("b", P0), *given("b", 4)) == [
        "delivered after its commit"
    ]


@pytest.mark.parametrize("offsets", [(0, 2), (0, 0), (3, 2)])
def test_offsets_are_contiguous_within_an_assignment(offsets: tuple[int, ...]) -> None:
    assert rules(assigned("a", P0), *given("a", *offsets)) == ["delivered out of turn"]


def test_nothing_comes_of_a_partition_that_was_taken_away_or_never_given() -> None:
    assert rules(*given("a", 0)) == ["delivered without assignment"]
    assert rules(assigned("a", P0), taken("a", P0), *given("a", 0)) == ["delivered without assignment"]


def test_assignments_and_their_ends_alternate() -> None:
    assert rules(assigned("a", P0), assigned("a", P0)) == ["assigned twice"]
    assert rules(taken("a", P0)) == ["taken away without need"]


def test_callbacks_of_one_member_do_not_overlap() -> None:
    began, ended = CallbackBegan("billing", "a"), CallbackEnded("billing", "a")
    assert rules(began, ended, began, CallbackBegan("billing", "b"), ended) == []
    assert rules(began, began) == ["two callbacks at once"]


def test_every_offset_has_to_come_to_some_member() -> None:
    checker = GroupChecker()
    events: list[GroupEvent] = [assigned("a", P0), *given("a", 0, 1), assigned("b", P0), *given("b", 2)]
    for event in events:
        checker.take(event)
    assert list(checker.missing("billing", {P0: 3})) == []
    (violation,) = checker.missing("billing", {P0: 5})
    assert violation.rule == "never delivered"
    assert "2 of 5 offsets" in violation.what
    assert "[3, 4]" in violation.what
    assert checker.owned("billing") == {"a": [P0], "b": [P0]}


def test_copies_are_complete_and_of_what_was_there() -> None:
    assert list(nothing_left_behind("orders", [b"1", b"2"], [b"2", b"1", b"1"])) == []
    (missing,) = nothing_left_behind("orders", [b"1", b"2"], [b"1"])
    assert missing.rule == "not copied"
    (strange,) = nothing_left_behind("orders", [b"1"], [b"1", b"3"])
    assert strange.rule == "copied from nowhere"
