"""ConsumerGroupHeartbeat as the coordinator decides it; the numbers are those of Apache Kafka 4.3.1."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.coordinator.groups.consumer_member import MemberState
from ottla.broker.coordinator.groups.heartbeat import check_request
from ottla.errors import (
    BrokerError,
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    InvalidRequestError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
)
from tests.broker.coordinator.groups.consumer_world import ConsumerWorld, Heartbeat

ALL = [0, 1, 2, 3]


@pytest.fixture
def world() -> ConsumerWorld:
    return ConsumerWorld()


# Requests


def request(**changes: Any) -> Heartbeat:
    """A join, with these changes."""
    fields: dict[str, Any] = {
        "group_id": "g",
        "member_id": "a",
        "rebalance_timeout_ms": 1000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    return Heartbeat(**{**fields, **changes})


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"group_id": " "}, "GroupId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"member_id": "", "member_epoch": -1}, "MemberId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"topic_partitions": None}, "TopicPartitions must be empty when (re-)joining."),
        (
            {"topic_partitions": [Heartbeat.TopicPartitions(partitions=[0])]},
            "TopicPartitions must be empty when (re-)joining.",
        ),
        (
            {"subscribed_topic_names": None},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        ({"member_epoch": -3}, "MemberEpoch is invalid."),
        ({"member_epoch": -2}, "InstanceId can't be null."),
    ],
)
def test_what_no_group_can_make_sense_of_is_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        check_request(request(**changes), 1, ["uniform"])
    assert refused.value.message == why


def test_a_request_that_makes_sense_passes() -> None:
    check_request(request(), 1, ["uniform"])
    check_request(request(member_id=""), 0, ["uniform"])
    check_request(request(subscribed_topic_names=None, subscribed_topic_regex="t"), 1, ["uniform"])
    check_request(request(server_assignor="range"), 1, ["uniform", "range"])
    check_request(request(member_epoch=-2, instance_id="i"), 1, ["uniform"])


def test_an_assignor_that_the_broker_lacks_is_refused() -> None:
    with pytest.raises(UnsupportedAssignorError) as refused:
        check_request(request(server_assignor="sticky"), 1, ["uniform", "range"])
    assert refused.value.message == (
        "ServerAssignor sticky is not supported. Supported assignors: uniform, range."
    )


# Joining


def test_the_first_member_gets_everything_at_once_in_one_batch(world: ConsumerWorld) -> None:
    a = world.member("a")
    response = a.join()
    assert (response.member_id, response.member_epoch, response.heartbeat_interval_ms) == ("a", 2, 5000)
    assert a.partitions == ALL
    assert world.written() == [
        ("MemberMetadataKey", True),
        ("MetadataKey", True),
        ("TargetAssignmentMemberKey", True),
        ("TargetAssignmentMetadataKey", True),
        ("CurrentMemberAssignmentKey", True),
    ]


def test_a_heartbeat_without_news_writes_nothing_and_says_nothing(world: ConsumerWorld) -> None:
    a = world.member("a")
    a.join()
    a.beat()  # the coordinator looks at the topics once more after it made the group
    written = len(world.log)
    response = a.beat()
    assert (response.member_epoch, response.assignment) == (2, None)
    assert len(world.log) == written


def test_a_member_without_topics_is_in_the_first_epoch(world: ConsumerWorld) -> None:
    a = world.member("a", topics=[])
    assert (a.join().member_epoch, a.partitions) == (1, [])


def test_the_coordinator_makes_the_id_of_a_member_of_version_0(world: ConsumerWorld) -> None:
    response = world.beat(request(group_id="readers", member_id=""), version=0)
    assert response.member_id in world.group.members
    assert len(response.member_id or "") == 22


def test_a_partition_moves_when_its_owner_has_given_it_up(world: ConsumerWorld) -> None:
    a, b = world.member("a"), world.member("b")
    a.join()
    assert (b.join().member_epoch, b.partitions) == (3, [])
    assert (a.beat().member_epoch, len(a.partitions)) == (2, 2)
    assert a.beat().assignment is None, "it has been told"
    b.beat()
    assert b.partitions == []
    assert a.acknowledge().member_epoch == 3
    b.beat()
    assert sorted(a.partitions + b.partitions) == ALL


def test_a_full_heartbeat_is_told_everything(world: ConsumerWorld) -> None:
    a = world.member("a")
    a.join()
    a.owned = set()
    a.beat(rebalance_timeout_ms=1000, subscribed_topic_names=["t"], topic_partitions=[])
    assert a.partitions == ALL


def test_a_known_member_joins_again_with_nothing_and_keeps_its_place(world: ConsumerWorld) -> None:
    a, b = world.member("a"), world.member("b")
    a.join()
    b.join()
    a.beat()
    assert world.group.member("a").state is MemberState.UNREVOKED
    assert (a.join().member_epoch, len(a.partitions)) == (3, 2), "who has nothing has given everything up"


def test_a_full_group_takes_no_one_else() -> None:
    world = ConsumerWorld(group_consumer_max_size="1")
    a = world.member("a")
    a.join()
    with pytest.raises(GroupMaxSizeReachedError):
        world.member("b").join()
    a.beat()


def test_a_group_that_is_not_there_has_no_members(world: ConsumerWorld) -> None:
    with pytest.raises(GroupIdNotFoundError) as refused:
        world.member("a").send(1)
    assert refused.value.message == "Consumer group readers not found."
    with pytest.raises(GroupIdNotFoundError) as refused:
        world.member("a").leave()
    assert refused.value.message == "Group readers not found."


# Epochs


def error_of(call: Any, *arguments: Any, **fields: Any) -> type[BrokerError] | None:
    try:
        call(*arguments, **fields)
    except BrokerError as error:
        return type(error)
    return None


def test_an_epoch_that_is_not_the_members_is_fenced(world: ConsumerWorld) -> None:
    a = world.member("a")
    a.join()
    assert error_of(a.send, 3) is FencedMemberEpochError
    assert error_of(a.send, 1) is FencedMemberEpochError
    assert error_of(world.member("b").send, 2) is UnknownMemberIdError


def test_the_previous_epoch_passes_with_a_list_of_no_more_than_was_assigned(world: ConsumerWorld) -> None:
    a, b = world.member("a"), world.member("b")
    a.join()
    b.join()
    a.beat()
    mine = world.owned(a.owned)
    a.send(2, topic_partitions=mine)
    assert world.group.member("a").epoch == 3, "and the response is lost"
    assert error_of(a.send, 2) is FencedMemberEpochError
    assert error_of(a.send, 2, topic_partitions=world.owned({(world.topic_id("t"), i) for i in ALL})) is (
        FencedMemberEpochError
    )
    assert a.send(2, topic_partitions=[]).member_epoch == 3
    assert a.send(2, topic_partitions=mine).member_epoch == 3


# What changes a target


def test_another_subscription_is_another_epoch(world: ConsumerWorld) -> None:
    world.create_topic("u", 2)
    a = world.member("a")
    a.join()
    assert a.beat(subscribed_topic_names=["t", "u"]).member_epoch == 3
    assert len(a.owned) == 6


def test_a_topic_that_is_unsubscribed_is_given_up_before_there_is_a_target(world: ConsumerWorld) -> None:
    world.create_topic("u", 2)
    world.configure("consumer.assignment.interval.ms", "5000")
    a = world.member("a", ["t", "u"])
    a.join()
    response = a.beat(subscribed_topic_names=["t"])
    assert (response.member_epoch, a.partitions) == (2, ALL)
    assert world.group.member("a").state is MemberState.UNREVOKED
    assert (world.group.epoch, world.group.target_epoch) == (3, 2)
    assert a.acknowledge().member_epoch == 2
    world.advance(5)
    assert a.beat().member_epoch == 3


def test_topics_that_come_grow_and_go_are_another_epoch_each(world: ConsumerWorld) -> None:
    a = world.member("a", ["t", "u"])
    a.join()
    world.widen_topic("t", 5)
    assert (a.beat().member_epoch, len(a.owned)) == (3, 5)
    world.create_topic("u", 1)
    assert (a.beat().member_epoch, len(a.owned)) == (4, 6)
    world.create_topic("unread", 1)
    assert (a.beat().member_epoch, world.group.epoch) == (4, 4)
    world.delete_topic("t")
    assert (a.beat().member_epoch, a.partitions) == (4, [0]), "the one of u"
    assert a.acknowledge().member_epoch == 5


def test_targets_are_computed_no_more_often_than_the_group_wants(world: ConsumerWorld) -> None:
    world.configure("consumer.assignment.interval.ms", "3000")
    a, b = world.member("a"), world.member("b")
    a.join()
    assert (b.join().member_epoch, b.partitions) == (2, [])
    assert (world.group.epoch, world.group.target_epoch) == (3, 2)
    world.advance(2.9)
    assert (a.beat().assignment, a.partitions) == (None, ALL)
    world.advance(0.1)
    a.beat()
    assert len(a.partitions) == 2


def test_members_choose_the_assignor_by_their_votes(world: ConsumerWorld) -> None:
    a = world.member("b", server_assignor="range")
    b = world.member("a")
    a.join()
    b.join()
    a.beat()
    assert a.partitions == [2, 3], "range gives the first run to the first id"


# Leaving


def test_what_a_member_had_is_free_when_it_leaves(world: ConsumerWorld) -> None:
    a, b = world.member("a"), world.member("b")
    a.join()
    b.join()
    before = len(world.log)
    response = a.leave()
    assert (response.member_id, response.member_epoch, response.heartbeat_interval_ms) == ("a", -1, 0)
    assert world.written(before) == [
        ("CurrentMemberAssignmentKey", False),
        ("TargetAssignmentMemberKey", False),
        ("MemberMetadataKey", False),
        ("MetadataKey", True),
    ]
    assert (b.beat().member_epoch, b.partitions) == (4, ALL)


def test_a_member_that_is_silent_for_its_session_is_gone(world: ConsumerWorld) -> None:
    world.configure("consumer.session.timeout.ms", "50000")
    a, b = world.member("a"), world.member("b")
    a.join()
    b.join()
    world.advance(49)
    b.beat()
    world.advance(1)
    assert list(world.group.members) == ["b"]
    assert (b.beat().member_epoch, b.partitions) == (4, ALL)
    assert error_of(a.beat) is UnknownMemberIdError


def test_a_member_that_never_gives_up_what_it_must_is_gone_after_its_rebalance_timeout(
    world: ConsumerWorld,
) -> None:
    a, b = world.member("a"), world.member("b")
    a.rebalance_timeout_ms = 20_000
    a.join()
    b.join()
    a.beat()
    for _ in range(3):
        world.advance(5)
        a.beat()
        b.beat()
    assert "a" in world.group.members
    world.advance(5)
    assert error_of(a.beat) is UnknownMemberIdError
    assert (b.beat().member_epoch, b.partitions) == (4, ALL)


def test_a_rebalance_timeout_ends_with_the_acknowledgement(world: ConsumerWorld) -> None:
    a, b = world.member("a"), world.member("b")
    a.rebalance_timeout_ms = 20_000
    a.join()
    b.join()
    a.beat()
    a.acknowledge()
    world.advance(30)
    assert "a" in world.group.members


# Static members


def test_a_static_member_that_is_back_under_another_id_has_what_it_had(world: ConsumerWorld) -> None:
    a, b = world.member("a", instance_id="i"), world.member("b", instance_id="i")
    a.join()
    assert a.leave(-2).member_epoch == -2
    assert error_of(a.send, 2) is FencedMemberEpochError
    assert (b.join().member_epoch, b.partitions) == (2, ALL), "no epoch is spent on it"
    assert list(world.group.members) == ["b"]
    assert error_of(a.send, 2) is FencedInstanceIdError
    assert error_of(a.leave) is FencedInstanceIdError
    b.beat()


def test_a_static_member_that_is_back_under_its_own_id_has_what_it_had(world: ConsumerWorld) -> None:
    a = world.member("a", instance_id="i")
    a.join()
    a.leave(-2)
    assert (a.join().member_epoch, a.partitions) == (2, ALL)
    assert error_of(a.send, 1, topic_partitions=[]) is FencedMemberEpochError
    assert world.group.member("a").assigned_at((world.topic_id("t"), 0)) == 0, "any of its epochs may commit"


def test_a_static_member_that_left_is_not_let_in_by_the_epoch_that_it_had(world: ConsumerWorld) -> None:
    a, b = world.member("a", instance_id="i"), world.member("b")
    a.join()
    b.join()
    b.leave()
    a.beat()
    assert (a.epoch, a.partitions) == (4, ALL)
    a.leave(-2)
    for epoch in (2, 4):
        assert error_of(a.send, epoch, topic_partitions=[]) is FencedMemberEpochError


def test_an_instance_is_one_member_at_a_time(world: ConsumerWorld) -> None:
    a, b = world.member("a", instance_id="i"), world.member("b", instance_id="i")
    a.join()
    assert error_of(b.join) is UnreleasedInstanceIdError
    assert error_of(a.join) is UnreleasedInstanceIdError, "not even under its own id"
    assert error_of(b.send, 2) is FencedInstanceIdError
    assert error_of(world.member("a", instance_id="j").send, 2) is UnknownMemberIdError


def test_a_static_member_that_is_away_keeps_its_partitions_until_its_session_ends(
    world: ConsumerWorld,
) -> None:
    a, b = world.member("a", instance_id="i"), world.member("b")
    a.join()
    a.leave(-2)
    b.join()
    world.advance(40)
    b.beat()
    assert b.partitions == []
    world.advance(5)
    b.beat()
    assert b.partitions == ALL


def test_what_a_static_member_was_to_give_up_is_free_when_it_goes(world: ConsumerWorld) -> None:
    a, b = world.member("a", instance_id="i"), world.member("b")
    a.join()
    b.join()
    a.beat()
    a.leave(-2)
    b.beat()
    assert len(b.partitions) == 2


def test_a_static_member_that_leaves_for_good_is_gone(world: ConsumerWorld) -> None:
    a = world.member("a", instance_id="i")
    a.join()
    a.leave(-1)
    assert world.group.is_empty
    assert world.member("b", instance_id="i").join().member_epoch == 4
