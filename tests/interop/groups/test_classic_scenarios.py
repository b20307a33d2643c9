"""Scenarios of classic groups, request by request: who waits, who is answered, and in which generation."""

from __future__ import annotations

import pytest

from tests.interop.groups.classic import assigned_parts
from tests.interop.groups.group import ALL, Group
from tests.interop.waiting import eventually

ILLEGAL_GENERATION = 22
INCONSISTENT_PROTOCOL = 23
UNKNOWN_MEMBER = 25
REBALANCE_IN_PROGRESS = 27
GROUP_ID_NOT_FOUND = 69
MEMBER_ID_REQUIRED = 79
FENCED_INSTANCE = 82
JOINING, COMPLETING, STABLE, EMPTY = "PreparingRebalance", "CompletingRebalance", "Stable", "Empty"
# What ends while a test waits for it; long enough for a busy machine to get that far.
SHORT = {"session_ms": 5000}
HURRIED = {"rebalance_ms": 4000}
LONG = {"session_ms": 60_000, "rebalance_ms": 60_000}
STATIC = {"instance": "inst-1"}


def test_a_fresh_member_gets_an_id_then_leads_generation_1_with_all_partitions(group: Group) -> None:
    member = group.classic()
    first = member.join()
    assert (first.error_code, first.generation_id, first.leader, first.members) == (
        MEMBER_ID_REQUIRED,
        -1,
        "",
        [],
    )
    assert first.member_id.startswith("ottla-tests-")
    second = member.join()
    assert (second.error_code, second.generation_id, second.member_id) == (0, 1, first.member_id)
    assert (second.leader, second.protocol_type, second.protocol_name) == (
        first.member_id,
        "consumer",
        "range",
    )
    assert [each.member_id for each in second.members] == [first.member_id]
    synced = member.sync({member.member_id: {group.topic: ALL}})
    assert (synced.error_code, synced.protocol_type, synced.protocol_name) == (0, "consumer", "range")
    assert assigned_parts(synced.assignment) == {group.topic: ALL}
    assert (group.committed(), member.heartbeat()) == (-1, 0)


def test_an_id_that_was_given_out_holds_the_join_phase_until_its_session_ends(group: Group) -> None:
    first, pending, second = group.stable_one(), group.classic(**SHORT), group.classic()
    pending.get_id()
    second.start_entering()
    group.wait_for(JOINING, members=2)
    first.start_join()
    # Behind it on another connection: the coordinator has seen the join before it describes the group.
    group.wait_for(JOINING, members=2)
    assert not first.link.has_answer()
    assert not second.link.has_answer()
    group.rebalance(first, second)
    assert (first.generation, pending.join().error_code) == (2, UNKNOWN_MEMBER)


def test_a_pending_id_that_leaves_ends_the_join_phase(group: Group) -> None:
    first, pending, second = group.stable_one(), group.classic(), group.classic()
    pending.get_id()
    second.start_entering()
    group.wait_for(JOINING, members=2)
    first.start_join()
    assert pending.leave() == 0
    group.rebalance(first, second)
    assert first.generation == 2


def test_a_follower_that_joins_unchanged_is_answered_at_once_in_the_same_generation(group: Group) -> None:
    leader, follower = group.stable_pair()
    answer = follower.join()
    assert (answer.error_code, answer.generation_id, answer.leader) == (0, 2, leader.member_id)
    assert (answer.members, answer.skip_assignment) == ([], False)
    assert (leader.heartbeat(), follower.heartbeat()) == (0, 0)
    assert assigned_parts(follower.sync().assignment) == {group.topic: [2, 3]}


def test_a_follower_that_joins_with_other_topics_starts_a_rebalance(group: Group) -> None:
    leader, follower = group.stable_pair()
    follower.topics = [group.topic, "another"]
    follower.start_join()
    group.wait_for(JOINING)
    assert leader.heartbeat() == REBALANCE_IN_PROGRESS
    group.rebalance(leader, follower)
    assert leader.generation == 3


def test_a_leader_that_joins_unchanged_starts_a_rebalance(group: Group) -> None:
    leader, follower = group.stable_pair()
    leader.start_join()
    group.wait_for(JOINING)
    assert follower.heartbeat() == REBALANCE_IN_PROGRESS
    follower.start_join()
    group.rebalance(leader, follower)
    assert leader.generation == 3


def test_a_member_of_a_rebalance_that_joins_again_unchanged_is_answered_at_once(group: Group) -> None:
    leader, follower = group.completing_pair()
    again = follower.join()
    assert (again.error_code, again.generation_id, again.members) == (0, 2, [])
    led = leader.join()
    assert (led.error_code, led.generation_id, len(led.members)) == (0, 2, 2)
    group.assign(leader, follower)


def test_a_newcomer_ends_the_syncs_that_are_parked(group: Group) -> None:
    leader, follower = group.completing_pair()
    follower.start_sync()
    newcomer = group.classic()
    newcomer.start_entering()
    assert follower.synced().error_code == REBALANCE_IN_PROGRESS
    group.rebalance(leader, follower, newcomer)
    assert leader.generation == 3


def test_a_member_that_never_syncs_is_out_when_the_rebalance_timeout_ends(group: Group) -> None:
    leader, absent = group.completing_pair(first=HURRIED, second=HURRIED)
    given = {leader.member_id: {group.topic: [0, 1]}, absent.member_id: {group.topic: [2, 3]}}
    assert leader.sync(given).error_code == 0
    eventually(lambda: leader.heartbeat() == REBALANCE_IN_PROGRESS, "the one that does not sync to be out")
    assert absent.heartbeat() == UNKNOWN_MEMBER
    answer = leader.join()
    assert (answer.error_code, answer.generation_id, len(answer.members)) == (0, 3, 1)


def test_who_does_not_join_again_in_time_is_out(group: Group) -> None:
    leader, absent = group.stable_pair(first=HURRIED, second=HURRIED)
    leader.start_join()
    answer = leader.joined()
    assert (answer.error_code, answer.generation_id, len(answer.members)) == (0, 3, 1)
    assert absent.heartbeat() == UNKNOWN_MEMBER


def test_a_static_member_that_does_not_join_again_in_time_stays(group: Group) -> None:
    leader, absent = group.stable_pair(first=HURRIED, second={**STATIC, **LONG, **HURRIED})
    leader.start_join()
    answer = leader.joined()
    assert (answer.generation_id, {each.member_id for each in answer.members}) == (
        3,
        {leader.member_id, absent.member_id},
    )
    absent.generation = 3
    assert absent.heartbeat() == 0


def test_a_follower_leads_when_the_leader_does_not_join_again_in_time(group: Group) -> None:
    leader, follower = group.stable_pair(first=HURRIED, second=HURRIED)
    follower.topics = [group.topic, "another"]
    answer = follower.join()
    assert (answer.generation_id, answer.leader, len(answer.members)) == (3, follower.member_id, 1)
    assert leader.heartbeat() == UNKNOWN_MEMBER


def test_commits_keep_a_session_alive(group: Group) -> None:
    alive = group.stable_one(**SHORT)
    with Group(group.broker, group.topic) as witness:
        witness.stable_one(**SHORT)

        def another_session_has_ended() -> bool:
            assert alive.commit() == 0
            return witness.described().group_state == EMPTY

        eventually(another_session_has_ended, "a silent member's session to end")
    assert alive.heartbeat() == 0


def test_a_member_that_is_parked_needs_no_heartbeats(group: Group) -> None:
    first, parked = group.stable_one(**LONG), group.classic(**{**LONG, **SHORT})
    parked.start_entering()
    group.wait_for(JOINING, members=2)
    with Group(group.broker, group.topic) as witness:
        witness.stable_one(**SHORT)
        witness.wait_for(EMPTY)
    group.rebalance(first, parked)
    assert first.generation == 2


def test_a_silent_member_is_out_when_its_session_ends_and_the_other_gets_its_partitions(group: Group) -> None:
    leader, silent = group.stable_pair(second=SHORT)
    eventually(lambda: leader.heartbeat() == REBALANCE_IN_PROGRESS, "the session to end")
    assert leader.join().generation_id == 3
    group.assign(leader)
    assert (silent.heartbeat(), silent.sync().error_code, silent.commit()) == (UNKNOWN_MEMBER,) * 3
    assert silent.join().error_code == UNKNOWN_MEMBER


def test_heartbeats_keep_a_session_alive(group: Group) -> None:
    alive = group.stable_one(**SHORT)
    with Group(group.broker, group.topic) as witness:
        witness.stable_one(**SHORT)

        def another_session_has_ended() -> bool:
            assert alive.heartbeat() == 0
            return witness.described().group_state == EMPTY

        eventually(another_session_has_ended, "a silent member's session to end")
    assert alive.heartbeat() == 0


def test_a_group_that_its_last_member_leaves_is_empty_and_a_generation_further(group: Group) -> None:
    member = group.stable_one()
    assert member.commit(7) == 0
    assert member.leave() == 0
    assert (group.state(), group.committed()) == (EMPTY, 7)
    assert member.commit(8) == UNKNOWN_MEMBER
    assert (member.heartbeat(), member.leave()) == (UNKNOWN_MEMBER, UNKNOWN_MEMBER)
    assert group.classic().enter().generation_id == 3


def test_a_batch_of_leavers_is_answered_one_by_one_and_is_one_rebalance(group: Group) -> None:
    leader, static = group.stable_pair(second=STATIC)
    third = group.classic()
    third.start_entering()
    group.wait_for(JOINING, members=3)
    group.rebalance(leader, static, third)
    for member in (static, third):
        member.start_sync()
    assert leader.sync({}).error_code == static.synced().error_code == third.synced().error_code == 0
    leavers = [(leader.member_id, None), ("x", None), (third.member_id, "inst-1"), (third.member_id, None)]
    assert group.remove(*leavers) == [0, UNKNOWN_MEMBER, FENCED_INSTANCE, 0]
    assert static.heartbeat() == REBALANCE_IN_PROGRESS
    answer = static.join()
    assert (answer.generation_id, answer.leader, len(answer.members)) == (4, static.member_id, 1)


def test_a_static_member_is_removed_by_its_instance_id_alone(group: Group) -> None:
    leader, static = group.stable_pair(second=STATIC)
    assert group.remove(("", "inst-1"), ("", "inst-2")) == [0, UNKNOWN_MEMBER]
    assert (leader.heartbeat(), static.heartbeat()) == (REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER)


def test_a_commit_is_refused_while_assignments_are_awaited_and_taken_while_members_join(group: Group) -> None:
    leader, follower = group.completing_pair()
    assert leader.commit(3) == REBALANCE_IN_PROGRESS
    group.assign(leader, follower)
    follower.topics = [group.topic, "another"]
    follower.start_join()
    group.wait_for(JOINING)
    assert (leader.commit(4), group.committed()) == (0, 4)


@pytest.mark.parametrize(
    ("version", "generation", "code"),
    [(9, 5, GROUP_ID_NOT_FOUND), (8, 5, ILLEGAL_GENERATION), (9, -1, 0), (8, -1, 0), (2, -1, 0)],
)
def test_a_commit_to_a_group_that_does_not_exist(
    group: Group, version: int, generation: int, code: int
) -> None:
    member = group.classic(generation=generation)
    assert member.commit(5, version=version) == code
    assert (group.committed(), group.state()) == ((5, EMPTY) if code == 0 else (-1, ""))


def test_a_member_without_a_protocol_that_all_have_is_refused(group: Group) -> None:
    group.stable_one(protocols=["range"])
    newcomer = group.classic(protocols=["roundrobin"])
    assert newcomer.join().error_code == INCONSISTENT_PROTOCOL
    assert group.state() == STABLE


def test_members_vote_for_the_first_protocol_that_all_have(group: Group) -> None:
    first = {"protocols": ["sticky", "range", "roundrobin"]}
    leader, follower = group.completing_pair(first=first, second={"protocols": ["roundrobin", "range"]})
    third = group.classic(protocols=["x", "roundrobin", "range"])
    third.start_entering()
    group.wait_for(JOINING)
    group.rebalance(leader, follower, third)
    assert {member.protocol for member in (leader, follower, third)} == {"roundrobin"}


def test_a_static_follower_comes_back_to_its_generation_and_partitions_with_a_new_id(group: Group) -> None:
    leader, follower = group.stable_pair(second=STATIC)
    back = group.classic(**STATIC)
    answer = back.join()
    assert (answer.error_code, answer.generation_id, answer.leader) == (0, 2, leader.member_id)
    assert (answer.members, answer.skip_assignment) == ([], False)
    assert back.member_id.startswith("inst-1-")
    assert back.member_id != follower.member_id
    assert assigned_parts(back.sync().assignment) == {group.topic: [2, 3]}
    assert (follower.heartbeat(), follower.sync().error_code) == (FENCED_INSTANCE, FENCED_INSTANCE)
    assert (follower.commit(), follower.join().error_code) == (FENCED_INSTANCE, FENCED_INSTANCE)
    assert (follower.leave(), leader.heartbeat(), back.heartbeat()) == (FENCED_INSTANCE, 0, 0)


def test_a_static_follower_comes_back_with_other_topics_and_nobody_rebalances(group: Group) -> None:
    leader, _ = group.stable_pair(second=STATIC)
    back = group.classic(topics=[group.topic, "another"], **STATIC)
    assert back.join().generation_id == 2
    assert leader.heartbeat() == 0


def test_a_static_leader_comes_back_to_the_members_and_skips_the_assignment(group: Group) -> None:
    _, follower = group.stable_pair(first=STATIC)
    back = group.classic(**STATIC)
    answer = back.join(version=9)
    assert (answer.error_code, answer.generation_id, answer.skip_assignment) == (0, 2, True)
    assert answer.leader == back.member_id
    assert {each.member_id for each in answer.members} == {back.member_id, follower.member_id}
    assert assigned_parts(back.sync().assignment) == {group.topic: [0, 1]}
    assert follower.heartbeat() == 0


def test_a_static_leader_of_an_older_version_comes_back_as_a_follower_of_its_old_self(group: Group) -> None:
    leader, follower = group.stable_pair(first=STATIC)
    answer = group.classic(**STATIC).join(version=8)
    assert (answer.error_code, answer.generation_id, answer.skip_assignment) == (0, 2, False)
    assert (answer.leader, answer.members) == (leader.member_id, [])
    assert follower.heartbeat() == 0


def test_a_static_member_that_is_replaced_before_the_assignment_starts_a_rebalance(group: Group) -> None:
    leader, follower = group.completing_pair(second=STATIC)
    follower.start_sync()
    back = group.classic(**STATIC)
    back.start_join()
    assert follower.synced().error_code == FENCED_INSTANCE
    assert leader.heartbeat() == REBALANCE_IN_PROGRESS
    group.rebalance(leader, back)
    assert leader.generation == 3


def test_a_static_member_that_is_replaced_while_it_joins_is_fenced(group: Group) -> None:
    leader, follower = group.stable_pair(second=STATIC)
    # Its id holds the join phase open until it joins.
    pending = group.classic()
    pending.get_id()
    leader.start_join()
    group.wait_for(JOINING)
    follower.start_join()
    back = group.classic(**STATIC)
    back.start_join()
    assert follower.joined().error_code == FENCED_INSTANCE
    pending.start_join()
    group.rebalance(leader, back, pending)
    assert leader.generation == 3


def test_a_cooperative_newcomer_gets_its_partitions_in_the_generation_after_they_were_given_up(
    group: Group,
) -> None:
    cooperative = {"protocols": ["cooperative-sticky"]}
    first = group.stable_one(**cooperative)
    second = group.classic(**cooperative)
    second.start_entering()
    group.wait_for(JOINING, members=2)
    assert first.heartbeat() == REBALANCE_IN_PROGRESS
    first.owned = {group.topic: ALL}
    group.rebalance(first, second)
    second.start_sync()
    given = {first.member_id: {group.topic: [0, 1]}, second.member_id: {}}
    assert assigned_parts(first.sync(given).assignment) == {group.topic: [0, 1]}
    assert (assigned_parts(second.synced().assignment), first.generation) == ({}, 2)
    first.owned = {group.topic: [0, 1]}
    first.start_join()
    group.wait_for(JOINING)
    assert second.heartbeat() == REBALANCE_IN_PROGRESS
    group.rebalance(first, second)
    group.assign(first, second)
    assert (first.generation, first.heartbeat(), second.heartbeat()) == (3, 0, 0)
    # When the second leaves, nothing is to be given up: one generation more, and no second join.
    assert second.leave() == 0
    assert first.heartbeat() == REBALANCE_IN_PROGRESS
    assert first.join().generation_id == 4
    group.assign(first)
    assert (first.heartbeat(), group.state()) == (0, STABLE)
