"""Configs of topics, brokers, groups and client metrics: describe, and alter one by one (KIP-339)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.client.admin.base import AdminBase
from ottla.client.admin.results import ConfigEntry, ConfigSynonym
from ottla.errors import raise_for_code
from ottla.wire.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.resources import ConfigOperation, ConfigResourceType, ConfigSource

_OLD_SOURCE: Final = -1
"""Version 0 says only whether a value is the default."""


class ConfigsAdmin(AdminBase):
    """What can be done to configs."""

    async def describe_configs(
        self,
        *,
        topic: str | None = None,
        broker: int | None = None,
        broker_defaults: bool = False,
        broker_logger: int | None = None,
        group: str | None = None,
        client_metrics: str | None = None,
        names: Iterable[str] | None = None,
        synonyms: bool = False,
        documentation: bool = False,
        timeout: float | None = None,
    ) -> dict[str, ConfigEntry]:
        """The configs of one resource by name, or those in `names`.

            configs = await kafka.admin.describe_configs(topic="orders")
            configs["retention.ms"].value

        `broker_defaults` are the configs that were set for all brokers; `broker_logger` has levels of logging.
        """
        kind, name = _resource(topic, broker, broker_defaults, broker_logger, group, client_metrics)
        resource = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=kind,
            resource_name=name,
            configuration_keys=None if names is None else list(dict.fromkeys(names)),
        )
        request = DescribeConfigsRequest(
            resources=[resource], include_synonyms=synonyms, include_documentation=documentation
        )
        response = await self._send(request, DescribeConfigsResponse, timeout)
        for result in response.results:
            raise_for_code(result.error_code, result.error_message, topic=topic, broker=broker)
        return {config.name: _entry(config) for result in response.results for config in result.configs}

    async def alter_configs(
        self,
        *,
        topic: str | None = None,
        broker: int | None = None,
        broker_defaults: bool = False,
        broker_logger: int | None = None,
        group: str | None = None,
        client_metrics: str | None = None,
        set: Mapping[str, object] | None = None,
        delete: Iterable[str] = (),
        append: Mapping[str, object] | None = None,
        subtract: Mapping[str, object] | None = None,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Changes some configs of one resource and leaves the others alone.

            await kafka.admin.alter_configs(topic="orders", set={"retention.ms": 60_000}, delete=["segment.ms"])
            await kafka.admin.alter_configs(topic="orders", append={"cleanup.policy": "compact"})

        `delete` goes back to the default; `append` and `subtract` change lists.
        """
        kind, name = _resource(topic, broker, broker_defaults, broker_logger, group, client_metrics)
        changes = [
            *_changes(ConfigOperation.SET, set or {}),
            *_changes(ConfigOperation.DELETE, dict.fromkeys(delete)),
            *_changes(ConfigOperation.APPEND, append or {}),
            *_changes(ConfigOperation.SUBTRACT, subtract or {}),
        ]
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=kind, resource_name=name, configs=changes
        )
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
        response = await self._send(request, IncrementalAlterConfigsResponse, timeout)
        for result in response.responses:
            raise_for_code(result.error_code, result.error_message, topic=topic, broker=broker)


def config_text(value: object) -> str | None:
    """Kafka's configs are text: true and false in small letters, lists with commas."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(str(config_text(each)) for each in value)
    return str(value)


def _resource(
    topic: str | None,
    broker: int | None,
    broker_defaults: bool,
    broker_logger: int | None,
    group: str | None,
    client_metrics: str | None,
) -> tuple[ConfigResourceType, str]:
    given = [
        (kind, str(name))
        for kind, name in (
            (ConfigResourceType.TOPIC, topic),
            (ConfigResourceType.BROKER, broker),
            (ConfigResourceType.BROKER, "" if broker_defaults else None),
            (ConfigResourceType.BROKER_LOGGER, broker_logger),
            (ConfigResourceType.GROUP, group),
            (ConfigResourceType.CLIENT_METRICS, client_metrics),
        )
        if name is not None
    ]
    if len(given) != 1:
        raise ValueError(
            "configs belong to one of topic=, broker=, broker_defaults=True, broker_logger=, group= and"
            f" client_metrics=; {len(given)} were given"
        )
    return given[0]


def _changes(
    operation: int, values: Mapping[str, object]
) -> list[IncrementalAlterConfigsRequest.AlterableConfig]:
    return [
        IncrementalAlterConfigsRequest.AlterableConfig(
            name=name, config_operation=operation, value=config_text(value)
        )
        for name, value in values.items()
    ]


def _entry(config: DescribeConfigsResponse.DescribeConfigsResourceResult) -> ConfigEntry:
    source = ConfigSource(config.config_source)
    if config.config_source == _OLD_SOURCE and config.is_default:
        source = ConfigSource.DEFAULT
    return ConfigEntry(
        name=config.name,
        value=config.value,
        source=source,
        read_only=config.read_only,
        sensitive=config.is_sensitive,
        synonyms=tuple(
            ConfigSynonym(synonym.name, synonym.value, ConfigSource(synonym.source))
            for synonym in config.synonyms
        ),
        documentation=config.documentation,
    )
