"""Deleting topics, by name and by id, with the checks that Kafka makes and in its words.

The answers come in a fixed order; Kafka shuffles them, so that nobody can guess at topics they may not see.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from ottla.broker.controller.decision import Context, Decision, check_time
from ottla.broker.metadata.records import RemoveTopic
from ottla.errors import (
    BrokerError,
    InvalidRequestError,
    TopicDeletionDisabledError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from ottla.wire import ZERO_UUID, Uuid
from ottla.wire.messages import DeleteTopicsRequest, DeleteTopicsResponse

_DISABLED_HAS_A_CODE_SINCE: Final = 3


def delete_topics(
    context: Context, request: DeleteTopicsRequest, version: int
) -> Decision[DeleteTopicsResponse]:
    """`topic_names` is how versions before 6 ask."""
    states = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in request.topic_names]
    states += request.topics
    answers = _Answers()
    if not context.configs.value("delete.topic.enable"):
        for state in states:
            answers.add(state.name, state.topic_id, _disabled(version))
        return Decision([], answers.response)
    names, ids = _asked_once(states, answers)
    if names or ids:
        check_time(request.timeout_ms)
    doomed: dict[Uuid, str] = {}
    for topic_id in ids:
        topic = context.image.topics_by_id.get(topic_id)
        if topic is None:
            answers.add(None, topic_id, UnknownTopicIdError("This server does not host this topic ID."))
        else:
            doomed[topic_id] = topic.name
    for name in names:
        topic = context.image.topics.get(name)
        if topic is None:
            why = "This server does not host this topic-partition."
            answers.add(name, ZERO_UUID, UnknownTopicOrPartitionError(why))
        elif topic.id in doomed:
            del doomed[topic.id]
            why = "The provided topic name maps to an ID that was already supplied."
            answers.add(name, topic.id, InvalidRequestError(why))
        else:
            doomed[topic.id] = name
    for topic_id, name in doomed.items():
        answers.add(name, topic_id, None)
    return Decision([RemoveTopic(topic_id) for topic_id in doomed], answers.response)


class _Answers:
    def __init__(self) -> None:
        self.response = DeleteTopicsResponse()

    def add(self, name: str | None, topic_id: Uuid, error: BrokerError | None) -> None:
        result = DeleteTopicsResponse.DeletableTopicResult(name=name, topic_id=topic_id)
        if error is not None:
            result.error_code, result.error_message = error.code, error.message
        self.response.responses.append(result)


def _disabled(version: int) -> BrokerError:
    return InvalidRequestError() if version < _DISABLED_HAS_A_CODE_SINCE else TopicDeletionDisabledError()


def _asked_once(
    states: Sequence[DeleteTopicsRequest.DeleteTopicState], answers: _Answers
) -> tuple[list[str], list[Uuid]]:
    """The names and the ids that can be looked up; the others are answered."""
    names: Counter[str] = Counter()
    ids: Counter[Uuid] = Counter()
    for state in states:
        if state.name is None and state.topic_id == ZERO_UUID:
            answers.add(None, ZERO_UUID, InvalidRequestError("Neither topic name nor id were specified."))
        elif state.name is None:
            ids[state.topic_id] += 1
        elif state.topic_id == ZERO_UUID:
            names[state.name] += 1
        else:
            why = "You may not specify both topic name and topic id."
            answers.add(state.name, state.topic_id, InvalidRequestError(why))
    for name in names:
        if names[name] > 1:
            answers.add(name, ZERO_UUID, InvalidRequestError("Duplicate topic name."))
    for topic_id in ids:
        if ids[topic_id] > 1:
            answers.add(None, topic_id, InvalidRequestError("Duplicate topic id."))
    return (
        [name for name, count in names.items() if count == 1],
        [topic_id for topic_id, count in ids.items() if count == 1],
    )
