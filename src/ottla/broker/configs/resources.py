"""Kinds of resources, operations on their configs and sources of values, as requests number them.

Also which names a resource may have, with Kafka's sentences about the others.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final

from ottla.broker.metadata.names import why_invalid
from ottla.errors import InvalidRequestError, InvalidTopicError


class ResourceType(IntEnum):
    """ConfigResource.Type of Kafka."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Operation(IntEnum):
    """What IncrementalAlterConfigs does to one config."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigSource(IntEnum):
    """Where a described value comes from."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


_INTEGER: Final = re.compile(r"[+-]?0*[0-9]{1,10}")
_TWO_TO_31: Final = 1 << 31


def node_id_of(name: str) -> int | None:
    """The node that a resource's name means; None where it is no number of 32 bits."""
    number = int(name) if _INTEGER.fullmatch(name) else None
    return number if number is not None and -_TWO_TO_31 <= number < _TWO_TO_31 else None


def check_topic_name(name: str) -> None:
    reason = why_invalid(name)
    if reason is not None:
        raise InvalidTopicError(reason)


def check_name(kind: int, name: str) -> None:
    """Raises what the controller answers for a name that no resource of this kind can have."""
    match kind:
        case ResourceType.TOPIC:
            if not name:
                raise InvalidRequestError("Default topic resources are not allowed.")
            check_topic_name(name)
        case ResourceType.BROKER:
            _check_broker_name(name)
        case ResourceType.CLIENT_METRICS:
            if not name:
                raise InvalidRequestError("Subscription name can't be empty")
        case ResourceType.GROUP:
            if not name:
                raise InvalidRequestError("Default group resources are not allowed.")
        case _:
            raise InvalidRequestError(f"Unknown resource type {kind}")


def check_is_node(name: str, node_id: int) -> None:
    """A broker alters only itself: it alone can tell whether it could live with the change."""
    named = node_id_of(name)
    if named is None:
        raise InvalidRequestError(f"Node id must be an integer, but it is: {name}")
    if named != node_id:
        raise InvalidRequestError(f"Unexpected broker id, expected {node_id}, but received {name}")


def _check_broker_name(name: str) -> None:
    if not name:
        return  # the defaults of all brokers
    node_id = node_id_of(name)
    if node_id is None:
        raise InvalidRequestError("Unable to parse broker name as a base 10 number.")
    if node_id < 0:
        raise InvalidRequestError("Invalid negative broker ID.")
