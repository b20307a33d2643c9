"""Changing configs: which resources can be configured. What their configs may be is for the ConfigRules to say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from ottla.broker.controller.decision import Context, Decision
from ottla.broker.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from ottla.broker.metadata.names import why_invalid
from ottla.broker.metadata.records import Config
from ottla.errors import (
    BrokerError,
    BrokerIdNotRegisteredError,
    InvalidRequestError,
    InvalidTopicError,
    UnknownTopicOrPartitionError,
)
from ottla.wire.messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

CLIENT_METRICS_RESOURCE: Final = 16
GROUP_RESOURCE: Final = 32

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
            _check_resource(context, *key)
            wanted = rule(resource, current)
        except BrokerError as error:
            outcomes.append((resource, error))
        else:
            records += _differences(key, current, wanted)
            outcomes.append((resource, None))
    return records, outcomes


def _check_resource(context: Context, resource_type: int, name: str) -> None:
    if resource_type == TOPIC_RESOURCE:
        _check_topic(context, name)
    elif resource_type == BROKER_RESOURCE:
        _check_broker(context, name)
    elif resource_type == CLIENT_METRICS_RESOURCE:
        if not name:
            raise InvalidRequestError("Subscription name can't be empty")
    elif resource_type == GROUP_RESOURCE:
        if not name:
            raise InvalidRequestError("Default group resources are not allowed.")
    else:
        raise InvalidRequestError(f"Unknown resource type {resource_type}")


def _check_topic(context: Context, name: str) -> None:
    if not name:
        raise InvalidRequestError("Default topic resources are not allowed.")
    reason = why_invalid(name)
    if reason is not None:
        raise InvalidTopicError(reason)
    if name not in context.image.topics:
        raise UnknownTopicOrPartitionError(f"The topic '{name}' does not exist.")


def _check_broker(context: Context, name: str) -> None:
    """The empty name stands for every broker of the cluster."""
    if not name:
        return
    try:
        broker_id = int(name)
    except ValueError:
        raise InvalidRequestError(f"Node id must be an integer, but it is: {name}") from None
    if broker_id not in context.image.brokers:
        raise BrokerIdNotRegisteredError(f"No node with id {broker_id} found.")


def _differences(
    key: tuple[int, str], current: Mapping[str, str], wanted: Mapping[str, str]
) -> Iterator[Config]:
    for name in current:
        if name not in wanted:
            yield Config(*key, name, None)
    for name, value in wanted.items():
        if current.get(name) != value:
            yield Config(*key, name, value)
