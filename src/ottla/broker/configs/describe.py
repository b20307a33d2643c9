"""DescribeConfigs, and what CreateTopics says of a new topic: every config with its value and where it is from.

Entries are sorted by name, where Kafka has the order of a hash table. Values are in normal form ("5" for
" +5"); the synonyms of a broker, and what is set for all brokers, keep the text that was set.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from ottla.broker.configs import values
from ottla.broker.configs.broker import BrokerConfigs, LayerValue, definition_of
from ottla.broker.configs.definitions import ConfigType, Definition, Overrides, UpdateMode
from ottla.broker.configs.group import GroupConfigs
from ottla.broker.configs.loggers import BrokerLoggers
from ottla.broker.configs.names import check_is_node, check_topic_name
from ottla.broker.configs.tables import BROKER, CLIENT_METRICS, GROUP, TOPIC, ConfigTable
from ottla.broker.configs.topic import TopicConfigs
from ottla.errors import BrokerError, InvalidRequestError, UnknownTopicOrPartitionError
from ottla.wire.messages import CreateTopicsResponse, DescribeConfigsRequest, DescribeConfigsResponse
from ottla.wire.resources import ConfigResourceType, ConfigSource

Entry: TypeAlias = DescribeConfigsResponse.DescribeConfigsResourceResult
DescribeResult: TypeAlias = DescribeConfigsResponse.DescribeConfigsResult
_Synonym: TypeAlias = DescribeConfigsResponse.DescribeConfigsSynonym
CreatedEntry: TypeAlias = CreateTopicsResponse.CreatableTopicConfigs


@dataclass(frozen=True, slots=True)
class DescribeOptions:
    """What a request names; `keys` None or empty: all configs."""

    keys: Collection[str] | None = None
    synonyms: bool = False
    documentation: bool = False

    def of(self, names: Iterable[str]) -> list[str]:
        return sorted(name for name in names if not self.keys or name in self.keys)


EVERYTHING: Final = DescribeOptions(synonyms=True, documentation=True)


class Sources(Protocol):
    """What a node knows of the resources that can be described."""

    @property
    def config(self) -> BrokerConfigs: ...

    @property
    def loggers(self) -> BrokerLoggers: ...

    def topic_configs_or_none(self, topic: str) -> TopicConfigs | None:
        """None if there is no such topic."""

    def config_overrides(self, resource_type: int, resource_name: str) -> Overrides:
        """As the metadata image has them."""


def describe(request: DescribeConfigsRequest, sources: Sources) -> list[DescribeResult]:
    """The results of a whole request, in its order."""
    return [
        describe_resource(
            resource.resource_type,
            resource.resource_name,
            DescribeOptions(
                resource.configuration_keys, request.include_synonyms, request.include_documentation
            ),
            sources,
        )
        for resource in request.resources
    ]


def describe_resource(kind: int, name: str, options: DescribeOptions, sources: Sources) -> DescribeResult:
    """One resource, or the error of Kafka for it."""
    result = DescribeResult(resource_type=kind, resource_name=name, error_message="")
    try:
        result.configs = _entries(kind, name, options, sources)
    except UnknownTopicOrPartitionError as error:
        result.error_code = error.code
    except BrokerError as error:
        result.error_code, result.error_message = error.code, error.message
    return result


def describe_topic(topic: TopicConfigs, options: DescribeOptions = EVERYTHING) -> list[Entry]:
    """All configs of a topic, set or not."""
    entries = []
    for name in options.of(_listed(TOPIC, topic.overrides)):
        definition = TOPIC[name]
        value = values.to_text(topic.value(name))
        found = topic.broker.synonyms(definition.synonyms[0].name) if definition.synonyms else []
        if name in topic.overrides:
            found.insert(0, LayerValue(name, value, ConfigSource.TOPIC))
        entries.append(_entry(name, definition, value, found, options))
    return entries


def describe_broker(broker: BrokerConfigs, options: DescribeOptions = EVERYTHING) -> list[Entry]:
    """All configs of one broker, and whatever else has been set for it."""
    entries = []
    for name in options.of(_listed(BROKER, broker.set_names())):
        value = None if definition_of(name) is None else values.to_text(broker.value(name))
        entries.append(_broker_entry(name, value, broker.synonyms(name), options))
    return entries


def describe_broker_defaults(broker: BrokerConfigs, options: DescribeOptions = EVERYTHING) -> list[Entry]:
    """What has been set for all brokers at once, as it was set, and nothing else."""
    entries = []
    for name in options.of(broker.dynamic_default):
        text = broker.dynamic_default[name]
        found = [LayerValue(name, text, ConfigSource.DYNAMIC_DEFAULT_BROKER)]
        entries.append(_broker_entry(name, text, found, options))
    return entries


def describe_group(group: GroupConfigs, options: DescribeOptions = EVERYTHING) -> list[Entry]:
    """All configs of a group, whether or not there is one of that name."""
    entries = []
    for name in options.of(_listed(GROUP, group.overrides)):
        definition = GROUP[name]
        value = values.to_text(group.value(name))
        if definition.synonyms:
            found = group.broker.synonyms(definition.synonyms[0].name)
        else:
            found = [LayerValue(name, definition.default, ConfigSource.DEFAULT)]
        if name in group.overrides:
            found.insert(0, LayerValue(name, value, ConfigSource.GROUP))
        entries.append(_entry(name, definition, value, found, options))
    return entries


def describe_client_metrics(overrides: Overrides, options: DescribeOptions = EVERYTHING) -> list[Entry]:
    """All configs of a subscription, whether or not there is one of that name."""
    entries = []
    for name in options.of(CLIENT_METRICS):
        definition = CLIENT_METRICS[name]
        found = []
        value = definition.default
        if name in overrides:
            value = values.to_text(CLIENT_METRICS.parse(name, overrides[name]))
            found = [LayerValue(name, value, ConfigSource.CLIENT_METRICS)]
        entries.append(_entry(name, definition, value, found, options))
    return entries


def describe_loggers(loggers: BrokerLoggers, options: DescribeOptions = EVERYTHING) -> list[Entry]:
    levels = loggers.levels()
    source = ConfigSource.DYNAMIC_BROKER_LOGGER
    return [
        Entry(name=name, value=levels[name], config_source=source, documentation="")
        for name in options.of(levels)
    ]


def describe_created(overrides: Overrides, broker: BrokerConfigs) -> list[CreatedEntry]:
    """What CreateTopics responds (KIP-525): unlike DescribeConfigs the text that was set, whatever its unit."""
    return [
        _created_entry(TOPIC[name], overrides, broker) for name in TOPIC.names() if not TOPIC[name].internal
    ]


def _entries(kind: int, name: str, options: DescribeOptions, sources: Sources) -> list[Entry]:
    match kind:
        case ConfigResourceType.TOPIC:
            check_topic_name(name)
            topic = sources.topic_configs_or_none(name)
            if topic is None:
                raise UnknownTopicOrPartitionError(topic=name)
            return describe_topic(topic, options)
        case ConfigResourceType.BROKER:
            if not name:
                return describe_broker_defaults(sources.config, options)
            _check_is_broker(name, sources.config.node_id, "or empty string, but")
            return describe_broker(sources.config, options)
        case ConfigResourceType.BROKER_LOGGER:
            if not name:
                raise InvalidRequestError("Broker id must not be empty")
            _check_is_broker(name, sources.config.node_id, "but")
            return describe_loggers(sources.loggers, options)
        case ConfigResourceType.CLIENT_METRICS:
            if not name:
                raise InvalidRequestError("Client metrics subscription name must not be empty")
            return describe_client_metrics(sources.config_overrides(kind, name), options)
        case ConfigResourceType.GROUP:
            if not name:
                raise InvalidRequestError("Group name must not be empty")
            return describe_group(GroupConfigs(sources.config_overrides(kind, name), sources.config), options)
        case _:
            raise InvalidRequestError(f"Unsupported resource type: {kind}")


def _check_is_broker(name: str, node_id: int, received: str) -> None:
    otherwise = f"Unexpected broker id, expected {node_id} {received} received {name}"
    check_is_node(name, node_id, otherwise, subject="Broker")


def _listed(table: ConfigTable, overridden: Iterable[str]) -> dict[str, None]:
    """Internal configs, and those that the table does not know, are seen only where they are set."""
    return dict.fromkeys(name for name in table if not table[name].internal) | dict.fromkeys(overridden)


def _broker_entry(
    name: str, value: str | None, found: Sequence[LayerValue], options: DescribeOptions
) -> Entry:
    entry = _entry(name, definition_of(name), value, found, options)
    entry.read_only = name not in BROKER or BROKER[name].update_mode is UpdateMode.READ_ONLY
    return entry


def _entry(
    name: str,
    definition: Definition | None,
    value: str | None,
    found: Sequence[LayerValue],
    options: DescribeOptions,
) -> Entry:
    # What has no definition may be the secret of a plugin.
    sensitive = definition is None or definition.is_sensitive
    source = found[0].source if found else ConfigSource.DEFAULT
    synonyms = found if options.synonyms else ()
    return Entry(
        name=name,
        value=None if sensitive else value,
        config_source=source,
        is_sensitive=sensitive,
        synonyms=[
            _Synonym(name=s.name, value=None if sensitive else s.value, source=s.source) for s in synonyms
        ],
        config_type=ConfigType.UNKNOWN if definition is None else definition.type,
        documentation=definition.documentation if options.documentation and definition is not None else None,
    )


def _created_entry(definition: Definition, overrides: Overrides, broker: BrokerConfigs) -> CreatedEntry:
    name = definition.name
    value, source = overrides.get(name), ConfigSource.TOPIC
    if value is None:
        value, source = _inherited(definition, broker)
    return CreatedEntry(name=name, value=value, config_source=source)


def _inherited(definition: Definition, broker: BrokerConfigs) -> tuple[str | None, ConfigSource]:
    for source, layer in broker.layers():
        for synonym in definition.synonyms:
            text = layer.get(synonym.name)
            if text is not None:
                return text if synonym.scale == 1 else str(int(text) * synonym.scale), source
    return definition.default, ConfigSource.DEFAULT
