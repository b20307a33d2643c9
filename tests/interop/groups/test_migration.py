"""A group that changes its protocol while it lives: classic members beside those of KIP-848, both ways."""

from __future__ import annotations

from tests.interop.groups.classic import ClassicMember, assigned_parts
from tests.interop.groups.consumer import LEAVE_STATIC
from tests.interop.groups.group import ALL, Group
from tests.interop.waiting import eventually

INCONSISTENT_PROTOCOL = 23
UNKNOWN_MEMBER = 25
REBALANCE_IN_PROGRESS = 27
GROUP_ID_NOT_FOUND = 69
MEMBER_ID_REQUIRED = 79
FENCED_INSTANCE = 82
STATIC = {"instance": "inst-1"}


def synced_parts(group: Group, member: ClassicMember) -> list[int]:
    answer = member.sync()
    assert (answer.error_code, answer.protocol_type, answer.protocol_name) == (0, "consumer", "range")
    return assigned_parts(answer.assignment).get(group.topic, [])


def test_a_classic_group_takes_a_newcomer_of_the_new_protocol_and_goes_back_when_it_leaves(
    new_group: Group,
) -> None:
    first, second = new_group.stable_pair()
    newcomer = new_group.consumer()
    answer = newcomer.join()
    assert (answer.error_code, answer.member_epoch, newcomer.assigned) == (0, 3, {})
    assert (first.heartbeat(), second.heartbeat()) == (REBALANCE_IN_PROGRESS, REBALANCE_IN_PROGRESS)
    assert first.sync().error_code == REBALANCE_IN_PROGRESS
    assert (first.commit(5), new_group.committed()) == (0, 5)
    for member in (first, second):
        joined = member.join()
        assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 3, "range")
        assert (joined.leader, joined.members) == ("", [])
        assert member.heartbeat() == 0
    parts = synced_parts(new_group, first) + synced_parts(new_group, second)
    newcomer.ack()
    assert (len(parts), sorted(parts + newcomer.partitions)) == (3, ALL)
    types = {each.member_id: each.member_type for each in new_group.consumer_described().members}
    assert types == {first.member_id: 0, second.member_id: 0, newcomer.member_id: 1}

    assert newcomer.leave().error_code == 0
    assert (new_group.state(), new_group.described().protocol_type) == ("PreparingRebalance", "consumer")
    assert (first.heartbeat(), second.heartbeat()) == (REBALANCE_IN_PROGRESS, REBALANCE_IN_PROGRESS)
    new_group.rebalance(first, second)
    assert (first.generation, first.leader in (first.member_id, second.member_id)) == (4, True)
    assert new_group.committed() == 5


def test_joins_and_syncs_that_are_parked_are_ended_by_the_conversion(new_group: Group) -> None:
    _, follower = new_group.completing_pair()
    follower.start_sync()
    assert new_group.consumer().join().member_epoch == 3
    assert follower.synced().error_code == REBALANCE_IN_PROGRESS
    with Group(new_group.broker, new_group.topic) as other:
        first, parked = other.stable_one(), other.classic()
        parked.start_entering()
        other.wait_for("PreparingRebalance", members=2)
        assert other.consumer().join().member_epoch == 2
        ended = parked.joined()
        assert (ended.error_code, ended.member_id) == (REBALANCE_IN_PROGRESS, parked.member_id)
        assert first.heartbeat() == REBALANCE_IN_PROGRESS


def test_a_classic_member_keeps_what_it_owns_until_it_joins_without_it(new_group: Group) -> None:
    owner, newcomer = new_group.stable_one(protocols=["cooperative-sticky"]), new_group.consumer()
    newcomer.join()
    owner.owned = {new_group.topic: ALL}
    joined = owner.join()
    # All of it is owned still: the member stays in the epoch before, and is told what it may keep.
    assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, "")
    kept = assigned_parts(owner.sync().assignment)[new_group.topic]
    newcomer.ack()
    assert (len(kept), newcomer.partitions) == (2, [])
    assert owner.heartbeat() == REBALANCE_IN_PROGRESS
    owner.owned = {new_group.topic: kept}
    assert owner.join().generation_id == 2
    assert assigned_parts(owner.sync().assignment)[new_group.topic] == kept
    newcomer.ack()
    assert sorted(kept + newcomer.partitions) == ALL
    assert owner.heartbeat() == 0


def test_an_empty_group_of_either_protocol_is_replaced_by_the_other_and_keeps_its_offsets(
    new_group: Group,
) -> None:
    member = new_group.stable_one()
    member.commit(3)
    member.leave()
    newcomer = new_group.consumer()
    assert (newcomer.join().member_epoch, newcomer.partitions, new_group.committed()) == (2, ALL, 3)
    newcomer.leave()
    back = new_group.classic()
    assert back.enter().generation_id == 1
    assert (back.leader, new_group.committed()) == (back.member_id, 3)


def test_a_group_of_another_protocol_type_is_not_converted(new_group: Group) -> None:
    new_group.stable_one(protocol_type="connect")
    assert new_group.consumer().join().error_code == GROUP_ID_NOT_FOUND
    assert new_group.state() == "Stable"


def test_a_classic_newcomer_joins_a_group_of_the_new_protocol_at_once(new_group: Group) -> None:
    owner, newcomer = new_group.consumer(), new_group.classic()
    owner.join()
    assert new_group.classic(protocol_type="connect").join().error_code == INCONSISTENT_PROTOCOL
    first = newcomer.join()
    assert (first.error_code, len(first.member_id)) == (MEMBER_ID_REQUIRED, 22)
    joined = newcomer.join()
    assert (joined.error_code, joined.generation_id, joined.leader, joined.members) == (0, 3, "", [])
    assert (synced_parts(new_group, newcomer), newcomer.heartbeat()) == ([], 0)
    owner.beat()
    owner.ack()
    assert newcomer.heartbeat() == REBALANCE_IN_PROGRESS
    assert newcomer.join().generation_id == 3
    assert sorted(owner.partitions + synced_parts(new_group, newcomer)) == ALL
    assert (newcomer.commit(4), new_group.committed()) == (0, 4)
    assert newcomer.leave() == 0
    assert owner.beat().member_epoch == 4


def test_requests_of_classic_members_that_a_group_of_the_new_protocol_refuses(new_group: Group) -> None:
    owner = new_group.consumer()
    owner.join()
    stranger = new_group.classic(member_id="nobody", generation=2, protocol="range")
    assert (stranger.heartbeat(), stranger.leave(), stranger.commit()) == (UNKNOWN_MEMBER,) * 3
    assert stranger.sync().error_code == UNKNOWN_MEMBER
    # The id of a member that speaks the new protocol is of no use in the old one.
    mixed = new_group.classic(member_id=owner.member_id, generation=2, protocol="range")
    assert (mixed.heartbeat(), mixed.sync().error_code) == (UNKNOWN_MEMBER, UNKNOWN_MEMBER)
    # Other than in a classic group, a member may bring an id of its own.
    joined = stranger.join()
    assert (joined.error_code, joined.generation_id, joined.member_id) == (0, 3, "nobody")


def test_a_static_member_moves_to_the_new_protocol_with_its_partitions(new_group: Group) -> None:
    old = new_group.stable_one(**STATIC)
    new = new_group.consumer(**STATIC)
    answer = new.join()
    assert (answer.error_code, answer.member_epoch, new.partitions) == (0, 1, ALL)
    assert old.heartbeat() == FENCED_INSTANCE


def test_a_static_member_moves_to_the_classic_protocol_with_its_partitions(new_group: Group) -> None:
    other, old = new_group.consumer_pair(second=STATIC)
    new = new_group.classic(**STATIC)
    joined = new.join()
    assert (joined.error_code, joined.generation_id) == (0, 3)
    assert (synced_parts(new_group, new), new.heartbeat()) == (old.partitions, 0)
    assert (old.beat().error_code, other.beat().assignment) == (FENCED_INSTANCE, None)
    # The last one that moves makes the group classic, and stable as it is.
    other.leave()
    assert new_group.state() == "PreparingRebalance"


def test_the_last_static_member_that_moves_makes_the_group_classic(new_group: Group) -> None:
    old = new_group.consumer(**STATIC)
    old.join()
    old.leave(LEAVE_STATIC)
    new = new_group.classic(**STATIC)
    joined = new.join()
    assert (joined.error_code, joined.generation_id) == (0, 2)
    assert (synced_parts(new_group, new), new_group.state()) == (ALL, "Stable")
    assert old.beat().error_code == GROUP_ID_NOT_FOUND


def test_a_classic_member_that_does_not_join_again_in_time_is_out(new_group: Group) -> None:
    lazy, newcomer = new_group.stable_one(rebalance_ms=4000), new_group.consumer()
    newcomer.join()
    assert lazy.heartbeat() == REBALANCE_IN_PROGRESS

    def has_all() -> bool:
        newcomer.ack()
        return newcomer.partitions == ALL

    eventually(has_all, "the classic member to be out")
    assert lazy.heartbeat() == UNKNOWN_MEMBER


def test_a_classic_member_that_does_not_sync_in_time_is_out(new_group: Group) -> None:
    owner, lazy = new_group.consumer(), new_group.classic(rebalance_ms=4000)
    owner.join()
    lazy.enter()

    def is_out() -> bool:
        owner.ack()
        return lazy.heartbeat() == UNKNOWN_MEMBER

    eventually(is_out, "the classic member to be out")


def test_a_silent_classic_member_is_out_when_its_session_ends(new_group: Group) -> None:
    silent, newcomer = new_group.stable_one(session_ms=5000), new_group.consumer()
    newcomer.join()

    def has_all() -> bool:
        newcomer.ack()
        return newcomer.partitions == ALL

    eventually(has_all, "the session to end")
    assert silent.heartbeat() == UNKNOWN_MEMBER
