"""ConsumerGroupDescribe: what a group looks like from outside."""

from __future__ import annotations

from ottla.broker.coordinator.groups.consumer_describe import DescribedGroup, describe_group
from ottla.wire.messages import ConsumerGroupDescribeResponse
from tests.broker.coordinator.groups.consumer_world import ConsumerWorld
from tests.broker.coordinator.groups.test_migration import TWO, classic_world


def described(world: ConsumerWorld) -> DescribedGroup:
    return describe_group(world.group, world.image, "uniform")


def numbers(assignment: ConsumerGroupDescribeResponse.Assignment) -> dict[str, list[int]]:
    return {topic.topic_name: topic.partitions for topic in assignment.topic_partitions}


def test_a_member_has_what_it_is_still_to_give_up() -> None:
    world = ConsumerWorld()
    a, b = world.member("a", server_assignor="range", rack_id="r"), world.member("b", instance_id="i")
    a.join()
    b.join()
    a.beat()
    group = described(world)
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Reconciling", 3, 3)
    assert group.assignor_name == "range"
    first, second = group.members
    assert (first.member_id, first.member_epoch, first.rack_id, first.instance_id) == ("a", 2, "r", None)
    assert (first.client_id, first.client_host) == ("client", "/127.0.0.1")
    assert numbers(first.assignment) == {"t": [0, 1, 2, 3]}
    assert len(numbers(first.target_assignment)["t"]) == len(numbers(second.target_assignment)["t"]) == 2
    assert (second.member_epoch, second.instance_id, numbers(second.assignment)) == (3, "i", {})
    assert (second.subscribed_topic_names, second.subscribed_topic_regex) == (["t"], "")
    assert second.member_type == 1


def test_a_group_says_which_of_its_members_are_classic() -> None:
    world = classic_world(TWO)
    world.member("c").join()
    assert [member.member_type for member in described(world).members] == [0, 0, 1]


def test_topics_that_are_gone_are_left_out() -> None:
    world = ConsumerWorld()
    world.member("a").join()
    world.delete_topic("t")
    (member,) = described(world).members
    assert numbers(member.assignment) == {}
