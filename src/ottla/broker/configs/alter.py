"""AlterConfigs and IncrementalAlterConfigs: from the overrides of one resource to the next, or to an error.

As in Kafka a request is looked at twice. The broker that gets it sees to its form, and to the configs of
brokers, because it knows its own (`preprocess`). The controller sees to everything else and has the last word
(`alter`, `incremental_alter`). Nothing is changed here: the caller keeps the result, or drops it if the request
only wants to validate.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final, TypeAlias

from ottla.broker.configs.broker import BrokerConfigs
from ottla.broker.configs.broker_changes import check_change
from ottla.broker.configs.client_metrics import validate_client_metrics
from ottla.broker.configs.definitions import ConfigType, Definition, Overrides
from ottla.broker.configs.group import validate_group
from ottla.broker.configs.loggers import BrokerLoggers
from ottla.broker.configs.names import check_is_node, check_name, hash_order
from ottla.broker.configs.tables import BROKER, TOPIC
from ottla.broker.configs.topic import validate_topic
from ottla.broker.configs.values import ConfigError
from ottla.errors import BrokerError, InvalidConfigError, InvalidRequestError, UnknownServerError
from ottla.wire.messages import AlterConfigsRequest, IncrementalAlterConfigsRequest
from ottla.wire.resources import ConfigOperation, ConfigResourceType

Resource: TypeAlias = AlterConfigsRequest.AlterConfigsResource
IncrementalResource: TypeAlias = IncrementalAlterConfigsRequest.AlterConfigsResource

_MAX_VALUE_LENGTH: Final = 32767
_MIN_ISR: Final = "min.insync.replicas"
_COMMA: Final = re.compile(r"\s*,\s*")
_OPERATIONS: Final = tuple(ConfigOperation)
_ONLY_DYNAMIC: Final = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)


def preprocess(
    resources: Sequence[Resource | IncrementalResource], broker: BrokerConfigs, loggers: BrokerLoggers
) -> list[BrokerError | None]:
    """What the broker itself has to say about each resource; None where it has no objection.

    The resources without an error go to the controller, except loggers: those are the broker's own business,
    and `BrokerLoggers.apply` is the rest of it.
    """
    repeated = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    return [
        InvalidRequestError("Each resource must appear at most once.")
        if repeated[resource.resource_type, resource.resource_name] > 1
        else _objection(resource, broker, loggers)
        for resource in resources
    ]


def alter(
    resource: Resource, current: Overrides, broker: BrokerConfigs, *, elr: bool = False
) -> dict[str, str]:
    """The overrides of a resource once a request has replaced them all.

    `elr` says that eligible leader replicas are enabled (KIP-966), which binds min.insync.replicas.
    """
    touched = [*current, *(config.name for config in resource.configs)]
    return _checked(resource, current, broker, touched if elr else ())


def incremental_alter(
    resource: IncrementalResource, current: Overrides, broker: BrokerConfigs, *, elr: bool = False
) -> dict[str, str]:
    """The overrides of a resource once a request has changed some of them; `elr` as for `alter`."""
    touched = [config.name for config in resource.configs]
    return _checked(resource, current, broker, touched if elr else ())


def _objection(
    resource: Resource | IncrementalResource, broker: BrokerConfigs, loggers: BrokerLoggers
) -> BrokerError | None:
    try:
        _check_form(resource)
        kind, name = resource.resource_type, resource.resource_name
        if kind == ConfigResourceType.BROKER:
            if name:
                node_id = broker.node_id
                check_is_node(name, node_id, f"Unexpected broker id, expected {node_id}, but received {name}")
            if isinstance(resource, IncrementalResource):
                _check_operations(resource)
            current = broker.dynamic if name else broker.dynamic_default
            _check_broker(name, _proposed(resource, current), current, broker)
        elif kind == ConfigResourceType.BROKER_LOGGER and isinstance(resource, IncrementalResource):
            loggers.check(resource, broker.node_id)
        elif kind not in (
            ConfigResourceType.TOPIC,
            ConfigResourceType.CLIENT_METRICS,
            ConfigResourceType.GROUP,
        ):
            raise InvalidRequestError(f"Unknown resource type {kind}")
    except BrokerError as error:
        return error
    return None


def _proposed(resource: Resource | IncrementalResource, current: Overrides) -> dict[str, str]:
    if isinstance(resource, IncrementalResource):
        return _apply(resource, current)
    return {config.name: config.value for config in resource.configs if config.value is not None}


def _check_form(resource: Resource | IncrementalResource) -> None:
    names = [config.name for config in resource.configs]
    if len(set(names)) < len(names):
        raise InvalidRequestError("Error due to duplicate config keys")
    nulls = [
        config.name
        for config in resource.configs
        if config.value is None
        and getattr(config, "config_operation", ConfigOperation.SET) != ConfigOperation.DELETE
    ]
    if nulls:
        raise InvalidRequestError(f"Null value not supported for : {', '.join(nulls)}")


def _checked(
    resource: Resource | IncrementalResource,
    current: Overrides,
    broker: BrokerConfigs,
    elr_bound: Sequence[str],
) -> dict[str, str]:
    """What the resource would have, unless the controller has to refuse it."""
    _check_form(resource)
    kind, name = resource.resource_type, resource.resource_name
    changed = _proposed(_as_controllers_see(resource), current)
    if kind == ConfigResourceType.BROKER and _MIN_ISR in elr_bound:
        _check_min_isr(name, changed)
    if any(len(text) > _MAX_VALUE_LENGTH for text in changed.values()):
        raise InvalidConfigError(
            "The configuration value cannot be added because it exceeds the maximum value size of "
            f"{_MAX_VALUE_LENGTH} bytes."
        )
    check_name(kind, name)
    match kind:
        case ConfigResourceType.TOPIC:
            validate_topic(changed, broker, current)
        case ConfigResourceType.BROKER:
            _check_broker(name, changed, current, broker)
        case ConfigResourceType.CLIENT_METRICS:
            validate_client_metrics(changed)
        case ConfigResourceType.GROUP:
            validate_group(changed, broker)
    return changed


def _as_controllers_see(resource: Resource | IncrementalResource) -> Resource | IncrementalResource:
    """A controller keeps the configs of a request in a hash table, and takes them in its order."""
    if not isinstance(resource, IncrementalResource):
        return resource
    by_name = {config.name: config for config in resource.configs}
    return IncrementalResource(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[by_name[name] for name in hash_order(by_name)],
    )


def _check_operations(resource: IncrementalResource) -> None:
    for config in resource.configs:
        if config.config_operation not in _OPERATIONS:
            raise InvalidRequestError(f"Unknown operations type {config.config_operation}")


def _check_broker(name: str, changed: Overrides, current: Overrides, broker: BrokerConfigs) -> None:
    try:
        if name:
            check_change(broker.with_dynamic(current, broker.dynamic_default), changed, for_all=False)
        else:
            check_change(broker.with_dynamic(broker.dynamic, current), changed, for_all=True)
    except ConfigError as error:
        # Not INVALID_CONFIG as for topics: an old mistake that is part of the protocol by now (KAFKA-13609).
        raise InvalidRequestError(str(error)) from None


def _check_min_isr(name: str, changed: Overrides) -> None:
    """While replicas outside the ISR are eligible, all brokers must agree on how small an ISR may be."""
    if name:
        raise InvalidConfigError("Broker-level min.insync.replicas cannot be altered while ELR is enabled.")
    if _MIN_ISR not in changed:
        raise InvalidConfigError("Cluster-level min.insync.replicas cannot be removed while ELR is enabled.")


def _apply(resource: IncrementalResource, current: Overrides) -> dict[str, str]:
    changed = dict(current)
    for config in resource.configs:
        value = config.value or ""
        match config.config_operation:
            case ConfigOperation.SET:
                changed[config.name] = value
            case ConfigOperation.DELETE:
                changed.pop(config.name, None)
            case ConfigOperation.APPEND:
                parts = _parts(resource, config.name, ConfigOperation.APPEND, changed)
                parts += [part for part in dict.fromkeys(_split(value)) if part not in parts]
                changed[config.name] = ",".join(parts)
            case ConfigOperation.SUBTRACT:
                parts = _parts(resource, config.name, ConfigOperation.SUBTRACT, changed)
                removed = _split(value)
                changed[config.name] = ",".join(part for part in parts if part not in removed)
            case _:
                raise UnknownServerError  # as in Kafka, whose controller does not expect it
    return changed


def _parts(
    resource: IncrementalResource, name: str, operation: ConfigOperation, current: Overrides
) -> list[str]:
    """The elements of a list so far; its default counts while nothing is set."""
    definition = _definition(resource.resource_type, name)
    if definition is None or definition.type is not ConfigType.LIST:
        raise _no_list(resource.resource_type, name, operation, is_known=definition is not None)
    text = current.get(name, definition.default)
    return [part for part in _COMMA.split(text or "") if part]


def _definition(kind: int, name: str) -> Definition | None:
    match kind:
        case ConfigResourceType.TOPIC:
            return TOPIC.get(name)
        case ConfigResourceType.BROKER:
            # Not those under the name of a listener, nor those that exist only while a broker runs.
            return BROKER.get(name) if name not in _ONLY_DYNAMIC else None
        case _:
            # Kafka's controller knows the types of no others, so there are no lists to it.
            return None


def _no_list(kind: int, name: str, operation: ConfigOperation, *, is_known: bool) -> InvalidConfigError:
    if kind != ConfigResourceType.BROKER:
        return InvalidConfigError(f"Can't {operation.name} to key {name} because its type is not LIST.")
    if not is_known:
        return InvalidConfigError(f"Unknown config name: {name}")
    what = operation.name.lower()
    return InvalidConfigError(f"Config value {what} is not allowed for config key: {name}")


def _split(text: str) -> list[str]:
    """As Java splits: empty parts at the end do not count, unless there is nothing else."""
    parts = _COMMA.split(text)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts
