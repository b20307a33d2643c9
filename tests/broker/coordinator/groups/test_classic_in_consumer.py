"""Members of the classic protocol in a KIP-848 group."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from ottla.assignors.protocol import decode_assignment, encode_subscription
from ottla.assignors.subscription import MemberSubscription
from ottla.broker.coordinator.groups.classic import ClassicGroup, Sender
from ottla.broker.coordinator.groups.consumer_member import MemberState
from ottla.errors import BrokerError
from ottla.wire.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from tests.broker.coordinator.groups.consumer_world import GROUP, ConsumerWorld

ALL = [0, 1, 2, 3]


def join_request(
    member_id: str,
    owned: Iterable[int] = (),
    topics: Iterable[str] = ("t",),
    protocols: Iterable[str] = ("range",),
    **fields: Any,
) -> JoinGroupRequest:
    subscription = MemberSubscription(member_id, tuple(topics), owned=tuple(("t", index) for index in owned))
    return JoinGroupRequest(
        group_id=GROUP,
        member_id=member_id,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=20_000,
        protocols=[
            JoinGroupRequest.JoinGroupRequestProtocol(
                name=name, metadata=encode_subscription(subscription, 1)
            )
            for name in protocols
        ],
        **{"protocol_type": "consumer", **fields},
    )


class ClassicClient:
    """A classic member that sends what it is told to."""

    def __init__(self, world: ConsumerWorld, member_id: str, instance_id: str | None = None) -> None:
        self.world = world
        self.id = member_id
        self.instance_id = instance_id
        self.generation = -1

    def join(self, owned: Iterable[int] = (), **fields: Any) -> JoinGroupResponse:
        request = join_request(self.id, owned, group_instance_id=self.instance_id, **fields)
        response = self.world.write(lambda shard: shard.join(request, Sender("c", "/127.0.0.1", 9)))
        self.id, self.generation = response.member_id, response.generation_id
        return response

    def sync(self, **fields: Any) -> list[int]:
        request = SyncGroupRequest(
            group_id=GROUP,
            member_id=self.id,
            generation_id=self.generation,
            group_instance_id=self.instance_id,
            **{"protocol_type": "consumer", "protocol_name": "range", **fields},
        )
        response = self.world.write(lambda shard: shard.sync(request))
        assert response.error_code == 0
        return sorted(index for _, index in decode_assignment(response.assignment)[0])

    def heartbeat(self) -> int:
        request = HeartbeatRequest(
            group_id=GROUP,
            member_id=self.id,
            generation_id=self.generation,
            group_instance_id=self.instance_id,
        )
        return self.world.write(lambda shard: shard.heartbeat(request)).error_code


@pytest.fixture
def world() -> ConsumerWorld:
    return ConsumerWorld()


def code_of(call: Any, *arguments: Any, **fields: Any) -> int:
    try:
        call(*arguments, **fields)
    except BrokerError as error:
        return error.code
    return 0


def test_a_newcomer_is_told_its_id_and_joins_at_once_without_a_leader(world: ConsumerWorld) -> None:
    owner, newcomer = world.member("a"), ClassicClient(world, "")
    owner.join()
    assert newcomer.join().error_code == 79
    assert list(world.group.members) == ["a"]
    response = newcomer.join()
    assert (response.error_code, response.generation_id, response.protocol_name) == (0, 3, "range")
    assert (response.leader, response.members, response.skip_assignment) == ("", [], False)
    assert newcomer.sync() == []
    owner.beat()
    assert newcomer.heartbeat() == 0, "what it waits for is not free yet"
    owner.acknowledge()
    assert newcomer.heartbeat() == 27
    newcomer.join()
    assert sorted(newcomer.sync() + owner.partitions) == ALL
    assert newcomer.heartbeat() == 0


def grown(world: ConsumerWorld) -> ClassicClient:
    """A classic member that has two partitions beside those of a member of the new protocol."""
    owner, classic = world.member("a"), ClassicClient(world, "classic")
    owner.join()
    classic.join()
    owner.beat()
    owner.acknowledge()
    classic.join()
    assert len(classic.sync()) == 2
    return classic


def test_a_classic_member_is_told_to_join_again_until_it_has_given_up_what_it_must(
    world: ConsumerWorld,
) -> None:
    classic, third = grown(world), world.member("third")
    mine = classic.sync()
    third.join()
    assert classic.heartbeat() == 27
    joined = classic.join(owned=mine)
    assert joined.generation_id == 3, "it stays in its generation"
    assert world.group.member("classic").state is MemberState.UNREVOKED
    kept = classic.sync()
    assert len(kept) == 1
    assert classic.heartbeat() == 27, "it has not given anything up yet"
    assert classic.join(owned=kept).generation_id == 4
    assert (classic.sync(), classic.heartbeat()) == (kept, 0)


def test_a_sync_in_a_group_that_has_moved_on_is_refused(world: ConsumerWorld) -> None:
    classic = grown(world)
    world.member("third").join()
    assert code_of(classic.sync) == 27


def test_requests_that_do_not_fit_are_refused(world: ConsumerWorld) -> None:
    classic = grown(world)
    assert code_of(classic.sync, protocol_type="connect") == 23
    assert code_of(classic.sync, protocol_name="sticky") == 23
    classic.generation += 1
    assert (code_of(classic.sync), code_of(classic.heartbeat)) == (22, 22)
    other = ClassicClient(world, "a")
    other.generation = 3
    assert (code_of(other.sync), code_of(other.heartbeat)) == (25, 25), "it uses the new protocol"
    assert code_of(ClassicClient(world, "nobody").heartbeat) == 25
    assert code_of(ClassicClient(world, "x").join, protocol_type="connect") == 23
    assert code_of(ClassicClient(world, "x").join, protocols=["sticky"]) == 23, "the other has range only"


@pytest.mark.parametrize(("policy", "code"), [("disabled", 23), ("upgrade", 0), ("downgrade", 0)])
def test_protocols_mix_unless_all_migration_is_disabled(policy: str, code: int) -> None:
    world = ConsumerWorld(None, group_consumer_migration_policy=policy)
    world.member("a").join()
    assert code_of(ClassicClient(world, "classic").join) == code


def test_a_classic_member_that_does_not_come_back_is_gone(world: ConsumerWorld) -> None:
    classic = grown(world)
    third = world.member("third")
    third.join()
    classic.heartbeat()
    for _ in range(4):
        assert "classic" in world.group.members
        world.advance(5)
        code_of(classic.heartbeat)
    assert "classic" not in world.group.members


def test_a_classic_member_that_never_syncs_is_gone(world: ConsumerWorld) -> None:
    owner, classic = world.member("a"), ClassicClient(world, "classic")
    owner.join()
    classic.join()
    world.advance(20)
    assert list(world.group.members) == ["a"]


def test_a_classic_member_has_its_own_session(world: ConsumerWorld) -> None:
    grown(world)
    world.advance(30)
    assert list(world.group.members) == ["a"]


def leave(world: ConsumerWorld, *members: tuple[str, str | None]) -> list[tuple[str, int]]:
    identities = [
        LeaveGroupRequest.MemberIdentity(member_id=member, group_instance_id=instance)
        for member, instance in members
    ]
    response = world.write(lambda shard: shard.leave(LeaveGroupRequest(group_id=GROUP, members=identities)))
    return [(each.member_id, each.error_code) for each in response.members]


def test_members_of_either_protocol_leave_in_one_batch_and_one_epoch(world: ConsumerWorld) -> None:
    grown(world)
    world.member("b", instance_id="i").join()
    epoch = world.group.epoch
    assert leave(world, ("classic", None), ("x", None), ("", "i"), ("c", "i"), ("", "j")) == [
        ("classic", 0),
        ("x", 25),
        ("b", 0),
        ("c", 82),
        ("", 25),
    ]
    assert (list(world.group.members), world.group.epoch) == (["a"], epoch + 1)


def test_the_group_is_classic_when_the_last_member_of_the_new_protocol_leaves(world: ConsumerWorld) -> None:
    classic = grown(world)
    epoch = world.group.epoch
    assert leave(world, ("a", None)) == [("a", 0)]
    group = world.shard.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert (group.generation, group.state_name) == (epoch, "PreparingRebalance")
    assert classic.heartbeat() == 27
    joined = classic.join()
    assert (joined.generation_id, joined.leader) == (epoch + 1, "classic")


def test_a_static_member_that_comes_back_with_the_classic_protocol_makes_the_group_classic(
    world: ConsumerWorld,
) -> None:
    world.member("a", instance_id="i").join()
    back = ClassicClient(world, "", instance_id="i")
    assert back.join().generation_id == 2
    group = world.shard.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert (group.state_name, back.sync(), back.heartbeat()) == ("Stable", ALL, 0)


def test_a_static_member_that_comes_back_with_other_topics_has_to_join_again(world: ConsumerWorld) -> None:
    world.member("a", instance_id="i").join()
    back = ClassicClient(world, "", instance_id="i")
    assert back.join(topics=["t", "u"]).generation_id == 0
    assert world.shard.groups[GROUP].state_name == "PreparingRebalance"


def test_a_static_member_among_others_changes_its_protocol_and_keeps_what_it_has(
    world: ConsumerWorld,
) -> None:
    world.member("other").join()
    world.member("a", instance_id="i").join()
    back = ClassicClient(world, "", instance_id="i")
    assert back.join().generation_id == 3
    assert set(world.group.members) == {"other", back.id}
    assert world.group.member(back.id).classic is not None
    fenced = ClassicClient(world, "a", instance_id="i")
    fenced.generation = 3
    assert (code_of(fenced.heartbeat), code_of(fenced.join)) == (82, 82)


def test_an_empty_group_of_the_new_protocol_is_replaced_by_a_classic_one(world: ConsumerWorld) -> None:
    owner = world.member("a")
    owner.join()
    owner.leave()
    assert ClassicClient(world, "who").join().error_code == 25
    newcomer = ClassicClient(world, "")
    assert newcomer.join().error_code == 79
    assert world.shard.groups[GROUP].type.value == "classic"
    world.reload()
    assert world.shard.groups[GROUP].type.value == "classic"
