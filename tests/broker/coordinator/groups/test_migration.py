"""Groups in use that change their protocol, with what they have."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ottla.assignors.protocol import encode_assignment, encode_subscription
from ottla.assignors.subscription import MemberSubscription
from ottla.broker.coordinator.groups.classic import ClassicGroup
from ottla.broker.coordinator.groups.consumer_group import ConsumerGroup
from ottla.broker.coordinator.groups.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    encode,
)
from ottla.errors import GroupIdNotFoundError
from tests.broker.coordinator.groups.consumer_world import GROUP, ConsumerWorld

GENERATION = 7


def classic_world(
    assignments: Mapping[str, bytes], protocol_type: str = "consumer", **configs: str
) -> ConsumerWorld:
    """A classic group that was loaded, Stable in its generation, with these members."""
    world = ConsumerWorld(None, **configs)
    members = [
        MemberMetadata(
            member_id=member,
            client_id="c",
            client_host="/127.0.0.1",
            rebalance_timeout=20_000,
            session_timeout=30_000,
            subscription=encode_subscription(MemberSubscription(member, ("t",)), 1),
            assignment=assignment,
        )
        for member, assignment in assignments.items()
    ]
    value = GroupMetadataValue(
        protocol_type=protocol_type,
        generation=GENERATION,
        protocol="range",
        leader=next(iter(assignments), None),
        members=members,
    )
    world.log.append(encode(GroupMetadataKey(group=GROUP), value))
    world.reload()
    return world


def of_t(*indexes: int, user_data: bytes | None = None) -> bytes:
    return encode_assignment([("t", index) for index in indexes], user_data, version=1)


TWO = {"a": of_t(0, 1), "b": of_t(2, 3)}


def owned_by(group: ConsumerGroup, member: str) -> list[int]:
    return sorted(index for _, index in group.member(member).assigned)


def test_a_classic_group_goes_on_with_its_members_when_one_of_the_new_protocol_joins() -> None:
    world = classic_world(TWO)
    newcomer = world.member("c")
    assert newcomer.join().member_epoch == GENERATION + 1
    group = world.group
    assert (group.epoch, group.target_epoch) == (GENERATION + 1, GENERATION + 1)
    assert [(member.id, member.epoch, member.classic is not None) for member in group.members.values()] == [
        ("a", GENERATION, True),
        ("b", GENERATION, True),
        ("c", GENERATION + 1, False),
    ]
    assert (owned_by(group, "a"), owned_by(group, "b"), newcomer.partitions) == ([0, 1], [2, 3], [])
    assert group.member("a").assigned_at((world.topic_id("t"), 0)) == GENERATION


def test_what_the_change_wrote_is_the_group_that_another_coordinator_loads() -> None:
    world = classic_world(TWO)
    world.member("c").join()
    before = world.group
    world.reload()
    assert (world.group.members, world.group.targets) == (before.members, before.targets)


def test_a_group_goes_back_when_the_newcomer_leaves_and_its_members_join_again() -> None:
    world = classic_world(TWO)
    newcomer = world.member("c")
    newcomer.join()
    newcomer.leave()
    group = world.shard.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert (group.generation, group.state_name) == (GENERATION + 1, "PreparingRebalance")
    assert sorted(member.member_id for member in group.members) == ["a", "b"]
    world.reload()
    loaded = world.shard.groups[GROUP]
    assert isinstance(loaded, ClassicGroup)
    assert (loaded.generation, len(loaded.members)) == (GENERATION + 1, 2)


def test_a_group_goes_back_when_the_newcomer_dies() -> None:
    world = classic_world(
        TWO, group_consumer_session_timeout_ms="20000", group_consumer_min_session_timeout_ms="1"
    )
    world.member("c").join()
    world.advance(20)
    assert isinstance(world.shard.groups[GROUP], ClassicGroup)


def test_members_of_a_classic_group_have_their_sessions_after_the_change() -> None:
    world = classic_world(TWO)
    newcomer = world.member("c")
    newcomer.join()
    world.advance(29)
    newcomer.beat()
    assert len(world.group.members) == 3
    world.advance(1)
    assert list(world.group.members) == ["c"]


def refusal(world: ConsumerWorld) -> str:
    with pytest.raises(GroupIdNotFoundError) as refused:
        world.member("c").join()
    assert isinstance(world.shard.groups[GROUP], ClassicGroup)
    return (refused.value.message or "").partition("because ")[2]


def test_a_group_that_cannot_change_says_why() -> None:
    assert refusal(classic_world(TWO, protocol_type="connect")) == (
        "the group does not use the consumer embedded protocol."
    )
    assert refusal(classic_world(TWO, group_consumer_migration_policy="downgrade")) == (
        "online upgrade is disabled."
    )
    assert refusal(classic_world(TWO, group_consumer_max_size="1")) == (
        "the group size exceeds the consumer group maximum size."
    )
    assert refusal(classic_world({"a": b"\0"})) == "the embedded consumer protocol is malformed."
    assert refusal(classic_world({"a": of_t(0, user_data=b"x")})).startswith(
        "an unsupported custom assignor is in use."
    )


def test_a_refused_change_leaves_the_sessions_of_the_classic_group_alone() -> None:
    world = classic_world(TWO, group_consumer_max_size="1")
    refusal(world)
    assert ("session", GROUP, "a") in world.timers


def test_a_group_stays_as_it_is_where_the_way_back_is_closed() -> None:
    world = classic_world(TWO, group_consumer_migration_policy="upgrade")
    newcomer = world.member("c")
    newcomer.join()
    newcomer.leave()
    assert sorted(world.group.members) == ["a", "b"]
    world = classic_world(TWO, group_max_size="1")
    newcomer = world.member("c")
    newcomer.join()
    newcomer.leave()
    assert sorted(world.group.members) == ["a", "b"], "there are more than a classic group may have"


def test_an_empty_classic_group_is_replaced() -> None:
    world = classic_world({})
    newcomer = world.member("c")
    assert newcomer.join().member_epoch == 2
    assert newcomer.partitions == [0, 1, 2, 3]


def test_only_a_join_changes_a_group() -> None:
    world = classic_world(TWO)
    for epoch in (1, -1):
        with pytest.raises(GroupIdNotFoundError) as refused:
            world.member("c").send(epoch)
        assert refused.value.message == f"Group {GROUP} is not a consumer group."


def test_partitions_of_topics_that_are_gone_do_not_come_along() -> None:
    gone = encode_assignment([("t", 0), ("gone", 1)], version=1)
    world = classic_world({"a": gone})
    world.member("c").join()
    assert owned_by(world.group, "a") == [0]
