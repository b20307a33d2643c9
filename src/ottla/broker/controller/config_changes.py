"""Changing configs of resources that are there. What they may be called and set to is for the ConfigRules to say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from ottla.broker.configs.resources import node_id_of
from ottla.broker.controller.decision import Context, Decision
from ottla.broker.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from ottla.broker.metadata.records import Config
from ottla.errors import (
    BrokerError,
    BrokerIdNotRegisteredError,
    InvalidRequestError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)
from ottla.wire.messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

ResourceT = TypeVar(
    "ResourceT",
    AlterConfigsRequest.AlterConfigsResource,
    IncrementalAlterConfigsRequest.AlterConfigsResource,
)


def alter_configs(context: Context, request: AlterConfigsRequest) -> Decision[AlterConfigsResponse]:
    """Replaces all overrides of each resource."""
    records, outcomes = _alter(context, request.resources, context.configs.alter)
    response = AlterConfigsResponse()
    for resource, error in outcomes:
        result = AlterConfigsResponse.AlterConfigsResourceResponse(
            resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
        )
        if error is not None:
            result.error_code, result.error_message = error.code, error.message
        response.responses.append(result)
    return Decision([] if request.validate_only else records, response)


def incremental_alter_configs(
    context: Context, request: IncrementalAlterConfigsRequest
) -> Decision[IncrementalAlterConfigsResponse]:
    """Changes some overrides of each resource (KIP-339)."""
    records, outcomes = _alter(context, request.resources, context.configs.incremental_alter)
    response = IncrementalAlterConfigsResponse()
    for resource, error in outcomes:
        result = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse(
            resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
        )
        if error is not None:
            result.error_code, result.error_message = error.code, error.message
        response.responses.append(result)
    return Decision([] if request.validate_only else records, response)


def _alter(
    context: Context,
    resources: Sequence[ResourceT],
    rule: Callable[[ResourceT, Mapping[str, str]], Mapping[str, str]],
) -> tuple[list[Config], list[tuple[ResourceT, BrokerError | None]]]:
    times = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    records: list[Config] = []
    outcomes: list[tuple[ResourceT, BrokerError | None]] = []
    for resource in resources:
        key = (resource.resource_type, resource.resource_name)
        current = context.image.config_overrides(*key)
        try:
            if times[key] > 1:
                raise InvalidRequestError("Each resource must appear at most once.")
            wanted = rule(resource, current)
            _check_exists(context, *key)
        except UnknownServerError:
            # Kafka's controller has not expected this, and fails with all that it was asked.
            raise
        except BrokerError as error:
            outcomes.append((resource, error))
        else:
            records += _differences(key, current, wanted)
            outcomes.append((resource, None))
    return records, outcomes


def _check_exists(context: Context, resource_type: int, name: str) -> None:
    """After everything else: a bad value for a topic that is not there is told as a bad value."""
    if resource_type == TOPIC_RESOURCE and name not in context.image.topics:
        raise UnknownTopicOrPartitionError(f"The topic '{name}' does not exist.")
    # The empty name stands for every broker of the cluster.
    if resource_type == BROKER_RESOURCE and name and node_id_of(name) not in context.image.brokers:
        raise BrokerIdNotRegisteredError(f"No node with id {name} found.")


def _differences(
    key: tuple[int, str], current: Mapping[str, str], wanted: Mapping[str, str]
) -> Iterator[Config]:
    for name in current:
        if name not in wanted:
            yield Config(*key, name, None)
    for name, value in wanted.items():
        if current.get(name) != value:
            yield Config(*key, name, value)
