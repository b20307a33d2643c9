"""KIP-848 groups in their shard: loading, topics that change, and writes that fail."""

from __future__ import annotations

import pytest

from ottla.broker.coordinator.groups.consumer_member import MemberState
from ottla.broker.coordinator.groups.consumer_records import epoch_record, member_tombstones
from ottla.broker.metadata.records import PartitionChangeRecord
from ottla.errors import CoordinatorNotAvailableError, GroupIdNotFoundError, NotCoordinatorError
from tests.broker.coordinator.groups.consumer_world import GROUP, ConsumerWorld
from tests.broker.coordinator.groups.test_migration import TWO, classic_world


@pytest.fixture
def world() -> ConsumerWorld:
    return ConsumerWorld()


def test_a_new_coordinator_gives_every_member_a_whole_session(world: ConsumerWorld) -> None:
    a = world.member("a")
    a.join()
    world.advance(40)
    world.reload()
    world.advance(44)
    a.beat()
    world.advance(45)
    assert world.group.is_empty


def test_a_new_coordinator_waits_for_revocations_from_the_start(world: ConsumerWorld) -> None:
    a, b = world.member("a"), world.member("b")
    a.rebalance_timeout_ms = 20_000
    a.join()
    b.join()
    a.beat()
    assert world.group.member("a").state is MemberState.UNREVOKED
    world.reload()
    world.advance(19)
    assert "a" in world.group.members
    world.advance(1)
    assert "a" not in world.group.members


def test_topics_that_changed_while_the_coordinator_moved_are_noticed(world: ConsumerWorld) -> None:
    a = world.member("a")
    a.join()
    a.beat()
    world.widen_topic("t", 5)
    world.reload()
    assert (a.beat().member_epoch, len(a.owned)) == (3, 5)


def test_another_leader_of_a_partition_is_no_reason_to_look_at_topics(world: ConsumerWorld) -> None:
    a = world.member("a")
    a.join()
    a.beat()
    world.change([PartitionChangeRecord(world.topic_id("t"), 0, leader=2)])
    assert world.group.metadata_is_fresh
    world.change([PartitionChangeRecord(world.topic_id("t"), 0, replicas=(1, 2))])
    assert not world.group.metadata_is_fresh, "the racks may be others"


def test_an_epoch_that_was_not_written_is_computed_again(world: ConsumerWorld) -> None:
    a = world.member("a")
    a.join()
    a.beat()
    assert world.group.metadata_is_fresh
    world.group.refreshed_metadata(world.group.epoch + 1, frozenset({"t"}))
    assert not world.group.metadata_is_fresh


def test_tombstones_of_a_group_that_is_gone_change_nothing(world: ConsumerWorld) -> None:
    for record in member_tombstones("nobody", "a"):
        world.shard.replay(record.key, record.value)
    world.shard.replay(epoch_record("nobody", 1, 0).key, None)
    assert world.shard.groups == {}


def test_a_group_is_known_by_its_type(world: ConsumerWorld) -> None:
    groups = world.shard.consumer_groups
    with pytest.raises(GroupIdNotFoundError) as refused:
        groups.known("nobody")
    assert refused.value.message == "Group nobody not found."
    with pytest.raises(GroupIdNotFoundError) as refused:
        classic_world(TWO).shard.consumer_groups.known(GROUP)
    assert refused.value.message == f"Group {GROUP} is not a consumer group."
    world.member("a").join()
    assert groups.known(GROUP) is world.group


def test_a_way_back_that_could_not_be_written_is_undone() -> None:
    world = classic_world(TWO)
    newcomer = world.member("c")
    newcomer.join()
    group = world.group
    result = world.shard.consumer_groups.fence(group, [group.member("c")], None)
    assert world.shard.groups[GROUP] is not group
    assert result.on_commit is not None
    result.on_commit(CoordinatorNotAvailableError())
    assert world.shard.groups[GROUP] is group
    assert all(("session", GROUP, member) in world.timers for member in group.members)


def test_a_member_whose_end_could_not_be_written_is_missed_again(world: ConsumerWorld) -> None:
    a, b = world.member("a"), world.member("b")
    a.join()
    b.join()
    a.beat()
    group = world.group
    timers = [("session", GROUP, "a"), ("rebalance", GROUP, "a")]
    for error, starts in ((CoordinatorNotAvailableError(), True), (NotCoordinatorError(), False)):
        result = world.shard.consumer_groups.fence(group, [group.member("a")], None)
        assert not any(timer in world.timers for timer in timers)
        assert result.on_commit is not None
        result.on_commit(error)
        assert [timer in world.timers for timer in timers] == [starts, starts]
