"""Classic groups: every state and event, on a clock that tests move. Against Apache Kafka: tests/interop/groups."""

from __future__ import annotations

import pytest

from ottla.broker.coordinator.groups.classic_state import ClassicState
from ottla.errors import CoordinatorNotAvailableError, NotCoordinatorError
from tests.broker.coordinator.groups.classic_world import ClassicWorld, joined, subscription, synced

ILLEGAL_GENERATION, INCONSISTENT_PROTOCOL, UNKNOWN_MEMBER, REBALANCE = 22, 23, 25, 27
MEMBER_ID_REQUIRED, MAX_SIZE_REACHED, FENCED = 79, 81, 82


def state(world: ClassicWorld) -> ClassicState:
    return world.group.state


def test_a_dynamic_member_gets_an_id_and_leads_the_first_generation() -> None:
    world = ClassicWorld()
    member = world.new_id()
    assert member == "c-1"
    join = world.parked(member)
    assert state(world) is ClassicState.PREPARING_REBALANCE
    world.timers.advance(0)
    response = joined(join)
    assert (response.generation_id, response.leader, response.protocol_name) == (1, member, "range")
    assert [each.member_id for each in response.members] == [member]
    assert synced(world.sync(member, assignments={member: b"all"})).assignment == b"all"
    assert state(world) is ClassicState.STABLE
    assert world.last_value.members[0].assignment == b"all"


def test_before_version_4_a_member_joins_without_an_id() -> None:
    world = ClassicWorld()
    join = world.parked(version=3)
    world.timers.advance(0)
    assert joined(join).member_id == "c-1"


def test_the_first_rebalance_waits_for_the_delay_and_longer_while_members_come() -> None:
    world = ClassicWorld(initial_delay_ms=3000)
    first = world.parked(world.new_id())
    world.timers.advance(2.5)
    second = world.parked(world.new_id())
    world.timers.advance(3.4)
    assert not first.is_done
    world.timers.advance(0.1)
    assert joined(first).generation_id == joined(second).generation_id == 1


def test_the_first_rebalance_waits_no_longer_than_the_rebalance_timeout() -> None:
    world = ClassicWorld(initial_delay_ms=3000)
    first = world.parked(world.new_id(), rebalance_ms=7000)
    for _ in range(3):
        world.timers.advance(2.0)
        world.parked(world.new_id(), rebalance_ms=7000)
    assert not first.is_done
    world.timers.advance(1.0)
    assert first.is_done


def test_only_its_timer_ends_the_first_rebalance() -> None:
    world = ClassicWorld(initial_delay_ms=3000)
    world.parked(world.new_id())
    (member,) = world.group.members
    assert world.leave((member.member_id, None)) == [0]
    assert state(world) is ClassicState.PREPARING_REBALANCE
    world.timers.advance(3)
    assert state(world) is ClassicState.EMPTY
    assert world.group.generation == 1


def test_an_id_that_was_given_out_holds_the_join_phase_up_for_its_session() -> None:
    world = ClassicWorld()
    (leader,) = world.stable(None)
    world.new_id(session_ms=8000)
    newcomer = world.parked(world.new_id())
    again = world.parked(leader)
    world.timers.advance(7.9)
    assert not again.is_done
    world.timers.advance(0.2)
    assert joined(again).generation_id == joined(newcomer).generation_id == 2


def test_a_new_member_may_be_parked_for_five_minutes_at_most() -> None:
    world = ClassicWorld()
    (leader,) = world.stable(None, rebalance_ms=1_000_000)
    newcomer = world.parked(world.new_id(), rebalance_ms=1_000_000)
    for _ in range(59):
        world.timers.advance(5)
        assert world.heartbeat(leader) == REBALANCE
    assert not newcomer.is_done
    world.timers.advance(5)
    assert joined(newcomer).error_code == UNKNOWN_MEMBER


def test_a_known_member_that_is_parked_needs_no_heartbeats() -> None:
    world = ClassicWorld()
    leader, follower = world.stable(None, None)
    parked = world.parked(leader)
    for _ in range(8):
        world.timers.advance(5)
        assert world.heartbeat(follower) == REBALANCE
    assert not parked.is_done


def test_a_follower_that_joins_unchanged_is_answered_at_once() -> None:
    world = ClassicWorld()
    _, follower = world.stable(None, None)
    response = joined(world.join(follower))
    assert (response.generation_id, response.members) == (1, [])
    assert state(world) is ClassicState.STABLE


@pytest.mark.parametrize("who", ["leader", "follower"])
def test_a_leader_that_joins_and_a_follower_that_has_changed_start_a_rebalance(who: str) -> None:
    world = ClassicWorld()
    leader, follower = world.stable(None, None)
    if who == "leader":
        world.parked(leader)
    else:
        world.parked(follower, metadata=b"other")
    assert state(world) is ClassicState.PREPARING_REBALANCE
    assert world.heartbeat(follower if who == "leader" else leader) == REBALANCE


def test_a_join_that_is_sent_twice_ends_the_first_one() -> None:
    world = ClassicWorld()
    leader, _ = world.stable(None, None)
    first = world.parked(leader)
    second = world.parked(leader)
    assert joined(first).error_code == REBALANCE
    assert not second.is_done


def test_members_that_do_not_come_back_are_dropped_and_static_ones_stay() -> None:
    world = ClassicWorld()
    leader, dynamic, static = world.stable(None, None, "i")
    again = world.parked(leader)
    for _ in range(10):
        world.timers.advance(6)
        for member, instance in ((dynamic, None), (static, "i")):
            world.heartbeat(member, instance=instance)
    assert joined(again).generation_id == 2
    assert {member.member_id for member in world.group.members} == {leader, static}


def test_if_no_one_comes_back_static_members_are_waited_for_again() -> None:
    world = ClassicWorld()
    static, other = world.stable("i", "j")
    assert world.leave((other, "j")) == [0]
    for _ in range(30):
        world.timers.advance(6)
        world.heartbeat(static, instance="i")
    assert state(world) is ClassicState.PREPARING_REBALANCE
    assert joined(world.parked(static, instance="i")).generation_id == 2


def test_a_leader_that_does_not_come_back_is_followed_by_the_first_that_did() -> None:
    world = ClassicWorld()
    leader, second, third = world.stable("a", "b", "c")
    joins = [world.parked(third, instance="c", metadata=b"new"), world.parked(second, instance="b")]
    for _ in range(10):
        world.timers.advance(6)
        world.heartbeat(leader, instance="a")
    assert {joined(join).leader for join in joins} == {second}


def test_an_unknown_member_is_refused() -> None:
    world = ClassicWorld()
    world.stable(None)
    assert world.refused("nobody") == UNKNOWN_MEMBER
    assert world.refused("nobody", instance="i") == UNKNOWN_MEMBER
    assert synced(world.sync("nobody")).error_code == UNKNOWN_MEMBER
    assert world.heartbeat("nobody") == UNKNOWN_MEMBER
    assert world.heartbeat(next(iter(world.group.members)).member_id, generation=7) == ILLEGAL_GENERATION


def test_the_group_is_full_at_its_largest_size_and_members_pass() -> None:
    world = ClassicWorld(max_size=2)
    leader, _ = world.stable(None, None)
    assert world.refused() == MAX_SIZE_REACHED
    world.parked(leader)
    late = world.new_id()
    world.parked(late)
    assert world.refused() == MAX_SIZE_REACHED


@pytest.mark.parametrize(
    ("protocol_type", "names"), [("", ("range",)), ("consumer", ()), ("connect", ("x",))]
)
def test_protocols_have_to_fit(protocol_type: str, names: tuple[str, ...]) -> None:
    world = ClassicWorld()
    if protocol_type != "connect":
        assert world.refused(names=names, protocol_type=protocol_type) == INCONSISTENT_PROTOCOL
    world.stable(None)
    assert world.refused(names=names, protocol_type=protocol_type) == INCONSISTENT_PROTOCOL


def test_most_members_decide_which_protocol_it_is() -> None:
    world = ClassicWorld()
    orders = [("a", "b", "c"), ("b", "a"), ("b", "a")]
    ids = [world.new_id(names=names) for names in orders]
    joins = [world.parked(member, names=names) for member, names in zip(ids, orders, strict=True)]
    world.timers.advance(0)
    assert {joined(join).protocol_name for join in joins} == {"b"}


def test_a_follower_syncs_first_and_gets_its_part_with_the_leader() -> None:
    world = ClassicWorld()
    joins = [world.parked(member) for member in [world.new_id(), world.new_id()]]
    world.timers.advance(0)
    leader, follower = (joined(join).member_id for join in joins)
    waiting = world.sync(follower)
    world.holding = True
    mine = world.sync(leader, assignments={leader: b"1", follower: b"2"})
    assert state(world) is ClassicState.COMPLETING_REBALANCE
    world.commit()
    assert (synced(waiting).assignment, synced(mine).assignment) == (b"2", b"1")
    assert state(world) is ClassicState.STABLE
    assert synced(world.sync(follower)).assignment == b"2"


def test_a_member_that_the_leader_forgot_gets_nothing() -> None:
    world = ClassicWorld()
    joins = [world.parked(member) for member in [world.new_id(), world.new_id()]]
    world.timers.advance(0)
    leader, follower = (joined(join).member_id for join in joins)
    waiting = world.sync(follower)
    world.sync(leader, assignments={leader: b"1"})
    assert synced(waiting).assignment == b""


def test_an_assignment_that_cannot_be_stored_is_given_to_no_one() -> None:
    world = ClassicWorld()
    join = world.parked(world.new_id())
    world.timers.advance(0)
    leader = joined(join).member_id
    world.holding = True
    sync = world.sync(leader, assignments={leader: b"1"})
    world.commit(CoordinatorNotAvailableError())
    assert synced(sync).error_code == CoordinatorNotAvailableError.code
    assert state(world) is ClassicState.PREPARING_REBALANCE


def test_an_assignment_that_is_stored_too_late_counts_for_no_later_generation() -> None:
    world = ClassicWorld()
    join = world.parked(world.new_id())
    world.timers.advance(0)
    leader = joined(join).member_id
    world.holding = True
    sync = world.sync(leader, assignments={leader: b"1"})
    world.parked(leader, metadata=b"changed")
    assert synced(sync).error_code == REBALANCE
    assert world.group.generation == 2
    world.commit()
    assert state(world) is ClassicState.COMPLETING_REBALANCE


def test_members_that_do_not_sync_in_time_are_out() -> None:
    world = ClassicWorld()
    joins = [world.parked(member) for member in [world.new_id(), world.new_id()]]
    world.timers.advance(0)
    leader, follower = (joined(join).member_id for join in joins)
    world.sync(leader, assignments={leader: b"1"})
    for _ in range(12):
        world.timers.advance(5)
        world.heartbeat(leader)
        world.heartbeat(follower)
    assert [member.member_id for member in world.group.members] == [leader]
    assert state(world) is ClassicState.PREPARING_REBALANCE


@pytest.mark.parametrize(("generation", "protocol", "code"), [(7, None, 22), (1, "other", 23)])
def test_a_sync_has_to_be_of_the_generation_and_its_protocol(
    generation: int, protocol: str | None, code: int
) -> None:
    world = ClassicWorld()
    (member,) = world.stable(None)
    assert synced(world.sync(member, generation, protocol=protocol)).error_code == code


def test_a_silent_member_goes_with_its_session_and_the_last_one_leaves_an_empty_group() -> None:
    world = ClassicWorld()
    world.stable(None)
    world.timers.advance(10)
    assert state(world) is ClassicState.EMPTY
    assert world.group.generation == 2
    assert world.last_value.members == []
    assert world.last_value.protocol_type == "consumer"
    assert world.timers.keys == set()


def test_a_commit_renews_the_session() -> None:
    world = ClassicWorld()
    (member,) = world.stable(None)
    world.timers.advance(9)
    world.group.committed(member)
    world.timers.advance(9)
    assert state(world) is ClassicState.STABLE


def test_leaving_is_one_rebalance_however_many_leave() -> None:
    world = ClassicWorld()
    leader, second, static = world.stable(None, None, "i")
    pending = world.new_id()
    codes = world.leave((second, None), (pending, None), ("x", None), ("y", "i"), ("", "i"), ("", "no"))
    assert codes == [0, 0, UNKNOWN_MEMBER, FENCED, 0, UNKNOWN_MEMBER]
    assert [member.member_id for member in world.group.members] == [leader]
    assert static not in world.group.members
    assert joined(world.parked(leader)).generation_id == 2


def test_a_member_that_leaves_while_it_is_parked_gets_a_response() -> None:
    world = ClassicWorld()
    leader, follower = world.stable(None, None)
    join = world.parked(leader)
    assert world.leave((leader, None)) == [0]
    assert joined(join).error_code == UNKNOWN_MEMBER
    other = world.parked(world.new_id())
    assert joined(world.parked(follower)).generation_id == joined(other).generation_id == 2
    sync = world.sync(joined(other).member_id)
    assert world.leave((joined(other).member_id, None)) == [0]
    assert synced(sync).error_code == UNKNOWN_MEMBER


def test_a_static_follower_that_is_back_gets_a_new_id_and_the_old_one_is_fenced() -> None:
    world = ClassicWorld()
    leader, static = world.stable(None, "i")
    response = joined(world.join(instance="i"))
    assert (response.error_code, response.generation_id, response.leader) == (0, 1, leader)
    assert response.member_id != static
    assert not response.skip_assignment
    assert world.heartbeat(static, instance="i") == FENCED
    assert synced(world.sync(response.member_id, instance="i")).assignment == static.encode()
    assert {member.member_id for member in world.last_value.members} == {leader, response.member_id}


def test_a_static_leader_that_is_back_need_not_assign_again() -> None:
    world = ClassicWorld()
    leader, follower = world.stable("i", None)
    response = joined(world.join(instance="i"))
    assert response.skip_assignment
    assert response.leader == response.member_id
    assert {member.member_id for member in response.members} == {follower, response.member_id}
    older = joined(world.join(instance="i", version=8))
    assert older.leader == response.member_id != older.member_id
    assert older.members == []
    assert leader not in world.group.members


def test_a_static_member_whose_return_cannot_be_stored_keeps_its_old_id() -> None:
    world = ClassicWorld()
    _, static = world.stable(None, "i")
    world.holding = True
    join = world.parked(instance="i")
    world.commit(NotCoordinatorError())
    assert joined(join).error_code == NotCoordinatorError.code
    assert world.heartbeat(static, instance="i") == 0


def test_a_static_member_that_changes_the_protocol_starts_a_rebalance() -> None:
    world = ClassicWorld()
    leader = world.parked(instance="a", names=("x", "y"))
    other = world.parked(instance="b", names=("x", "y"))
    world.timers.advance(0)
    ids = [joined(each).member_id for each in (leader, other)]
    follower = world.sync(ids[1], instance="b")
    synced(world.sync(ids[0], assignments={}, instance="a"))
    assert synced(follower).protocol_name == "x"
    world.parked(instance="b", names=("y",))
    assert state(world) is ClassicState.PREPARING_REBALANCE


def test_a_static_member_that_is_back_before_the_assignment_starts_a_rebalance() -> None:
    world = ClassicWorld()
    joins = [world.parked(instance="a"), world.parked(instance="b")]
    world.timers.advance(0)
    _, static = (joined(join).member_id for join in joins)
    sync = world.sync(static, instance="b")
    world.parked(instance="b")
    assert synced(sync).error_code == FENCED
    assert state(world) is ClassicState.PREPARING_REBALANCE


def test_a_group_that_was_loaded_gives_its_members_a_whole_session() -> None:
    world = ClassicWorld()
    ids = world.stable(None, "i")
    value = world.last_value
    after = ClassicWorld()
    after.group = type(after.group).load("g", value, after.rules)
    after.group.start()
    assert (state(after), after.group.generation) == (ClassicState.STABLE, 1)
    after.timers.advance(9)
    assert [after.heartbeat(ids[0]), after.heartbeat(ids[1], instance="i")] == [0, 0]
    assert after.group.record() == world.written[-1]
    after.timers.advance(10)
    assert state(after) is ClassicState.EMPTY


def test_a_group_that_was_loaded_and_is_too_large_rebalances() -> None:
    world = ClassicWorld()
    world.stable(None, None)
    after = ClassicWorld(max_size=1)
    after.group = type(after.group).load("g", world.last_value, after.rules)
    after.group.start()
    assert state(after) is ClassicState.PREPARING_REBALANCE


def test_the_group_knows_what_its_members_subscribe_to_while_they_are_consumers() -> None:
    world = ClassicWorld()
    world.stable(None, metadata=subscription("orders"))
    assert world.group.is_subscribed_to("orders")
    assert not world.group.is_subscribed_to("others")
    unreadable = ClassicWorld()
    unreadable.stable(None, metadata=b"?")
    assert unreadable.group.is_subscribed_to("anything")


def test_a_group_that_goes_leaves_no_timer_and_no_one_waiting() -> None:
    world = ClassicWorld()
    leader, _ = world.stable(None, None)
    world.new_id()
    join = world.parked(leader)
    world.group.dispose(NotCoordinatorError())
    assert joined(join).error_code == NotCoordinatorError.code
    assert world.timers.keys == set()
