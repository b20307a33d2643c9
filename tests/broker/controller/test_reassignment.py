"""Codes and sentences are those that Apache Kafka 4.3.1 answers."""

from collections.abc import Sequence

import pytest

from ottla.broker.metadata.records import NO_LEADER, PartitionChangeRecord
from ottla.errors import RequestTimedOutError
from ottla.wire.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from tests.broker.controller.support import UNCLEAN, Controller, state_of

UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_REPLICATION_FACTOR = 38
INVALID_REPLICA_ASSIGNMENT = 39
NO_REASSIGNMENT_IN_PROGRESS = 85
NEW_LEADER_ELECTED = 108


@pytest.fixture
def controller() -> Controller:
    controller = Controller([1, 2, 3, 4])
    controller.create("t", [[1, 2], [2, 1]])
    return controller


def move(
    controller: Controller,
    replicas: Sequence[int] | None,
    topic: str = "t",
    index: int = 0,
    may_resize: bool = True,
) -> tuple[int, str | None]:
    partition = AlterPartitionReassignmentsRequest.ReassignablePartition(
        partition_index=index, replicas=None if replicas is None else list(replicas)
    )
    request = AlterPartitionReassignmentsRequest(
        topics=[AlterPartitionReassignmentsRequest.ReassignableTopic(name=topic, partitions=[partition])],
        allow_replication_factor_change=may_resize,
    )
    response = controller.carry_out(controller.state.alter_partition_reassignments(request))
    assert (response.error_code, response.error_message) == (0, None)
    assert response.allow_replication_factor_change is may_resize
    ((result,),) = (topic.partitions for topic in response.responses)
    assert result.partition_index == index
    return result.error_code, result.error_message


def ongoing(
    controller: Controller, *names: str
) -> list[ListPartitionReassignmentsResponse.OngoingTopicReassignment]:
    topics = [
        ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics(
            name=name, partition_indexes=[0, 9]
        )
        for name in names
    ]
    request = ListPartitionReassignmentsRequest(topics=topics or None)
    return controller.state.list_partition_reassignments(request).topics


def test_a_move_is_done_when_all_new_replicas_are_in_sync(controller: Controller) -> None:
    assert move(controller, [3, 4]) == (0, None)
    assert controller.partition("t").adding == (3, 4)
    assert controller.report_isr("t", [1, 2, 3]).error_code == 0
    assert controller.partition("t").is_reassigning
    assert controller.report_isr("t", [1, 2, 3, 4]).error_code == NEW_LEADER_ELECTED
    partition = controller.partition("t")
    assert (partition.replicas, partition.leader, partition.is_reassigning) == ((3, 4), 3, False)
    assert sorted(partition.isr) == [3, 4]
    assert (partition.leader_epoch, partition.partition_epoch) == (1, 3)
    assert ongoing(controller) == []


def test_a_leader_that_stays_leads_on_in_a_new_epoch(controller: Controller) -> None:
    assert move(controller, [3, 1]) == (0, None)
    controller.catch_up("t")
    partition = controller.partition("t")
    assert (partition.replicas, partition.leader, partition.leader_epoch) == ((3, 1), 1, 1)


def test_more_replicas_need_no_new_epoch(controller: Controller) -> None:
    assert move(controller, [1, 2, 3]) == (0, None)
    controller.catch_up("t")
    partition = controller.partition("t")
    assert (partition.replicas, partition.isr, partition.leader_epoch) == ((1, 2, 3), (1, 2, 3), 0)


def test_a_new_order_of_the_same_replicas_is_no_election(controller: Controller) -> None:
    assert move(controller, [2, 1]) == (0, None)
    partition = controller.partition("t")
    assert (partition.replicas, partition.leader, partition.leader_epoch) == ((2, 1), 1, 0)


def test_a_move_to_where_it_is_changes_nothing(controller: Controller) -> None:
    assert move(controller, [1, 2]) == (0, None)
    assert controller.partition("t").partition_epoch == 0


def test_a_move_to_a_broker_that_is_down_waits_for_it(controller: Controller) -> None:
    controller.fence(4)
    assert move(controller, [4, 1]) == (0, None)
    partition = controller.partition("t")
    assert (partition.replicas, partition.adding, partition.removing) == ((4, 1, 2), (4,), (2,))
    assert state_of(partition) == (1, (1, 2))
    (topic,) = ongoing(controller)
    (entry,) = topic.partitions
    assert (topic.name, entry.partition_index, entry.replicas) == ("t", 0, [4, 1, 2])
    assert (entry.adding_replicas, entry.removing_replicas) == ([4], [2])
    assert ongoing(controller, "t") == [topic]
    assert ongoing(controller, "nope") == []

    controller.start(4)
    assert controller.partition("t").is_reassigning
    controller.catch_up("t")
    partition = controller.partition("t")
    assert (partition.replicas, partition.is_reassigning) == ((4, 1), False)
    assert sorted(partition.isr) == [1, 4]
    assert partition.leader == 1


def test_a_move_that_waits_can_be_cancelled(controller: Controller) -> None:
    controller.fence(4)
    move(controller, [4, 3])
    assert move(controller, None) == (0, None)
    partition = controller.partition("t")
    assert (partition.replicas, partition.is_reassigning) == ((1, 2), False)
    assert state_of(partition) == (1, (1, 2))


def test_what_is_not_moving_cannot_be_cancelled(controller: Controller) -> None:
    assert move(controller, None) == (NO_REASSIGNMENT_IN_PROGRESS, None)


def stuck(unclean: bool) -> Controller:
    """The old replica is down and the new one alone in sync: there is nothing clean to go back to."""
    controller = Controller([1, 2, 3])
    controller.create("t", [[1]], configs={UNCLEAN: str(unclean).lower()})
    controller.fence(3)
    move(controller, [2, 3])
    controller.commit([PartitionChangeRecord(controller.topic_id("t"), 0, isr=(2,), leader=2)])
    return controller


def test_a_cancellation_that_would_lose_records_is_refused() -> None:
    assert move(stuck(unclean=False), None) == (
        INVALID_REPLICA_ASSIGNMENT,
        "Unable to revert partition assignment for t:0 because it would require an unclean leader election.",
    )


def test_a_cancellation_may_lose_records_where_the_topic_allows_it() -> None:
    controller = stuck(unclean=True)
    assert move(controller, None) == (0, None)
    assert controller.partition("t").replicas == (1,)
    assert state_of(controller.partition("t")) == (1, (1,))


@pytest.mark.parametrize(("elr", "isr"), [(True, ()), (False, (1,))])
def test_a_partition_without_a_leader_can_be_moved_and_stays_without(elr: bool, isr: tuple[int, ...]) -> None:
    controller = Controller([1, 2], elr=elr)
    controller.create("t", [[1]])
    controller.fence(1)
    assert move(controller, [2]) == (0, None)
    partition = controller.partition("t")
    assert (partition.replicas, state_of(partition)) == ((2, 1), (NO_LEADER, isr))


@pytest.mark.parametrize(
    ("replicas", "topic", "index", "code", "sentence"),
    [
        ([1], "nope", 0, UNKNOWN_TOPIC_OR_PARTITION, "Unable to find a topic named nope."),
        ([1], "t", 99, UNKNOWN_TOPIC_OR_PARTITION, "Unable to find partition t:99."),
        (
            [],
            "t",
            0,
            INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            [9],
            "t",
            0,
            INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            [1, 1],
            "t",
            0,
            INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes the broker 1 more than once.",
        ),
    ],
)
def test_a_bad_move_is_refused(
    controller: Controller, replicas: list[int], topic: str, index: int, code: int, sentence: str
) -> None:
    assert move(controller, replicas, topic, index) == (code, sentence)


def test_the_number_of_replicas_may_be_held(controller: Controller) -> None:
    assert move(controller, [1, 2, 3], may_resize=False) == (
        INVALID_REPLICATION_FACTOR,
        "The replication factor is changed from 2 to 3",
    )
    controller.fence(4)
    assert move(controller, [4, 3], may_resize=False) == (0, None)
    assert move(controller, [3, 4], may_resize=False) == (0, None)


def test_where_no_topic_is_named_nothing_is_said(controller: Controller) -> None:
    request = AlterPartitionReassignmentsRequest(
        topics=[], allow_replication_factor_change=False, timeout_ms=0
    )
    decision = controller.state.alter_partition_reassignments(request)
    assert decision.response == AlterPartitionReassignmentsResponse()


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_without_time_nothing_moves(controller: Controller, timeout_ms: int) -> None:
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic(name="nope", partitions=[])
    with pytest.raises(RequestTimedOutError):
        controller.state.alter_partition_reassignments(
            AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=timeout_ms)
        )
