"""The configs as the controller's state machine asks about them (controller/decision.py: ConfigRules)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.broker import configs
from ottla.broker.configs import BrokerConfigs, TopicConfigs
from ottla.wire.messages import AlterConfigsRequest, CreateTopicsResponse, IncrementalAlterConfigsRequest


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
        self, resource: AlterConfigsRequest.AlterConfigsResource, current: Mapping[str, str]
    ) -> Mapping[str, str]:
        return configs.alter(resource, current, self._broker, elr=True)

    def incremental_alter(
        self, resource: IncrementalAlterConfigsRequest.AlterConfigsResource, current: Mapping[str, str]
    ) -> Mapping[str, str]:
        return configs.incremental_alter(resource, current, self._broker, elr=True)

    def _with(self, defaults: Mapping[str, str]) -> BrokerConfigs:
        return self._broker.with_dynamic({}, defaults)
