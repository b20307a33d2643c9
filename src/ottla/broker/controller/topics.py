"""Topics: creating and deleting them, and adding partitions, with every check of Kafka, in its order and its words.

Results of a deletion come in a fixed order; Kafka shuffles them, so that a client cannot guess at topics that it may
not see.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.broker.configs.names import hash_order
from ottla.broker.controller import placement
from ottla.broker.controller.decision import MAX_RECORDS, Context, Decision, check_time
from ottla.broker.controller.placement import check_any_active, check_assignment, new_partition
from ottla.broker.metadata.image import TopicImage
from ottla.broker.metadata.names import METADATA_TOPIC, unified, why_invalid
from ottla.broker.metadata.records import (
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from ottla.errors import (
    BrokerError,
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    InvalidTopicError,
    PolicyViolationError,
    TopicAlreadyExistsError,
    TopicDeletionDisabledError,
    UnknownServerError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from ottla.wire import ZERO_UUID, Uuid
from ottla.wire.messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from ottla.wire.resources import ConfigResourceType

_MAX_PARTITIONS_PER_REQUEST: Final = 10_000
_DESCRIBES_SINCE: Final = 5
_DISABLED_HAS_A_CODE_SINCE: Final = 3


# Creating


@dataclass(frozen=True, slots=True)
class _NewTopic:
    topic: TopicRecord
    overrides: Mapping[str, str]
    partitions: Sequence[PartitionRecord]

    def records(self) -> list[MetadataRecord]:
        configs = [
            ConfigRecord(ConfigResourceType.TOPIC, self.topic.name, *override)
            for override in self.overrides.items()
        ]
        return [self.topic, *configs, *self.partitions]


def create_topics(
    context: Context, request: CreateTopicsRequest, version: int
) -> Decision[CreateTopicsResponse]:
    times = Counter(topic.name for topic in request.topics)
    refused: dict[str, BrokerError] = {
        name: InvalidRequestError("Duplicate topic name.") for name, count in times.items() if count > 1
    }
    if times[METADATA_TOPIC] == 1:
        refused[METADATA_TOPIC] = InvalidRequestError(
            f"Creation of internal topic {METADATA_TOPIC} is prohibited."
        )
    requested = [topic for topic in request.topics if topic.name not in refused]
    if requested:
        check_time(request.timeout_ms)
    response = CreateTopicsResponse()
    records: list[MetadataRecord] = []
    _check_excess(context, requested)
    # Names are checked against the topics of before: Kafka, too, lets two that collide in by one request.
    collisions = _names_by_unified(context)
    for topic in requested:
        try:
            _check_name(context, topic.name, collisions)
            made = _new_topic(context, topic)
        except BrokerError as error:
            response.topics.append(_not_created(topic.name, error))
        else:
            records += made.records()
            response.topics.append(_created(context, made, version))
    if len(records) > MAX_RECORDS:
        raise PolicyViolationError("Unable to perform excessively large batch operation.")
    response.topics += [_not_created(name, error) for name, error in refused.items()]
    return Decision([] if request.validate_only else records, response)


def _check_excess(context: Context, topics: Iterable[CreateTopicsRequest.CreatableTopic]) -> None:
    """Too many partitions for one request fail all of it."""
    total = 0
    for topic in topics:
        if topic.assignments:
            total += len(topic.assignments)
        elif topic.num_partitions == -1:
            total += context.configs.value("num.partitions")
        else:
            total += max(topic.num_partitions, 0)
    if total > _MAX_PARTITIONS_PER_REQUEST:
        raise PolicyViolationError("Excessively large number of partitions per request.")


def _names_by_unified(context: Context) -> Mapping[str, str]:
    return {form: name for name in context.image.topics if (form := unified(name)) is not None}


def _check_name(context: Context, name: str, collisions: Mapping[str, str]) -> None:
    if name in context.image.topics:
        raise TopicAlreadyExistsError(f"Topic '{name}' already exists.")
    other = collisions.get(unified(name) or "")
    if other is not None:
        raise InvalidTopicError(f"Topic '{name}' collides with existing topic: {other}")
    reason = why_invalid(name)
    if reason is not None:
        raise InvalidTopicError(reason)


def _new_topic(context: Context, topic: CreateTopicsRequest.CreatableTopic) -> _NewTopic:
    overrides = _overrides(topic)
    if overrides:
        context.configs.validate_topic(overrides)
    assignments = _assigned_by_hand(context, topic) if topic.assignments else _placed(context, topic)
    topic_id = _new_id(context.random)
    partitions = [
        new_partition(context, topic_id, index, replicas) for index, replicas in enumerate(assignments)
    ]
    return _NewTopic(TopicRecord(topic.name, topic_id), overrides, partitions)


def _overrides(topic: CreateTopicsRequest.CreatableTopic) -> dict[str, str]:
    without_value = [config.name for config in topic.configs if config.value is None]
    if without_value:
        raise InvalidConfigError(f"Null value not supported for topic configs: {','.join(without_value)}")
    return {config.name: config.value for config in topic.configs if config.value is not None}


def _assigned_by_hand(context: Context, topic: CreateTopicsRequest.CreatableTopic) -> Sequence[Sequence[int]]:
    if topic.replication_factor != -1:
        raise InvalidRequestError(
            "A manual partition assignment was specified, but replication factor was not set to -1."
        )
    if topic.num_partitions != -1:
        raise InvalidRequestError(
            "A manual partition assignment was specified, but numPartitions was not set to -1."
        )
    replicas: dict[int, Sequence[int]] = {}
    replication_factor = None
    for assignment in topic.assignments:
        index = assignment.partition_index
        if index in replicas:
            raise InvalidReplicaAssignmentError(
                f"Found multiple manual partition assignments for partition {index}"
            )
        check_assignment(context, assignment.broker_ids, replication_factor)
        check_any_active(context, index, assignment.broker_ids)
        replication_factor = len(assignment.broker_ids)
        replicas[index] = assignment.broker_ids
    if sorted(replicas) != list(range(len(replicas))):
        raise InvalidReplicaAssignmentError("partitions should be a consecutive 0-based integer sequence")
    return [replicas[index] for index in range(len(replicas))]


def _placed(context: Context, topic: CreateTopicsRequest.CreatableTopic) -> Sequence[Sequence[int]]:
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        raise InvalidReplicationFactorError(
            "Replication factor must be larger than 0, or -1 to use the default value."
        )
    if topic.num_partitions < -1 or topic.num_partitions == 0:
        raise InvalidPartitionsError("Number of partitions was set to an invalid non-positive value.")
    partitions, replication_factor = topic.num_partitions, topic.replication_factor
    if partitions == -1:
        partitions = context.configs.value("num.partitions")
    if replication_factor == -1:
        replication_factor = context.configs.value("default.replication.factor")
    brokers = context.image.brokers.values()
    try:
        return placement.place(partitions, replication_factor, brokers, context.random)
    except InvalidReplicationFactorError as error:
        raise InvalidReplicationFactorError(
            f"Unable to replicate the partition {replication_factor} time(s): {error.message}"
        ) from error


def _new_id(random: placement.Random) -> Uuid:
    """A random UUID of version 4; as in Kafka none that would look like an option on a command line."""
    while True:
        raw = bytearray(random.randbytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        made = Uuid(raw)
        if not str(made).startswith("-"):
            return made


def _created(context: Context, made: _NewTopic, version: int) -> CreateTopicsResponse.CreatableTopicResult:
    result = CreateTopicsResponse.CreatableTopicResult(
        name=made.topic.name, topic_id=made.topic.topic_id, error_message=None
    )
    if version >= _DESCRIBES_SINCE:
        result.num_partitions = len(made.partitions)
        result.replication_factor = len(made.partitions[0].replicas)
        result.configs = context.configs.describe_topic(made.overrides, context.config_defaults)
    return result


def _not_created(name: str, error: BrokerError) -> CreateTopicsResponse.CreatableTopicResult:
    return CreateTopicsResponse.CreatableTopicResult(
        name=name, error_code=error.code, error_message=error.message
    )


# Deleting


def delete_topics(
    context: Context, request: DeleteTopicsRequest, version: int
) -> Decision[DeleteTopicsResponse]:
    """`topic_names` is for versions before 6."""
    states = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in request.topic_names]
    states += request.topics
    deletions = _Deletions()
    if not context.configs.value("delete.topic.enable"):
        for state in states:
            deletions.add(state.name, state.topic_id, _disabled(version))
        return Decision([], deletions.response)
    names, ids = _named_once(states, deletions)
    if names or ids:
        check_time(request.timeout_ms)
    doomed: dict[Uuid, str] = {}
    for topic_id in ids:
        topic = context.image.topics_by_id.get(topic_id)
        if topic is None:
            deletions.add(None, topic_id, UnknownTopicIdError("This server does not host this topic ID."))
        else:
            doomed[topic_id] = topic.name
    for name in names:
        topic = context.image.topics.get(name)
        if topic is None:
            why = "This server does not host this topic-partition."
            deletions.add(name, ZERO_UUID, UnknownTopicOrPartitionError(why))
        elif topic.id in doomed:
            del doomed[topic.id]
            why = "The provided topic name maps to an ID that was already supplied."
            deletions.add(name, topic.id, InvalidRequestError(why))
        else:
            doomed[topic.id] = name
    for topic_id, name in doomed.items():
        deletions.add(name, topic_id, None)
    return Decision([RemoveTopicRecord(topic_id) for topic_id in doomed], deletions.response)


class _Deletions:
    def __init__(self) -> None:
        self.response = DeleteTopicsResponse()

    def add(self, name: str | None, topic_id: Uuid, error: BrokerError | None) -> None:
        result = DeleteTopicsResponse.DeletableTopicResult(name=name, topic_id=topic_id)
        if error is not None:
            result.error_code, result.error_message = error.code, error.message
        self.response.responses.append(result)


def _disabled(version: int) -> BrokerError:
    return InvalidRequestError() if version < _DISABLED_HAS_A_CODE_SINCE else TopicDeletionDisabledError()


def _named_once(
    states: Sequence[DeleteTopicsRequest.DeleteTopicState], deletions: _Deletions
) -> tuple[list[str], list[Uuid]]:
    """The names and the ids that can be looked up; the others have their result."""
    names: Counter[str] = Counter()
    ids: Counter[Uuid] = Counter()
    for state in states:
        if state.name is None and state.topic_id == ZERO_UUID:
            deletions.add(None, ZERO_UUID, InvalidRequestError("Neither topic name nor id were specified."))
        elif state.name is None:
            ids[state.topic_id] += 1
        elif state.topic_id == ZERO_UUID:
            names[state.name] += 1
        else:
            why = "You may not specify both topic name and topic id."
            deletions.add(state.name, state.topic_id, InvalidRequestError(why))
    for name in names:
        if names[name] > 1:
            deletions.add(name, ZERO_UUID, InvalidRequestError("Duplicate topic name."))
    for topic_id in ids:
        if ids[topic_id] > 1:
            deletions.add(None, topic_id, InvalidRequestError("Duplicate topic id."))
    return (
        [name for name, count in names.items() if count == 1],
        [topic_id for topic_id, count in ids.items() if count == 1],
    )


# Adding partitions


def create_partitions(
    context: Context, request: CreatePartitionsRequest
) -> Decision[CreatePartitionsResponse]:
    times = Counter(topic.name for topic in request.topics)
    duplicate = InvalidRequestError("Duplicate topic name.")
    response = CreatePartitionsResponse()
    response.results = [_grown(name, duplicate) for name, count in times.items() if count > 1]
    if 1 in times.values():
        check_time(request.timeout_ms)
    records: list[PartitionRecord] = []
    named_once = {topic.name: topic for topic in request.topics if times[topic.name] == 1}
    # In Kafka's order: what is too much for one request is refused to the topic that comes to it.
    for name in hash_order(named_once):
        try:
            records += _new_partitions(context, named_once[name], MAX_RECORDS - len(records))
        except BrokerError as error:
            response.results.append(_grown(name, error))
        else:
            response.results.append(_grown(name, None))
    return Decision([] if request.validate_only else records, response)


def _new_partitions(
    context: Context, requested: CreatePartitionsRequest.CreatePartitionsTopic, at_most: int
) -> list[PartitionRecord]:
    topic = context.image.topics.get(requested.name)
    if topic is None:
        raise UnknownTopicOrPartitionError()
    present = len(topic.partitions)
    if requested.count == present:
        raise InvalidPartitionsError(f"Topic already has {present} partition(s).")
    if requested.count < present:
        raise InvalidPartitionsError(
            f"The topic {requested.name} currently has {present} partition(s); {requested.count} would not be an "
            "increase."
        )
    replication_factor = len(topic.partitions[0].replicas)
    if requested.count - present > at_most:
        raise UnknownServerError  # as in Kafka, which has a word for it only where topics are created
    if requested.assignments is None:
        brokers = context.image.brokers.values()
        added: Sequence[Sequence[int]] = placement.place(
            requested.count - present, replication_factor, brokers, context.random
        )
    else:
        added = _added_by_hand(context, topic, requested.count - present, requested.assignments)
    return [
        new_partition(context, topic.id, present + position, replicas)
        for position, replicas in enumerate(added)
    ]


def _added_by_hand(
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


def _grown(name: str, error: BrokerError | None) -> CreatePartitionsResponse.CreatePartitionsTopicResult:
    if error is None:
        return CreatePartitionsResponse.CreatePartitionsTopicResult(name=name)
    return CreatePartitionsResponse.CreatePartitionsTopicResult(
        name=name, error_code=error.code, error_message=error.message
    )
