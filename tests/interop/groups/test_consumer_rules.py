"""What a coordinator refuses a member of KIP-848, with which code, and what others are told about such a group."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop.groups.conftest import MAX_SIZE
from tests.interop.groups.consumer import LEAVE, LEAVE_STATIC
from tests.interop.groups.group import ALL, Group
from tests.interop.waiting import eventually

INCONSISTENT_PROTOCOL = 23
UNKNOWN_MEMBER = 25
UNSUPPORTED_VERSION = 35
INVALID_REQUEST = 42
NON_EMPTY_GROUP = 68
GROUP_ID_NOT_FOUND = 69
GROUP_MAX_SIZE = 81
FENCED_INSTANCE = 82
SUBSCRIBED_TO_TOPIC = 86
FENCED_EPOCH = 110
UNSUPPORTED_ASSIGNOR = 112
STALE_EPOCH = 113
INVALID_REGEX = 128
STATIC = {"instance": "inst-1"}

JOINS: list[tuple[str, dict[str, Any], dict[str, Any], int]] = [
    ("empty group id", {"group": ""}, {}, INVALID_REQUEST),
    ("blank group id", {"group": " "}, {}, INVALID_REQUEST),
    ("no member id", {"member_id": ""}, {}, INVALID_REQUEST),
    ("empty instance id", {"instance": ""}, {}, INVALID_REQUEST),
    ("empty rack", {}, {"rack": ""}, INVALID_REQUEST),
    ("no rebalance timeout", {}, {"rebalance_ms": -1}, INVALID_REQUEST),
    ("neither names nor regex", {}, {"topics": None}, INVALID_REQUEST),
    ("null partitions", {}, {"owned": None}, INVALID_REQUEST),
    ("epoch below -2", {}, {"epoch": -3}, INVALID_REQUEST),
    ("static leave without instance", {}, {"epoch": LEAVE_STATIC}, INVALID_REQUEST),
    ("unknown assignor", {}, {"assignor": "x"}, UNSUPPORTED_ASSIGNOR),
    ("empty assignor", {}, {"assignor": ""}, UNSUPPORTED_ASSIGNOR),
    ("open bracket", {}, {"regex": "("}, INVALID_REGEX),
    ("what RE2 lacks", {}, {"regex": "(?=a)"}, INVALID_REGEX),
    ("epoch of no group", {}, {"epoch": 1}, GROUP_ID_NOT_FOUND),
    ("leave of no group", {}, {"epoch": LEAVE}, GROUP_ID_NOT_FOUND),
    ("static leave of no group", STATIC, {"epoch": LEAVE_STATIC}, GROUP_ID_NOT_FOUND),
]


@pytest.mark.parametrize(("who", "what", "code"), [row[1:] for row in JOINS], ids=[row[0] for row in JOINS])
def test_a_first_heartbeat_that_is_refused(
    group: Group, who: dict[str, Any], what: dict[str, Any], code: int
) -> None:
    member = group.consumer(**{key: value for key, value in who.items() if key != "group"})
    member.group = who.get("group", member.group)
    join: dict[str, Any] = {"epoch": 0, "owned": {}, "topics": [group.topic], "rebalance_ms": 10_000}
    answer = member.beat(**{**join, **what})
    assert (answer.error_code, answer.member_id, answer.assignment) == (code, None, None)
    assert answer.error_message
    assert group.state() == ""


def test_a_member_that_joins_with_partitions_is_refused(group: Group) -> None:
    answer = group.consumer().beat(
        epoch=0, owned={group.topic_id: [0]}, topics=[group.topic], rebalance_ms=1000
    )
    assert answer.error_code == INVALID_REQUEST


def test_the_first_version_lets_the_coordinator_make_the_member_id(new_group: Group) -> None:
    member = new_group.consumer(member_id="")
    answer = member.join(version=0)
    assert (answer.error_code, len(answer.member_id or ""), member.partitions) == (0, 22, ALL)
    assert member.beat(version=0).member_epoch == 2


def test_members_that_are_not_in_the_group_are_unknown(new_group: Group) -> None:
    new_group.consumer().join()
    assert new_group.consumer().beat(epoch=1).error_code == UNKNOWN_MEMBER
    assert new_group.consumer().leave().error_code == UNKNOWN_MEMBER
    static = new_group.consumer(**STATIC)
    assert static.leave(LEAVE_STATIC).error_code == UNKNOWN_MEMBER
    assert static.beat(epoch=1).error_code == UNKNOWN_MEMBER


def test_a_full_group_takes_no_more_members(new_group: Group) -> None:
    members = [new_group.consumer() for _ in range(MAX_SIZE + 1)]
    codes = [member.join().error_code for member in members]
    assert codes == [0] * MAX_SIZE + [GROUP_MAX_SIZE]
    assert members[0].join().error_code == 0


def test_an_instance_id_is_fenced_for_every_other_member_id(new_group: Group) -> None:
    static = new_group.consumer(**STATIC)
    static.join()
    other = new_group.consumer(epoch=2, **STATIC)
    assert other.beat().error_code == FENCED_INSTANCE
    assert other.leave(LEAVE).error_code == other.leave(LEAVE_STATIC).error_code == FENCED_INSTANCE
    # Who knows the member id need not know the instance.
    nameless = new_group.consumer(member_id=static.member_id, epoch=2)
    assert nameless.beat().member_epoch == 2
    assert nameless.leave().error_code == 0


def test_a_static_member_that_is_away_is_fenced_and_its_successor_commits_any_epoch(new_group: Group) -> None:
    away = new_group.consumer(**STATIC)
    away.join()
    away.leave(LEAVE_STATIC)
    assert away.beat(epoch=2).error_code == FENCED_EPOCH
    assert (away.commit(epoch=2), away.commit(epoch=-2)) == (STALE_EPOCH, 0)
    back = new_group.consumer(**STATIC)
    assert back.join().member_epoch == 2
    assert [back.commit(epoch=epoch) for epoch in (0, 1, 2, 3)] == [0, 0, 0, STALE_EPOCH]
    assert away.commit(epoch=2) == UNKNOWN_MEMBER


def test_a_known_member_may_join_again_and_keeps_its_epoch(new_group: Group) -> None:
    member = new_group.consumer()
    member.join()
    again = member.join()
    assert (again.error_code, again.member_epoch, member.partitions) == (0, 2, ALL)


def test_a_full_heartbeat_is_told_its_assignment_again(new_group: Group) -> None:
    member = new_group.consumer()
    member.join()
    full: dict[str, Any] = {"topics": [new_group.topic], "rebalance_ms": 10_000}
    assert member.beat(owned=member.assigned).assignment is None
    assert member.beat(**full).assignment is None
    answer = member.beat(owned=member.assigned, **full)
    assert (answer.member_epoch, answer.assignment is not None) == (2, True)


def test_the_assignor_that_most_members_want_is_used(new_group: Group) -> None:
    first, second = new_group.consumer(), new_group.consumer()
    first.join()
    second.join(assignor="range")
    assert new_group.consumer_described().assignor_name == "range"


def test_a_description_shows_each_member_with_what_it_has_and_what_it_shall_have(new_group: Group) -> None:
    owner, newcomer = new_group.consumer(**STATIC), new_group.consumer()
    owner.join()
    newcomer.join()
    found = new_group.consumer_described()
    assert (found.error_code, found.group_state, found.group_epoch, found.assignment_epoch) == (
        0,
        "Reconciling",
        3,
        3,
    )
    members = {each.member_id: each for each in found.members}
    shown = members[owner.member_id]
    assert (shown.member_epoch, shown.instance_id, shown.rack_id, shown.member_type) == (2, "inst-1", None, 1)
    assert (shown.client_id, shown.client_host) == ("ottla-tests", "/127.0.0.1")
    assert (shown.subscribed_topic_names, shown.subscribed_topic_regex) == ([new_group.topic], "")
    (held,) = shown.assignment.topic_partitions
    assert (held.topic_id, held.topic_name, sorted(held.partitions)) == (
        new_group.topic_id,
        new_group.topic,
        ALL,
    )
    targets = [members[each.member_id].target_assignment.topic_partitions for each in (owner, newcomer)]
    assert sorted(partition for (target,) in targets for partition in target.partitions) == ALL
    assert members[newcomer.member_id].assignment.topic_partitions == []


def test_either_api_describes_only_groups_of_its_type(new_group: Group) -> None:
    absent = new_group.consumer_described()
    assert (absent.error_code, absent.error_message) == (
        GROUP_ID_NOT_FOUND,
        f"Group {new_group.name} not found.",
    )
    new_group.consumer().join()
    old = new_group.described(version=5)
    assert (old.error_code, old.group_state, old.members) == (0, "Dead", [])
    new = new_group.described(version=6)
    assert (new.error_code, new.group_state) == (GROUP_ID_NOT_FOUND, "Dead")
    assert new.error_message == f"Group {new_group.name} is not a classic group."


def test_a_classic_group_is_no_consumer_group(group: Group) -> None:
    group.stable_one()
    found = group.consumer_described()
    assert (found.error_code, found.error_message) == (
        GROUP_ID_NOT_FOUND,
        f"Group {group.name} is not a consumer group.",
    )
    assert group.consumer().beat(epoch=1).error_code == GROUP_ID_NOT_FOUND
    assert group.consumer().leave().error_code == GROUP_ID_NOT_FOUND


def test_commits_name_the_member_and_an_epoch_that_it_has(new_group: Group) -> None:
    member = new_group.consumer()
    member.join()
    assert (member.commit(7), new_group.committed()) == (0, 7)
    assert (member.commit(8, version=10), new_group.committed()) == (0, 8)
    assert member.commit(version=8) == UNSUPPORTED_VERSION
    assert member.commit(epoch=3) == STALE_EPOCH
    assert new_group.consumer(epoch=2).commit() == UNKNOWN_MEMBER
    assert new_group.classic().commit() == UNKNOWN_MEMBER
    member.leave()
    assert member.commit(epoch=2) == UNKNOWN_MEMBER
    assert (new_group.classic().commit(9), new_group.committed()) == (0, 9)


def test_a_group_with_members_is_not_deleted_and_its_topics_keep_their_offsets(new_group: Group) -> None:
    member = new_group.consumer()
    member.join()
    member.commit(7)
    assert new_group.delete() == NON_EMPTY_GROUP
    assert new_group.delete_offsets([0]) == (0, {0: SUBSCRIBED_TO_TOPIC})
    member.leave()
    assert new_group.delete_offsets([0]) == (0, {0: 0})
    assert (new_group.committed(), new_group.delete(), new_group.delete()) == (-1, 0, GROUP_ID_NOT_FOUND)


def test_a_member_is_told_to_give_up_a_topic_that_it_no_longer_wants(new_group: Group) -> None:
    member = new_group.consumer()
    member.join()
    told = member.beat(topics=["another"])
    assert (told.member_epoch, told.assignment is not None, member.assigned) == (2, True, {})
    assert member.ack().member_epoch == 3


def test_a_member_takes_what_another_gives_up_of_its_own_accord(new_group: Group) -> None:
    one, other = new_group.consumer_pair()
    one.beat(topics=["another"])
    one.ack()

    def has_all() -> bool:
        other.ack()
        return other.partitions == ALL

    eventually(has_all, "all partitions to be the other's")
    assert one.epoch == other.epoch == 4
