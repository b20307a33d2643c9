"""Codes and sentences are those that Apache Kafka 4.3.1 answers."""

from collections.abc import Sequence

import pytest

from ottla.errors import RequestTimedOutError
from ottla.wire.messages import CreatePartitionsRequest
from tests.broker.controller.support import Controller, state_of

UNKNOWN_SERVER_ERROR = -1
UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_PARTITIONS = 37
INVALID_REPLICATION_FACTOR = 38
INVALID_REPLICA_ASSIGNMENT = 39
INVALID_REQUEST = 42


@pytest.fixture
def controller() -> Controller:
    controller = Controller([1, 2, 3])
    controller.create("t", [[1, 2], [2, 3]])
    return controller


def grow(
    controller: Controller,
    name: str,
    count: int,
    assignments: Sequence[Sequence[int]] | None = None,
    validate_only: bool = False,
) -> tuple[int, str | None]:
    topic = wanted(name, count, assignments)
    request = CreatePartitionsRequest(timeout_ms=5_000, topics=[topic], validate_only=validate_only)
    (result,) = controller.carry_out(controller.state.create_partitions(request)).results
    assert result.name == name
    return result.error_code, result.error_message


def wanted(
    name: str, count: int, assignments: Sequence[Sequence[int]] | None = None
) -> CreatePartitionsRequest.CreatePartitionsTopic:
    manual = None
    if assignments is not None:
        manual = [
            CreatePartitionsRequest.CreatePartitionsAssignment(broker_ids=list(replicas))
            for replicas in assignments
        ]
    return CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=manual)


def test_new_partitions_have_as_many_replicas_as_the_old(controller: Controller) -> None:
    assert grow(controller, "t", 5) == (0, None)
    partitions = controller.state.image.topics["t"].partitions
    assert list(partitions) == [0, 1, 2, 3, 4]
    assert {len(partition.replicas) for partition in partitions.values()} == {2}


def test_new_partitions_go_where_they_are_put(controller: Controller) -> None:
    assert grow(controller, "t", 4, [[3, 1], [1, 3]]) == (0, None)
    assert state_of(controller.partition("t", 2)) == (3, (3, 1))
    assert state_of(controller.partition("t", 3)) == (1, (1, 3))


def test_validate_only_adds_nothing(controller: Controller) -> None:
    assert grow(controller, "t", 5, validate_only=True) == (0, None)
    assert len(controller.state.image.topics["t"].partitions) == 2


def test_an_unknown_topic_cannot_grow(controller: Controller) -> None:
    assert grow(controller, "nope", 3) == (UNKNOWN_TOPIC_OR_PARTITION, None)


@pytest.mark.parametrize(
    ("count", "sentence"),
    [
        (2, "Topic already has 2 partition(s)."),
        (1, "The topic t currently has 2 partition(s); 1 would not be an increase."),
        (-1, "The topic t currently has 2 partition(s); -1 would not be an increase."),
    ],
)
def test_a_topic_only_grows(controller: Controller, count: int, sentence: str) -> None:
    assert grow(controller, "t", count) == (INVALID_PARTITIONS, sentence)


@pytest.mark.parametrize(
    ("assignments", "sentence"),
    [
        ([], "Attempted to add 1 additional partition(s), but only 0 assignment(s) were specified."),
        (
            [[1, 2], [2, 1]],
            "Attempted to add 1 additional partition(s), but only 2 assignment(s) were specified.",
        ),
        (
            [[9, 1]],
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        ([[]], "The manual partition assignment includes an empty replica list."),
        (
            [[1]],
            "The manual partition assignment includes a partition with 1 replica(s), but this is not "
            "consistent with previous partitions, which have 2 replica(s).",
        ),
        (
            [[2, 3]],
            "All brokers specified in the manual partition assignment for partition 2 are fenced or in "
            "controlled shutdown.",
        ),
    ],
)
def test_a_bad_assignment_is_refused(
    controller: Controller, assignments: list[list[int]], sentence: str
) -> None:
    controller.fence(2)
    controller.fence(3)
    assert grow(controller, "t", 3, assignments) == (INVALID_REPLICA_ASSIGNMENT, sentence)


def test_without_brokers_nothing_grows(controller: Controller) -> None:
    for broker_id in (1, 2, 3):
        controller.fence(broker_id)
    assert grow(controller, "t", 3) == (
        INVALID_REPLICATION_FACTOR,
        "All brokers are currently fenced, or have all their log directories cordoned.",
    )


def test_a_topic_that_is_named_twice_does_not_grow(controller: Controller) -> None:
    controller.create("u")
    request = CreatePartitionsRequest(
        timeout_ms=5_000, topics=[wanted("t", 3), wanted("u", 2), wanted("t", 4)]
    )
    response = controller.carry_out(controller.state.create_partitions(request))
    assert [(result.name, result.error_code, result.error_message) for result in response.results] == [
        ("t", INVALID_REQUEST, "Duplicate topic name."),
        ("u", 0, None),
    ]
    assert len(controller.state.image.topics["t"].partitions) == 2


def test_one_request_adds_ten_thousand_partitions_at_most(controller: Controller) -> None:
    controller.create("u")
    request = CreatePartitionsRequest(
        topics=[wanted("t", 10_000), wanted("u", 2**31 - 1)], timeout_ms=5_000, validate_only=True
    )
    results = controller.state.create_partitions(request).response.results
    assert {result.name: (result.error_code, result.error_message) for result in results} == {
        "t": (0, None),
        "u": (UNKNOWN_SERVER_ERROR, None),
    }


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_without_time_nothing_grows(controller: Controller, timeout_ms: int) -> None:
    with pytest.raises(RequestTimedOutError):
        controller.state.create_partitions(
            CreatePartitionsRequest(topics=[wanted("nope", 3)], timeout_ms=timeout_ms)
        )
    twice = CreatePartitionsRequest(topics=[wanted("t", 9), wanted("t", 9)], timeout_ms=timeout_ms)
    assert len(controller.state.create_partitions(twice).response.results) == 1
