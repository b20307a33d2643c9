"""Codes and sentences are those that Apache Kafka 4.3.1 answers."""

import pytest

from ottla.errors import RequestTimedOutError
from ottla.wire import ZERO_UUID, Uuid
from ottla.wire.messages import DeleteTopicsRequest, DeleteTopicsResponse
from tests.broker.controller.support import Controller

UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_REQUEST = 42
TOPIC_DELETION_DISABLED = 73
UNKNOWN_TOPIC_ID = 100

NOBODYS_ID = Uuid(b"1" * 16)


@pytest.fixture
def controller() -> Controller:
    controller = Controller([1])
    for name in ("a", "b", "c"):
        controller.create(name)
    return controller


def by_name(name: str) -> DeleteTopicsRequest.DeleteTopicState:
    return DeleteTopicsRequest.DeleteTopicState(name=name)


def by_id(topic_id: Uuid) -> DeleteTopicsRequest.DeleteTopicState:
    return DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=topic_id)


def delete(
    controller: Controller, *states: DeleteTopicsRequest.DeleteTopicState
) -> list[DeleteTopicsResponse.DeletableTopicResult]:
    decision = controller.state.delete_topics(DeleteTopicsRequest(timeout_ms=5_000, topics=list(states)), 6)
    return controller.carry_out(decision).responses


def refusal(
    name: str | None, topic_id: Uuid, code: int, sentence: str | None
) -> DeleteTopicsResponse.DeletableTopicResult:
    return DeleteTopicsResponse.DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=code, error_message=sentence
    )


def test_topics_are_deleted_by_name_and_by_id(controller: Controller) -> None:
    a, b = controller.topic_id("a"), controller.topic_id("b")
    assert delete(controller, by_name("a"), by_id(b)) == [
        DeleteTopicsResponse.DeletableTopicResult(name="b", topic_id=b),
        DeleteTopicsResponse.DeletableTopicResult(name="a", topic_id=a),
    ]
    assert list(controller.state.image.topics) == ["c"]


def test_old_versions_ask_by_a_list_of_names(controller: Controller) -> None:
    a = controller.topic_id("a")
    request = DeleteTopicsRequest(timeout_ms=5_000, topic_names=["a", "nope"])
    response = controller.carry_out(controller.state.delete_topics(request, 5))
    assert response.responses == [
        refusal(
            "nope", ZERO_UUID, UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
        ),
        DeleteTopicsResponse.DeletableTopicResult(name="a", topic_id=a),
    ]


def test_an_id_that_nobody_has_is_unknown(controller: Controller) -> None:
    assert delete(controller, by_id(NOBODYS_ID)) == [
        refusal(None, NOBODYS_ID, UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    ]


def test_a_topic_needs_a_name_or_an_id_but_not_both(controller: Controller) -> None:
    both = DeleteTopicsRequest.DeleteTopicState(name="a", topic_id=NOBODYS_ID)
    assert delete(controller, by_id(ZERO_UUID), both) == [
        refusal(None, ZERO_UUID, INVALID_REQUEST, "Neither topic name nor id were specified."),
        refusal("a", NOBODYS_ID, INVALID_REQUEST, "You may not specify both topic name and topic id."),
    ]
    assert "a" in controller.state.image.topics


def test_what_is_asked_for_twice_is_not_deleted(controller: Controller) -> None:
    b = controller.topic_id("b")
    assert delete(controller, by_name("a"), by_name("a"), by_id(b), by_id(b)) == [
        refusal("a", ZERO_UUID, INVALID_REQUEST, "Duplicate topic name."),
        refusal(None, b, INVALID_REQUEST, "Duplicate topic id."),
    ]
    assert list(controller.state.image.topics) == ["a", "b", "c"]


def test_a_name_and_the_id_of_the_same_topic_are_asking_twice(controller: Controller) -> None:
    a = controller.topic_id("a")
    sentence = "The provided topic name maps to an ID that was already supplied."
    assert delete(controller, by_name("a"), by_id(a)) == [refusal("a", a, INVALID_REQUEST, sentence)]
    assert "a" in controller.state.image.topics


@pytest.mark.parametrize(("version", "code"), [(6, TOPIC_DELETION_DISABLED), (2, INVALID_REQUEST)])
def test_deletion_may_be_disabled(version: int, code: int) -> None:
    controller = Controller([1], delete_topic_enable=False)
    controller.create("a")
    decision = controller.state.delete_topics(
        DeleteTopicsRequest(timeout_ms=5_000, topics=[by_name("a")]), version
    )
    assert decision.records == []
    assert decision.response.responses == [refusal("a", ZERO_UUID, code, None)]


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_without_time_nothing_is_deleted(controller: Controller, timeout_ms: int) -> None:
    with pytest.raises(RequestTimedOutError):
        controller.state.delete_topics(DeleteTopicsRequest(topic_names=["a"], timeout_ms=timeout_ms), 5)
    twice = DeleteTopicsRequest(topic_names=["a", "a"], timeout_ms=timeout_ms)
    assert len(controller.state.delete_topics(twice, 5).response.responses) == 1
