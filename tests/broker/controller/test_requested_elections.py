"""Codes and sentences of ElectLeaders are those that Apache Kafka 4.3.1 answers."""

from collections.abc import Mapping, Sequence

import pytest

from ottla.broker.metadata.records import NO_LEADER
from ottla.errors import BrokerError, ElectionNotNeededError, InvalidRequestError, RequestTimedOutError
from ottla.wire.messages import ElectLeadersRequest, ElectLeadersResponse
from tests.broker.controller.support import UNCLEAN, Controller, state_of

UNKNOWN_TOPIC_OR_PARTITION = 3
PREFERRED_LEADER_NOT_AVAILABLE = 80
ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
ELECTION_NOT_NEEDED = 84

NOT_NEEDED = (ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")


def elect(
    controller: Controller, election_type: int, wanted: Mapping[str, Sequence[int]] | None
) -> ElectLeadersResponse:
    partitions = None
    if wanted is not None:
        partitions = [
            ElectLeadersRequest.TopicPartitions(topic=topic, partitions=list(indexes))
            for topic, indexes in wanted.items()
        ]
    request = ElectLeadersRequest(election_type=election_type, topic_partitions=partitions)
    return controller.carry_out(controller.state.elect_leaders(request))


def outcomes(response: ElectLeadersResponse) -> dict[tuple[str, int], tuple[int, str | None]]:
    return {
        (topic.topic, result.partition_id): (result.error_code, result.error_message)
        for topic in response.replica_election_results
        for result in topic.partition_result
    }


@pytest.fixture
def controller() -> Controller:
    """t-0 and t-1 are led by 2, though t-0 would rather be led by 1; u-0 has no leader."""
    controller = Controller([1, 2, 3])
    controller.create("t", [[1, 2], [2, 1]])
    controller.create("u", [[3]])
    controller.fence(1)
    controller.fence(3)
    controller.start(1)
    controller.catch_up("t", 0)
    controller.catch_up("t", 1)
    assert [controller.partition("t", index).leader for index in (0, 1)] == [2, 2]
    return controller


def test_the_preferred_leader_is_elected(controller: Controller) -> None:
    response = elect(controller, 0, {"t": [0, 1]})
    assert response.error_code == 0
    assert outcomes(response) == {("t", 0): (0, None), ("t", 1): NOT_NEEDED}
    assert state_of(controller.partition("t", 0)) == (1, (2, 1))
    assert controller.partition("t", 0).leader_epoch == 2


def test_a_preferred_leader_that_is_away_is_not_elected(controller: Controller) -> None:
    assert outcomes(elect(controller, 0, {"u": [0]})) == {
        ("u", 0): (PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
    }


def test_an_unclean_election_needs_a_partition_without_a_leader_and_a_live_replica(
    controller: Controller,
) -> None:
    assert outcomes(elect(controller, 1, {"t": [0], "u": [0]})) == {
        ("t", 0): NOT_NEEDED,
        ("u", 0): (
            ELIGIBLE_LEADERS_NOT_AVAILABLE,
            "Eligible topic partition leaders are not available.",
        ),
    }


def test_an_unclean_election_does_not_ask_the_topic() -> None:
    controller = Controller([1, 2])
    controller.create("t", [[1, 2]])
    controller.fence(1)
    controller.fence(2)
    controller.start(1)
    assert controller.partition("t").leader == NO_LEADER
    assert outcomes(elect(controller, 1, {"t": [0]})) == {("t", 0): (0, None)}
    assert state_of(controller.partition("t")) == (1, (1,))


def test_unknown_partitions_are_named(controller: Controller) -> None:
    assert outcomes(elect(controller, 0, {"nope": [0], "t": [9]})) == {
        ("nope", 0): (UNKNOWN_TOPIC_OR_PARTITION, "No such topic as nope"),
        ("t", 9): (UNKNOWN_TOPIC_OR_PARTITION, "No such partition as t-9"),
    }


def test_for_all_partitions_only_those_that_needed_it_are_answered(controller: Controller) -> None:
    response = elect(controller, 0, None)
    assert outcomes(response) == {
        ("t", 0): (0, None),
        ("u", 0): (PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."),
    }
    assert [topic.topic for topic in elect(controller, 1, None).replica_election_results] == ["t", "u"]


@pytest.mark.parametrize("wanted", [{"t": [0]}, {"t": []}, {"nope": [0]}, None])
def test_an_election_of_an_unknown_type_is_refused_as_a_whole(
    controller: Controller, wanted: dict[str, list[int]] | None
) -> None:
    with pytest.raises(InvalidRequestError, match="Unknown election type 7"):
        elect(controller, 7, wanted)


def test_where_no_topic_is_named_the_type_does_not_matter(controller: Controller) -> None:
    assert elect(controller, 7, {}) == ElectLeadersResponse()


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_an_election_without_time_is_not_held(controller: Controller, timeout_ms: int) -> None:
    wanted = [ElectLeadersRequest.TopicPartitions(topic="nope", partitions=[0])]
    with pytest.raises(RequestTimedOutError):
        controller.state.elect_leaders(
            ElectLeadersRequest(topic_partitions=wanted, timeout_ms=timeout_ms, election_type=9)
        )


def test_leaders_are_balanced_back_to_the_preferred_ones(controller: Controller) -> None:
    controller.commit(controller.state.balance_leaders())
    assert controller.partition("t", 0).leader == 1
    assert controller.state.balance_leaders() == []


def test_unclean_leaders_are_elected_only_where_the_topic_allows_it() -> None:
    controller = Controller([1, 2])
    controller.create("t", [[1, 2]])
    controller.create("u", [[1, 2]], configs={UNCLEAN: "true"})
    controller.fence(1)
    controller.fence(2)
    controller.start(1)
    assert controller.partition("u").leader == 1
    assert controller.state.elect_unclean_leaders() == []


def test_unclean_leaders_are_elected_when_a_topic_begins_to_allow_it() -> None:
    controller = Controller([1, 2])
    controller.create("t", [[1, 2]])
    controller.fence(1)
    controller.fence(2)
    controller.start(1)
    controller.configs.settings[UNCLEAN] = True
    controller.configs.topic_value = lambda name, overrides, defaults: True  # type: ignore[method-assign]
    controller.commit(controller.state.elect_unclean_leaders())
    assert controller.partition("t").leader == 1


def test_a_leader_is_moved_to_a_replica_by_hand(controller: Controller) -> None:
    controller.commit(controller.state.move_leader("t", 1, 1))
    assert (controller.partition("t", 1).leader, controller.partition("t", 1).leader_epoch) == (1, 1)


@pytest.mark.parametrize(
    ("topic", "index", "node", "error", "sentence"),
    [
        ("nope", 0, 1, BrokerError, "No such topic as nope"),
        ("t", 9, 1, BrokerError, "No such partition as t-9"),
        ("t", 0, 3, InvalidRequestError, "Node 3 has no replica of t-0: its replicas are on 1, 2."),
        ("u", 0, 3, InvalidRequestError, "Node 3 is not alive, so it cannot lead u-0."),
        ("t", 0, 2, ElectionNotNeededError, "Node 2 leads t-0 already."),
    ],
)
def test_a_leader_cannot_be_moved_anywhere(
    controller: Controller, topic: str, index: int, node: int, error: type[BrokerError], sentence: str
) -> None:
    with pytest.raises(error) as caught:
        controller.state.move_leader(topic, index, node)
    assert caught.value.message == sentence


def test_a_leader_cannot_be_moved_to_a_replica_that_is_not_in_sync() -> None:
    controller = Controller([1, 2])
    controller.create("t", [[1, 2]])
    controller.fence(2)
    controller.start(2)
    with pytest.raises(InvalidRequestError, match="Node 2 is not in sync with t-0: in sync are 1"):
        controller.state.move_leader("t", 0, 2)
