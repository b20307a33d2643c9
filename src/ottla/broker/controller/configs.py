"""The configs of the cluster: what the controller knows about them, and how it changes those of a resource.

What a config may be called and set to is for the ConfigRules of decision.py to say; ControllerRules are Kafka's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from ottla.broker import configs
from ottla.broker.configs import BrokerConfigs, TopicConfigs
from ottla.broker.configs.names import node_id_of
from ottla.broker.controller.decision import MIN_ISR, Context, Decision
from ottla.broker.metadata.records import ClearElrRecord, ConfigRecord, MetadataRecord
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
    CreateTopicsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.resources import ConfigResourceType

ResourceT = TypeVar(
    "ResourceT",
    AlterConfigsRequest.AlterConfigsResource,
    IncrementalAlterConfigsRequest.AlterConfigsResource,
)


class ControllerRules:
    """Kafka's configs, on top of what the cluster was started with; the protocol says what each is for."""

    def __init__(self, broker: BrokerConfigs) -> None:
        self._broker = broker

    def value(self, name: str) -> Any:
        return self._broker.value(name)

    def topic_value(self, name: str, overrides: Mapping[str, str], defaults: Mapping[str, str]) -> Any:
        return TopicConfigs(overrides, self._with(defaults)).value(name)

    def validate_topic(self, overrides: Mapping[str, str]) -> None:
        configs.validate_topic(overrides, self._broker)

    def describe_topic(
        self, overrides: Mapping[str, str], defaults: Mapping[str, str]
    ) -> list[CreateTopicsResponse.CreatableTopicConfigs]:
        return configs.describe_created(overrides, self._with(defaults))

    def alter(
        self, resource: AlterConfigsRequest.AlterConfigsResource, current: Mapping[str, str], *, elr: bool
    ) -> Mapping[str, str]:
        return configs.alter(resource, current, self._broker, elr=elr)

    def incremental_alter(
        self,
        resource: IncrementalAlterConfigsRequest.AlterConfigsResource,
        current: Mapping[str, str],
        *,
        elr: bool,
    ) -> Mapping[str, str]:
        return configs.incremental_alter(resource, current, self._broker, elr=elr)

    def _with(self, defaults: Mapping[str, str]) -> BrokerConfigs:
        return self._broker.with_dynamic({}, defaults)


def alter_configs(context: Context, request: AlterConfigsRequest) -> Decision[AlterConfigsResponse]:
    """Replaces all overrides of each resource."""
    rule = partial(context.configs.alter, elr=context.keeps_elr)
    records, outcomes = _alter(context, request.resources, rule)
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
    rule = partial(context.configs.incremental_alter, elr=context.keeps_elr)
    records, outcomes = _alter(context, request.resources, rule)
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
) -> tuple[list[MetadataRecord], list[tuple[ResourceT, BrokerError | None]]]:
    times = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    records: list[ConfigRecord] = []
    outcomes: list[tuple[ResourceT, BrokerError | None]] = []
    for resource in resources:
        key = (resource.resource_type, resource.resource_name)
        current = context.image.config_overrides(*key)
        try:
            if times[key] > 1:
                raise InvalidRequestError("Each resource must appear at most once.")
            changed = rule(resource, current)
            _check_exists(context, *key)
        except UnknownServerError:
            # Kafka's controller has not expected this, and fails the whole request.
            raise
        except BrokerError as error:
            outcomes.append((resource, error))
        else:
            records += _differences(key, current, changed)
            outcomes.append((resource, None))
    return [*records, *_forget_elr(context, records)], outcomes


def _forget_elr(context: Context, changes: Sequence[ConfigRecord]) -> Iterator[ClearElrRecord]:
    """Eligible leader replicas are those of one min.insync.replicas, and go when it changes (KIP-966)."""
    for change in changes if context.keeps_elr else ():
        if change.name == MIN_ISR:
            yield ClearElrRecord(
                change.resource_name if change.resource_type == ConfigResourceType.TOPIC else ""
            )


def _check_exists(context: Context, resource_type: int, name: str) -> None:
    """After everything else: a bad value for a topic that is not there is refused as a bad value."""
    if resource_type == ConfigResourceType.TOPIC and name not in context.image.topics:
        raise UnknownTopicOrPartitionError(f"The topic '{name}' does not exist.")
    # The empty name stands for every broker of the cluster.
    if resource_type == ConfigResourceType.BROKER and name and node_id_of(name) not in context.image.brokers:
        raise BrokerIdNotRegisteredError(f"No node with id {name} found.")


def _differences(
    key: tuple[int, str], current: Mapping[str, str], changed: Mapping[str, str]
) -> Iterator[ConfigRecord]:
    for name in current:
        if name not in changed:
            yield ConfigRecord(*key, name, None)
    for name, value in changed.items():
        if current.get(name) != value:
            yield ConfigRecord(*key, name, value)
