"""What a coordinator refuses members of classic groups, with which code, in each state of the group."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.wire.messages import LeaveGroupRequest, LeaveGroupResponse
from tests.interop.groups.classic import ClassicMember, assigned_parts
from tests.interop.groups.conftest import MAX_SIZE
from tests.interop.groups.group import ALL, Group
from tests.interop.waiting import eventually

ILLEGAL_GENERATION = 22
INCONSISTENT_PROTOCOL = 23
INVALID_GROUP_ID = 24
UNKNOWN_MEMBER = 25
INVALID_SESSION_TIMEOUT = 26
REBALANCE_IN_PROGRESS = 27
GROUP_ID_NOT_FOUND = 69
MEMBER_ID_REQUIRED = 79
GROUP_MAX_SIZE = 81
JOINING, COMPLETING, STABLE, EMPTY = "PreparingRebalance", "CompletingRebalance", "Stable", "Empty"

JOINS: list[tuple[str, dict[str, Any], int]] = [
    ("empty group id before a bad session", {"group": "", "session_ms": 1}, INVALID_GROUP_ID),
    ("session too short, before no protocols", {"session_ms": 99, "protocols": []}, INVALID_SESSION_TIMEOUT),
    ("session too long", {"session_ms": 1_800_001}, INVALID_SESSION_TIMEOUT),
    ("no protocols", {"protocols": []}, INCONSISTENT_PROTOCOL),
    ("no protocol type", {"protocol_type": ""}, INCONSISTENT_PROTOCOL),
    ("unknown member", {"member_id": "nobody"}, UNKNOWN_MEMBER),
    ("unknown static member", {"member_id": "nobody", "instance": "inst-1"}, UNKNOWN_MEMBER),
]


@pytest.mark.parametrize(("who", "code"), [row[1:] for row in JOINS], ids=[row[0] for row in JOINS])
def test_a_join_to_a_new_group_that_is_refused(group: Group, who: dict[str, Any], code: int) -> None:
    member = group.classic(**{key: value for key, value in who.items() if key != "group"})
    member.group = who.get("group", member.group)
    answer = member.join()
    assert (answer.error_code, answer.generation_id, answer.leader, answer.members) == (code, -1, "", [])
    assert answer.member_id == who.get("member_id", "")
    assert (answer.protocol_type, answer.protocol_name) == (None, None)
    # A group that nobody could join is there all the same.
    state = EMPTY if code == INCONSISTENT_PROTOCOL else ""
    eventually(lambda: group.state() == state, f"the group to be {state or 'absent'}")


@pytest.mark.parametrize("version", [2, 3, 4, 5, 7, 9])
def test_an_id_is_required_since_version_4(group: Group, version: int) -> None:
    answer = group.classic().join(version=version)
    assert answer.error_code == (0 if version < 4 else MEMBER_ID_REQUIRED)
    assert answer.member_id.startswith("ottla-tests-")
    state = COMPLETING if version < 4 else EMPTY
    # The id is given out before the group is written.
    eventually(lambda: group.state() == state, f"the group to be {state}")


@pytest.mark.parametrize("session_ms", [100, 1_800_000])
def test_the_limits_of_the_session_timeout_are_allowed(group: Group, session_ms: int) -> None:
    assert group.classic(session_ms=session_ms).join().error_code == MEMBER_ID_REQUIRED


def test_a_full_group_takes_no_more_members(group: Group) -> None:
    leader = group.stable_one()
    others = [group.classic() for _ in range(MAX_SIZE - 1)]
    for count, member in enumerate(others, 2):
        member.start_entering()
        group.wait_for(JOINING, members=count)
    group.rebalance(leader, *others)
    assert group.classic().join().error_code == GROUP_MAX_SIZE
    assert group.classic(instance="inst-1").join().error_code == GROUP_MAX_SIZE
    # Its members are not new.
    assert others[-1].join().error_code == 0


def test_ids_that_were_only_given_out_fill_no_group(group: Group) -> None:
    codes = {group.classic().join().error_code for _ in range(MAX_SIZE + 1)}
    assert codes == {MEMBER_ID_REQUIRED}


def test_a_member_of_another_protocol_type_is_refused(group: Group) -> None:
    group.stable_one()
    assert group.classic(protocol_type="connect").join().error_code == INCONSISTENT_PROTOCOL


def stranger(group: Group) -> ClassicMember:
    return group.classic(member_id="nobody", generation=1, protocol="range")


def refusals(member: ClassicMember) -> tuple[int, int, int, int]:
    return member.heartbeat(), member.sync().error_code, member.commit(), member.leave()


def test_a_group_that_does_not_exist_knows_nobody(group: Group) -> None:
    unknown = (UNKNOWN_MEMBER, UNKNOWN_MEMBER, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER)
    assert refusals(stranger(group)) == unknown
    assert (group.state(), group.remove()) == ("", [])


def test_a_group_without_a_name_has_no_members(group: Group) -> None:
    member = stranger(group)
    member.group = ""
    assert (member.heartbeat(), member.sync().error_code) == (INVALID_GROUP_ID, INVALID_GROUP_ID)
    identities = [LeaveGroupRequest.MemberIdentity(member_id="nobody")]
    answer = group.outside.get(LeaveGroupRequest(group_id="", members=identities), 5, LeaveGroupResponse)
    assert (answer.error_code, answer.members) == (INVALID_GROUP_ID, [])


def test_an_empty_group_knows_nobody(group: Group) -> None:
    group.stable_one().leave()
    assert refusals(stranger(group)) == (UNKNOWN_MEMBER,) * 4


def test_a_stable_group_does_not_know_strangers(group: Group) -> None:
    member = group.stable_one()
    assert refusals(stranger(group)) == (UNKNOWN_MEMBER,) * 4
    assert stranger(group).join().error_code == UNKNOWN_MEMBER
    claimed = group.classic(member_id=member.member_id, generation=1, instance="inst-1", protocol="range")
    assert claimed.heartbeat() == UNKNOWN_MEMBER


@pytest.mark.parametrize("generation", [0, 2, -1])
def test_another_generation_is_illegal(group: Group, generation: int) -> None:
    member = group.stable_one()
    member.generation = generation
    assert (member.heartbeat(), member.sync().error_code, member.commit()) == (ILLEGAL_GENERATION,) * 3


def test_a_sync_names_the_protocol_that_was_chosen(group: Group) -> None:
    member = group.stable_one()
    assert member.sync(protocol="sticky").error_code == INCONSISTENT_PROTOCOL
    member.protocol_type = "connect"
    assert member.sync().error_code == INCONSISTENT_PROTOCOL
    # Before version 5 it names none.
    old = member.sync(version=4)
    assert (old.error_code, assigned_parts(old.assignment)) == (0, {group.topic: ALL})


def test_while_members_join_heartbeats_and_syncs_are_told_so(group: Group) -> None:
    leader, follower = group.stable_pair()
    leader.start_join()
    group.wait_for(JOINING)
    assert (follower.heartbeat(), follower.sync().error_code) == (REBALANCE_IN_PROGRESS,) * 2
    assert follower.commit(6) == 0
    follower.generation = 1
    assert (follower.heartbeat(), follower.commit()) == (ILLEGAL_GENERATION, ILLEGAL_GENERATION)
    assert refusals(stranger(group)) == (UNKNOWN_MEMBER,) * 4


def test_while_assignments_are_awaited_heartbeats_are_fine(group: Group) -> None:
    leader, follower = group.completing_pair()
    assert (leader.heartbeat(), follower.heartbeat()) == (0, 0)
    assert refusals(stranger(group)) == (UNKNOWN_MEMBER,) * 4
    follower.generation = 1
    assert (follower.heartbeat(), follower.sync().error_code) == (ILLEGAL_GENERATION, ILLEGAL_GENERATION)
    follower.generation = 2
    assert follower.sync(protocol="sticky").error_code == INCONSISTENT_PROTOCOL


def test_a_member_that_is_removed_while_it_joins_is_told_so(group: Group) -> None:
    leader, follower = group.stable_pair()
    leader.start_join()
    group.wait_for(JOINING)
    assert group.remove((leader.member_id, None)) == [0]
    ended = leader.joined()
    assert (ended.error_code, ended.member_id) == (UNKNOWN_MEMBER, "")
    answer = follower.join()
    assert (answer.generation_id, answer.leader) == (3, follower.member_id)


def test_a_leader_that_forgets_a_member_gives_it_nothing(group: Group) -> None:
    leader, follower = group.completing_pair()
    follower.start_sync()
    assert leader.sync({leader.member_id: {group.topic: ALL}}).error_code == 0
    forgotten = follower.synced()
    assert (forgotten.error_code, forgotten.assignment) == (0, b"")


@pytest.mark.parametrize(("version", "code"), [(0, UNKNOWN_MEMBER), (2, UNKNOWN_MEMBER)])
def test_before_version_3_a_leave_is_one_member(group: Group, version: int, code: int) -> None:
    request = LeaveGroupRequest(group_id=group.name, member_id="nobody")
    assert group.outside.get(request, version, LeaveGroupResponse).error_code == code
    member = group.stable_one()
    request = LeaveGroupRequest(group_id=group.name, member_id=member.member_id)
    assert group.outside.get(request, version, LeaveGroupResponse).error_code == 0
    assert group.state() == EMPTY


def test_only_a_stable_group_shows_the_metadata_of_its_members(group: Group) -> None:
    leader, follower = group.stable_pair(second={"instance": "inst-1"})
    stable = group.described()
    assert (stable.group_state, stable.protocol_type, stable.protocol_data) == (STABLE, "consumer", "range")
    shown = {each.member_id: each for each in stable.members}[follower.member_id]
    assert (shown.group_instance_id, shown.client_id, shown.client_host) == (
        "inst-1",
        "ottla-tests",
        "/127.0.0.1",
    )
    assert assigned_parts(shown.member_assignment) == {group.topic: [2, 3]}
    assert shown.member_metadata
    leader.start_join()
    group.wait_for(JOINING)
    joining = group.described()
    assert (joining.protocol_type, joining.protocol_data) == ("consumer", "")
    assert {each.member_metadata for each in joining.members} == {b""}
    group.rebalance(leader, follower)
    assert {each.member_metadata for each in group.described().members} == {b""}


def test_a_group_that_does_not_exist_is_dead_and_not_found_since_version_6(group: Group) -> None:
    for version in range(6):
        found = group.described(version)
        assert (found.error_code, found.group_state, found.members) == (0, "Dead", [])
    newest = group.described(version=6)
    assert (newest.error_code, newest.group_state) == (GROUP_ID_NOT_FOUND, "Dead")
    assert newest.error_message == f"Group {group.name} not found."
