"""Creating topics, with every check that Kafka makes, in its order and its words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.broker.controller import placement
from ottla.broker.controller.assignment import check_any_active, check_assignment, new_partition
from ottla.broker.controller.decision import MAX_RECORDS, Context, Decision, check_time
from ottla.broker.metadata.names import METADATA_TOPIC, unified, why_invalid
from ottla.broker.metadata.records import Config, MetadataRecord, Partition, Topic
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
)
from ottla.wire import Uuid
from ottla.wire.messages import CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.resources import ConfigResourceType

_MAX_PARTITIONS_PER_REQUEST: Final = 10_000
_DESCRIBES_SINCE: Final = 5


@dataclass(frozen=True, slots=True)
class _NewTopic:
    topic: Topic
    overrides: Mapping[str, str]
    partitions: Sequence[Partition]

    def records(self) -> list[MetadataRecord]:
        configs = [
            Config(ConfigResourceType.TOPIC, self.topic.name, *override)
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
    wanted = [topic for topic in request.topics if topic.name not in refused]
    if wanted:
        check_time(request.timeout_ms)
    response = CreateTopicsResponse()
    records: list[MetadataRecord] = []
    _check_excess(context, wanted)
    # Names are checked against the topics of before: Kafka, too, lets two that collide in by one request.
    collisions = _names_by_unified(context)
    for topic in wanted:
        try:
            _check_name(context, topic.name, collisions)
            made = _new_topic(context, topic)
        except BrokerError as error:
            response.topics.append(_failed(topic.name, error))
        else:
            records += made.records()
            response.topics.append(_created(context, made, version))
    if len(records) > MAX_RECORDS:
        raise PolicyViolationError("Unable to perform excessively large batch operation.")
    response.topics += [_failed(name, error) for name, error in refused.items()]
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
    assignments = _manual(context, topic) if topic.assignments else _placed(context, topic)
    topic_id = _new_id(context.random)
    partitions = [
        new_partition(context, topic_id, index, replicas) for index, replicas in enumerate(assignments)
    ]
    return _NewTopic(Topic(topic.name, topic_id), overrides, partitions)


def _overrides(topic: CreateTopicsRequest.CreatableTopic) -> dict[str, str]:
    without_value = [config.name for config in topic.configs if config.value is None]
    if without_value:
        raise InvalidConfigError(f"Null value not supported for topic configs: {','.join(without_value)}")
    return {config.name: config.value for config in topic.configs if config.value is not None}


def _manual(context: Context, topic: CreateTopicsRequest.CreatableTopic) -> Sequence[Sequence[int]]:
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


def _failed(name: str, error: BrokerError) -> CreateTopicsResponse.CreatableTopicResult:
    return CreateTopicsResponse.CreatableTopicResult(
        name=name, error_code=error.code, error_message=error.message
    )
