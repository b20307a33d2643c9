"""A group whose coordinator moves to another broker: what is written moves, what was only in memory does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.interop.brokers import Broker
from tests.interop.groups.classic import ClassicMember, assigned_parts
from tests.interop.groups.consumer import ConsumerMember
from tests.interop.groups.group import ALL, OFFSETS, Group
from tests.interop.waiting import eventually

NOT_COORDINATOR = 16
ILLEGAL_GENERATION = 22
UNKNOWN_MEMBER = 25
LONG = {"session_ms": 30_000, "rebalance_ms": 30_000}


@pytest.fixture
def spread(quick3: Broker, topic_of: Callable[[Broker], str]) -> Iterator[Group]:
    """A group on a cluster of three nodes, each of which may be its coordinator."""
    with Group(quick3, topic_of(quick3)) as group:
        yield group


def move(group: Group, *members: ClassicMember | ConsumerMember) -> None:
    """Moves the coordinator to another node; the members have connections to it when it has loaded."""
    partition = group.offsets_partition()
    old = group.coordinator_id()
    others = [node_id for node_id in group.broker.node_ids if node_id != old]
    group.broker.wait_until_in_sync(OFFSETS, partition + 1)
    group.broker.move_leader(OFFSETS, partition, others[0])
    eventually(lambda: group.coordinator_id() == others[0], "the coordinator to move", within=60)
    group.reconnect()
    for member in members:
        member.link = group.link()


def test_the_partition_of_a_group_is_led_by_its_coordinator(spread: Group) -> None:
    partition = spread.offsets_partition()
    eventually(
        lambda: spread.coordinator_id() == spread.broker.leader(OFFSETS, partition),
        "every node to know the same leader",
    )


def test_an_older_coordinator_says_that_it_is_none(spread: Group) -> None:
    member = spread.stable_one(**LONG)
    old = spread.outside
    move(spread)
    eventually(lambda: member.heartbeat() == NOT_COORDINATOR, "the older one to have resigned")
    assert (member.heartbeat(), member.commit(), member.sync().error_code) == (NOT_COORDINATOR,) * 3
    assert (member.join().error_code, member.leave()) == (NOT_COORDINATOR, NOT_COORDINATOR)
    spread.outside = old
    assert spread.described().error_code == NOT_COORDINATOR
    assert (spread.delete(), spread.delete_offsets([0])) == (NOT_COORDINATOR, (NOT_COORDINATOR, {}))


def test_a_stable_group_moves_and_who_was_joining_begins_again(spread: Group) -> None:
    member, newcomer = spread.stable_one(**LONG), spread.classic(**LONG)
    assert member.commit(7) == 0
    newcomer.start_entering()
    spread.wait_for("PreparingRebalance", members=2)
    parked = newcomer.link
    move(spread, member)
    newcomer.link = parked
    assert newcomer.joined().error_code == NOT_COORDINATOR
    newcomer.link = spread.link()
    assert newcomer.join().error_code == UNKNOWN_MEMBER
    # The rebalance is forgotten.
    assert (member.heartbeat(), spread.state(), spread.committed()) == (0, "Stable", 7)
    assert assigned_parts(member.sync().assignment) == {spread.topic: ALL}
    assert (member.generation, len(spread.described().members)) == (1, 1)


def test_a_generation_that_nobody_synced_is_forgotten(spread: Group) -> None:
    leader, newcomer = spread.completing_pair(first=LONG, second=LONG)
    newcomer.start_sync()
    spread.wait_for("CompletingRebalance")
    parked = newcomer.link
    move(spread, leader)
    newcomer.link = parked
    assert newcomer.synced().error_code == NOT_COORDINATOR
    newcomer.link = spread.link()
    assert (leader.sync().error_code, newcomer.sync().error_code) == (ILLEGAL_GENERATION, UNKNOWN_MEMBER)
    leader.generation = 1
    assert (leader.heartbeat(), assigned_parts(leader.sync().assignment)) == (0, {spread.topic: ALL})
    assert leader.join().generation_id == 2


def test_a_static_member_keeps_its_place_at_the_next_coordinator(spread: Group) -> None:
    leader, static = spread.stable_pair(first=LONG, second={"instance": "inst-1", **LONG})
    move(spread, leader, static)
    back = spread.classic(instance="inst-1", **LONG)
    assert back.join().generation_id == 2
    assert assigned_parts(back.sync().assignment) == {spread.topic: [2, 3]}
    assert leader.heartbeat() == 0


def test_a_consumer_group_moves_in_the_middle_of_a_revocation(spread: Group) -> None:
    spread.wait_until_known(spread.topic)
    owner, newcomer = spread.consumer(), spread.consumer()
    owner.join()
    eventually(lambda: newcomer.join().member_epoch == 3, "the newcomer to be part of the target")
    eventually(lambda: owner.beat().error_code == 0 and len(owner.partitions) == 2, "a target")
    move(spread, owner, newcomer)
    assert newcomer.beat().member_epoch == 3
    assert newcomer.partitions == []
    assert owner.ack().member_epoch == 3
    newcomer.ack()
    assert sorted(owner.partitions + newcomer.partitions) == ALL
    assert spread.consumer_described().group_epoch == 3
