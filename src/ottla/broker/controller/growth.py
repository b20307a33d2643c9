"""Adding partitions to topics, with the checks that Kafka makes and in its words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ottla.broker.configs.names import hash_order
from ottla.broker.controller import placement
from ottla.broker.controller.assignment import check_any_active, check_assignment, new_partition
from ottla.broker.controller.decision import MAX_RECORDS, Context, Decision, check_time
from ottla.broker.metadata.image import TopicImage
from ottla.broker.metadata.records import Partition
from ottla.errors import (
    BrokerError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidRequestError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)
from ottla.wire.messages import CreatePartitionsRequest, CreatePartitionsResponse


def create_partitions(
    context: Context, request: CreatePartitionsRequest
) -> Decision[CreatePartitionsResponse]:
    times = Counter(topic.name for topic in request.topics)
    duplicate = InvalidRequestError("Duplicate topic name.")
    response = CreatePartitionsResponse()
    response.results = [_result(name, duplicate) for name, count in times.items() if count > 1]
    if 1 in times.values():
        check_time(request.timeout_ms)
    records: list[Partition] = []
    asked_once = {topic.name: topic for topic in request.topics if times[topic.name] == 1}
    # In Kafka's order: what is too much for one request is told the topic that comes to it.
    for name in hash_order(asked_once):
        try:
            records += _new_partitions(context, asked_once[name], MAX_RECORDS - len(records))
        except BrokerError as error:
            response.results.append(_result(name, error))
        else:
            response.results.append(_result(name, None))
    return Decision([] if request.validate_only else records, response)


def _new_partitions(
    context: Context, wanted: CreatePartitionsRequest.CreatePartitionsTopic, at_most: int
) -> list[Partition]:
    topic = context.image.topics.get(wanted.name)
    if topic is None:
        raise UnknownTopicOrPartitionError()
    present = len(topic.partitions)
    if wanted.count == present:
        raise InvalidPartitionsError(f"Topic already has {present} partition(s).")
    if wanted.count < present:
        raise InvalidPartitionsError(
            f"The topic {wanted.name} currently has {present} partition(s); {wanted.count} would not be an "
            "increase."
        )
    replication_factor = len(topic.partitions[0].replicas)
    if wanted.count - present > at_most:
        raise UnknownServerError  # as in Kafka, which has a word for it only where topics are created
    if wanted.assignments is None:
        brokers = context.image.brokers.values()
        added: Sequence[Sequence[int]] = placement.place(
            wanted.count - present, replication_factor, brokers, context.random
        )
    else:
        added = _manual(context, topic, wanted.count - present, wanted.assignments)
    return [
        new_partition(context, topic.id, present + position, replicas)
        for position, replicas in enumerate(added)
    ]


def _manual(
    context: Context,
    topic: TopicImage,
    additional: int,
    assignments: Sequence[CreatePartitionsRequest.CreatePartitionsAssignment],
) -> Sequence[Sequence[int]]:
    if len(assignments) != additional:
        raise InvalidReplicaAssignmentError(
            f"Attempted to add {additional} additional partition(s), but only {len(assignments)} assignment(s) "
            "were specified."
        )
    for position, assignment in enumerate(assignments):
        check_assignment(context, assignment.broker_ids, len(topic.partitions[0].replicas))
        check_any_active(context, len(topic.partitions) + position, assignment.broker_ids)
    return [assignment.broker_ids for assignment in assignments]


def _result(name: str, error: BrokerError | None) -> CreatePartitionsResponse.CreatePartitionsTopicResult:
    if error is None:
        return CreatePartitionsResponse.CreatePartitionsTopicResult(name=name)
    return CreatePartitionsResponse.CreatePartitionsTopicResult(
        name=name, error_code=error.code, error_message=error.message
    )
