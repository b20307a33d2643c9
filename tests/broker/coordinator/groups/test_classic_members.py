"""The members of a classic group: who leads, who is fenced, which protocol they share, who waits."""

from __future__ import annotations

import pytest

from ottla.broker.coordinator.groups.classic_members import ClassicMember, ClassicMembers, protocols_of
from ottla.errors import FencedInstanceIdError, UnknownMemberIdError
from ottla.wire.messages import JoinGroupRequest, SyncGroupResponse


def member(member_id: str, *names: str, instance: str | None = None) -> ClassicMember:
    protocols = tuple((name, name.encode()) for name in names or ("range",))
    return ClassicMember(member_id, instance, "c", "/h", 60_000, 10_000, "consumer", protocols)


def members_of(*added: ClassicMember) -> ClassicMembers:
    members = ClassicMembers()
    for each in added:
        members.add(each)
    return members


def test_the_first_leads_and_the_next_follows_it() -> None:
    members = members_of(member("a"), member("b"))
    assert members.leader == "a"
    members.remove("a")
    assert members.leader == "b"
    members.remove("b")
    assert members.leader is None


def test_a_request_has_to_name_the_member_and_its_instance() -> None:
    members = members_of(member("a", instance="i"), member("b"))
    assert members.check("a", "i").member_id == members.check("a", None).member_id == "a"
    for member_id, instance, error in (
        ("x", None, UnknownMemberIdError),
        ("a", "unknown", UnknownMemberIdError),
        ("b", "i", FencedInstanceIdError),
    ):
        with pytest.raises(error):
            members.check(member_id, instance)


def test_whoever_goes_leaves_no_request_behind() -> None:
    members = members_of(member("a"), member("b", instance="i"))
    join = members.park_join(members["a"])
    sync = members.park_sync(members["b"])
    members.remove("a")
    assert join.response is not None
    assert join.response.error_code == UnknownMemberIdError.code
    members.replace("i", "c")
    assert sync.response is not None
    assert sync.response.error_code == FencedInstanceIdError.code
    assert (members.awaiting_join, members.leader) == (0, "c")


def test_a_second_request_of_a_member_ends_the_first() -> None:
    members = members_of(member("a"))
    first, second = members.park_sync(members["a"]), members.park_sync(members["a"])
    assert first.response is not None
    assert first.response.error_code == 27
    assert members.complete_sync(members["a"], SyncGroupResponse(assignment=b"x"))
    assert not members.complete_sync(members["a"], SyncGroupResponse())
    assert second.response is not None
    assert second.response.assignment == b"x"


def test_all_have_joined_when_each_waits_and_no_id_is_pending() -> None:
    members = members_of(member("a"), member("b"))
    members.park_join(members["a"])
    assert [each.member_id for each in members.not_rejoined()] == ["b"]
    members.park_join(members["b"])
    assert members.have_all_joined
    members.pending["c"] = None
    assert not members.have_all_joined


def test_a_protocol_has_to_be_everyones() -> None:
    members = members_of(member("a", "x", "y"), member("b", "y", "z"))
    assert members.supports_any(["y"])
    assert not members.supports_any(["x", "z"])
    assert members.choose_protocol() == "y"
    members.update(members["b"], (("x", b""),), 1, 1)
    assert members.choose_protocol() == "x"


def test_of_two_protocols_with_one_name_the_first_counts() -> None:
    protocol = JoinGroupRequest.JoinGroupRequestProtocol
    request = JoinGroupRequest(
        protocols=[protocol(name="a", metadata=b"1"), protocol(name="a", metadata=b"2")]
    )
    assert protocols_of(request) == (("a", b"1"),)


def test_a_member_is_stored_with_the_chosen_protocol_only() -> None:
    record = member("a", "x", "y", instance="i").as_record("y", b"part")
    loaded = ClassicMember.of_record(record, "consumer", "y")
    assert loaded.protocols == (("y", b"y"),)
    assert (loaded.instance_id, loaded.assignment, loaded.rebalance_timeout_ms) == ("i", b"part", 60_000)
    record.rebalance_timeout = -1
    assert ClassicMember.of_record(record, "consumer", "y").rebalance_timeout_ms == 10_000
